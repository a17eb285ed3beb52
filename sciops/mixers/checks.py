"""Input checks that several mixers share; each raises ValueError with one line on what to pass."""

from __future__ import annotations

from typing import Any, get_args

from torch import Tensor

from sciops.grids import Grid


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raises ValueError unless the option `name` has one of the values of the `typing.Literal` `choices`."""
    if value not in get_args(choices):
        *most, last = map(repr, get_args(choices))
        raise ValueError(f"{name}={value!r}: expected {', '.join(most)} or {last}")


def check_heads(channels: int, heads: int) -> None:
    """Raises ValueError unless the heads share the channels equally."""
    if heads < 1 or channels % heads:
        raise ValueError(f"heads={heads} do not divide channels={channels}: pass heads with channels % heads == 0")


def check_field(x: Tensor, channels: int, axes: int | None = None) -> None:
    """Raises ValueError unless x is (batch, *grid, channels), with `axes` grid axes if given."""
    if (x.ndim < 3 if axes is None else x.ndim != axes + 2) or x.shape[-1] != channels:
        grid = "*grid" if axes is None else f"{axes} grid axes"
        raise ValueError(f"x has shape {tuple(x.shape)}; expected (batch, {grid}, {channels} channels)")


def check_grid(x: Tensor, grid: Grid | None) -> None:
    """Raises ValueError unless x (batch, *sizes, channels) lies on the grid, if any, or lists its points one by one."""
    sizes = tuple(x.shape[1:-1])
    if grid is None or grid.shape == sizes or sizes == (grid.size,):
        return
    has = f"{sizes[0]} tokens" if len(sizes) == 1 else f"the points {sizes}"
    raise ValueError(f"x has {has}, but the grid is {grid.shape}: pass the grid x was sampled on")
