"""What can be computed: points of the precision-recall curve, the case that temperature cannot help, fixed points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import binom

from sciops.training.objectives.precision_recall import WEIGHTINGS, Scores

LAW = (0.5, 0.3, 0.15, 0.05)  # of the categorical fixed points
COUNTS = (10, 6, 3, 1)  # the same as a batch, for losses that compare its samples

# the rows of the figure of fixed points: name → (loss, options)
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "likelihood": ("nll", {}),
    "truncation, drop 0.1": ("truncation", {"drop": 0.1}),
    "GOLD, least 0.2": ("gold", {"least": 0.2}),
    "TaiLr, γ 0.1": ("tailr", {"gamma": 0.1}),
    "TaiLr, γ 0.1, least 0.2": ("tailr", {"gamma": 0.1, "least": 0.2}),
    "power, c 0.5": ("power", {"exponent": 0.5}),
    "truncation (recall), drop 0.5": ("truncation_recall", {"drop": 0.5}),
    "TaiLr-R, γ 0.1": ("tailr_recall", {"gamma": 0.1}),
    "power, c −1": ("power", {"exponent": -1.0}),
    "focal, g 2": ("focal", {"exponent": 2.0}),
    "λ-PR, λ 0.5, γ 0.1": ("lambda_pr", {"lam": 0.5, "gamma": 0.1}),
}
TEMPERATURES = (0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0)  # of the solvable case
PRECISION_SIDE = ("truncation, drop 0.1", "GOLD, least 0.2", "TaiLr, γ 0.1", "TaiLr, γ 0.1, least 0.2", "power, c 0.5")


def alpha(p: ArrayLike, q: ArrayLike, lam: float) -> np.ndarray:
    """α_λ = Σ min(λp, q) over the last axis; β_λ = α_λ/λ is the recall, Σ q where p > 0 (λ → ∞) the precision."""
    return np.minimum(lam * np.asarray(p), q).sum(-1)


def divergence(p: ArrayLike, q: ArrayLike, lam: float) -> np.ndarray:
    """D_λ(P‖Q) = min(1, λ) − α_λ ≥ 0."""
    return min(1.0, lam) - alpha(p, q, lam)


def solvable(
    temperature: float,
    missed: float,
    *,
    covered: float = 9.0,
    symbols: int = 1000,
    valid: int = 20,
    seen: int = 10,
    length: int = 8,
) -> dict[str, float]:
    """Precision, β_0.1 and α_1 of sequences of independent tokens at a temperature.

    At each of `length` steps `valid` of `symbols` tokens are right and equally likely. The model has the logit
    `covered` for the `seen` ones, `missed` for the other right ones, 0 for the wrong ones. With their probabilities
    q_c and q_m::

        precision = (m q_c + (n − m) q_m)^L,   α_λ = Σ_j C(L, j) m^j (n − m)^{L−j} min(λ n^{−L}, q_c^j q_m^{L−j})
    """
    weights = np.exp(np.array([covered, missed, 0.0]) / temperature)
    counts = np.array([seen, valid - seen, symbols - valid])
    q = weights / (counts @ weights)
    j = np.arange(length + 1)
    number = binom(length, j) * float(seen) ** j * float(valid - seen) ** (length - j)
    each = q[0] ** j * q[1] ** (length - j)

    def point(lam: float) -> float:
        return float(number @ np.minimum(lam * float(valid) ** -length, each))

    return {
        "precision": float((counts[0] * q[0] + counts[1] * q[1]) ** length),
        "recall": point(0.1) / 0.1,
        "alpha": point(1.0),
    }


def fixed_point(loss: str, options: Mapping[str, Any], *, steps: int = 600, rate: float = 0.08) -> np.ndarray:
    """Where four probabilities end that begin at `LAW` and descend a loss of tokens of that law.

    By natural gradients, dz_i = p_i w_i/q_i − Σ p_j w_j; the mean of the last half, since losses with a threshold move
    to and fro about it.
    """
    z = torch.tensor(LAW, dtype=torch.float64).log()
    target = torch.repeat_interleave(torch.arange(4), torch.tensor(COUNTS))
    asked = torch.ones(len(target), 1, dtype=torch.bool)
    weighting = WEIGHTINGS[loss](**options)
    path = []
    for _ in range(steps):
        log_q = z.log_softmax(0)
        own = log_q[target, None]
        weights = weighting.weights(Scores(own, own, asked)).expand(-1, 1)[:, 0]
        pull = torch.zeros_like(z).index_add_(0, target, weights / len(target))  # p_i w_i
        z = z + (rate * (pull / log_q.exp().clamp(min=1e-25) - pull.sum())).clamp(-0.5, 0.5)
        path.append(log_q.exp().numpy())
    return np.mean(path[steps // 2 :], axis=0)


def fixed_points() -> list[dict[str, Any]]:
    """One row a setting: its fixed point, its precision side, and the entropy, in nats."""
    rows = []
    for name, (loss, options) in SETTINGS.items():
        q = fixed_point(loss, options)
        entropy = float(-(q[q > 0] * np.log(q[q > 0])).sum())
        rows.append({"loss": name, "q": q.tolist(), "precision side": name in PRECISION_SIDE, "entropy": entropy})
    return rows


def solvable_table() -> list[dict[str, float]]:
    """The case at `TEMPERATURES`, for a model that misses half of the tokens and for one that covers them."""
    return [{"temperature": t, "missed": missed, **solvable(t, missed)} for missed in (0.0, 6.0) for t in TEMPERATURES]
