"""The levels of multigrid for a batch of samples at once, in torch, on any device.

A level's arrays are stored flat, (batch, H·W) with H = mx + 3 and W = my + 3: the unknowns, a halo of one, and one
more row and column that the coarsening of even sizes looks at. Couplings into the halo are zero and its diagonal is
one, so that a stencil is nine products of contiguous runs and the halo stays zero by itself. On an axis that wraps
round the halo holds copies of the far end instead, renewed by `Level.wrap` whenever a neighbour will ask for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sciops.pde.darcy.batched.lines import Zebra
from sciops.pde.darcy.five_point import Wraps
from sciops.pde.darcy.galerkin import BOTH, COUPLING, ROWS, STORED, Offset, galerkin_products, interpolated
from sciops.pde.darcy.multigrid import LITTLE, level_shapes


@dataclass
class Level:
    """One level of every sample: stencil, inverse diagonal, and the weights towards the next coarser level."""

    shape: tuple[int, int]
    stencil: dict[str, Tensor]
    inverse: Tensor
    weights: Tensor | None = None  # (batch, 8 or 2, mcx + 2, mcy + 2)
    steps: Offset = BOTH  # towards the next coarser level
    wraps: Wraps = (False, False)
    lines: tuple[Zebra, Zebra] | None = None  # along the rows and along the columns, where lines are smoothed

    def square(self, flat: Tensor) -> Tensor:
        return flat.view(flat.shape[0], self.shape[0] + 3, self.shape[1] + 3)

    def wrap(self, flat: Tensor) -> None:
        """The halo from the far ends, on axes that wrap round."""
        wrap(self.square(flat), self.wraps, 3)


def wrap(array: Tensor, wraps: Wraps, halo: int) -> None:
    """Fills the halo (one before, `halo` − 1 after) of the last two axes from the far ends, where they wrap round."""
    for turned in (array.mT if wraps[1] else None, array if wraps[0] else None):
        if turned is not None:
            size = turned.shape[-2] - halo
            turned[..., 0, :] = turned[..., size, :]
            turned[..., size + 1, :] = turned[..., 1, :]
            if halo > 2:
                turned[..., size + 2, :] = turned[..., min(size, 2), :]


@dataclass
class Hierarchy:
    """The levels of a batch of operators, finest first, and the inverse of the coarsest one."""

    levels: list[Level]
    bottom: Tensor  # dense inverse of the coarsest operator

    def select(self, keep: Tensor) -> Hierarchy:
        levels = [
            Level(
                level.shape,
                {name: array[keep] for name, array in level.stencil.items()},
                level.inverse[keep],
                None if level.weights is None else level.weights[keep],
                level.steps,
                level.wraps,
                None if level.lines is None else tuple(zebra.select(keep) for zebra in level.lines),
            )
            for level in self.levels
        ]
        return Hierarchy(levels, self.bottom[keep])


def build(
    along_y: Tensor,
    along_x: Tensor,
    dtype: torch.dtype = torch.float32,
    rows_alone: int = 0,
    singular: bool = False,
    wraps: Wraps = (False, False),
    lines: bool = False,
) -> Hierarchy:
    """Every level from the finest conductances, by Galerkin products; the first `rows_alone` halve the rows alone."""
    batch, mx, my = along_y.shape[0], along_y.shape[1], along_x.shape[2]
    shapes = level_shapes(mx, my, rows_alone, wraps)
    d, e, s = (along_y.new_zeros(batch, mx + 3, my + 3, dtype=dtype) for _ in range(3))
    d.fill_(1.0)
    d[:, 1:-2, 1:-2] = along_y[..., 1:] + along_y[..., :-1] + along_x[:, 1:] + along_x[:, :-1]
    e[:, 1:-2, 1:-3] = along_y[..., 1:-1]
    s[:, 1:-3, 1:-2] = along_x[:, 1:-1]
    if wraps[1]:
        e[:, 1:-2, -3] = along_y[..., -1]
    if wraps[0]:
        s[:, -3, 1:-2] = along_x[:, -1]
    levels = [_level(shapes[0], {"d": d, "e": e, "s": s}, wraps)]
    for shape in shapes[1:]:
        fine = levels[-1]
        fine.steps = ROWS if shape[1] == fine.shape[1] else BOTH
        fine.weights = _interpolation(fine, shape, _tightened(fine) if lines else fine.stencil["d"])
        levels.append(_level(shape, _galerkin(fine, shape), wraps))
        if lines:
            fine.lines = _lines(fine)
    bottom = dense(levels[-1]).double()
    if singular:  # constants are in the kernel: the last unknown of the coarsest level is set to zero
        inverse = torch.zeros_like(bottom)
        inverse[:, :-1, :-1] = torch.linalg.inv(bottom[:, :-1, :-1])
    else:
        inverse = torch.linalg.inv(bottom)
    return Hierarchy(levels, inverse.to(dtype))


def _level(shape: tuple[int, int], stencil: dict[str, Tensor], wraps: Wraps) -> Level:
    for array in stencil.values():
        wrap(array, wraps, 3)
    stencil = {name: array.flatten(1) for name, array in stencil.items()}
    return Level(shape, stencil, 1.0 / stencil["d"], wraps=wraps)


def _lines(level: Level) -> tuple[Zebra, Zebra]:
    d, e, s = (level.square(level.stencil[name])[:, 1:-2, 1:-2] for name in ("d", "e", "s"))
    return Zebra.of(d, e), Zebra.of(d.mT, s.mT)


def _tightened(level: Level) -> Tensor:
    """The diagonal without what leaks through a wall, where that is little: as in `compiled.levels`."""
    d = level.stencil["d"]
    arrays = {name: level.square(flat) for name, flat in level.stencil.items()}
    total, (mx, my) = torch.zeros_like(d), level.shape
    for direction, (name, (dx, dy)) in COUPLING.items():
        if direction != (0, 0) and name in arrays:
            level.square(total)[:, 1:-2, 1:-2] += arrays[name][:, 1 + dx : 1 + dx + mx, 1 + dy : 1 + dy + my]
    return torch.where(d - total < LITTLE * d, total, d)


def _interpolation(fine: Level, coarse: tuple[int, int], diagonal: Tensor) -> Tensor:
    arrays = {name: fine.square(flat) for name, flat in fine.stencil.items()} | {"d": fine.square(diagonal)}
    nine = "se" in arrays

    def at(delta: Offset, direction: Offset) -> Tensor | float:
        """The coupling in a direction of every fine point 2I + δ."""
        name, shift = COUPLING[direction]
        if name not in arrays:
            return 0.0
        return arrays[name][(slice(None), *strided(fine, delta, shift, coarse))]

    d, order = arrays["d"], interpolated(fine.steps)
    weights = d.new_zeros(d.shape[0], len(order), coarse[0] + 2, coarse[1] + 2)
    edge: dict[Offset, Tensor] = {}
    for dx, dy in (delta for delta in order if 0 in delta):
        delta, across = (dx, dy), (dy, dx)
        towards = at(delta, (-dx, -dy))
        if nine:
            towards = (
                towards + at(delta, (across[0] - dx, across[1] - dy)) + at(delta, (-across[0] - dx, -across[1] - dy))
            )
        opposite = at(delta, across) + at(delta, (-across[0], -across[1]))
        edge[delta] = towards / (at(delta, (0, 0)) - opposite)
    for k, (dx, dy) in enumerate(order):
        if (dx, dy) in edge:
            value = edge[dx, dy]
        else:
            value = at((dx, dy), (0, -dy)) * edge[dx, 0] + at((dx, dy), (-dx, 0)) * edge[0, dy]
            value = (value + at((dx, dy), (-dx, -dy))) / at((dx, dy), (0, 0))
        weights[:, k, 1:-1, 1:-1] = value
    wrap(weights, fine.wraps, 2)
    return weights


def _galerkin(fine: Level, coarse: tuple[int, int]) -> dict[str, Tensor]:
    arrays = {name: fine.square(flat) for name, flat in fine.stencil.items()}
    weights, order = fine.weights, interpolated(fine.steps)
    batch = weights.shape[0]

    def weight(delta: Offset, shift: Offset) -> Tensor:
        rows, columns = (slice(1 + shift[k], 1 + shift[k] + coarse[k]) for k in (0, 1))
        return weights[:, order.index(delta), rows, columns]

    result = {}
    for target, by_delta in galerkin_products("se" in arrays, fine.steps).items():
        total = weights.new_zeros(batch, *coarse)
        for delta, pairs in by_delta.items():
            inner = weights.new_zeros(batch, *coarse)
            for o, other, factor in pairs:
                name, shift = COUPLING[o]
                entry = arrays[name][(slice(None), *strided(fine, delta, shift, coarse))]
                sign = factor if o == (0, 0) else -factor
                if other == (0, 0):
                    inner.add_(entry, alpha=sign)
                else:
                    inner.addcmul_(entry, weight(other, STORED[target]), value=sign)
            total = total + inner if delta == (0, 0) else total.addcmul(weight(delta, (0, 0)), inner)
        full = weights.new_full((batch, coarse[0] + 3, coarse[1] + 3), 1.0 if target == "d" else 0.0)
        full[:, 1:-2, 1:-2] = total if target == "d" else -total
        result[target] = full
    return result


def strided(fine: Level, delta: Offset, shift: Offset, coarse: tuple[int, int]) -> tuple[slice, slice]:
    """The points 2I + δ + shift, I = 1 … mc, of a fine array; I + δ + shift on an axis that is not halved."""
    first = tuple(step + d + s for step, d, s in zip(fine.steps, delta, shift))
    return tuple(slice(f, f + step * (m - 1) + 1, step) for f, step, m in zip(first, fine.steps, coarse))


def dense(level: Level) -> Tensor:
    """The level's operator as (batch, m, m) matrices, unknowns in row-major order."""
    mx, my = level.shape
    index = torch.arange(mx * my, device=level.inverse.device).view(mx, my)
    matrix = level.inverse.new_zeros(level.inverse.shape[0], mx * my, mx * my)
    for name, flat in level.stencil.items():
        array = level.square(flat)[:, 1:-2, 1:-2]
        dx, dy = STORED[name]
        here = tuple(
            slice(None) if round_ else slice(max(0, -step), m - max(0, step))
            for step, m, round_ in zip((dx, dy), (mx, my), level.wraps)
        )
        p, q = index[here].flatten(), index.roll((-dx, -dy), (0, 1))[here].flatten()
        value = array[(slice(None), *here)].flatten(1)
        if name == "d":
            matrix[:, p, p] += value
        else:  # round a ring of two the same pair is coupled twice, round a ring of one a point to itself
            for at in ((p, q), (q, p)):
                matrix[:, at[0], at[1]] -= value
    return matrix
