"""What a user says of a Darcy problem, checked and made into discrete equations; differentiable in every number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.grids import Grid, check_on_grid
from sciops.pde.darcy import five_point as scheme
from sciops.pde.darcy.walls import Walls, balanced, exchange, kinds_of, right_side, walls_of


@dataclass(frozen=True)
class System:
    """The discrete equations, unscaled: a padded (batch, 1 or 2, mx + 2, my + 2), b (1 or batch, mx, my)."""

    a: Tensor
    b: Tensor
    axes: tuple[scheme.Axis, scheme.Axis]
    walls: Walls
    exchange: scheme.Exchange

    def left_by(self, u: Tensor) -> Tensor:
        """b − Au, u (1 or batch, mx, my) less the walls' level."""
        faces = scheme.conductances(self.a, self.axes, self.exchange)
        return self.b - scheme.apply(*faces, u, tuple(axis.wraps for axis in self.axes))


def system_of(
    a: Tensor,
    grid: Grid,
    forcing: Any,
    boundary: Any,
    values: Any,
    flux: Any,
    transfer: Any,
    mean: str,
    single: bool,
) -> System:
    """The discrete problem: padded coefficient, right-hand side, axes and walls; ValueError for what does not fit."""
    if mean not in ("refuse", "project"):
        raise ValueError(f"mean={mean!r}: expected 'refuse' or 'project'")
    walls = walls_of(boundary, values, flux, transfer, grid, len(a), a.device)
    axes = scheme.axes_of(grid, walls.kinds)
    a_padded = scheme.padded(a, axes)
    beyond = exchange(a_padded, axes, walls)
    b = right_side(scheme.source(_forcing(forcing, a, grid), axes), a_padded, axes, walls, beyond)
    if walls.open:
        b = balanced(b, axes, mean, single)
    return System(a_padded, b, axes, walls, beyond)


def coefficient_of(a: Any, grid: Grid | None, tensor: bool, boundary: Any) -> tuple[Tensor, Any, bool, Grid]:
    """a as (batch, 1 or 2, nx, ny)."""
    values, restore = as_tensor(a, "a")
    if values.is_complex():
        raise TypeError(f"a has dtype {values.dtype}; expected real numbers")
    shape = tuple(values.shape)
    if tensor:
        if len(shape) not in (3, 4) or shape[-3] != 2:
            raise ValueError(f"a has shape {shape}; expected (batch, 2, nx, ny) or (2, nx, ny) with tensor=True")
    elif len(shape) not in (2, 3):
        hint = "; drop the channel with a[:, 0]" if len(shape) == 4 else ""
        hint += ", or pass tensor=True for diag(a[:, 0], a[:, 1])" if len(shape) == 4 and shape[1] == 2 else ""
        raise ValueError(f"a has shape {shape}; expected (batch, nx, ny) or (nx, ny){hint}")
    if grid is None:
        periodic = all("periodic" in pair for pair in kinds_of(boundary))
        if min(shape[-2:]) < (1 if periodic else 2):
            raise ValueError(f"a has shape {shape}; expected at least 3 nodes per axis, walls included")
        grid = Grid(shape[-2:], centering="periodic" if periodic else "node")
    check_on_grid(values, grid, "a")
    components = 2 if tensor else 1
    single = len(shape) == components + 1
    values = values.to(torch.float64).contiguous()
    _check_all(values, "a", "a positive finite number everywhere", positive=True)
    return values.reshape(-1, components, *grid.shape), restore, single, grid


def _forcing(forcing: Any, a: Tensor, grid: Grid) -> Tensor:
    """f as (1 or batch, nx, ny), a number as (1, 1, 1)."""
    f, _ = as_tensor(forcing, "forcing")
    f = f.to(a.device, torch.float64)
    if (
        f.ndim not in (0, 2, 3)
        or (f.ndim and tuple(f.shape[-2:]) != grid.shape)
        or f.shape[:-2] not in ((), (1,), (len(a),))
    ):
        raise ValueError(
            f"forcing has shape {tuple(f.shape)}; expected a number, {grid.shape}, or {(len(a), *grid.shape)}"
        )
    _check_all(f, "forcing", "finite numbers", positive=False)
    return f.expand(1, 1, 1) if f.ndim == 0 else f.reshape(-1, *grid.shape)


def _check_all(values: Tensor, name: str, wanted: str, *, positive: bool) -> None:
    if not values.numel():
        return
    low, high = torch.aminmax(values)
    if torch.isfinite(low) and torch.isfinite(high) and (not positive or low > 0):
        return
    bad = ~torch.isfinite(values)
    if positive:
        bad |= values <= 0
    index = torch.nonzero(bad)[0].tolist()
    value = values[tuple(index)].item()
    hint = "; map an indicator to its two values first" if positive and value == 0.0 else ""
    where = f"[{', '.join(map(str, index))}]" if index else ""
    raise ValueError(f"{name}{where} = {value:g}: expected {wanted}{hint}")
