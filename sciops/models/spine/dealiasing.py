"""Pointwise nonlinearities evaluated on a finer grid and projected back, so that they do not alias."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.compiling import constant, kept
from sciops.grids import Grid
from sciops.resampling import resample


def on_finer_grid(
    f: Callable[..., Tensor], fields: Sequence[Tensor], grid: Grid, factor: int, periodic: bool
) -> Tensor:
    """A pointwise function evaluated on a finer grid, Π f(P x, P y, …).

    P interpolates to `factor` times as many points and Π projects back: it is the L² projection onto the interpolants,
    so that ΠP is the identity. A product of two fields of band B has band 2B and aliases into the band on a grid of n
    points unless n > 3B; on the finer grid it does not, and Π removes what lies above the band. The cost is
    factor**axes times the nonlinearity, and two small matrix products per axis.

    Parameters
    ----------
    f : callable
        A pointwise function.
    fields : sequence of Tensor
        x, y, …, each (batch, *grid, channels).
    grid : Grid
        The grid of the fields.
    factor : int
        Ratio of the numbers of points; 1 gives f(x, y, …).
    periodic : bool
        P is trigonometric interpolation with the period n·h of a Fourier mixer. Otherwise P is the cosine interpolant
        over the extent, which requires neither periodicity nor a zero wall, as hidden channels have neither, and
        reproduces linear channels without a jump.
    """
    if factor == 1:
        return f(*fields)
    kind = "periodic" if periodic or grid.centering == "periodic" else grid.centering
    place = fields[0].dtype, fields[0].device
    tables = [finer_grid_tables(operator.index(n), factor, kind, *place) for n in grid.shape]
    fine = list(fields)
    for axis, (up, _) in enumerate(tables, start=1):
        fine = [_along(up, x, axis) for x in fine]
    x = f(*fine)
    for axis, (_, down) in enumerate(tables, start=1):
        x = _along(down, x, axis)
    return x


def _along(matrix: Tensor, x: Tensor, axis: int) -> Tensor:
    shape = x.shape
    y = matrix.to(x.dtype) @ x.reshape(*shape[:axis], shape[axis], -1)
    return y.reshape(*shape[:axis], matrix.shape[0], *shape[axis + 1 :])


@constant
@kept(64)
def finer_grid_tables(
    n: int, factor: int, kind: Any, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """(up, down) along one axis: interpolation (m, n) from n to m points, and its weighted pseudo-inverse (n, m)."""
    m = (n - 1) * factor + 1 if kind == "node" else n * factor
    coarse, fine = Grid((n,), centering=kind), Grid((m,), centering=kind)
    up, weights = resample(np.eye(n), coarse, fine, "fourier" if kind == "periodic" else "cosine").T, fine.weights()
    down = np.linalg.solve(up.T @ (weights[:, None] * up), up.T * weights)
    tables = [torch.from_numpy(np.ascontiguousarray(t)).to(device=device, dtype=dtype) for t in (up, down)]
    return tables[0], tables[1]
