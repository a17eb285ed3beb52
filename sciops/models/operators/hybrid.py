"""Spectral and multipole mixing in turns: smooth far field by modes, discontinuities by attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciops.models.operators.compose import compose
from sciops.models.spine.operator import Operator


def hybrid(
    in_channels: int,
    out_channels: int,
    *,
    modes: int | Sequence[int] = 6,
    basis: str = "fourier",
    weights: str = "diagonal",
    window: int = 4,
    heads: int = 4,
    **options: Any,
) -> Operator:
    """The spine whose blocks hold a spectral mixer and multipole attention alternately, the spectral one first.

    options : those of `Operator`, `SpectralMixer` and `MultipoleAttention`
    """
    parts = dict(modes=modes, basis=basis, weights=weights, window=window, heads=heads)
    return compose("hybrid", in_channels, out_channels, ("spectral", "multipole"), dict(options, **parts))
