"""From a classifier's outputs into the probability simplex, with Lipschitz constants: softmax, sparsemax, argmax.

A larger scale brings the map closer to argmax: the margin of the smoothed classifier and its variance grow, and with
them the Lipschitz constant (the trade-off of arXiv:2309.16883).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sciops.robustness.partitioning import bucket_bounds, choose_partition
from sciops.robustness.radii import lipschitz_radius, margin_radius

_NAMES = ("argmax", "softmax", "sparsemax", "probabilities")


@dataclass(frozen=True)
class SimplexMap:
    """z ↦ softmax(s·z), the projection of s·z on the simplex (sparsemax), the unit vector of the argmax, or z.

    name : "softmax", "sparsemax", "argmax" (the first of equal outputs) or "probabilities", for outputs that are
        simplex-valued already
    scale : s > 0, an inverse temperature, of softmax and sparsemax
    Called with (..., classes), it returns the same shape in float64. Raises ValueError where "probabilities" meets
    outputs that are negative or do not sum to 1 (to 1e-4; the rest is divided out).
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
            if (p < 0).any() or (total - 1).abs().max() > 1e-4:
                raise ValueError(
                    f"outputs from {p.min():g} to {p.max():g} with sums to {total.max():g}: expected probabilities; "
                    "map logits with SimplexMap('softmax')"
                )
            return p / total
        scaled = self.scale * outputs.double()
        return scaled.softmax(-1) if self.name == "softmax" else sparsemax(scaled)

    @property
    def lipschitz(self) -> float:
        """ℓ₂ to ℓ₂: s/2 for softmax (Jacobian diag(p) − ppᵀ), s for sparsemax (a projection), ∞ for argmax.

        ∞ for "probabilities" too, whose constant is given by component.
        """
        return {"softmax": self.scale / 2, "sparsemax": self.scale}.get(self.name, math.inf)

    def component_lipschitz(self, classes: int) -> float:
        """Of each component: s√2/4 for softmax (‖p_c(e_c − p)‖ ≤ √2 p_c(1 − p_c)), s√(1 − 1/K) for sparsemax.

        1 for "probabilities", ∞ for argmax.
        """
        if self.name == "probabilities":
            return 1.0
        component = {"softmax": math.sqrt(2) / 4, "sparsemax": math.sqrt(1 - 1 / classes), "argmax": math.inf}
        return self.scale * component[self.name]


def sparsemax(outputs: Tensor) -> Tensor:
    """argmin_{p in simplex} ‖p − z‖₂ along the last dim: (z − τ)₊ with τ such that it sums to 1.

    Source: Martins & Astudillo 2016 (arXiv:1602.02068).
    """
    shifted = outputs - outputs.amax(-1, keepdim=True)  # the projection is the same, and nothing cancels
    ordered = shifted.sort(-1, descending=True).values
    excess = ordered.cumsum(-1) - 1
    rank = torch.arange(1, outputs.shape[-1] + 1, device=outputs.device, dtype=outputs.dtype)
    support = (ordered * rank > excess).sum(-1, keepdim=True)
    threshold = excess.gather(-1, support - 1) / support
    return (shifted - threshold).clamp_min(0)


def default_maps() -> tuple[SimplexMap, ...]:
    """Argmax, and softmax and sparsemax with scales from 1 to 500."""
    scales = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
    return (SimplexMap(), *(SimplexMap(name, s) for name in ("softmax", "sparsemax") for s in scales))


def choose_map(
    outputs: Tensor,
    *,
    sigma: float,
    samples: int,
    alpha: float,
    lipschitz: float = math.inf,
    maps: Sequence[SimplexMap] | None = None,
) -> SimplexMap:
    """The map whose certificate is likely to be largest, judged by selection samples of one input alone.

    outputs : (n₀, classes) of the classifier on noisy copies of the input
    samples, alpha : of the certificate to come, on fresh samples; that is what keeps its level at α however many maps
        are tried, where the procedure of arXiv:2309.16883 takes the largest of all on the samples it certifies with
    lipschitz : L of the classifier's outputs, ℓ₂ to ℓ₂
    maps : default `default_maps`. Only maps whose smoothed class is that of the votes are considered.
    """
    candidates = tuple(maps) if maps is not None else default_maps()
    drawn, classes = outputs.shape
    soft = torch.stack([candidate(outputs) for candidate in candidates])
    vote = int(SimplexMap()(outputs).sum(0).argmax())
    sums = soft.sum(1).cpu().numpy()
    partition = choose_partition(sums, samples, alpha)
    rest = torch.from_numpy(partition.pooled_classes()).to(soft)
    pooled = (soft * rest[:, None]).sum(-1).square().sum(1).cpu().numpy()
    squares = soft.square().sum(1).cpu().numpy()
    grow = samples / drawn
    expected = np.minimum(grow * sums, samples)
    by_sums = bucket_bounds(partition, expected, samples, alpha, squares=grow * squares, pooled_squares=grow * pooled)
    by_counts = bucket_bounds(partition, expected, samples, alpha)
    best, chosen = -math.inf, SimplexMap()
    for i, candidate in enumerate(candidates):
        if int(sums[i].argmax()) != vote:
            continue
        top, other = (bound[i] for bound in (by_counts if candidate.name == "argmax" else by_sums))
        radius = float(soft_radius(top, other, candidate, sigma=sigma, lipschitz=lipschitz, classes=classes))
        if radius > best:
            best, chosen = radius, candidate
    return chosen


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
