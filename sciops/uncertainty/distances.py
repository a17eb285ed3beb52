"""Squared distances between fields, cells of points, and the distortion: one norm for all of them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor, refuse_complex
from sciops.arrays.scale import widened
from sciops.grids import Grid


def quadrature(grid: Grid | None, like: Tensor) -> Tensor | None:
    """The quadrature weights of the grid in the precision and on the device of `like`; None without a grid."""
    if grid is None:
        return None
    if tuple(like.shape[like.ndim - grid.ndim :]) != grid.shape:
        raise ValueError(f"fields of shape {tuple(like.shape)} are not on the grid {grid}: expected (…, *{grid.shape})")
    return torch.from_numpy(grid.weights()).to(like)


def per_sample(values: Tensor, grid: Grid | None, *, start: int = 1) -> Tensor:
    """Σ_c ∫ v_c over all axes from `start` on, with the weights of the grid; without one the plain sum."""
    weights = quadrature(grid, values)
    values = values if weights is None else values * weights
    return values.flatten(start).sum(start) if values.ndim > start else values


def squared_distances(y: Any, points: Any, grid: Grid | None = None) -> Any:
    """Squared distance of each field to each of its points, d_i = ‖y − f_i‖² = Σ_c ∫ (y − f_i)²_c.

    Parameters
    ----------
    y : array of numpy or torch
        Fields (batch, channels, *grid).
    points : array of the same kind
        Points (batch, n, channels, *grid).
    grid : Grid, optional
        Its quadrature weights make the sum over the points of the grid an integral; by default each number counts 1.

    Returns
    -------
    array of the same kind
        (batch, n), of half precision in float32. Differences are formed directly: the expansion ‖y‖² − 2⟨y, f⟩ + ‖f‖²
        would lose near points.

    Raises
    ------
    ValueError
        For shapes that do not fit each other or the grid.
    """
    for name, value in (("y", y), ("points", points)):
        refuse_complex(value, name)
    (a, _), (b, restore) = as_tensor(y, "y"), as_tensor(points, "points")
    if b.ndim != a.ndim + 1 or a.shape != (b.shape[0], *b.shape[2:]):
        raise ValueError(
            f"y has shape {tuple(a.shape)} and points {tuple(b.shape)}: expected (batch, channels, *grid) and "
            "(batch, n, channels, *grid)"
        )
    return restore(per_sample((widened(a)[:, None] - widened(b)).square(), grid, start=2))


def between(first: Tensor, second: Tensor, grid: Grid | None = None) -> Tensor:
    """‖u_i − v_j‖², (n, m), of fields u (n, channels, *grid) and v (m, channels, *grid), row by row."""
    rows = [per_sample((one - second).square(), grid) for one in first]
    return torch.stack(rows) if rows else first.new_zeros(0, len(second))


def nearest(y: Any, points: Any, grid: Grid | None = None) -> Any:
    """Number of the nearest point of each field, (batch,) whole numbers; the first of several at one distance.

    Arguments as those of `squared_distances`.
    """
    return squared_distances(y, points, grid).argmin(1)


def distortion(y: Any, points: Any, grid: Grid | None = None) -> float:
    """Mean over the fields of the squared distance to the nearest point, Δ_n = ⟨min_i ‖y − f_i‖²⟩.

    For the law of y given x and the weights of the cells it is W₂² between that law and its points, and no other
    weights give less. Arguments as those of `squared_distances`; NaN of an empty batch.
    """
    d = squared_distances(y, points, grid)
    return float(d.min(1).values.mean() if isinstance(d, Tensor) else d.min(1).mean()) if len(d) else math.nan
