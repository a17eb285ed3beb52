"""Conformal balls over random splits, and what they cover when inputs are attacked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy.stats import betabinom
from torch import nn

from sciops.grids import Grid
from sciops.pde import darcy
from sciops.robustness import ball_scores, calibrate, coverage, distance_to_solver, pgd
from studies._certified_models import Fields, operator_of


def darcy_lipschitz(grid: Grid, least: float, ratio: float) -> float:
    """sup ‖S(a₁) − S(a₂)‖_h/max|a₁ − a₂| of the discrete Darcy problem with f = 1, for coefficients ≥ `least`.

    ‖u₁ − u₂‖_h ≤ κ‖f‖_{−1}/(√λ₁ a_min²): the energy estimate with λ₁ the least eigenvalue of the five-point Laplacian
    and ‖f‖²_{−1} = ⟨f, (−Δ_h)^{−1}f⟩. Faces take harmonic means, which change by at most κ = 2(1 + ρ²)/(1 + ρ)² times
    the change of the coefficient, ρ the largest ratio between neighbours.
    """
    hx, hy = grid.spacing
    eigenvalue = sum(4 / h**2 * math.sin(math.pi * h / 2) ** 2 for h in (hx, hy))
    dual = math.sqrt(float((darcy.solve(np.ones(grid.shape), grid, tol=1e-12).u).sum() * hx * hy))
    kappa = 2 * (1 + ratio**2) / (1 + ratio) ** 2
    return kappa * dual / (math.sqrt(eigenvalue) * least**2)


def neighbour_ratio(a: torch.Tensor, epsilon: float) -> float:
    """The largest (a_P + ε)/(a_Q − ε) of neighbours, what a perturbation of size ε can make of their ratio."""
    ratios = []
    for axis in (-2, -1):
        n = a.shape[axis]
        p, q = a.narrow(axis, 0, n - 1), a.narrow(axis, 1, n - 1)
        ratios += [float(((p + epsilon) / (q - epsilon)).max()), float(((q + epsilon) / (p - epsilon)).max())]
    return max(ratios)


def conformal_study(model: nn.Module, data: Fields, bound: float, config: Any) -> dict[str, Any]:
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
    attacked = torch.cat(
        [
            pgd(
                distance_to_solver(operator, grid),
                a,
                grid,
                epsilon=epsilon,
                norm="linf",
                steps=config.coverage_steps,
                restarts=1,
                seed=config.seed,
            ).value
            for a in data.a.split(32)
        ]
    )
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
