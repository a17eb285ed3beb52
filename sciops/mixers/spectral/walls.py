"""Sine and cosine modes of the domain at the true positions of a grid: synthesis and analysis tables per axis."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.compiling import constant, kept
from sciops.bases import Basis, distinct, functions
from sciops.grids import Grid

Kind = Literal["sine", "cosine"]

_WORST_CONDITION = 1e3  # beyond this, least squares turns the noise of float32 into the size of the field


@constant
@kept(64)
def wall_tables(grid: Grid, kind: Kind, modes: tuple[int, ...], dtype: torch.dtype, device: torch.device):
    """[(analysis (K, n), synthesis (n, K))] for every axis; `kind` is "sine" or "cosine"."""
    pairs = (_tables(axis, kind, k) for axis, k in zip(grid.axes, modes))
    return [tuple(torch.from_numpy(t).to(device=device, dtype=dtype) for t in pair) for pair in pairs]


@constant
@lru_cache(maxsize=64)
def fitting_modes(grid: Grid, kind: Kind) -> tuple[int, ...]:
    """The largest K per axis that the points of the grid tell apart."""
    found = []
    for s in grid.fractions():
        most = distinct(kind, s)
        while most > 1 and np.linalg.cond(functions(kind, s, most)) > _WORST_CONDITION:
            most -= 1
        found.append(most)
    return tuple(found)


def _tables(axis: Grid, kind: Kind, modes: int) -> tuple[np.ndarray, np.ndarray]:
    ((left, right),), (s,) = axis.domain, axis.fractions()
    synthesis = functions(kind, s, modes)
    if axis.centering != "periodic" and axis.reaches_walls:
        multiplicity = Basis(kind, axis.size, axis.centering).multiplicity()[:modes]
        analysis = multiplicity[:, None] * synthesis.T * (axis.weights() / (right - left))
    else:
        analysis = np.linalg.pinv(synthesis)
    return np.ascontiguousarray(analysis), synthesis


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
def least_points(grid: Grid, kind: Kind, modes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Points per axis from which on a grid of this centering holds the modes; None where it stops short of a wall."""
    if not grid.reaches_walls:
        return None
    extra = {"node": 2, "periodic": 1, "cell": 0}[grid.centering] if kind == "sine" else 0
    return tuple(k + extra for k in modes)
