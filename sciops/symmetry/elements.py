"""The symmetries of a box: exchanges and mirror images of its axes, as moves of a field."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from torch import Tensor

from sciops.grids import Grid

GROUPS = ("transpose", "square", "allowed")
_AXES = "xyz"


@dataclass(frozen=True)
class Element:
    """A signed permutation of the axes, x ↦ Mx with (Mx)_k = s_k x_{axes[k]}, s_k = −1 where ``mirrored[k]``.

    A field is moved with it, (g u)(Mx) = u(x).

    Parameters
    ----------
    axes : the axis that each axis is taken from
    mirrored : whether that axis is reversed, for each axis after the exchange
    """

    axes: tuple[int, ...]
    mirrored: tuple[bool, ...]

    def __str__(self) -> str:
        names = [_AXES[k] for k in range(len(self.axes))]
        images = ["−" * mirror + names[axis] for axis, mirror in zip(self.axes, self.mirrored)]
        if len(names) == 1:
            return f"{names[0]} → {images[0]}"
        return f"({', '.join(names)}) → ({', '.join(images)})"

    @property
    def is_identity(self) -> bool:
        return self.axes == tuple(range(len(self.axes))) and not any(self.mirrored)

    @property
    def signs(self) -> tuple[int, ...]:
        """s_k for each axis."""
        return tuple(-1 if mirror else 1 for mirror in self.mirrored)

    @property
    def determinant(self) -> int:
        """det M, 1 for a rotation and −1 for a reflection."""
        swaps = sum(i > j for i, j in itertools.combinations(self.axes, 2))
        return (-1) ** (swaps + sum(self.mirrored))

    @property
    def inverse(self) -> Element:
        """The element of Mᵀ."""
        axes = tuple(self.axes.index(k) for k in range(len(self.axes)))
        return Element(axes, tuple(self.mirrored[k] for k in axes))

    def move(self, u: Tensor, grid: Grid) -> Tensor:
        """The moved field of u (..., *grid); a mirror image of a periodic axis keeps its first point in place."""
        first = u.ndim - len(self.axes)
        moved = u.permute(*range(first), *(first + axis for axis in self.axes))
        reversed_axes = [first + k for k, mirror in enumerate(self.mirrored) if mirror]
        if not reversed_axes:
            return moved
        moved = moved.flip(reversed_axes)
        return moved.roll([1] * len(reversed_axes), reversed_axes) if grid.centering == "periodic" else moved

    def unfit(self, grid: Grid) -> str | None:
        """Why the element does not map the grid and its walls onto themselves; None where it does."""
        if len(self.axes) != grid.ndim:
            return f"the grid {grid.shape} has {grid.ndim} axes, {self} is for {len(self.axes)}"
        axes = list(zip(grid.shape, grid.extent, grid.domain, grid.spacing))
        for k, (axis, mirror) in enumerate(zip(self.axes, self.mirrored)):
            slack = 1e-9 * axes[k][3]
            if axis != k and not _alike(axes[axis], axes[k], slack):
                return f"the grid {grid.shape} on {grid.extent} in {grid.domain} is not the same on both axes"
            (a, b), (left, right) = axes[axis][1:3]
            if mirror and abs((a - left) - (right - b)) > slack:
                return f"the points [{a:.6g}, {b:.6g}] lie unevenly between the walls [{left:.6g}, {right:.6g}]"
        return None


def elements_of(group: str, ndim: int) -> tuple[Element, ...]:
    """The elements of a group in `ndim` dimensions, the identity first.

    "transpose": exchanges of axes, 2 in two dimensions; "square" and "allowed": exchanges and mirror images, 2, 8 and
    48 in one, two and three dimensions. Element number c + e·2… of the square is that of the bits of its number: bit 0
    exchanges the axes, after bits 1 and 2 mirror axis 0 and 1.

    Raises ValueError for an unknown group, and for "transpose" of one axis.
    """
    if group not in GROUPS:
        raise ValueError(f"group={group!r}: expected one of {', '.join(GROUPS)}")
    if group == "transpose" and ndim == 1:
        raise ValueError("'transpose' exchanges axes, and the grid has one; 'allowed' tries its mirror image")
    exchanges = list(itertools.permutations(range(ndim)))
    found = []
    for bits in range(1 if group == "transpose" else 2**ndim):
        for axes in exchanges:
            found.append(Element(axes, tuple(bool(bits >> axis & 1) for axis in axes)))
    return tuple(found)


def _alike(one: tuple, other: tuple, slack: float) -> bool:
    same = all(abs(p - q) <= slack for mine, its in zip(one[1:3], other[1:3]) for p, q in zip(mine, its))
    return one[0] == other[0] and same
