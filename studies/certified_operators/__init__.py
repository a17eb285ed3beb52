"""How far a neural operator can be pushed: certificates from above, attacks from below, coverage in between.

    python -m studies.certified_operators
    python -m studies.certified_operators --preset full --output runs/certified_operators

Spectral operators with finite Lipschitz bounds learn Darcy flow on the coarsest of three grids, plain and with a
penalty on the logarithms of their layers' bounds. On every grid, and for ε from 0.5 to 5 % of the input,

    random perturbation ≤ PGD in the L² ball ≤ (worst case) ≤ L·ε.

The worst case of a nonlinear operator is unknown: what stands for it are linear operators whose norm is known, where
attack and certificate must both meet it, and, on the coarsest grid, the norm of the whole Jacobian at the attacked
fields, the slope of the worst case at ε → 0. Then: attacks with the solver inside, conformal balls over random splits
and under attack, and center smoothing with Gaussian-field noise on two grids. Anything in the wrong order ends the run
with an error after the results are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from studies.certified_operators.coverage import conformal_study, coverage_faults
from studies.certified_operators.models import error_on, fields_on, train
from studies.certified_operators.orderings import (
    certificate,
    inversions,
    linear_references,
    sandwich,
    slopes,
    solver_attacks,
)
from studies.certified_operators.report import answer, draw, show
from studies.certified_operators.smoothing import smoothing_faults, smoothing_study
from studies.kit.study import finished, opened


@dataclass(frozen=True)
class Config:
    grids: tuple[int, ...] = (33, 65, 129)  # nodes per axis; training and the whole Jacobian are on the first
    train_samples: int = 256  # fields to train on
    held_out: int = 200  # fields for errors, attacks and coverage
    floor: float = 1.0  # coefficients are floor + exp(scale·g), g a Gaussian field of unit variance
    scale: float = 0.7  # see floor
    field_modes: int = 32  # cosines per axis of g, the same on all grids
    least: float = 0.5  # lower bound on attacked coefficients
    width: int = 16  # channels inside
    depth: int = 3  # blocks
    modes: int = 8  # modes per axis of the spectral layers
    basis: str = "sine-cosine"
    """basis of the spectral layers; sines and cosines are orthogonal in the weights of node grids"""
    epochs: int = 30  # passes through the training fields
    batch: int = 16  # fields per step
    learning_rate: float = 5e-3  # the largest of a one-cycle schedule
    penalties: tuple[float, ...] = (0.0, 0.001, 0.01, 0.05)
    """weights of the log-Lipschitz penalty; 0 is the plain model"""
    penalty_every: int = 4  # steps between two evaluations of the penalty, which weighs as many times as much
    chosen: float = 0.01  # the penalty that meets the plain model on all grids, in the other parts and in the figures
    shares: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05)  # ε_h/‖a‖_h
    attacked: int = 2  # fields that are attacked
    steps: int = 15  # of PGD
    restarts: int = 1
    """random starts of PGD, besides the worst direction of the Jacobian and the best random perturbation"""
    random_samples: int = 10  # random perturbations per field
    power_iterations: int = 25  # for the Jacobian's norm
    dense_fields: int = 2  # fields whose whole Jacobian is decomposed
    alpha: float = 0.1  # conformal sets are to hold the solution with probability 1 − alpha
    calibration: int = 100  # held-out fields to calibrate on; the rest tests
    splits: int = 20  # random splits into the two
    max_norm_share: float = 0.01
    """largest perturbation at a point, over the mean coefficient, in the coverage under attack"""
    coverage_steps: int = 6  # of PGD there
    smoothing_grids: tuple[int, ...] = (17, 33)  # grids of center smoothing; none leaves it out
    smoothing_samples: int = 500  # noisy outputs per step of center smoothing
    smoothing_slack: float = 0.15  # of center smoothing: the smoothed ball must hold more than ½ − slack
    smoothing_radius: float = 0.5  # size of the perturbation in the noise's norm
    noise_share: float = 0.05  # σ of the noise over ‖a‖_h
    noise_modes: int = 8  # modes per axis of the noise
    seed: int = 0  # of fields, models and attacks
    output: Path = Path("runs/certified_operators")  # folder for results.json and the figures


PRESETS = {
    "quick": Config(),
    "full": Config(
        train_samples=1000,
        epochs=150,
        held_out=400,
        calibration=200,
        penalties=(0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1),
        attacked=16,
        steps=50,
        restarts=3,
        random_samples=100,
        power_iterations=100,
        dense_fields=16,
        coverage_steps=20,
        smoothing_grids=(33, 65, 129),
        smoothing_samples=10_000,
        smoothing_slack=0.05,
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains, measures, prints, writes results.json and two figures, and returns the results.

    Raises RuntimeError, after writing, for every bound that does not hold; ValueError for a config that does not fit.
    """
    if config.chosen not in config.penalties or 0.0 not in config.penalties:
        raise ValueError(f"penalties={config.penalties}: expected 0 and chosen={config.chosen:g} among them")
    if not 0 < config.calibration < config.held_out or config.attacked > config.held_out:
        raise ValueError(f"held_out={config.held_out}: expected more than calibration and attacked")
    folder = opened(config, methods=["fno"], seeds=[config.seed])
    data = fields_on(config, config.grids[0], config.train_samples)
    held = {
        n: fields_on(config, n, config.held_out if n == config.grids[0] else config.attacked, config.train_samples)
        for n in config.grids
    }
    results: dict[str, Any] = {"linear": linear_references(config), "models": []}
    with tqdm(total=len(config.penalties) * (config.epochs + 1), desc="models", unit="epoch") as progress:
        for penalty in config.penalties:
            model = train(config, data, penalty, progress)
            everything = penalty in (0.0, config.chosen)
            results["models"].append(_measured(model, penalty, held, config, everything))
            folder.log({"penalty": penalty, "error": results["models"][-1]["errors"]})
            progress.update()
    faults = inversions(results)
    for row in results["models"]:
        faults += coverage_faults(row["conformal"]) if row["conformal"] else []
        faults += smoothing_faults(row["smoothing"])
    results["faults"] = faults
    return finished(folder, results, draw, show, config, answer=answer, wrong="; ".join(faults))


def _measured(
    model: torch.nn.Module, penalty: float, held: dict[int, Any], config: Config, everything: bool
) -> dict[str, Any]:
    """All measurements of one model; on the first grid alone, and without the other parts, unless `everything`."""
    first = config.grids[0]
    row: dict[str, Any] = {"penalty": penalty, "errors": {}, "bounds": {}, "slopes": [], "sandwich": []}
    for points, data in held.items():
        row["errors"][str(points)] = error_on(model, data)
        row["bounds"][str(points)] = bound = certificate(model, data.grid)
        if not everything and points != first:
            continue
        slope = slopes(model, data, config, dense=points == first)
        direction = slope.pop("direction")
        row["slopes"].append({"points": points, "bound": bound, **slope})
        row["sandwich"] += [sandwich(model, data, share, bound, direction, config) for share in config.shares]
    bound = row["bounds"][str(first)]
    row["solver"] = solver_attacks(model, held[first], config) if everything else []
    row["conformal"] = conformal_study(model, held[first], bound, config) if everything else None
    row["smoothing"] = smoothing_study(model, bound, config) if everything else []
    return row
