"""A field of three axes by its middle planes."""

import sciops
from sciops.plotting import plot_field

grid = sciops.Grid((32, 32, 32), centering="periodic")
u = sciops.random_fields.gaussian_random_field(grid, 1, tau=5.0, alpha=3.0, seed=0, modes=16)[0]

figure = plot_field(u, grid, label="u")
