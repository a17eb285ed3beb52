"""Largest singular values of linear layers, with certified ends: dense, convolution and spectral layers."""

from sciops.lipschitz.norms.layers import spectral_norm

__all__ = ["spectral_norm"]
