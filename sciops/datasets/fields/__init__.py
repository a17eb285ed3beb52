"""Fields as torch data: whole files or windows of trajectories, splits, normalisers, symmetries."""
