"""How far a map can stretch: certified spectral norms of layers, 1-Lipschitz layers, bounds of whole models."""

from sciops.lipschitz._parts import Setting, UnboundedError
from sciops.lipschitz.attention import attention_bound
from sciops.lipschitz.bounds import Block, Bound, lipschitz_bound
from sciops.lipschitz.bracket import Bracket, largest_of
from sciops.lipschitz.convolution import convolution_norm, kernel_gram_bound
from sciops.lipschitz.dense import dense_norm
from sciops.lipschitz.fourier import fourier_norm
from sciops.lipschitz.gram import gram_bracket
from sciops.lipschitz.norms import spectral_norm
from sciops.lipschitz.penalty import log_lipschitz_penalty
from sciops.lipschitz.power import power_iteration
from sciops.lipschitz.registry import RULES, register
from sciops.lipschitz.rescaling import (
    RescaledConv,
    RescaledLinear,
    RescaledResidual,
    RescaledSpectral,
    kernel_scales,
    row_scales,
)

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
