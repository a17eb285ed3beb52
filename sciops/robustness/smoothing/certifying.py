"""The certificates of a group of inputs, from a selection sample and an estimation sample of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sciops.robustness.smoothing.certificate import ABSTAIN, Certificate, Interval
from sciops.robustness.smoothing.counts import count_bounds, partition_for
from sciops.robustness.smoothing.noisy_outputs import NoisyOutputs
from sciops.robustness.smoothing.partitioning import Partition, bucket_bounds, expected_bounds
from sciops.robustness.smoothing.radii import Radius, cohen_radius, paper_radius
from sciops.robustness.smoothing.simplex_maps import SimplexMap, soft_radius
from sciops.robustness.smoothing.votes import Tally
from sciops.robustness.statistics.sequences import planned_lower, sequence_upper


@dataclass(frozen=True)
class Plan:
    """The arguments of `certify` that do not change from input to input."""

    sigma: float
    samples: int
    alpha: float
    interval: Interval
    selection_samples: int
    simplex: SimplexMap
    lipschitz: float
    radius: Radius
    target: float | None


def certify_group(source: NoisyOutputs, x: Tensor, plan: Plan) -> Certificate:
    """The certificates of a group of inputs: choices from their selection samples, bounds from fresh ones."""
    inputs = len(x)
    everyone = list(range(inputs))
    selecting, estimating, drawing = source.streams(inputs, 3)
    outputs = torch.cat([out for _, out in source.blocks(x, selecting, plan.selection_samples, everyone)], 1)
    classes = outputs.shape[-1]
    selected = Tally(plan.simplex, inputs, classes, x.device, drawing=drawing)
    selected.add(everyone, outputs)
    partition = partition_for(plan.interval, selected.sums(), plan.samples, plan.alpha)
    bernstein = _bernstein(plan, selected, partition, outputs)
    tally = Tally(plan.simplex, inputs, classes, x.device, drawing=drawing, pooled=partition.pooled_classes())
    candidate = partition.order[:, 0]
    uniform = np.array([float(torch.rand(1, generator=g, device=g.device, dtype=torch.float64)) for g in drawing])
    active = list(everyone)
    for now, out in source.blocks(x, estimating, plan.samples, active):
        tally.add(now, out)
        if plan.target is not None:
            active[:] = [i for i, settled in zip(now, _settled(plan, tally, candidate, now)) if not settled]
    lower, upper = _bounds(plan, tally, partition, bernstein, uniform)
    radii = _radii(plan, lower, upper, classes)
    held = radii > 0

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.array(values)).to(x.device)

    return Certificate(
        label=tensor(np.where(held, candidate, ABSTAIN)),
        radius=tensor(np.where(held, radii, 0.0)),
        lower=tensor(lower),
        upper=tensor(upper),
        candidate=tensor(candidate),
        intervals=tuple(_named(plan, partition, bernstein)),
        simplex=plan.simplex,
        counts=tally.counts,
        selection=selected.counts,
        samples=tally.samples,
    )


def _bernstein(plan: Plan, selected: Tally, partition: Partition, outputs: Tensor) -> np.ndarray:
    """Which inputs get empirical Bernstein: all, none, or those to which the selection sample promises more by it."""
    if plan.interval != "auto" or not selected.soft:
        return np.full(len(partition.order), plan.interval == "empirical_bernstein")
    by_counts, by_sums = expected_bounds(partition, plan.simplex(outputs), plan.samples, plan.alpha)
    return cohen_radius(*by_sums, sigma=1.0) > cohen_radius(*by_counts, sigma=1.0)


def _bounds(
    plan: Plan, tally: Tally, partition: Partition, bernstein: np.ndarray, uniform: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    counts, n = tally.numpy_counts(), tally.samples.cpu().numpy()
    lower, upper = count_bounds(plan.interval, partition, counts, n, plan.alpha, most=plan.samples, uniform=uniform)
    if bernstein.any():
        squares, rest = tally.squares(), tally.pooled_squares()
        soft = bucket_bounds(partition, tally.sums(), n, plan.alpha, squares=squares, pooled_squares=rest)
        lower, upper = np.where(bernstein, soft[0], lower), np.where(bernstein, soft[1], upper)
    return lower, upper


def _settled(plan: Plan, tally: Tally, candidate: np.ndarray, now: list[int]) -> np.ndarray:
    """Whether "R ≥ target" is certified, or R < target holds with probability 1 − α, for the inputs `now`."""
    counts, n = tally.numpy_counts()[now], tally.samples.cpu().numpy()[now]
    first = np.take_along_axis(counts, candidate[now, None], 1)[:, 0]
    low = planned_lower(first, n, plan.alpha, most=plan.samples)
    high = sequence_upper(first, n, plan.alpha)
    certain = _radii(plan, low, 1 - low, counts.shape[1]) >= plan.target
    refuted = _radii(plan, high, 1 - high, counts.shape[1]) < plan.target
    return certain | refuted


def _radii(plan: Plan, lower: np.ndarray, upper: np.ndarray, classes: int) -> np.ndarray:
    if plan.radius == "exact":
        return soft_radius(lower, upper, plan.simplex, sigma=plan.sigma, lipschitz=plan.lipschitz, classes=classes)
    if plan.radius == "paper":
        component = plan.lipschitz * plan.simplex.component_lipschitz(classes)
        return paper_radius(lower, upper, sigma=plan.sigma, lipschitz=component)
    return cohen_radius(lower, upper, sigma=plan.sigma)


def _named(plan: Plan, partition: Partition, bernstein: np.ndarray) -> list[str]:
    if plan.interval != "auto":
        return [plan.interval] * len(bernstein)
    names = []
    for singles, pooled, by_sums in zip(partition.singles, partition.pooled, bernstein):
        rest = "rest pooled" if pooled else "rest one by one"
        bound = "empirical_bernstein" if by_sums else "clopper_pearson"
        names.append(f"auto: {bound}, {singles} single{'s' if singles > 1 else ''}, {rest}")
    return names
