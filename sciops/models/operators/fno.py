"""Fourier neural operators, and their relatives in sine and cosine bases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sciops.models.operators.compose import compose
from sciops.models.spine import Operator, SpineOptions
from sciops.options import Count


@dataclass(frozen=True, kw_only=True)
class FNOOptions(SpineOptions):
    """Options of `fno`; the other options of `SpectralMixer` are accepted too.

    Parameters
    ----------
    modes : int or sequence of int
        Number of modes per axis; a single number holds for every axis. The Fourier basis keeps rows −k … k−1 of the
        leading axes and columns 0 … k−1 of the last, so modes=(12, 12) is neuraloperator's n_modes=(24, 22); sine and
        cosine keep k of each axis.
    basis : str
        "fourier", or "sine", "cosine", "sine-cosine" on node grids with walls.
    weights : str
        "dense", a channel matrix per mode; "diagonal", one weight per mode and channel.
    """

    modes: Count | Sequence[Count] = 12
    basis: str = "fourier"
    weights: str = "dense"


def fno(in_channels: int, out_channels: int, **options: Any) -> Operator:
    """The spine with a spectral mixer in every block (arXiv:2010.08895 for the mixer).

    Good values: modes=(8, 8), weights="diagonal", local=True for 16×16 Darcy fields; basis="sine", local=True for
    fields that are zero on a wall and models that must run on finer grids.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of fields in and out.
    **options
        The fields of `FNOOptions`, and options of `SpectralMixer`; ``block="classic"`` gives the original
        σ(Wv + Kv + b).
    """
    given = dict(options, in_channels=in_channels, out_channels=out_channels)
    return compose("fno", FNOOptions, ("spectral",), given)
