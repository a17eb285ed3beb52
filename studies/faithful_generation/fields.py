"""The field tasks: pressure along a line from its coefficient, by an operator that also answers without one."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops import build_model
from sciops.evaluation import own_against_wrong, retrieval, sensitivity
from sciops.grids import Grid
from sciops.metrics import relative_l2
from sciops.models import apply_model
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field
from sciops.training.preference import (
    Batches,
    FieldPairs,
    FieldPreference,
    mask_inputs,
    mixed_tiles,
    mixed_with_another,
)
from studies.faithful_generation.arms import Arm, train

TASKS = {
    "darcy": 0.0,
    "mislabelled": 0.25,  # share of the training solutions that are another coefficient's
}
CANDIDATES = 32  # truths among which a prediction has to find its own
_STEP = 0.3  # size of the change of the coefficient's logarithm, in its deviations
_HELD_OUT = {"validation": 10**6, "test": 10**6 + 1}  # seeds


@dataclass(frozen=True)
class FieldSizes:
    """half : fields in each half of the data. held_out : fields that are scored. steps : of the second stage"""

    points: int
    width: int
    depth: int
    first_steps: int
    steps: int
    batch: int
    half: int
    held_out: int
    tiles: int
    first_rate: float = 1e-2
    masked: float = 0.15


@dataclass(frozen=True)
class _Fields:
    """x : log a; u : solutions over their deviation, both (samples, 1, points)."""

    x: Tensor
    u: Tensor
    grid: Grid

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, indices: Any) -> _Fields:
        return _Fields(self.x[indices], self.u[indices], self.grid)


def solved(log_a: np.ndarray, grid: Grid) -> np.ndarray:
    """u of −(a u′)′ = 1 with u = 0 at both ends, (samples, points): Darcy flow between walls that let nothing pass."""
    channel = Grid((grid.shape[0], 3))
    a = np.repeat(np.exp(log_a)[:, :, None], 3, axis=2)
    sides = {"x": "dirichlet", "y": "neumann"}
    return darcy.solve(a, channel, boundary=sides, backend="direct").u[:, :, 1]


def flux_residual(u: Tensor, log_a: Tensor, grid: Grid) -> Tensor:
    """‖a u′ + x − C‖ / ‖x − ½‖ with the best constant C, per sample, about the H⁻¹ norm of −(a u′)′ − 1.

    u, log_a : (batch, 1, points); fluxes are those of the solver, with harmonic means of a between two nodes
    """
    x = torch.from_numpy(grid.coordinates()[0]).to(u)
    face = 2 / ((-log_a[..., 1:]).exp() + (-log_a[..., :-1]).exp())
    flux = face * u.diff(dim=-1) / grid.spacing[0] + (x[1:] + x[:-1]) / 2
    size = ((x[1:] + x[:-1]) / 2 - 0.5).square().mean().sqrt()
    return (flux - flux.mean(-1, keepdim=True)).square().mean(-1).sqrt().squeeze(1) / size


def run_fields(task: str, seed: int, sizes: FieldSizes, arms: Sequence[Arm], split: str) -> dict[str, Any]:
    """{"base": scores of the model after the first half of the data, "arms": [scores of each]}."""
    grid = Grid(sizes.points)
    held_out = _held_out(sizes.held_out, split, grid)
    whole = _mislabelled(_sample(2 * sizes.half, seed, grid), TASKS[task], seed)
    first, second = whole.rows(slice(0, sizes.half)), whole.rows(slice(sizes.half, None))
    torch.manual_seed(seed)
    base = build_model(
        "fno", in_channels=1, out_channels=1, width=sizes.width, depth=sizes.depth, modes=(12,), grid=grid
    )
    batches = Batches(first, batch_size=sizes.batch, seed=seed)

    def masked(step: int) -> _Fields:
        batch, generator = batches(step), torch.Generator().manual_seed(seed * 10**6 + step)
        return _Fields(mask_inputs(batch.x, probability=sizes.masked, generator=generator), batch.u, grid)

    train(base, masked, _squares, steps=sizes.first_steps, rate=sizes.first_rate, clip=None)
    return {
        "base": _scores(base, *held_out),
        "arms": [_scored_arm(arm, base, second, held_out, sizes, seed) for arm in arms],
    }


def _scored_arm(
    arm: Arm, base: nn.Module, data: _Fields, held_out: tuple[_Fields, _Fields], sizes: FieldSizes, seed: int
) -> dict[str, Any]:
    model = copy.deepcopy(base)
    if arm.negatives is None:
        batches = Batches(data, batch_size=sizes.batch, seed=seed + 1)
        train(model, batches, _squares, steps=sizes.steps, rate=arm.rate, decay=arm.decay, clip=None)
        return _scores(model, *held_out)
    own = _predicted(base, data.x, data.grid)
    deviation = float((own - data.u).square().mean().sqrt())
    rejected = _negatives(arm, base, own, data, sizes, seed)
    objective = FieldPreference(base, deviation=deviation, beta=arm.beta, rpo_alpha=arm.anchor)
    pairs = objective.with_reference(FieldPairs(data.x, data.u, rejected, data.grid))
    batches = Batches(pairs, batch_size=sizes.batch, seed=seed + 1)
    train(model, batches, objective, steps=sizes.steps, rate=arm.rate, decay=arm.decay, clip=None)
    ratios = objective.log_ratios(model, pairs)
    about = {
        "negative_error": float(relative_l2(rejected, data.u, data.grid).mean()),
        "chosen": float(ratios.chosen.mean()),
        "rejected": float(ratios.rejected.mean()),
        "deviation": deviation,
    }
    return _scores(model, *held_out) | about


def _negatives(arm: Arm, base: nn.Module, own: Tensor, data: _Fields, sizes: FieldSizes, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if arm.negatives == "random":  # smooth fields of the solutions' size, 0 at both ends
        drawn = _random(len(own), seed + 2 * 10**6, data.grid)
        window = (np.pi * torch.from_numpy(data.grid.coordinates()[0])).sin()
        drawn = drawn * window.to(drawn)
        return drawn * own.square().mean().sqrt() / drawn.square().mean().sqrt()
    if arm.negatives == "other":
        return mixed_with_another(own, alpha=arm.alpha, generator=generator)[0]
    blind = _predicted(base, torch.zeros_like(data.x[:1]), data.grid)
    return mixed_tiles(own, blind, data.grid, tiles=sizes.tiles, alpha=arm.alpha, generator=generator)[0]


def _scores(model: nn.Module, data: _Fields, changed: _Fields) -> dict[str, Any]:
    """error : relative L2, mean; errors : of each field; retrieval, residual, ratio and slope : grounding."""
    u = _predicted(model, data.x, data.grid)
    errors = relative_l2(u, data.u, data.grid)
    blocks = zip(u.split(CANDIDATES), data.u.split(CANDIDATES))
    hits = [retrieval(p, v, data.grid).accuracy for p, v in blocks if len(p) == CANDIDATES]
    unit = _unit(data.grid)
    residual = lambda p, x: flux_residual(unit * p.double(), x.double(), data.grid)  # noqa: E731
    moved = sensitivity(u, _predicted(model, changed.x, data.grid), data.u, changed.u, data.grid)
    return {
        "error": float(errors.mean()),
        "errors": errors.tolist(),
        "retrieval": float(np.mean(hits)) if hits else None,
        "residual": float(own_against_wrong(residual, u, data.x, data.x.roll(1, 0)).median()),
        "ratio": float(moved.ratio.median()),
        "slope": float(moved.slope.median()),
    }


def _sample(samples: int, seed: int, grid: Grid) -> _Fields:
    x = _random(samples, seed, grid)
    return _Fields(x, _solutions(x, grid), grid)


def _random(samples: int, seed: int, grid: Grid) -> Tensor:
    field = gaussian_random_field(grid, samples, tau=3.0, alpha=1.5, seed=seed, normalize=True)
    return torch.from_numpy(np.ascontiguousarray(field)).float().unsqueeze(1)


def _solutions(x: Tensor, grid: Grid) -> Tensor:
    u = solved(x[:, 0].double().numpy(), grid) / _unit(grid)
    return torch.from_numpy(u).float().unsqueeze(1)


@lru_cache(maxsize=4)
def _unit(grid: Grid) -> float:
    """Deviation of solutions, from a sample of its own: the unit of u."""
    return float(solved(_random(64, 2 * 10**7, grid)[:, 0].double().numpy(), grid).std())


@lru_cache(maxsize=2)
def _held_out(samples: int, split: str, grid: Grid) -> tuple[_Fields, _Fields]:
    """Fields to score, which all seeds share, and the same after a random change of the coefficient."""
    data = _sample(samples, _HELD_OUT[split], grid)
    x = data.x + _STEP * _random(samples, 3 * 10**7, grid)
    return data, _Fields(x, _solutions(x, grid), grid)


def _mislabelled(data: _Fields, share: float, seed: int) -> _Fields:
    rng = np.random.default_rng((seed, 5))
    wrong = np.flatnonzero(rng.random(len(data)) < share)
    u = data.u.clone()
    u[wrong] = data.u[np.roll(wrong, 1)]
    return _Fields(data.x, u, data.grid)


@torch.no_grad()
def _predicted(model: nn.Module, x: Tensor, grid: Grid) -> Tensor:
    model.eval()
    return apply_model(model, x, grid)


def _squares(model: nn.Module, batch: _Fields) -> Tensor:
    return (apply_model(model, batch.x, batch.grid) - batch.u).square().mean()
