"""Maps from a classifier's outputs into the probability simplex, with Lipschitz constants: softmax, sparsemax, argmax.

A larger scale brings the map closer to argmax: the margin of the smoothed classifier and its variance grow, and with
them the Lipschitz constant (the trade-off of arXiv:2309.16883).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sciops.robustness.smoothing.radii import lipschitz_radius, margin_radius

_NAMES = ("argmax", "softmax", "sparsemax", "probabilities")


@dataclass(frozen=True)
class SimplexMap:
    """A map into the simplex: softmax(s·z), the projection of s·z (sparsemax), the unit vector of the argmax, or z.

    name : "softmax", "sparsemax", "argmax" (the first of equal outputs) or "probabilities", for outputs that lie in the
        simplex already
    scale : s > 0, an inverse temperature, of softmax and sparsemax

    Called with (..., classes), it returns the same shape in float64. It raises ValueError for "probabilities" with
    outputs that are negative or do not sum to 1 (to 1e-4; the rest is divided out), and where s·z has no largest finite
    entry in a row, so that softmax and sparsemax have no value; −∞ excludes a class.
    """

    name: Literal["argmax", "softmax", "sparsemax", "probabilities"] = "argmax"
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in _NAMES or not 0 < self.scale < math.inf:
            raise ValueError(
                f"simplex map {self.name!r} with scale {self.scale}: expected one of {', '.join(_NAMES)}, scale > 0"
            )

    def __call__(self, outputs: Tensor) -> Tensor:
        if self.name == "argmax":
            return torch.nn.functional.one_hot(outputs.argmax(-1), outputs.shape[-1]).double()
        if self.name == "probabilities":
            p = outputs.double()
            total = p.sum(-1, keepdim=True)
            if _known_false((p >= 0).all() & ((total - 1).abs() <= 1e-4).all()):
                raise ValueError(
                    f"outputs from {p.min():g} to {p.max():g} with sums to {total.max():g}: expected probabilities; "
                    "map logits with SimplexMap('softmax')"
                )
            return p / total
        scaled = self.scale * outputs.double()
        largest = scaled.amax(-1)
        if _known_false(largest.isfinite().all()):
            worst = float(largest[~largest.isfinite()][0])
            raise ValueError(
                f"outputs whose largest, times the scale {self.scale:g}, is {worst:g}: {self.name} needs a finite "
                "largest output in every row; bound the logits, or count votes with SimplexMap('argmax')"
            )
        return scaled.softmax(-1) if self.name == "softmax" else sparsemax(scaled)

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant, ℓ₂ to ℓ₂; ∞ for argmax, and for "probabilities", whose constant is given by component.

        s/2 for softmax, with the Jacobian diag(p) − ppᵀ, and s for sparsemax, a projection.
        """
        return {"softmax": self.scale / 2, "sparsemax": self.scale}.get(self.name, math.inf)

    def component_lipschitz(self, classes: int) -> float:
        """Lipschitz constant of each component; 1 for "probabilities", ∞ for argmax.

        s√2/4 for softmax, as ‖p_c(e_c − p)‖ ≤ √2 p_c(1 − p_c), and s√(1 − 1/K) for sparsemax.
        """
        if self.name == "probabilities":
            return 1.0
        component = {"softmax": math.sqrt(2) / 4, "sparsemax": math.sqrt(1 - 1 / classes), "argmax": math.inf}
        return self.scale * component[self.name]


def _known_false(condition: Tensor) -> bool:
    """Whether a condition fails; under `torch.func.vmap`, where values cannot be looked at, False."""
    try:
        return not condition
    except RuntimeError:
        return False


def sparsemax(outputs: Tensor) -> Tensor:
    """The nearest point of the simplex to the outputs: argmin_{p in simplex} ‖p − z‖₂ along the last axis.

    It is (z − τ)₊ with τ such that the sum is 1. Source: Martins & Astudillo 2016 (arXiv:1602.02068).
    """
    shifted = outputs - outputs.amax(-1, keepdim=True)  # the projection is the same, and nothing cancels
    ordered = shifted.sort(-1, descending=True).values
    excess = ordered.cumsum(-1) - 1
    rank = torch.arange(1, outputs.shape[-1] + 1, device=outputs.device, dtype=outputs.dtype)
    support = (ordered * rank > excess).sum(-1, keepdim=True)
    threshold = excess.gather(-1, support - 1) / support
    return (shifted - threshold).clamp_min(0)


def default_maps() -> tuple[SimplexMap, ...]:
    """The maps that `choose_map` tries: argmax, and softmax and sparsemax with scales from 1 to 500."""
    scales = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
    return (SimplexMap(), *(SimplexMap(name, s) for name in ("softmax", "sparsemax") for s in scales))


def soft_radius(top, other, simplex: SimplexMap, *, sigma: float, lipschitz: float, classes: int):
    """The larger of `lipschitz_radius` by components and `margin_radius` of the whole map, for simplex∘classifier.

    top, other : bounds on p_A and the other p_c; lipschitz : L of the classifier's outputs, ℓ₂ to ℓ₂
    """
    component = lipschitz * simplex.component_lipschitz(classes)
    radius = lipschitz_radius(top, other, sigma=sigma, lipschitz=component)
    if math.isinf(lipschitz * simplex.lipschitz):  # Cohen's is never below that margin's
        return radius
    margin = margin_radius(top, other, sigma=sigma, lipschitz=lipschitz * simplex.lipschitz)
    return np.maximum(radius, margin)
