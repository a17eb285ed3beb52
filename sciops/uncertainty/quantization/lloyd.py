"""The best n points for a law that is known by samples: Lloyd's method."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor, refuse_complex
from sciops.grids import Grid
from sciops.uncertainty.distances import between, per_sample
from sciops.uncertainty.law import Law


def lloyd(
    samples: Any,
    points: int,
    generator: torch.Generator,
    *,
    weights: Any = None,
    grid: Grid | None = None,
    starts: int = 4,
    steps: int = 200,
) -> Law:
    """Quantizes one law given by samples: n points, the weights of their cells, and the spread within them.

    Each step puts every point at the mean of its cell, which never raises the distortion; it ends where no sample
    changes its cell. The first points are drawn one after another in proportion to the squared distance to the nearest
    one (k-means++), and the best of several starts is kept. It finds a local minimum.

    Parameters
    ----------
    samples : array of numpy or torch
        Fields (count, channels, *grid), such as posterior samples of one input.
    points : int
        n; of fewer different samples some points are equal, with weight 0.
    generator : torch.Generator
        Of the first points, on the CPU.
    weights : array, optional
        (count,), of at least 0; by default all alike.
    grid : Grid, optional
        See `Law`.
    starts, steps : int
        Number of starts, and of steps at most.

    Returns
    -------
    Law
        Of one sample in its batch, in float64.

    Raises
    ------
    ValueError
        For samples or weights that do not fit, or are not finite.
    """
    refuse_complex(samples, "samples")
    y = as_tensor(samples, "samples")[0].double()
    if y.ndim < 2 or not len(y) or points < 1:
        raise ValueError(
            f"samples of shape {tuple(y.shape)}, points={points}: expected (count, channels, *grid) and at least one "
            "of each"
        )
    w = y.new_full((len(y),), 1 / len(y)) if weights is None else as_tensor(weights, "weights")[0].to(y)
    if (
        w.shape != (len(y),)
        or not (torch.isfinite(y).all() and torch.isfinite(w).all())
        or (w < 0).any()
        or w.sum() <= 0
    ):
        raise ValueError("samples and weights: expected finite numbers, and a weight of at least 0 for each sample")
    w = w / w.sum()
    best: tuple[float, Tensor, Tensor] | None = None
    for _ in range(starts):
        f, cell = _one_start(y, w, points, generator, grid, steps)
        d = per_sample((y - f[cell]).square(), grid)
        value = float((w * d).sum())
        if best is None or value < best[0]:
            best = value, f, cell
    assert best is not None
    _, f, cell = best
    mass = torch.zeros(points, dtype=w.dtype, device=w.device).index_add_(0, cell, w)
    spread = _means((y - f[cell]).square(), w, cell, torch.zeros_like(f))
    return Law(f[None], mass[None], spread[None], grid)


def _one_start(
    y: Tensor, w: Tensor, points: int, generator: torch.Generator, grid: Grid | None, steps: int
) -> tuple[Tensor, Tensor]:
    chosen = [int(torch.multinomial(w.cpu(), 1, generator=generator))]
    d = between(y[chosen], y, grid)[0]
    while len(chosen) < points:
        mass = (w * d).cpu()
        chosen.append(int(torch.multinomial(mass if mass.sum() > 0 else w.cpu(), 1, generator=generator)))
        d = torch.minimum(d, between(y[chosen[-1:]], y, grid)[0])
    f = y[chosen].clone()
    cell = between(f, y, grid).argmin(0)
    for _ in range(steps):
        f = _means(y, w, cell, f)
        new = between(f, y, grid).argmin(0)
        if torch.equal(new, cell):
            break
        cell = new
    return f, cell


def _means(values: Tensor, w: Tensor, cell: Tensor, otherwise: Tensor) -> Tensor:
    """Weighted means of the values in each cell, (n, channels, *grid); those of `otherwise` where a cell is empty."""
    mass = torch.zeros(len(otherwise), dtype=w.dtype, device=w.device).index_add_(0, cell, w)
    shape = (-1, *(1,) * (values.ndim - 1))
    total = torch.zeros_like(otherwise).index_add_(0, cell, values * w.view(shape))
    held = mass > 0
    return torch.where(held.view(shape), total / torch.where(held, mass, 1).view(shape), otherwise)
