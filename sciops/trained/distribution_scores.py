"""Scores of a model of a distribution on the samples of a file: what `sciops evaluate` prints besides the errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.trained.problem import Problem
from sciops.uncertainty import (
    Law,
    WeightCalibration,
    crps,
    empirical,
    energy_score,
    law_of,
    nearest,
    nearest_error,
    repeated,
    wasserstein2,
    weight_calibration,
)

_DRAWN = 32  # points of a distribution that is given by draws


@dataclass(frozen=True)
class DistributionScores:
    """How good the distributions of a model are, by the truth of a file; norms are those of its grid.

    kind : of distribution, "quantized", "quantiles", "dropout", "flow" or "ensemble"
    points : number of points of a distribution
    energy_score, crps : (samples,) in the units of the fields, NaN where not finite; None without scoringrules
    nearest : (samples,) distance to the nearest point over the norm of the truth
    spread_ratio : root mean square of the standard deviation over that of the error of the mean; 1 where they agree
    quantization : √⟨min_i ‖y − f_i‖²⟩, which is √⟨W₂²⟩ to the true laws where the weights are those of the cells;
        None for other kinds than "quantized"
    calibration : of the weights; None for kinds whose weights are all alike
    wasserstein : (groups,) W₂ to the samples of the file with the same input, None where no input is repeated or pot
        is not there; repeats : their mean number
    missing : what was not computed, and the command that would help
    """

    kind: str
    points: int
    energy_score: np.ndarray | None
    crps: np.ndarray | None
    nearest: np.ndarray
    spread_ratio: float
    quantization: float | None
    calibration: WeightCalibration | None
    wasserstein: np.ndarray | None
    repeats: float | None
    missing: tuple[str, ...]


def scored(problem: Problem, batch_size: int | None = None) -> DistributionScores | None:
    """The scores of the samples of a problem; None for a model that gives one field, or frames against time."""
    kind = problem.trained.distribution
    if kind is None or problem.by_frames:
        return None
    values: dict[str, list[np.ndarray]] = {"energy": [], "crps": [], "nearest": [], "distance": []}
    missing: dict[str, None] = {}
    weights, winners, squares, inputs = [], [], [], []
    points = 0
    generator = torch.Generator().manual_seed(0)
    for numbers in problem.batches(batch_size):
        x = problem.data.batch(numbers)["x"]
        y = problem.truth(numbers)[:, 0].double()
        law = law_of(problem.trained.model, x, problem.grid, samples=_DRAWN, generator=generator)
        inputs.append(x)
        points = law.points.shape[1]
        finite = torch.isfinite(law.points).flatten(1).all(1) & torch.isfinite(law.weights).all(1)
        sound, true = _part(law, finite), y[finite]
        for name, score in (("energy", energy_score), ("crps", crps)):
            try:
                values[name].append(_spread_out(score(sound, true), finite))
            except ImportError as error:
                missing[str(error)] = None
        values["nearest"].append(_spread_out(nearest_error(sound, true), finite))
        values["distance"].append(_spread_out(nearest_error(sound, true, relative=False), finite))
        weights.append(sound.weights.numpy())
        winners.append(nearest(true.to(sound.points), sound.points, sound.grid).numpy())
        squares.append(np.array([_mean_square(sound.std), _mean_square(sound.mean - true)]) * float(finite.sum()))
    found: dict[str, Any] = {name: np.concatenate(parts) if parts else None for name, parts in values.items()}
    stated, made = np.sum(squares, 0)
    own_weights = kind == "quantized" and points > 1 and any(map(len, winners))
    groups, repeats = None, None
    same = repeated(torch.cat(inputs))
    if same:
        repeats = float(np.mean([len(group) for group in same]))
        try:
            groups = np.array([_against_samples(problem, group) for group in same])
        except ImportError as error:
            missing[str(error)] = None
    return DistributionScores(
        kind,
        points,
        found["energy"],
        found["crps"],
        found["nearest"],
        float(np.sqrt(stated / made)) if made > 0 else float("nan"),
        float(np.sqrt(np.nanmean(np.square(found["distance"])))) if kind == "quantized" else None,
        weight_calibration(np.concatenate(weights), np.concatenate(winners)) if own_weights else None,
        groups,
        repeats,
        tuple(missing),
    )


def _against_samples(problem: Problem, numbers: list[int]) -> float:
    x = problem.data.batch(numbers[:1])["x"]
    law = law_of(problem.trained.model, x, problem.grid, samples=_DRAWN)
    truth = empirical(problem.truth(numbers)[:, 0].double(), law.grid)
    return float(wasserstein2(law, truth)[0])


def _part(law: Law, rows: Tensor) -> Law:
    return Law(law.points[rows], law.weights[rows], None if law.spread is None else law.spread[rows], law.grid)


def _spread_out(values: Tensor, rows: Tensor) -> np.ndarray:
    """The values at their rows, NaN elsewhere."""
    out = torch.full(rows.shape, torch.nan, dtype=torch.float64)
    out[rows] = values.double()
    return out.numpy()


def _mean_square(v: Tensor) -> float:
    return float(v.double().square().mean()) if v.numel() else 0.0
