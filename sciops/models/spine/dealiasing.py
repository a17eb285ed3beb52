"""A pointwise nonlinearity evaluated on a finer grid and brought back to what the grid can hold."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from sciops._compiling import constant, kept
from sciops.grids import Grid
from sciops.resampling import resample


def on_finer_grid(
    f: Callable[..., Tensor], fields: Sequence[Tensor], grid: Grid, factor: int, periodic: bool
) -> Tensor:
    """Π f(P x, P y, …): P interpolates to `factor` times as many points, Π projects back. f(x, y, …) when it is 1.

    A product of two fields of band B reaches 2B and folds back into the band on a grid of n points unless n > 3B; on
    the finer grid it does not, and Π drops what lies above the band instead of folding it.

    fields : x, y, …, each (batch, *grid, channels); f is pointwise
    periodic : P is trigonometric interpolation with the period n·h that a Fourier mixer sees. Otherwise P is the cosine
        interpolant over the extent, which needs no periodicity and no zero wall and reproduces linear channels
        without the jump at the wrap. Hidden channels neither vanish on a wall nor wrap, so no sine.
    Π is the L² projection onto the interpolants, so that ΠP is the identity. Cost: factor**axes times the
    nonlinearity, and two small matrix products per axis.
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
    n: int, factor: int, kind: str, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """(up, down) on one axis: (m, n) interpolation from n to m points, and (n, m) its weighted pseudo-inverse."""
    m = (n - 1) * factor + 1 if kind == "node" else n * factor
    coarse, fine = Grid((n,), None, kind), Grid((m,), None, kind)
    up, weights = resample(np.eye(n), coarse, fine, "fourier" if kind == "periodic" else "cosine").T, fine.weights()
    down = np.linalg.solve(up.T @ (weights[:, None] * up), up.T * weights)
    return tuple(torch.from_numpy(np.ascontiguousarray(t)).to(device=device, dtype=dtype) for t in (up, down))
