"""Fourier neural operators, and their relatives in sine and cosine bases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciops.models.operators.compose import compose
from sciops.models.spine.operator import Operator


def fno(
    in_channels: int,
    out_channels: int,
    *,
    modes: int | Sequence[int] = 12,
    basis: str = "fourier",
    weights: str = "dense",
    **options: Any,
) -> Operator:
    """The spine with a spectral mixer in every block (arXiv:2010.08895 for the mixer).

    modes : modes per axis; one number is that of every axis. Fourier keeps rows −k … k−1 of the leading axes and
        columns 0 … k−1 of the last, so modes=(12, 12) is neuraloperator's n_modes=(24, 22); sine and cosine keep k
        of each axis
    basis : "fourier", or "sine", "cosine", "sine-cosine" on node grids with walls
    weights : "dense", a channel matrix per mode; "diagonal", one weight per mode and channel
    options : those of `Operator` and `SpectralMixer`; `block="classic"` gives the original σ(Wv + Kv + b)

    Good values: for 16×16 Darcy fields modes=(8, 8), weights="diagonal", local=True; for fields that are zero on a wall
    and models that must run on finer grids, basis="sine", local=True.
    """
    return compose(
        "fno", in_channels, out_channels, ("spectral",), dict(options, modes=modes, basis=basis, weights=weights)
    )
