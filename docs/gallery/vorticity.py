"""Vorticity has both signs: one diverging scale for all times, white at zero."""

import numpy as np
import xarray

import sciops
from sciops.plotting import plot_field

grid = sciops.Grid((64, 64), centering="periodic")
w0 = sciops.random_fields.gaussian_random_field(grid, 1, tau=7.0, alpha=2.5, seed=1)[0]
times = np.array([0.0, 1.0, 2.0, 4.0])
w = sciops.pde.navier_stokes.solve(4 * w0, grid, times=times, viscosity=2e-3, dt=0.05, order=2).u
x, y = grid.coordinates()
vorticity = xarray.DataArray(w, dims=("time", "x", "y"), coords={"time": times, "x": x, "y": y}, name="vorticity")
vorticity["time"].attrs["units"] = "s"
vorticity.attrs["units"] = "1/s"

figure = plot_field(vorticity)
