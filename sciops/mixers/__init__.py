"""Mixers: the parts of a model that move information between grid points, (batch, *grid, channels) → same."""

from sciops.mixers.convolution import Convolution
from sciops.mixers.gradient_products import GradientProducts
from sciops.mixers.pooling import MeanPool, NoMixer
from sciops.mixers.recurrence import StructuredRecurrence, solve_links, solve_mixing
from sciops.mixers.registry import (
    MIXERS,
    default_options,
    imported_mixer,
    mixer_names,
    options_by_mixer,
    register,
    resolved_options,
    traits_of,
)
from sciops.mixers.resolvent import BlockResolventAttention, ResolventAttention
from sciops.mixers.sequence import (
    LinearAttention,
    PolynomialMixer,
    SelfAttention,
    SequenceMixer,
    SparseAttention,
    StateSpaceMixer,
    copied,
    selected,
)
from sciops.mixers.slices import SliceAttention
from sciops.mixers.spectral import SpectralMixer
from sciops.mixers.traits import Matrices, Traits
from sciops.mixers.windows import FullAttention, MultipoleAttention, WindowAttention

__all__ = [
    "MIXERS",
    "BlockResolventAttention",
    "Convolution",
    "FullAttention",
    "GradientProducts",
    "LinearAttention",
    "Matrices",
    "MeanPool",
    "MultipoleAttention",
    "NoMixer",
    "PolynomialMixer",
    "ResolventAttention",
    "SelfAttention",
    "SequenceMixer",
    "SliceAttention",
    "SparseAttention",
    "SpectralMixer",
    "StructuredRecurrence",
    "StateSpaceMixer",
    "Traits",
    "WindowAttention",
    "copied",
    "default_options",
    "imported_mixer",
    "mixer_names",
    "options_by_mixer",
    "register",
    "resolved_options",
    "selected",
    "solve_links",
    "solve_mixing",
    "traits_of",
]
