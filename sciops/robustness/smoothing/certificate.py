"""Results of a certification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor

from sciops.robustness.smoothing.simplex_maps import SimplexMap

ABSTAIN = -1

Interval = Literal["auto", "clopper_pearson", "randomized", "bonferroni", "cpm", "empirical_bernstein", "sequence"]


@dataclass(frozen=True)
class Certificate:
    """The result of `certify`: tensors on the device of x, one entry per input.

    label : int64                   the certified class, −1 where it abstains
    radius : float64                no ‖δ‖₂ < radius changes the class, with probability 1 − α; 0 where it abstains
    lower, upper : float64          bounds on p_A and on every other p_c, together at level α
    candidate : int64               the class of the selection sample that was tested
    intervals : tuple of str        the interval used for each input; with "auto", what it chose
    simplex : SimplexMap            the map into the simplex, the same for all inputs
    counts, selection : (inputs, classes) int64    votes of the estimation and of the selection sample; for a soft f,
                                    labels drawn with its probabilities
    samples : int64                 estimation samples taken, fewer than asked for where a sequence stopped early
    """

    label: Tensor
    radius: Tensor
    lower: Tensor
    upper: Tensor
    candidate: Tensor
    intervals: tuple[str, ...]
    simplex: SimplexMap
    counts: Tensor
    selection: Tensor
    samples: Tensor


@dataclass(frozen=True)
class Prediction:
    """The result of `predict`.

    label : the class, −1 where it abstains
    counts : (inputs, classes) votes
    p_value : of the test between the two classes with the most votes
    """

    label: Tensor
    counts: Tensor
    p_value: Tensor


def joined(parts: Sequence[Certificate]) -> Certificate:
    """Concatenates the certificates of groups of inputs."""

    def column(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], SimplexMap):
            return values[0]
        return torch.cat(values) if isinstance(values[0], Tensor) else tuple(v for value in values for v in value)

    return Certificate(**{field.name: column(field.name) for field in fields(Certificate)})
