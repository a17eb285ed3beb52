"""A model averaged over the symmetries of its problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import apply_model, config_of, grid_for, wall_of
from sciops.models.summary import model_text
from sciops.symmetry import GROUPS, Element, Symmetry


class SymmetryAveraged(nn.Module):
    """The mean of a model over the symmetries of its problem, u = 1/|G| Σ_{g ∈ G} g⁻¹ model(g a).

    The mean is exactly equivariant, F(g a) = g F(a) for every g in G.

    Parameters
    ----------
    model : any model on (batch, channels, *grid)
    group : "transpose", x ↔ y, 2 runs of the model; "square", all exchanges and mirror images of the axes, 8 runs on a
        square; "allowed", those of the square that the problem has
    symmetry : the `sciops.symmetry.Symmetry` of the problem, such as ``dataset.symmetry``, or
        ``Symmetry.of_scalars(1, 1)`` for one scalar in and out and a problem without a preferred direction: which
        elements are symmetries, and what they do to each channel

    Raises ValueError without a symmetry, and in `forward` for a grid or an element of the group that the problem does
    not have, naming the reason.
    """

    __repr__ = model_text

    def __init__(
        self, model: nn.Module, group: str = "transpose", *, symmetry: Symmetry | Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        if group not in GROUPS:
            raise ValueError(f"group={group!r}: expected one of {', '.join(GROUPS)}")
        if symmetry is None:
            raise ValueError(
                f"group={group!r}: the symmetries of the problem are not known; pass symmetry=dataset.symmetry, or "
                "symmetry=sciops.symmetry.Symmetry(inputs=('scalar',), outputs=('scalar',)), one kind a channel"
            )
        self.model, self.group = model, group
        self.symmetry = symmetry if isinstance(symmetry, Symmetry) else Symmetry(**symmetry)

    @property
    def wall(self) -> str:
        return wall_of(self.model)

    @property
    def config(self) -> dict[str, Any]:
        options = {"model": config_of(self.model), "group": self.group, "symmetry": self.symmetry.to_dict()}
        return {"name": "symmetry_averaged", "options": options}

    def grid_for(self, x: Tensor, grid: Grid | None = None) -> Grid:
        return grid_for(self.model, x, grid)

    def elements(self, grid: Grid) -> tuple[Element, ...]:
        """The elements that are averaged over on this grid; raises ValueError where the problem does not have them."""
        return self.symmetry.elements(grid, self.group)

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        where = self.grid_for(x, grid)
        elements = self.elements(where)
        total: Any = None
        for element in elements:
            y = apply_model(self.model, self.symmetry.move(x, element, where), grid)
            y = self.symmetry.move(y, element.inverse, where, "outputs")
            total = y if total is None else total + y
        return total / len(elements)
