"""Mixers: the parts of a model that move information between grid points, (batch, *grid, channels) → same."""

from sciops.mixers.spectral import SpectralMixer

MIXERS = {
    "spectral": SpectralMixer,
}

__all__ = ["MIXERS", "SpectralMixer"]
