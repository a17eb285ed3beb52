"""Decaying vorticity as a GIF: the colour scale is the same in every frame, the time is in the title."""

import numpy as np

import sciops
from sciops.plotting import animate

grid = sciops.Grid((48, 48), centering="periodic")
w0 = 6 * sciops.random_fields.gaussian_random_field(grid, 1, tau=7.0, alpha=2.5, seed=3)[0]
times = np.linspace(0.0, 4.0, 16)
w = sciops.pde.navier_stokes.solve(w0, grid, times=times, viscosity=1e-3, dt=0.05, order=2).u

figure = animate(w, grid, times=times, label="vorticity", fps=8)
