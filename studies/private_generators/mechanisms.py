"""Mechanisms whose leakage is known: do the attacks reach it, and do the bounds on ε stay below it?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor, nn

from sciops.evaluation.privacy import (
    epsilon_lower_bound,
    gaussian_epsilon,
    gaussian_roc,
    mean_release_mu,
    membership_scores,
    one_training_epsilon,
    roc,
    shadow_masks,
)
from sciops.training.private import PrivateGradients, private_gradients

if TYPE_CHECKING:
    from studies.private_generators import Config

RELEASES = ((100, 20, 0.0), (100, 100, 0.0), (100, 20, 0.2), (50, 200, 0.0))
"""Records n, dimension d, noise s of θ = mean(S) + N(0, s² I)."""
NOISES = (0.5, 1.0, 2.0)
"""σ of one step of DP-SGD on all records."""
_CANARIES = 400
_RUNS = 40
_FEW = 8  # models, as many as the generators have


def known_mechanisms(config: Config) -> dict[str, Any]:
    """{"mean release": rows, "one step": rows}."""
    releases = [
        release(n, d, noise, models, config.pools)
        for n, d, noise in RELEASES
        for models in dict.fromkeys((config.release_models, _FEW))
    ]
    return {"mean release": releases, "one step": [one_step(noise, config.delta) for noise in NOISES]}


def release(n: int, d: int, noise: float, models: int, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Attacks on the released mean of a random half of 2n records N(0, I_d), score ⟨z, θ⟩, beside the closed form."""
    found: dict[str, list[tuple[float, float]]] = {"online": [], "relative_online": []}
    for seed in seeds:
        rng = np.random.default_rng([seed, n, d])
        z = rng.standard_normal((2 * n, d))
        member = shadow_masks(models, 2 * n, seed=seed)
        theta = member @ z / n + noise * rng.standard_normal((models, d))
        for attack, rows in found.items():
            curve = roc(membership_scores(theta @ z.T, member, attack=attack), member)  # type: ignore[arg-type]
            rows.append((curve.area, curve.true_positive_at(0.01)))
    mu = mean_release_mu(n, d, noise)
    theory = {"area": float(ndtr(mu / math.sqrt(2))), "rate": float(gaussian_roc(0.01, mu))}
    measured = {
        name: dict(zip(("area", "rate"), np.mean(rows, axis=0).tolist())) | {"spread": float(np.std(rows, axis=0)[0])}
        for name, rows in found.items()
    }
    return {"n": n, "d": d, "noise": noise, "models": models, "theory": theory, **measured}


def one_step(noise: float, delta: float) -> dict[str, Any]:
    """One step of `private_gradients` on all records, with canaries: gradients of norm C, orthogonal to each other.

    The loss of canary i is C w_i, so that coordinate i of the released sum is N(0, σ²C²), plus C where i is a member.
    """
    epsilon, rng, clip = gaussian_epsilon(delta, 1 / noise), np.random.default_rng(0), 0.3
    model, generator = _Vector(_CANARIES), torch.Generator().manual_seed(0)
    bounds: dict[str, list[float]] = {"independent": [], "one training": []}
    areas = []
    for _ in range(_RUNS):
        member = rng.random(_CANARIES) < 0.5
        private = PrivateGradients(noise, clip, _CANARIES / 2)
        batch = clip * torch.eye(_CANARIES)[torch.from_numpy(member)]
        private_gradients(model, lambda call, record: call(record).sum(), batch, private=private, generator=generator)
        scores = model.weight.grad.numpy() if model.weight.grad is not None else np.empty(0)
        bounds["independent"].append(epsilon_lower_bound(scores, member, delta=delta))
        bounds["one training"].append(one_training_epsilon(scores, member, delta=delta))
        areas.append(roc(scores, member).area)
    found = {
        name: {"median": float(np.median(v)), "largest": max(v), "above": float(np.mean(np.array(v) > epsilon))}
        for name, v in bounds.items()
    }
    area = {"area": float(np.mean(areas)), "theory": float(ndtr(1 / noise / math.sqrt(2)))}
    return {"noise": noise, "epsilon": epsilon, "runs": _RUNS, "canaries": _CANARIES, **area, **found}


class _Vector(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight
