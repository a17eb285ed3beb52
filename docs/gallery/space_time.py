"""A trajectory of one axis over x and time: the Kuramoto–Sivashinsky equation."""

import numpy as np
import xarray

import sciops
from sciops.plotting import plot_field

grid = sciops.Grid(128, extent=64.0, centering="periodic")
(x,) = grid.coordinates()
times = np.arange(0.0, 100.0, 1.0)
u = sciops.pde.kuramoto_sivashinsky.solve(np.cos(x / 16 * np.pi) + 0.1 * np.sin(x), grid, times=times, dt=0.1).u

figure = plot_field(xarray.DataArray(u, dims=("time", "x"), coords={"time": times, "x": x}, name="u"))
