"""Sine and cosine modes of the domain at the true positions of a grid: synthesis and analysis tables per axis."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from sciops._compiling import constant, kept
from sciops.grids import Grid

_WORST_CONDITION = 1e3  # beyond this, least squares turns the noise of float32 into the size of the field


@constant
def wall_tables(grid: Grid, kind: str, modes: tuple[int, ...], dtype: torch.dtype, device: torch.device):
    """[(analysis (K, n), synthesis (n, K))] for every axis; `kind` is "sine" or "cosine"."""
    return [_placed(*axis, kind, k, dtype, device) for axis, k in zip(_axes(grid), modes)]


@constant
def fitting_modes(grid: Grid, kind: str) -> tuple[int, ...]:
    """The largest K per axis that the points of the grid tell apart."""
    return tuple(_most_modes(*axis, kind) for axis in _axes(grid))


def _axes(grid: Grid) -> list[tuple]:
    return [(n, extent, grid.centering, domain) for n, extent, domain in zip(grid.shape, grid.extent, grid.domain)]


@kept(128)
def _placed(n, extent, centering, domain, kind, modes, dtype, device) -> tuple[Tensor, Tensor]:
    analysis, synthesis = _tables(n, extent, centering, domain, kind, modes)
    return tuple(torch.from_numpy(t).to(device=device, dtype=dtype) for t in (analysis, synthesis))


@lru_cache(maxsize=128)
def _most_modes(n, extent, centering, domain, kind) -> int:
    (left, right) = domain
    x = (Grid((n,), (extent,), centering, (domain,)).coordinates()[0] - left) / (right - left)
    if kind == "sine":
        most = int(np.count_nonzero((x > 1e-9) & (x < 1 - 1e-9)))
    else:
        most = n
    while most > 1 and np.linalg.cond(_synthesis(x, kind, most)) > _WORST_CONDITION:
        most -= 1
    return most


def _tables(n, extent, centering, domain, kind, modes) -> tuple[np.ndarray, np.ndarray]:
    line = Grid((n,), (extent,), centering, (domain,))
    left, right = domain
    x = (line.coordinates()[0] - left) / (right - left)
    synthesis = _synthesis(x, kind, modes)
    if centering == "node" and line.reaches_walls:
        # trapezoid weights: DST-I and DCT-I, exact for every mode the nodes hold
        scale = np.full(modes, 2.0)
        if kind == "cosine":
            scale[0] = 1.0
            if modes == n:
                scale[-1] = 1.0
        analysis = scale[:, None] * synthesis.T * (line.weights() / (right - left))
    else:
        analysis = np.linalg.pinv(synthesis)
    return np.ascontiguousarray(analysis), synthesis


def _synthesis(x: np.ndarray, kind: str, modes: int) -> np.ndarray:
    if kind == "sine":
        return np.sin(math.pi * np.outer(x, np.arange(1, modes + 1)))
    return np.cos(math.pi * np.outer(x, np.arange(modes)))


def analyse(x: Tensor, tables) -> Tensor:
    """(batch, *grid, channel) → (batch, *modes, channel)."""
    return _along_axes(x, [analysis for analysis, _ in tables])


def synthesise(z: Tensor, tables) -> Tensor:
    """(batch, *modes, channel) → (batch, *grid, channel)."""
    return _along_axes(z, [synthesis for _, synthesis in tables])


def _along_axes(x: Tensor, matrices: list[Tensor]) -> Tensor:
    batch, *shape, channels = x.shape
    rows, done, width = batch, [batch], math.prod(x.shape[1:])
    for n, matrix in zip(shape, matrices):
        width //= n
        x = torch.bmm(matrix.expand(rows, -1, -1), x.reshape(rows, n, width))
        rows *= matrix.shape[0]
        done.append(matrix.shape[0])
    return x.reshape(*done, channels)


@constant
def least_points(grid: Grid, kind: str, modes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Points per axis from which on a grid of this centering holds the modes; None where it stops short of a wall."""
    if not grid.reaches_walls:
        return None
    extra = {"node": 2, "periodic": 1, "cell": 0}[grid.centering] if kind == "sine" else 0
    return tuple(k + extra for k in modes)
