"""Transfer between a grid and the reference grid of a layer: linear interpolation P and hat averages R."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.compiling import constant, kept
from sciops.grids import Grid


@constant
@kept(64)
def transfer_matrices(
    reference: Grid, grid: Grid, dtype: torch.dtype, device: torch.device
) -> tuple[list[Tensor], list[Tensor]] | None:
    """(P, R) by axis, P (n, n_ref) from the reference grid to `grid` and R (n_ref, n) back; None on the same points.

    On an axis that is finer than the reference P interpolates linearly, beyond the outermost points linearly too, and
    R = diag(Pᵀ1)⁻¹Pᵀ without the negative weights of the extrapolation. On a coarser axis R interpolates and P is the
    average. All rows sum to 1.

    Raises ValueError for a grid of another domain.
    """
    if reference.ndim != grid.ndim or not reference.same_domain(grid):
        raise ValueError(f"the grid's domain is {grid.domain}, that of the layer's reference {reference.domain}")
    if reference.same_points(grid):
        return None
    pairs = [_axis(a, b) for a, b in zip(reference.axes, grid.axes)]
    up, down = (
        [torch.from_numpy(np.ascontiguousarray(m)).to(dtype=dtype, device=device) for m in side] for side in zip(*pairs)
    )
    return up, down


def transfer_norm(reference: Grid | None, grid: Grid) -> float:
    """‖P‖‖R‖ with every point of each grid weighted alike, rounded up; 1 without a reference."""
    found = None if reference is None else transfer_matrices(reference, grid, torch.float64, torch.device("cpu"))
    if found is None:
        return 1.0
    return math.prod(float(torch.linalg.matrix_norm(m, 2)) for side in found for m in side) * (1 + 1e-10)


def along_axes(matrices: Sequence[Tensor], x: Tensor) -> Tensor:
    """One matrix (m, n) applied along each grid axis of x (batch, *sizes, channels)."""
    for axis, matrix in enumerate(matrices, start=1):
        shape = x.shape
        rows = math.prod(shape[:axis])
        y = matrix @ x.reshape(rows, shape[axis], math.prod(shape[axis + 1 :]))
        x = y.reshape(*shape[:axis], matrix.shape[0], *shape[axis + 1 :])
    return x


def _axis(reference: Grid, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    if grid.spacing[0] <= reference.spacing[0] * (1 + 1e-9):
        up = interpolation(reference, grid)
        return up, _hat_average(up, interpolation(grid, reference))
    down = interpolation(grid, reference)
    return _hat_average(down, interpolation(reference, grid)), down


def interpolation(source: Grid, target: Grid) -> np.ndarray:
    """Linear interpolation (m, n) from the points of one axis to those of another, with linear extrapolation."""
    n, h = source.shape[0], source.spacing[0]
    t = (target.coordinates()[0] - source.coordinates()[0][0]) / h
    t = np.where(np.abs(t - np.round(t)) < 1e-9, np.round(t), t)  # a shared point is taken as it is
    periodic = source.centering == "periodic"
    left = np.floor(t).astype(int) if periodic else np.clip(np.floor(t).astype(int), 0, max(n - 2, 0))
    right, share = left + 1, t - left
    if n == 1:
        right, share = left, np.zeros_like(share)
    matrix = np.zeros((len(t), n))
    rows = np.arange(len(t))
    np.add.at(matrix, (rows, left % n), 1 - share)
    np.add.at(matrix, (rows, right % n), share)
    return matrix


def _hat_average(interpolating: np.ndarray, instead: np.ndarray) -> np.ndarray:
    """diag(Pᵀ1)⁻¹Pᵀ of P without negative weights; rows of hats that hold no point are those of `instead`."""
    hats = np.maximum(interpolating, 0).T
    total = hats.sum(axis=1, keepdims=True)
    return np.where(total > 1e-9, hats / np.maximum(total, 1e-9), instead)
