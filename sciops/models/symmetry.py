"""A model averaged over the symmetries of the square."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import apply_model, config_of, grid_for, wall_of

Move = Callable[[Tensor], Tensor]


class SymmetryAveraged(nn.Module):
    """u = 1/|G| Σ_{g ∈ G} g⁻¹ model(g a): exactly equivariant, F(g a) = g F(a) for every g in G.

    model : any model on (batch, channels, n, n) whose channels are scalar fields (a vector's components would have to
        turn with the grid, which is not done)
    group : "transpose", x ↔ y, 2 runs of the model; "square", the 8 symmetries of the square

    Right for problems that have the symmetry, such as Darcy flow with a constant source. Raises ValueError on grids
    that do not have it: the axes must have the same points and walls, and for "square" the points must lie
    symmetrically between the walls.
    """

    def __init__(self, model: nn.Module, group: str = "transpose") -> None:
        super().__init__()
        if group not in ("transpose", "square"):
            raise ValueError(f"group={group!r}: expected 'transpose' or 'square'")
        self.model, self.group = model, group

    @property
    def wall(self) -> str:
        return wall_of(self.model)

    @property
    def config(self) -> dict[str, Any]:
        return {"name": "symmetry_averaged", "options": {"model": config_of(self.model), "group": self.group}}

    def grid_for(self, x: Tensor, grid: Grid | None = None) -> Grid:
        return grid_for(self.model, x, grid)

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        where = self.grid_for(x, grid)
        total = None
        for move, back in symmetries(where, self.group):
            y = back(apply_model(self.model, move(x), grid))
            total = y if total is None else total + y
        return total / (2 if self.group == "transpose" else 8)


def symmetries(grid: Grid, group: str) -> list[tuple[Move, Move]]:
    """[(g, g⁻¹)] on the last two axes of a field on this grid, the identity first.

    On periodic grids a reflection maps point j to −j, so that point 0 stays. Raises ValueError where the grid lacks
    the symmetry.
    """
    if grid.ndim != 2 or len({*zip(grid.shape, grid.extent, grid.domain)}) != 1:
        raise ValueError(
            f"symmetry averaging on shape {grid.shape}, extent {grid.extent}: expected a square grid, the same points "
            "and walls on both axes"
        )
    pairs: list[tuple[Move, Move]] = [(_same, _same), (_transpose, _transpose)]
    if group == "transpose":
        return pairs
    (a, b), (left, right), h = grid.extent[0], grid.domain[0], grid.spacing[0]
    if abs((a - left) - (right - b)) > 1e-9 * h:
        raise ValueError(
            f"group='square' on extent {grid.extent} in domain {grid.domain}: the points do not lie symmetrically "
            "between the walls, so reflections move them; pass group='transpose'"
        )
    shift = 1 if grid.centering == "periodic" else 0

    def reflect(axes: tuple[int, ...]) -> Move:
        if not shift:
            return lambda u: u.flip(axes)
        return lambda u: u.flip(axes).roll((shift,) * len(axes), axes)

    flips = [reflect(axes) for axes in ((-1,), (-2,), (-2, -1))]
    pairs += [(f, f) for f in flips]
    # g = transpose after flip has the inverse flip after transpose
    pairs += [(lambda u, f=f: _transpose(f(u)), lambda u, f=f: f(_transpose(u))) for f in flips]
    return pairs


def _same(u: Tensor) -> Tensor:
    return u


def _transpose(u: Tensor) -> Tensor:
    return torch.transpose(u, -1, -2)
