"""A permeability and the pressure that it gives, each with a colour scale of its own."""

import sciops
from sciops.plotting import plot_field

grid = sciops.Grid((65, 65))
noise = sciops.random_fields.gaussian_random_field(grid, 1, tau=3.0, alpha=2.0, seed=4)
a = sciops.random_fields.two_phase(noise)[0]
u = sciops.pde.darcy.solve(a, grid, backend="direct").u

figure = plot_field({"permeability a": a, "pressure u": u}, grid, scale="each")
