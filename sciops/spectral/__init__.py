"""What a field or a model does by frequency: spectra, band errors, layers, aliasing, equivariance between grids."""

from sciops.spectral.aliasing import aliasing_error, layer_aliasing
from sciops.spectral.bands import BandErrors, band_edges, band_errors
from sciops.spectral.equivariance import equivariance_error
from sciops.spectral.layers import layer_spectra
from sciops.spectral.power import Spectrum, energy_above, power_spectrum

__all__ = [
    "BandErrors",
    "Spectrum",
    "aliasing_error",
    "band_edges",
    "band_errors",
    "energy_above",
    "equivariance_error",
    "layer_aliasing",
    "layer_spectra",
    "power_spectrum",
]
