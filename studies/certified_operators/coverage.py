"""Conformal balls over random splits, and what they cover when inputs are attacked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.stats import betabinom
from torch import nn

from sciops.robustness import (
    ball_scores,
    calibrate,
    coverage,
    darcy_lipschitz,
    distance_to_solver,
    neighbour_ratio,
    pgd,
)
from studies.certified_operators.models import Fields, operator_of

if TYPE_CHECKING:
    from studies.certified_operators import Config


def conformal_study(model: nn.Module, data: Fields, bound: float, config: Config) -> dict[str, Any]:
    """Coverage over random splits of held-out fields, clean and at inputs attacked in the maximum norm.

    Attacks maximise the true error ‖G(a + δ) − S(a + δ)‖_h over |δ| ≤ ε_∞. On the unit square ‖δ‖_h ≤ max|δ|, so that
    the certificate L of G in ‖·‖_h and the energy estimate of S both hold for them.
    """
    operator, grid = operator_of(model, data.grid), data.grid
    with torch.no_grad():
        prediction = torch.cat([operator(a) for a in data.a.split(32)])
    scores = ball_scores(prediction, data.u, grid)
    epsilon = config.max_norm_share * float(data.a.mean())
    least = float(data.a.min()) - epsilon
    truth = darcy_lipschitz(grid, least, neighbour_ratio(data.a, epsilon))
    how = {"epsilon": epsilon, "norm": "linf", "steps": config.coverage_steps, "restarts": 1, "seed": config.seed}
    real = distance_to_solver(operator, grid)
    attacked = torch.cat([pgd(real, a, grid, **how).value for a in data.a.split(32)])
    splits, rng = [], np.random.default_rng(config.seed)
    for _ in range(config.splits):
        order = torch.from_numpy(rng.permutation(len(scores)))
        calibration, test = order[: config.calibration], order[config.calibration :]
        found = calibrate(scores[calibration], alpha=config.alpha)
        robust = found.inflated(epsilon, lipschitz_model=bound, lipschitz_truth=truth)
        report = coverage(found, scores[test])
        splits.append(
            {
                "clean": report.share,
                "low": report.low,
                "high": report.high,
                "attacked": float(found.covers(attacked[test]).double().mean()),
                "inflated": float(robust.covers(attacked[test]).double().mean()),
                "threshold": found.threshold,
                "inflated_threshold": robust.threshold,
            }
        )
    law = betabinom(len(scores) - config.calibration, *found.coverage_law())
    tests = len(scores) - config.calibration
    return {
        "alpha": config.alpha,
        "expected": float(law.mean()) / tests,
        "deviation": float(law.std()) / tests,
        "law": [float(law.pmf(j)) for j in range(tests + 1)],
        "tests": tests,
        "splits": splits,
        "epsilon": epsilon,
        "lipschitz_model": bound,
        "lipschitz_truth": truth,
        "typical_solution": float(ball_scores(torch.zeros_like(data.u), data.u, grid).mean()),
        "movement": float(((attacked - scores) / epsilon).max()),
        "beyond": int((attacked > scores + (bound + truth) * epsilon * (1 + 1e-9)).sum()),
    }


def coverage_faults(study: dict[str, Any]) -> list[str]:
    """What a sound conformal set cannot show, but by an accident of one in a million."""
    faults = []
    shares = np.array([split["clean"] for split in study["splits"]])
    error = study["deviation"] / math.sqrt(len(shares))
    if not abs(shares.mean() - study["expected"]) <= 5 * error:
        faults.append(f"mean coverage {shares.mean():.4f}, expected {study['expected']:.4f} ± {error:.4f}")
    if study["beyond"]:
        faults.append(f"{study['beyond']} attacked errors grew by more than (L_G + L_S)ε")
    for split in study["splits"]:
        if split["inflated"] < split["clean"]:
            faults.append(
                f"an inflated set covers {split['inflated']:.3f} of attacked inputs, {split['clean']:.3f} clean"
            )
    return faults
