"""Random symmetries of the problem, applied to the input and the solution of each sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.grids import Grid
from sciops.symmetry import Element, Symmetry

# number of codes drawn, a multiple of the number of elements of every group
DRAWN = {"none": 8, "transpose": 8, "square": 8, "allowed": 48}


@dataclass(frozen=True)
class Moves:
    """The symmetries that samples of one data set are moved by.

    symmetry : what an element does to each channel
    grid : of the fields
    elements : among which each sample's code chooses, code modulo their number
    """

    symmetry: Symmetry
    grid: Grid
    elements: tuple[Element, ...]

    def describe(self) -> dict[str, list[str]]:
        """What a run's folder keeps of the moves."""
        kinds = {side: list(getattr(self.symmetry, side)) for side in ("inputs", "outputs")}
        return {"elements": list(map(str, self.elements)), **kinds}

    def apply(self, x: Tensor, y: Tensor, codes: np.ndarray) -> tuple[Tensor, Tensor]:
        """(x, y), (batch, channel, *grid), every sample moved by its own element."""
        numbers = np.asarray(codes) % len(self.elements)
        moved = torch.empty_like(x), torch.empty_like(y)
        for number in np.unique(numbers):
            here = torch.from_numpy(np.flatnonzero(numbers == number)).to(x.device)
            for side, source, target in zip(("inputs", "outputs"), (x, y), moved):
                target[here] = self.symmetry.move(source[here], self.elements[number], self.grid, side)
        return moved


def moves_of(dataset: Any, augment: str) -> Moves | None:
    """The moves that ``augment`` names, of a data set that states its symmetries; None for "none".

    transpose : the two axes exchanged. square : the eight symmetries of the square. Both are of two axes, and refused
        unless the problem has them all
    allowed : those exchanges and mirror images that the problem has, on one to three axes

    Raises ValueError for a data set that does not state its symmetries, and naming the first element that the problem
    does not have and why.
    """
    if augment == "none":
        return None
    symmetry = getattr(dataset, "symmetry", None)
    if symmetry is None:
        raise ValueError(
            f"augment={augment!r}: the data set does not say what its channels are; state it, TensorFields(x, y, grid, "
            "symmetry=sciops.symmetry.Symmetry(inputs=('scalar',), outputs=('scalar',))), one kind a channel"
        )
    grid = dataset.grid
    if augment != "allowed" and grid.ndim != 2:
        raise ValueError(
            f"augment={augment!r} is for two axes, and the grid {grid.shape} is not the same on both, it has "
            f"{grid.ndim}; pass augment='allowed' for the symmetries that the problem has"
        )
    elements = symmetry.elements(grid, augment, name="augment")
    first = dataset.batch(np.arange(1))
    for side, fields in (("inputs", first["x"]), ("outputs", first["y"])):
        if fields.shape[1] != len(getattr(symmetry, side)):
            raise ValueError(
                f"augment={augment!r}: the data set has {fields.shape[1]} channels of {side}, and its symmetry states "
                f"{len(getattr(symmetry, side))}, {getattr(symmetry, side)}: one kind is needed for each channel"
            )
    return Moves(symmetry, grid, elements)
