"""Spectral and multipole mixing in turns: smooth far field by modes, discontinuities by attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sciops.models.operators.compose import compose
from sciops.models.spine import Operator, SpineOptions
from sciops.options import Count


@dataclass(frozen=True, kw_only=True)
class HybridOptions(SpineOptions):
    """Options of `hybrid`; the other options of `SpectralMixer` and `MultipoleAttention` are accepted too."""

    modes: Count | Sequence[Count] = 6
    basis: str = "fourier"
    weights: str = "diagonal"
    window: Count = 4
    heads: Count = 4


def hybrid(in_channels: int, out_channels: int, **options: Any) -> Operator:
    """The spine with a spectral mixer and multipole attention in turns, the spectral mixer first.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of fields in and out.
    **options
        The fields of `HybridOptions`, and options of `SpectralMixer` and `MultipoleAttention`.
    """
    given = dict(options, in_channels=in_channels, out_channels=out_channels)
    return compose("hybrid", HybridOptions, ("spectral", "multipole"), given)
