"""MANO: multipole attention on the spine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sciops.models.operators.compose import compose
from sciops.models.spine import Operator, SpineOptions
from sciops.options import Count


@dataclass(frozen=True, kw_only=True)
class MANOOptions(SpineOptions):
    """Options of `mano`; the other options of `MultipoleAttention` are accepted too.

    Parameters
    ----------
    norm, mlp, mlp_ratio, mixer_activation
        As in `SpineOptions`. The defaults are the paper's block; norm="rms", mlp="gated", mlp_ratio=1.5,
        mixer_activation=True train better on small Darcy sets.
    window, heads, levels
        As in `MultipoleAttention`.
    """

    norm: str | None = "layer"
    mlp: str = "plain"
    mlp_ratio: float | None = 1.0
    mixer_activation: bool = False
    window: Count = 2
    heads: Count = 4
    levels: Count | str = "auto"


def mano(in_channels: int, out_channels: int, **options: Any) -> Operator:
    """The spine with multipole attention in every block, x + attention, x + feed-forward (arXiv:2507.02748).

    Windows are counted in cells: on a finer grid they cover less of the domain, so the model is not consistent between
    resolutions. Differences from the authors' network: two-layer GELU lift and head instead of a linear lift and a
    tanh head, coordinates appended by the model, no dropout.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of fields in and out.
    **options
        The fields of `MANOOptions`, and options of `MultipoleAttention`: rate, stride, aggregate, sampler, …
    """
    given = dict(options, in_channels=in_channels, out_channels=out_channels)
    return compose("mano", MANOOptions, ("multipole",), given)
