"""The multigrid solver in torch: a batch of samples at once, on any device."""
