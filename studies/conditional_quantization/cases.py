"""The problems of the study: inputs for which several fields are true, with the exact law of them where it is known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.datasets import Splits, TensorFields
from sciops.datasets.images.digits import LEVELS, read_digits
from sciops.grids import Grid
from sciops.pde import darcy
from sciops.pde.evolution import navier_stokes
from sciops.random_fields import gaussian_random_field
from sciops.uncertainty import Law
from sciops.uncertainty.distances import per_sample

MIRROR_POINTS = 33
PLANE_POINTS = 17
SENSORS = ((0.125, 0.1875), (0.25, 0.4375), (0.375, 0.25), (0.4375, 0.4375))  # in the first quadrant of the unit square
QUADRANTS = (0.4, 0.3, 0.2, 0.1)  # how often the inclusion lies in each
NOISE = 0.1  # of a reading, over its standard deviation
_CLASSIC = {"block": "classic"}  # as the FNO has them: fewer operations a step than the spine's own blocks
_NEIGHBOURS = 20  # digits with the most similar upper half, as draws of the law of the lower half


@dataclass(frozen=True)
class Case:
    """A problem.

    splits : training, validation and test fields
    law : the true law of the output of each test input, or of a stand-in for it; None where nothing is known
    weights : (tests, n) true weights of the modes, None where they are not separate
    facts : numbers about the problem
    network : options of the FNO that all arms share
    batch : fields a step
    """

    name: str
    splits: Splits
    law: Law | None
    weights: Tensor | None
    facts: dict[str, Any]
    network: dict[str, Any]
    batch: int

    @property
    def grid(self) -> Grid:
        return self.splits.test.grid


CASES = {
    "mirror": "a 1-D coefficient or its mirror image, from the symmetrised pressure",
    "sensors": "a coefficient on a square or one of its three mirror images, from four pooled readings with noise",
    "digits": "a digit of which the upper half is seen",
    "vorticity": "the vorticity that a flow began with, from the vorticity later",
}


@lru_cache(maxsize=4)
def case_of(name: str, train: int, test: int, points: int, bank: int) -> Case:
    """The case of a name in `CASES`, the same at every call.

    Parameters
    ----------
    name : str
    train, test : int
        Numbers of fields; a quarter as many as are tested validate.
    points : int
        Points per axis, of "vorticity" alone.
    bank : int
        Coefficients that stand for the prior in the exact law of "sensors".
    """
    make = {"mirror": _mirror, "sensors": _sensors, "digits": _digits, "vorticity": _vorticity}[name]
    return make(train, max(16, test // 4), test, points, bank)


def data_of(case: str, config: Any) -> tuple[str, int, int, int, int]:
    """The arguments of `case_of` that the configuration gives a case."""
    numbers = {
        "mirror": config.fields,
        "sensors": config.sensor_fields,
        "digits": config.digits,
        "vorticity": config.vorticity_fields,
    }
    return case, *numbers[case], config.points, config.bank


def bump_coefficient(x: np.ndarray, centre: np.ndarray, depth: np.ndarray, width: float = 0.08) -> np.ndarray:
    """k(x) = exp(−depth · exp(−(x − centre)²/2 width²)), (samples, points): 1 with a low inclusion."""
    return np.exp(-depth[:, None] * np.exp(-0.5 * ((x - centre[:, None]) / width) ** 2))


def pressure(k: np.ndarray) -> np.ndarray:
    """u of −(k u')' = 1 on (0, 1), u(0) = u(1) = 0, on n equal cells with the coefficients k (samples, n).

    The flux is k u' = C − x. With 1/k constant in a cell, u at the ends of the cells is exact:
    (samples, n + 1).
    """
    n = k.shape[1]
    middle = (np.arange(n) + 0.5) / n
    constant = (middle / k).sum(1, keepdims=True) / (1 / k).sum(1, keepdims=True)
    steps = (constant - middle) / k / n
    return np.concatenate([np.zeros((len(k), 1)), np.cumsum(steps, 1)], 1)


def weight_of_left(depth: np.ndarray) -> np.ndarray:
    """Probability that the inclusion of a given depth lies left of the middle: from 0.2 to 0.8, linear in the depth."""
    return 0.2 + 0.6 * (depth - 0.7) / (1.6 - 0.7)


def _mirror(train: int, validation: int, test: int, points: int, bank: int) -> Case:
    """The mirror image has the mirrored pressure: its symmetric part leaves two modes, whose weights are known."""
    random, grid = np.random.default_rng(0), Grid((MIRROR_POINTS,))
    count = train + validation + test
    centre, depth = random.uniform(0.15, 0.38, count), random.uniform(0.7, 1.6, count)
    left = weight_of_left(depth)
    mirrored = random.random(count) >= left
    fine = 16 * (MIRROR_POINTS - 1)
    cells = bump_coefficient((np.arange(fine) + 0.5) / fine, centre, depth)
    u, turned = pressure(cells)[:, ::16], pressure(cells[:, ::-1])[:, ::16]
    k = bump_coefficient(grid.coordinates()[0], centre, depth)
    both = np.stack([k, k[:, ::-1]], 1)
    y = np.where(mirrored[:, None], both[:, 1], both[:, 0])
    x = 0.5 * (u + u[:, ::-1])
    splits = _split(x[:, None], y[:, None], grid, train, validation)
    tested = slice(train + validation, None)
    weights = torch.from_numpy(np.stack([left, 1 - left], 1)[tested])
    law = Law(torch.from_numpy(both[tested, :, None].copy()), weights, None, grid)
    apart = per_sample((law.points[:, 0] - law.points[:, 1]).square(), grid)
    w = weights[:, 0]
    facts = {
        "apart": float(apart.mean()),
        "mean_level": float((w * (1 - w) * apart).mean()),
        "ideal": {n: float(((w * (1 - w) ** n + (1 - w) * w**n) * apart).mean()) for n in (1, 2, 4, 8)},
        "middle_difference": float(np.abs(turned - u)[:, MIRROR_POINTS // 2].max()),
        "pressure_difference": float(np.abs(turned - u).max()),
    }
    return Case("mirror", splits, law, weights, facts, {"depth": 2, "modes": (12,)} | _CLASSIC, 64)


def _sensors(train: int, validation: int, test: int, points: int, bank: int) -> Case:
    """Readings at four sensors, each the mean over its mirror images in both axes, do not tell the quadrant.

    The exact law given noisy readings: the prior, by a bank of coefficients, weighted by the likelihood of the
    readings, in all four images with the weights of the quadrants.
    """
    random, grid = np.random.default_rng(1), Grid((PLANE_POINTS,) * 2)
    count = train + validation + test
    parameters = np.stack([random.uniform(0.15, 0.4, (count + bank)), random.uniform(0.15, 0.4, (count + bank))], 1)
    depth = random.uniform(1.0, 3.0, count + bank)
    x, y = grid.meshgrid()
    apart = (x - parameters[:, :1, None]) ** 2 + (y - parameters[:, 1:, None]) ** 2
    log_a = -depth[:, None, None] * np.exp(-0.5 * apart / 0.09**2)
    u = np.asarray(darcy.solve(np.exp(log_a), grid, tol=1e-9, backend="torch").u)
    readings = pooled(u)
    scale = readings[count:].std(0)
    noisy = readings[:count] + NOISE * scale * random.standard_normal((count, len(SENSORS)))
    quadrant = random.choice(4, count, p=QUADRANTS)
    images = np.stack([mirrored(log_a, q) for q in range(4)], 1)
    target = images[np.arange(count), quadrant]
    inputs = np.broadcast_to(noisy[:, :, None, None], (count, len(SENSORS), *grid.shape))
    splits = _split(inputs, target[:, None], grid, train, validation)
    first = train + validation
    law, effective = _posterior(noisy[first:], readings[count:], NOISE * scale, images[count:], grid)
    weights = torch.tensor(QUADRANTS, dtype=torch.float64).expand(test, 4)
    facts = {"effective_bank": float(np.median(effective)), "bank": bank}
    return Case("sensors", splits, law, weights, facts, {"depth": 2, "modes": (5, 5)} | _CLASSIC, 16)


def mirrored(fields: np.ndarray, quadrant: int) -> np.ndarray:
    """Fields (samples, n, n) of the first quadrant moved to one of the four: 1 turns x, 2 turns y, 3 both."""
    return fields[:, :: -1 if quadrant & 1 else 1, :: -1 if quadrant & 2 else 1]


def pooled(u: np.ndarray) -> np.ndarray:
    """Readings (samples, sensors) of pressures (samples, n, n): the mean over the four mirror images of each sensor."""
    n = u.shape[1]
    at = [tuple(round(s * (n - 1)) for s in place) for place in SENSORS]
    return np.stack([np.mean([mirrored(u, q)[:, i, j] for q in range(4)], 0) for i, j in at], 1)


def _posterior(
    observed: np.ndarray, readings: np.ndarray, noise: np.ndarray, images: np.ndarray, grid: Grid, kept: int = 48
) -> tuple[Law, np.ndarray]:
    """(law, effective number of bank members) of each observation; the `kept` likeliest members in four images."""
    points, weights, effective = [], [], []
    for one in observed:
        log = -0.5 * (((readings - one) / noise) ** 2).sum(1)
        p = np.exp(log - log.max())
        p /= p.sum()
        effective.append(1 / (p**2).sum())
        best = np.argsort(-p)[:kept]
        points.append(images[best].reshape(-1, 1, *grid.shape))
        own = p[best] / p[best].sum()
        weights.append((own[:, None] * np.array(QUADRANTS)).ravel())
    return Law(*(torch.from_numpy(np.stack(v)) for v in (points, weights)), None, grid), np.array(effective)


def _digits(train: int, validation: int, test: int, points: int, bank: int) -> Case:
    """The lower half of a digit from its upper half; digits with similar upper halves stand for the law."""
    images, _ = read_digits()
    images = np.random.default_rng(2).permutation(images.astype(np.float64) / LEVELS)
    count = train + validation + test
    if count > len(images):
        raise ValueError(f"{count} digits asked for: there are {len(images)}")
    images = images[:count, :, ::-1].swapaxes(-1, -2).copy()  # the first axis to the right, the second up
    grid = Grid((8, 8), centering="cell")
    seen = images.copy()
    seen[..., :4] = 0.0
    splits = _split(seen, images, grid, train, validation)
    first = train + validation
    halves = seen.reshape(count, -1)
    neighbours = []
    for number in range(first, count):
        apart = ((halves - halves[number]) ** 2).sum(1)
        apart[number] = np.inf
        chosen = np.argsort(apart, kind="stable")[:_NEIGHBOURS]
        own = images[chosen].copy()
        own[..., 4:] = images[number, :, :, 4:]  # the seen half is known
        neighbours.append(own)
    stacked = torch.from_numpy(np.stack(neighbours))
    law = Law(stacked, torch.full(stacked.shape[:2], 1 / _NEIGHBOURS, dtype=torch.float64), None, grid)
    return Case("digits", splits, law, None, {}, {"depth": 2, "modes": (4, 4), "local": True} | _CLASSIC, 32)


def _vorticity(train: int, validation: int, test: int, points: int, bank: int) -> Case:
    """The start of a decaying flow on a period from its vorticity at time 3, coarse and fine scales alike."""
    grid = Grid((points,) * 2, centering="periodic")
    count = train + validation + test
    start = gaussian_random_field(grid, count, tau=5.0, alpha=2.5, seed=3)
    start = np.asarray(start) / np.asarray(start).std()
    later = [
        np.asarray(navier_stokes.solve(start[i : i + 64], grid, times=[3.0], viscosity=1e-3).u)[:, -1]
        for i in range(0, count, 64)
    ]
    splits = _split(np.concatenate(later)[:, None], start[:, None], grid, train, validation)
    return Case("vorticity", splits, None, None, {}, {"depth": 4, "modes": (min(12, points // 2),) * 2}, 16)


def _split(x: np.ndarray, y: np.ndarray, grid: Grid, train: int, validation: int) -> Splits:
    ends = ((0, train), (train, train + validation), (train + validation, None))
    fields = [torch.from_numpy(np.ascontiguousarray(v)).float() for v in (x, y)]
    return Splits(*(TensorFields(*(v[a:b] for v in fields), grid) for a, b in ends))
