"""MANO, multipole attention on the spine: as published, smooth, and without attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sciops.models.operators.compose import compose
from sciops.models.spine import Operator, SpineOptions
from sciops.options import Count, CountOrZero


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

    The paper's form; `smooth_mano` and `linear_pyramid` have smaller errors at equal time (`studies.multipole_levels`).
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


@dataclass(frozen=True, kw_only=True)
class SmoothMANOOptions(SpineOptions):
    """Options of `smooth_mano`; the other options of `MultipoleAttention` are accepted too.

    Parameters
    ----------
    window, heads, levels
        As in `MultipoleAttention`.
    pyramid : str
        "smooth"; another value is refused.
    attention_from : int or str
        Finest level with attention, "auto" (2) or "none".
    """

    window: Count = 4
    heads: Count = 4
    levels: Count | str = "auto"
    pyramid: str = "smooth"
    attention_from: CountOrZero | str | None = "auto"


def smooth_mano(in_channels: int, out_channels: int, **options: Any) -> Operator:
    """The spine with a smooth pyramid in every block: means down, linear interpolation up, a 3×3 kernel on each level.

    Attention starts at zero, on level 2 and coarser ones, and the levels are tied to the model's grid: on another one
    the pyramid is reached by linear interpolation (`MultipoleAttention` with pyramid="smooth"). Its own kernel on the
    finest level makes the spine's `local` redundant.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of fields in and out.
    **options
        The fields of `SmoothMANOOptions`, and options of `MultipoleAttention`: rate, aggregate, cosine, reference, …

    Raises
    ------
    ValueError
        For another pyramid than "smooth", which is that of `mano`.
    """
    given = dict(options, in_channels=in_channels, out_channels=out_channels)
    _expect("smooth_mano", given, "pyramid", ("smooth",), "use mano for the paper's form")
    return compose("smooth_mano", SmoothMANOOptions, ("multipole",), given)


@dataclass(frozen=True, kw_only=True)
class LinearPyramidOptions(SmoothMANOOptions):
    """Options of `linear_pyramid`: those of `smooth_mano`, without attention.

    Parameters
    ----------
    attention_from : str
        "none"; another value is refused.
    """

    attention_from: CountOrZero | str | None = "none"


def linear_pyramid(in_channels: int, out_channels: int, **options: Any) -> Operator:
    """The spine with a smooth pyramid of kernels in every block and no attention: every mixer is a linear map.

        X_{l+1} = W_d M X_l,   R_l = k_l ∗ X_l + B W_u R_{l+1},   y = R_0

    That is `smooth_mano` without its attention: M means, B cell-centred linear interpolation, k_l one depthwise 3×3
    kernel per level, W_d and W_u shared by the levels. A multigrid cycle with learned smoothers, not a transformer;
    with norm="none" and mlp="plain" it has a global Lipschitz bound.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of fields in and out.
    **options
        The fields of `LinearPyramidOptions`, and options of `MultipoleAttention` except those of attention.

    Raises
    ------
    ValueError
        For another pyramid than "smooth", and for attention.
    """
    given = dict(options, in_channels=in_channels, out_channels=out_channels)
    _expect("linear_pyramid", given, "pyramid", ("smooth",), "use mano for the paper's form")
    _expect("linear_pyramid", given, "attention_from", ("none", None), "use smooth_mano for attention")
    return compose("linear_pyramid", LinearPyramidOptions, ("multipole",), given)


def _expect(name: str, given: dict[str, Any], option: str, values: tuple[Any, ...], instead: str) -> None:
    if option in given and given[option] not in values:
        raise ValueError(f"{name}: {option}={given[option]!r}: expected {values[0]!r}; {instead}")
