"""What each layer of an FNO does to the spectrum of its input: each line has its own colour, style, marker and name."""

import torch

import sciops
from sciops.plotting import plot_layer_spectra

torch.manual_seed(0)
grid = sciops.Grid((64, 64), centering="periodic")
a = sciops.random_fields.gaussian_random_field(grid, 4, tau=3.0, alpha=2.0, seed=0)[:, None]
model = sciops.build_model("fno", in_channels=1, out_channels=1, width=16, depth=3, modes=(8, 8))
spectra = sciops.spectral.layer_spectra(model, a, grid)

figure = plot_layer_spectra(spectra, layers=["input", "lift", "blocks.*.mixer", "output"])
