"""One training of the study, and the scores of what it learnt."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.models.distributions import Quantized, distribution_inside
from sciops.training import TrainConfig, fit
from sciops.uncertainty import (
    Law,
    energy_score,
    law_of,
    lloyd,
    moment_errors,
    nearest,
    nearest_error,
    refit_weights,
    wasserstein2,
    weight_calibration,
)
from studies.conditional_quantization.arms import MODES, OURS, build, count
from studies.conditional_quantization.cases import Case, case_of
from studies.kit.cells import kept

CALIBRATING = 64  # draws of the exact law of each test input, for the frequencies of the nearest point
REFITTED = 8000  # training fields to which weights are fitted again
DRAWN = 16  # fields that are drawn of a distribution given by draws
_SHOWN = (0, 1)  # test inputs whose laws the figures show


@dataclass(frozen=True)
class Spec:
    """What decides one training; the case by the arguments of `case_of`."""

    case: str
    arm: str
    seed: int
    rate: float
    steps: int
    width: int
    train: int
    test: int
    points: int
    bank: int

    @property
    def data(self) -> tuple[str, int, int, int, int]:
        return self.case, self.train, self.test, self.points, self.bank


def trained(folder: Path, spec: Spec) -> dict[str, Any]:
    """The record of a training, read back where it is there."""
    name = f"{spec.case}-{spec.arm}-{spec.seed}-{spec.rate:g}"
    return kept(folder, name, vars(spec), lambda: _trained(spec))


def _trained(spec: Spec) -> dict[str, Any]:
    case = case_of(*spec.data)
    model = build(case, spec.arm, spec.seed, spec.width)
    an_epoch = -(-len(case.splits.train) // case.batch)
    config = TrainConfig(
        epochs=-(-spec.steps // an_epoch),
        steps=spec.steps,
        batch_size=case.batch,
        learning_rate=spec.rate,
        validate_every=max(1, -(-spec.steps // an_epoch) // 4),
        seed=spec.seed,
        device="cpu",
        progress=False,
    )
    began = time.process_time()
    run = fit(model, case.splits, config)
    refitted(run.model, case, spec.seed, spec.steps)
    trained_in = time.process_time() - began
    test = case.splits.test
    began = time.process_time()
    drawn = torch.Generator().manual_seed(spec.seed)
    law = law_of(run.model, test.x, case.grid, samples=DRAWN, generator=drawn, batch_size=256)
    predicted_in = (time.process_time() - began) / len(test)
    record = {
        "case": spec.case,
        "arm": spec.arm,
        "seed": spec.seed,
        "rate": spec.rate,
        "steps": run.steps,
        "parameters": count(run.model),
        "validation": run.best,
        "seconds": trained_in,
        "seconds_per_law": predicted_in,
        "points": law.points.shape[1],
        "scores": scores(case, law),
    }
    record["shown"] = [_shown(law, i) for i in _SHOWN] if spec.seed == 0 else []
    if spec.arm == OURS:
        alike = Law(law.points, torch.full_like(law.weights, 1 / law.weights.shape[1]), law.spread, law.grid)
        record["equal_weights"] = scores(case, alike)
        record["weights"] = weights_record(case, law)
        record["usage"] = [float(v) for v in next(m for m in run.model.modules() if hasattr(m, "usage")).usage]
    if spec.arm == "flow":
        few = [lloyd(points, MODES[case.name], drawn, grid=case.grid, starts=1, steps=20) for points in law.points]
        record["quantized_afterwards"] = scores(case, joined(few))
    return record


def refitted(model: nn.Module, case: Case, seed: int, steps: int) -> None:
    """Fits the weights of a model of several points to the points that it ended with; leaves other models alone.

    In twice as many steps as the training had, of as many fields each: a step of the weights alone is cheap.
    """
    inner = distribution_inside(model)
    if isinstance(inner, Quantized) and inner.points > 1:
        fields = case.splits.train.x[:REFITTED], case.splits.train.y[:REFITTED]
        kept_for = len(fields[0]) // 8  # the validation fields alone are too few to tell better weights from worse
        fitted = tuple(part[kept_for:] for part in fields)
        held = tuple(
            torch.cat([a[:kept_for], b]) for a, b in zip(fields, (case.splits.validation.x, case.splits.validation.y))
        )
        generator = torch.Generator().manual_seed(seed)
        refit_weights(model, fitted, held, case.grid, generator=generator, steps=2 * steps, batch_size=case.batch)


def scores(case: Case, law: Law) -> dict[str, list[float]]:
    """Scores of each test sample; those against the true law where it is known."""
    y = case.splits.test.y
    found: dict[str, Tensor] = {
        "energy": energy_score(law, y),
        "nearest": nearest_error(law, y, relative=False).square(),
        "nearest_relative": nearest_error(law, y),
    }
    if case.law is not None:
        found["w2"] = wasserstein2(law, Law(case.law.points, case.law.weights, None, law.grid))
        # the norm of a difference, over that of the true field
        found["mean_error"], found["std_error"] = moment_errors(law, case.law.mean, case.law.std)
    return {name: [float(v) for v in values] for name, values in found.items()}


def weights_record(case: Case, law: Law) -> dict[str, Any]:
    """How far the weights are from the frequencies of the nearest point, and from the true weights of the modes."""
    y, points, weights = case.splits.test.y.to(law.points), law.points, law.weights
    if case.law is not None and case.weights is not None:
        # draws of the exact law: one field for each input leaves a deviation of 3 % to a frequency of 200 fields
        y = case.law.sample(CALIBRATING, torch.Generator().manual_seed(0), noise=False).to(points).flatten(0, 1)
        points, weights = (v.repeat_interleave(CALIBRATING, 0) for v in (points, weights))
    found = weight_calibration(weights, nearest(y, points, law.grid))
    record: dict[str, Any] = {**vars(found)}
    if case.weights is not None and law.weights.shape[1] == case.weights.shape[1]:
        record["distance"] = float((matched(case, law) - case.weights).abs().mean())
    return record


def matched(case: Case, law: Law) -> Tensor:
    """The weights (tests, modes) that a law gives the modes of the case: each point counts for the nearest of them."""
    assert case.law is not None and case.weights is not None
    modes = case.weights.shape[1]
    of_points = torch.zeros(len(law.points), modes, dtype=torch.float64)
    for row, (points, weights) in enumerate(zip(law.points.double(), law.weights.double())):
        truth = case.law.points[row]
        group = torch.arange(len(truth)) % modes  # the images of one coefficient lie side by side
        near = (points[:, None] - truth).square().flatten(2).sum(2).argmin(1)
        of_points[row].index_add_(0, group[near], weights)
    return of_points


def ideal_sampler(case: Case, draws: int, seeds: int) -> dict[str, list[list[float]]] | None:
    """Scores of `draws` fields from the true law, with equal weights, by seed; None where it is not known."""
    if case.law is None or case.weights is None:
        return None
    rows: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        fields = case.law.sample(draws, torch.Generator().manual_seed(seed), noise=False)
        law = Law(fields, torch.full(fields.shape[:2], 1 / draws, dtype=torch.float64), None, case.grid)
        for name, values in scores(case, law).items():
            rows.setdefault(name, []).append(values)
    return rows


def joined(laws: list[Law]) -> Law:
    return Law(torch.cat([law.points for law in laws]), torch.cat([law.weights for law in laws]), None, laws[0].grid)


def _shown(law: Law, i: int) -> dict[str, Any]:
    one = law.sorted()
    return {"points": np.round(one.points[i, :8, 0].numpy(), 5), "weights": one.weights[i, :8].numpy()}
