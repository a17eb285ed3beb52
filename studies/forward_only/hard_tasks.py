"""Tasks that narrow networks cannot solve by their last layer alone, so that what hidden layers learn decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.datasets.images import load_images
from sciops.grids import Grid, restrict
from sciops.pde import burgers
from sciops.random_fields import gaussian_random_field
from studies.forward_only.networks import Networks

POWER = 2.0
"""A task has power at a depth where the last layer alone, trained or solved for, errs at least this many times as much
as backpropagation under FOTON's constraint does, on validation data, with the pilot seeds, each at its best rates."""

DENSE_RATES = {"sgd": (0.3, 1.0, 3.0, 10.0), "adam": (0.01, 0.03, 0.1, 0.3)}
SHARES = (0.001, 0.01, 0.1, 1.0)


@dataclass(frozen=True)
class HardTask:
    """One task with its networks and the choices that every arm has.

    parts : (x, y) of training, validation and test; x (samples, …), y labels (samples,) or fields as x
    inputs, outputs, points : channels of x and y, and points of a field (1: none)
    rates : peak rates of the last layer by optimiser; shares : rates of the other layers, times that
    """

    parts: tuple[tuple[Tensor, Tensor], ...]
    inputs: int
    outputs: int
    width: int
    steps: int
    batch: int
    depths: tuple[int, ...]
    points: int = 1
    modes: int = 0
    unit: str = "error rate"
    rates: dict[str, tuple[float, ...]] = field(default_factory=lambda: DENSE_RATES)
    shares: tuple[float, ...] = SHARES

    def networks(self, depth: int, seeds: Sequence[int], kind: Tensor) -> Networks:
        if self.points == 1:
            return Networks.dense(self.inputs, self.width, depth, self.outputs, seeds, kind)
        fields, grid = (self.inputs, self.outputs), (self.modes, self.points)
        return Networks.spectral(fields, self.width, depth, grid, seeds, kind)

    def error(self, out: Tensor, y: Tensor) -> Tensor:
        """∂loss/∂y by sample, of the cross-entropy or of half the squares."""
        if self.points == 1:
            return out.softmax(-1) - F.one_hot(y, self.outputs)
        return out - y.reshape(out.shape)

    def errors(self, out: Tensor, y: Tensor) -> Tensor:
        """Wrong labels, or relative L² errors, (networks, samples)."""
        if self.points == 1:
            return (out.argmax(-1) != y).float()
        target = y.reshape(len(y), -1)
        return (out.reshape(len(out), len(y), -1) - target).norm(dim=2) / target.norm(dim=1)


def _digits() -> HardTask:
    """scikit-learn's digits through eight numbers: a random projection to eight dimensions loses most of a digit."""
    splits = load_images("digits", train=1097, validation=300, test=400)
    parts = []
    for part in (splits.train, splits.validation, splits.test):
        whole = part.batch(np.arange(len(part)))
        parts.append((whole["x"].float().flatten(1), whole["y"].argmax(1)))
    return HardTask(tuple(parts), 64, 10, width=8, steps=300, batch=64, depths=(4, 10, 30, 50))


def _checkerboard() -> HardTask:
    """The colour of a 3×3 checkerboard at a point of the square, whose coordinates lie in [−6, 6]², then zeros.

    The zeros fill the input up to the width, which may not grow: orthonormal rows of 16 numbers can then read the two
    coordinates in 16 directions. Networks that are linear in the point err by 4/9.
    """
    counts = (4000, 1000, 2000)
    random = np.random.default_rng(0)
    points = random.uniform(-1, 1, (sum(counts), 2))
    y = np.floor((points + 1) * 1.5).astype(int).sum(1) % 2
    x = np.concatenate([6 * points, np.zeros((len(points), 14))], 1)
    parts = _split(torch.from_numpy(x).float(), torch.from_numpy(y), counts)
    return HardTask(parts, 16, 2, width=16, steps=400, batch=64, depths=(4, 10))


def _burgers(points: int = 32) -> HardTask:
    """Burgers' equation on the circle, ν = 0.02: u(·, 0) ↦ u(·, 1), the law of `studies.kit.mixers.burgers`.

    Solved on four times the points; both fields in units of their deviation.
    """
    counts = (800, 200, 400)
    fine, grid = (Grid((n,), 1.0, "periodic") for n in (4 * points, points))
    start = 5**0.5 * gaussian_random_field(fine, sum(counts), tau=5.0, alpha=2.0, seed=0, modes=16)
    ends = [burgers.solve(u, fine, times=[1.0], viscosity=0.02, dt=1 / 500).u for u in np.array_split(start, 8)]
    fields = (restrict(u, fine, grid) for u in (start, np.concatenate(ends)[:, 0]))
    x, y = (torch.from_numpy(u / u[: counts[0]].std()).float()[..., None] for u in fields)
    return HardTask(
        _split(x, y, counts),
        1,
        1,
        width=8,
        steps=200,
        batch=16,
        depths=(4, 10),
        points=points,
        modes=8,
        unit="relative $L^2$ error",
        rates={"adam": (0.01, 0.03, 0.1, 0.3)},
        shares=(0.01, 0.1, 1.0),
    )


def _split(x: Tensor, y: Tensor, counts: Sequence[int]) -> tuple[tuple[Tensor, Tensor], ...]:
    return tuple(zip(x.split(list(counts)), y.split(list(counts))))


HARD: dict[str, Callable[[], HardTask]] = {"digits": _digits, "checkerboard": _checkerboard, "burgers": _burgers}


@lru_cache(maxsize=3)
def hard_task(name: str) -> HardTask:
    return HARD[name]()
