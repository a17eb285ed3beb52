"""Linear maps between the low modes of a field, in Fourier, sine and cosine bases."""

from sciops.mixers.spectral.mixer import FourierModes, SpectralMixer, WallModes

__all__ = ["FourierModes", "SpectralMixer", "WallModes"]
