"""The two kinds of records, and how near samples come to their law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from sciops.datasets.images import read_digits
from sciops.grids import Grid
from sciops.pde import darcy
from sciops.pde.darcy.walls import Boundary
from sciops.random_fields import gaussian_random_field

CLASSES = {"fields": 0, "digits": 10}
HELD_OUT = 300
"""Fewest digits that are in no pool."""
_REFERENCE = 8192  # fields that stand for their law
_SOLVED = 1024  # of them, whose effective permeability is computed
_LARGEST = 6.0  # |log a| above which a field is cut before it is solved; the law's own are below 5


@dataclass(frozen=True)
class Records:
    """A pool, and what samples are compared with.

    pool : (2n, size) in units of the standard deviation, mean 0
    labels : (2n,), None for fields
    moments : (size, size) two-point function E[x xᵀ] of the law, of fields or digits that are in no pool
    second : samples (models, count, size) and their labels → the other measure of utility
    """

    pool: Tensor
    labels: Tensor | None
    moments: Tensor
    second: Callable[[Tensor, Tensor | None], float]

    def moments_error(self, samples: Tensor) -> np.ndarray:
        """‖E[x xᵀ] of samples − that of the law‖ / ‖that of the law‖, Frobenius norm: (models,)."""
        found = samples.mT @ samples / samples.shape[1]
        return ((found - self.moments).flatten(1).norm(dim=1) / self.moments.norm()).cpu().numpy().astype(np.float64)


def drawn_labels(data: str, models: int, count: int) -> Tensor | None:
    """Labels of samples, all classes alike: (models, count)."""
    return (torch.arange(count) % CLASSES[data]).expand(models, -1) if CLASSES[data] else None


def fields(seed: int, place: int, pools: int, *, records: int, points: int) -> Records:
    """log a, Gaussian of covariance (−Δ + 9)⁻² on cells of the unit square; pools of other seeds are independent.

    second : Wasserstein distance of log k, the effective permeability, in units of its standard deviation.
    """
    reference, unit, logs = _law(points)
    own = _field(points, 2 * records, seed=seed + 1) / unit

    def distance(samples: Tensor, labels: Tensor | None) -> float:
        from scipy.stats import wasserstein_distance

        made = log_effective(samples.reshape(-1, samples.shape[-1]).cpu().numpy(), points)
        return float(wasserstein_distance(made, logs) / logs.std())

    return Records(own, None, reference.T @ reference / len(reference), distance)


def digits(seed: int, place: int, pools: int, *, records: int, points: int) -> Records:
    """scikit-learn's digits; the pools, numbered by their place, are disjoint, and the rest of the digits is held out.

    second : share of held-out digits that a classifier gets wrong (ridge regression on labels) that learns from samples
    """
    x, y = read_digits()
    order = np.random.default_rng(0).permutation(len(x))
    if 2 * records * pools > len(x) - HELD_OUT:
        raise ValueError(
            f"--records {records}, {pools} pools: {2 * records * pools} digits asked for; expected at most "
            f"{len(x) - HELD_OUT}"
        )
    z, labels = torch.from_numpy(x[order].reshape(len(x), -1)).float(), torch.from_numpy(y[order])
    z = z - z.mean(0)
    z = z / z.std()
    start = 2 * records * place
    rest, known = z[2 * records * pools :], labels[2 * records * pools :]

    def error(samples: Tensor, own: Tensor | None) -> float:
        if own is None:
            raise ValueError("digits need the labels of samples")
        return float(np.mean([ridge_error(a.cpu(), b, rest, known) for a, b in zip(samples, own)]))

    part = slice(start, start + 2 * records)
    return Records(z[part], labels[part], rest.T @ rest / len(rest), error)


DATA: dict[str, Callable[..., Records]] = {"fields": fields, "digits": digits}
SECOND = {"fields": "log k, Wasserstein", "digits": "classifier's error"}


def ridge_error(x: Tensor, labels: Tensor, test: Tensor, wanted: Tensor, *, ridge: float = 1.0) -> float:
    """Share of `test` that ridge regression on one-hot labels, fitted to x, gets wrong."""
    a, b = (torch.cat([one, one.new_ones(len(one), 1)], 1).double() for one in (x, test))
    hot = torch.nn.functional.one_hot(labels, CLASSES["digits"]).double()
    weights = torch.linalg.solve(a.T @ a + ridge * torch.eye(a.shape[1], dtype=a.dtype), a.T @ hot)
    return float(((b @ weights).argmax(1) != wanted).double().mean())


def log_effective(logs: np.ndarray, points: int) -> np.ndarray:
    """log k of fields log a, (count, points²): the flow from x = 0 to x = 1 where u falls from 1 to 0, none in y.

    With the finite volumes of `sciops.pde.darcy`: k = Σ_j 2 a_0j (1 − u_0j), a sum over the cells of the first column.
    """
    a = np.exp(np.clip(logs.astype(np.float64), -_LARGEST, _LARGEST)).reshape(-1, points, points)
    sides: Boundary = {"x": "dirichlet", "y": "neumann"}
    grid = Grid((points, points), centering="cell")
    u = darcy.solve(a, grid, forcing=0.0, boundary=sides, values={"x": (1.0, 0.0)}, threads=1).u
    return np.log((2 * a[:, 0] * (1 - u[:, 0])).sum(-1))


def white_noise(records: Records, models: int, count: int, *, seed: int = 0) -> Tensor:
    """(models, count, size) independent values with the variances of the law: what a generator should beat."""
    drawn = torch.randn(models, count, len(records.moments), generator=torch.Generator().manual_seed(seed))
    return drawn * records.moments.diagonal().sqrt()


def _field(points: int, count: int, *, seed: int) -> Tensor:
    grid = Grid((points, points), centering="cell")
    made = gaussian_random_field(grid, count, tau=3.0, alpha=2.0, modes=32, seed=seed, normalize=True)
    return torch.from_numpy(made.reshape(count, -1)).float()


@lru_cache(maxsize=2)
def _law(points: int) -> tuple[Tensor, Tensor, np.ndarray]:
    """Fields of the law that are in no pool, the standard deviation they are divided by, and log k of some of them."""
    found = _field(points, _REFERENCE, seed=10**6)
    unit = found.std()
    found = found / unit
    return found, unit, log_effective(found[:_SOLVED].numpy(), points)
