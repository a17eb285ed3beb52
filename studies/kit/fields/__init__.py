"""Fields that several studies train on: Darcy flow in nested grids, rough and smooth coefficients."""
