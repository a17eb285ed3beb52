"""Linear maps between the low modes of a field, in Fourier, sine and cosine bases."""

from sciops.mixers.spectral.mixer import FourierModes, SpectralMixer, WallModes, fit_modes

__all__ = ["FourierModes", "SpectralMixer", "WallModes", "fit_modes"]
