"""Coordinate channels, and the mask of nodes on a wall."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.compiling import kept, uncompiled
from sciops.grids import Grid

COORDINATES = ("linear", "periodic", "wall", "symmetric-wall", "none")

_ALIGNED = 1e-9  # a node is on a wall when it is nearer to it than this share of the spacing


def coordinate_count(kind: str, ndim: int) -> int:
    """Number of channels that `coordinate_channels` returns on a grid of `ndim` axes."""
    return {"linear": ndim, "periodic": 2 * ndim, "wall": ndim + 1, "symmetric-wall": 3, "none": 0}[kind]


def coordinate_channels(grid: Grid, kind: str, dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """Position of every point as channels, (*grid, count). With ξ ∈ [0, 1] the position within the domain, per axis:

    * ``linear``:    ξ                            a sawtooth to a periodic mixer: not band-limited, so it breaks the
                                                  exact equality between grids
    * ``periodic``:  sin 2πξ, cos 2πξ             band-limited
    * ``wall``:      4ξ(1 − ξ), then once 2·min over the axes of min(ξ, 1 − ξ): zero on the walls, one in the middle
    * ``symmetric-wall``: of ``wall``, the sum and the product of the first ones and the last one, so that no axis is
                     told from another: for models that commute with the exchange of axes
    * ``none``:      no channel

    The position is taken within the grid's domain, not its extent, so that a grid which stops short of a wall and one
    which does not agree at the points they share.
    """
    return _channels(grid, kind, dtype, torch.device(device))


def wall_mask(grid: Grid, dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """0 on the points that lie on the domain's wall, 1 elsewhere; (*grid).

    Each end of each axis counts by position: a node grid that stops short of a wall has no row there. Cell and
    periodic grids have no point on a wall, except where their extent ends inside the domain's closure by chance.
    """
    return _mask(grid, dtype, torch.device(device))


@uncompiled
@kept(32)
def _channels(grid: Grid, kind: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    axes = [(x - a) / (b - a) for x, (a, b) in zip(grid.coordinates(), grid.domain)]
    if grid.centering == "periodic":  # a period may begin at any point of the domain
        axes = [xi - np.floor(xi + _ALIGNED) for xi in axes]
    position: list[Any] = list(np.meshgrid(*axes, indexing="ij"))
    if kind == "linear":
        channels = position
    elif kind == "periodic":
        channels = [f(2 * np.pi * xi) for xi in position for f in (np.sin, np.cos)]
    elif kind in ("wall", "symmetric-wall"):
        channels = [4 * xi * (1 - xi) for xi in position]
        if kind == "symmetric-wall":
            channels = [np.sum(channels, axis=0), np.prod(channels, axis=0)]
        channels.append(2 * np.min([np.minimum(xi, 1 - xi) for xi in position], axis=0))
    else:
        raise ValueError(f"coordinates={kind!r}: expected one of {COORDINATES}")
    return _constant(np.stack(channels, axis=-1), dtype, device)


@uncompiled
@kept(32)
def _mask(grid: Grid, dtype: torch.dtype, device: torch.device) -> Tensor:
    mask = np.ones(grid.shape)
    if grid.centering != "periodic":
        for axis, (x, walls, h) in enumerate(zip(grid.coordinates(), grid.domain, grid.spacing)):
            on_wall = np.min([np.abs(x - wall) for wall in walls], axis=0) <= _ALIGNED * h
            np.moveaxis(mask, axis, 0)[on_wall] = 0.0
    return _constant(mask, dtype, device)


def _constant(array: np.ndarray, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device=device, dtype=dtype)
