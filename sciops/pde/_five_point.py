"""The five-point scheme for −∇·(a∇u) = f on any grid line spacing, in flux form.

Between neighbouring points P and Q stands the conductance c = h(a_P, a_Q) · (dual width) / (distance), with h the
harmonic mean; the balance of the cell around P is Σ_Q c_PQ (u_P − u_Q) = f_P · (dual area).

Arrays: a, b, u are (batch, x, y). With m unknowns per axis, a is padded to (batch, mx + 2, my + 2), walls included;
`along_y` (batch, mx, my + 1) and `along_x` (batch, mx + 1, my) hold the conductances, those to the wall included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sciops.grids import Grid


@dataclass(frozen=True)
class Axis:
    """One axis: `unknown` picks the points inside the walls, `pads` says where a wall point must be added,
    `distance` (m + 1) runs from wall to wall through the unknowns, `dual` (m) is the width of their cells."""

    unknown: slice
    pads: tuple[int, int]
    distance: np.ndarray
    dual: np.ndarray

    @property
    def size(self) -> int:
        return len(self.dual)


def axes_of(grid: Grid) -> tuple[Axis, Axis]:
    """Both axes of a grid whose walls are at its domain: wall points found, or added at their true distance.

    Raises ValueError when the grid is not 2-D, is periodic, or has no point inside the walls.
    """
    if grid.ndim != 2:
        raise ValueError(f"grid has {grid.ndim} axes; expected 2, such as Grid((85, 85))")
    if grid.centering == "periodic":
        raise ValueError("grid is periodic; u = 0 on the wall needs a node or cell grid: Grid(shape, extent, 'node')")
    return tuple(
        _axis(x, wall, h, grid.centering == "cell") for x, wall, h in zip(grid.coordinates(), grid.domain, grid.spacing)
    )


def _axis(x: np.ndarray, wall: tuple[float, float], h: float, cell: bool) -> Axis:
    low, high = (abs(x[end] - wall[end]) <= 1e-9 * h for end in (0, -1))
    first, last = int(low), len(x) - int(high)
    if last - first < 1:
        raise ValueError(f"a grid axis of {len(x)} points has none inside the walls: at least 3 nodes are needed")
    points = np.concatenate([[wall[0]], x[first:last], [wall[1]]])
    distance = np.diff(points)
    dual = 0.5 * (distance[:-1] + distance[1:])
    if cell:  # the cell itself is the control volume; at an end its wall may lie farther out than half a cell
        dual = np.full(last - first, h)
        dual[0] += max(distance[0] - 0.5 * h, 0.0)
        dual[-1] += max(distance[-1] - 0.5 * h, 0.0)
    return Axis(slice(first, last), (int(not low), int(not high)), distance, dual)


def padded(a: Tensor, axes: tuple[Axis, Axis]) -> Tensor:
    """a with the coefficient of the nearest point repeated at every wall point that the grid does not have."""
    x, y = axes
    if not any(x.pads + y.pads):
        return a
    return pad(a[:, None], (*y.pads, *x.pads), mode="replicate")[:, 0]


def conductances(a: Tensor, axes: tuple[Axis, Axis]) -> tuple[Tensor, Tensor]:
    """(along_y, along_x) of a padded coefficient; every face value lies between its two coefficients."""
    x, y = axes
    along_y = _harmonic(a[:, 1:-1, :-1], a[:, 1:-1, 1:]) * _outer(x.dual, 1 / y.distance, a)
    along_x = _harmonic(a[:, :-1, 1:-1], a[:, 1:, 1:-1]) * _outer(1 / x.distance, y.dual, a)
    return along_y, along_x


def source(forcing: Tensor, axes: tuple[Axis, Axis]) -> Tensor:
    """f times the dual area, on the unknowns."""
    x, y = axes
    return forcing[:, x.unknown, y.unknown] * _outer(x.dual, y.dual, forcing)


def apply(along_y: Tensor, along_x: Tensor, u: Tensor) -> Tensor:
    """A u as differences of fluxes: exact on constants, and rounded less than diagonal minus neighbours."""
    flux_y, flux_x = along_y.clone(), along_x.clone()
    flux_y[..., 1:-1] *= torch.diff(u, dim=2)
    flux_x[:, 1:-1] *= torch.diff(u, dim=1)
    for flux, first, last in ((flux_y.mT, u[..., 0], u[..., -1]), (flux_x, u[:, 0], u[:, -1])):
        flux[:, 0] *= first
        flux[:, -1] *= -last
    return (flux_y[..., :-1] - flux_y[..., 1:]).add_(flux_x[:, :-1]).sub_(flux_x[:, 1:])


def rounding(along_y: Tensor, along_x: Tensor, u: Tensor) -> Tensor:
    """‖|A||u|‖ per sample: times half the machine epsilon, what rounding u alone does to the residual."""
    size = pad(u.abs(), (1, 1, 1, 1))
    inner = size[:, 1:-1, 1:-1]
    total = along_y[..., 1:] * (inner + size[:, 1:-1, 2:]) + along_y[..., :-1] * (inner + size[:, 1:-1, :-2])
    total = total + along_x[:, 1:] * (inner + size[:, 2:, 1:-1]) + along_x[:, :-1] * (inner + size[:, :-2, 1:-1])
    return total.flatten(1).norm(dim=1)


def _harmonic(p: Tensor, q: Tensor) -> Tensor:
    return 2.0 * p * (q / (p + q))


def _outer(p: np.ndarray, q: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(np.multiply.outer(p, q)).to(like.device)
