"""The five-point scheme for −∇·(A∇u) = f, A = diag(a_x, a_y), on any grid line spacing, in flux form.

Between neighbouring points P and Q stands the conductance c = h(a_P, a_Q) · (dual width) / (distance), with h the
harmonic mean of the component along PQ; the balance of the cell around P is Σ_Q c_PQ (u_P − u_Q) = f_P · (dual area).
A wall with a given value is a neighbour like any other; a wall with a given flux has conductance 0, the points on it
are unknowns with cells that end there, and its flux stands on the right.

Arrays: b, u are (batch, x, y); a is (batch, components, x, y) with a_x its first component and a_y its last, the same
one for a scalar coefficient. With m unknowns per axis, a is padded to (…, mx + 2, my + 2), walls included;
`along_y` (batch, mx, my + 1) and `along_x` (batch, mx + 1, my) hold the conductances, those to the wall included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sciops.grids import Grid

Kinds = tuple[tuple[str, str], tuple[str, str]]
DIRICHLET: Kinds = (("dirichlet", "dirichlet"), ("dirichlet", "dirichlet"))


@dataclass(frozen=True)
class Axis:
    """One axis: `unknown` picks the points to solve for, `pads` says where a point beyond them must be added,
    `inverse` (m + 1) is one over the distance from point to point, wall to wall through the unknowns, and 0 at a wall
    with a given flux; `dual` (m) is the width of the unknowns' cells."""

    unknown: slice
    pads: tuple[int, int]
    inverse: np.ndarray
    dual: np.ndarray

    @property
    def size(self) -> int:
        return len(self.dual)


def axes_of(grid: Grid, kinds: Kinds = DIRICHLET) -> tuple[Axis, Axis]:
    """Both axes of a grid whose walls are at its domain: wall points found, or added at their true distance.

    Raises ValueError when the grid is not 2-D, is periodic, or has no point to solve for.
    """
    if grid.ndim != 2:
        raise ValueError(f"grid has {grid.ndim} axes; expected 2, such as Grid((85, 85))")
    if grid.centering == "periodic":
        raise ValueError("grid is periodic; walls need a node or cell grid: Grid(shape, extent, 'node')")
    return tuple(
        _axis(x, wall, h, grid.centering == "cell", pair)
        for x, wall, h, pair in zip(grid.coordinates(), grid.domain, grid.spacing, kinds)
    )


def _axis(x: np.ndarray, wall: tuple[float, float], h: float, cell: bool, kinds: tuple[str, str]) -> Axis:
    flux = [kind == "neumann" for kind in kinds]
    # points on a wall with a given value are known
    low, high = (abs(x[end] - wall[end]) <= 1e-9 * h and not flux[end] for end in (0, -1))
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
    else:  # where the flux is given, the cell ends at the wall itself and not half-way to it
        for end in (0, -1):
            dual[end] += 0.5 * distance[end] if flux[end] else 0.0
    inverse = np.zeros(len(distance))
    np.divide(1.0, distance, out=inverse, where=np.r_[not flux[0], np.full(len(distance) - 2, True), not flux[1]])
    return Axis(slice(first, last), (int(not low), int(not high)), inverse, dual)


def padded(a: Tensor, axes: tuple[Axis, Axis]) -> Tensor:
    """a with the coefficient of the nearest point repeated at every wall point that is not a known one of the grid."""
    x, y = axes
    return pad(a, (*y.pads, *x.pads), mode="replicate") if any(x.pads + y.pads) else a


def conductances(a: Tensor, axes: tuple[Axis, Axis]) -> tuple[Tensor, Tensor]:
    """(along_y, along_x) of a padded coefficient; every face value lies between its two coefficients."""
    x, y = axes
    a_x, a_y = a[:, 0], a[:, -1]
    along_y = _harmonic(a_y[:, 1:-1, :-1], a_y[:, 1:-1, 1:]) * _outer(x.dual, y.inverse, a)
    along_x = _harmonic(a_x[:, :-1, 1:-1], a_x[:, 1:, 1:-1]) * _outer(x.inverse, y.dual, a)
    return along_y, along_x


def wall_conductance(a: Tensor, axes: tuple[Axis, Axis], k: int, end: int) -> Tensor:
    """Of the faces at one end (0 or −1) of axis k, (batch, m of the other axis); a is padded."""
    field = a[:, 0] if k == 0 else a[:, -1].mT
    face = _harmonic(field[:, end, 1:-1], field[:, 1 if end == 0 else -2, 1:-1])
    return face * torch.from_numpy(axes[1 - k].dual * axes[k].inverse[end]).to(a.device)


def source(forcing: Tensor, axes: tuple[Axis, Axis]) -> Tensor:
    """f times the dual area, on the unknowns; f (batch, nx, ny), or (1, 1, 1) where it is a number."""
    x, y = axes
    if forcing.numel() > 1:
        forcing = forcing[:, x.unknown, y.unknown]
    return areas(axes, forcing) * forcing if len(forcing) > 1 else areas(axes, forcing)[None].mul_(forcing)


def areas(axes: tuple[Axis, Axis], like: Tensor) -> Tensor:
    """The dual areas (mx, my)."""
    return _outer(axes[0].dual, axes[1].dual, like)


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
