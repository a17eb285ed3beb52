"""Lipschitz constants: certified spectral norms of layers, 1-Lipschitz layers, and bounds of whole models."""

from sciops.lipschitz.bounds.attention import attention_bound, cosine_attention_bound
from sciops.lipschitz.bounds.bound import Block, Bound, lipschitz_bound
from sciops.lipschitz.bounds.parts import Setting, UnboundedError
from sciops.lipschitz.bounds.penalty import log_lipschitz_penalty
from sciops.lipschitz.bounds.registry import RULES, register
from sciops.lipschitz.layers.rescaled import RescaledConv, RescaledLinear, RescaledResidual, RescaledSpectral
from sciops.lipschitz.layers.scales import kernel_scales, row_scales
from sciops.lipschitz.norms.bracket import Bracket, largest_of
from sciops.lipschitz.norms.convolution import convolution_norm, kernel_gram_bound
from sciops.lipschitz.norms.dense import dense_norm
from sciops.lipschitz.norms.fourier import fourier_norm
from sciops.lipschitz.norms.gram import gram_bracket
from sciops.lipschitz.norms.layers import spectral_norm
from sciops.lipschitz.norms.power import power_iteration

__all__ = [
    "Block",
    "Bound",
    "Bracket",
    "RULES",
    "RescaledConv",
    "RescaledLinear",
    "RescaledResidual",
    "RescaledSpectral",
    "Setting",
    "UnboundedError",
    "attention_bound",
    "convolution_norm",
    "cosine_attention_bound",
    "dense_norm",
    "fourier_norm",
    "gram_bracket",
    "kernel_gram_bound",
    "kernel_scales",
    "largest_of",
    "lipschitz_bound",
    "log_lipschitz_penalty",
    "power_iteration",
    "register",
    "row_scales",
    "spectral_norm",
]
