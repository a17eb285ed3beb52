"""Fields of one axis are curves: a Burgers solution steepens into shocks."""

import numpy as np

import sciops
from sciops.plotting import plot_field

grid = sciops.Grid(256, centering="periodic")
(x,) = grid.coordinates()
u0 = np.sin(2 * np.pi * x) + 0.5 * np.cos(6 * np.pi * x)
times = (0.0, 0.05, 0.1, 0.3)
u = sciops.pde.burgers.solve(u0, grid, times=times, viscosity=2e-3).u

figure = plot_field({f"t = {t:g}": one for t, one in zip(times, u)}, grid, label="velocity u", units="m/s")
