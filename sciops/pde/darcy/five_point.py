"""The five-point scheme for −∇·(A∇u) = f, A = diag(a_x, a_y), on any grid line spacing, in flux form.

Between neighbouring points P and Q stands the conductance c = h(a_P, a_Q) · (dual width) / (distance), with h the
harmonic mean of the component along PQ; the balance of the cell around P is Σ_Q c_PQ (u_P − u_Q) = f_P · (dual area).
A wall with a given value is a neighbour like any other; a wall with a given flux has conductance 0, the points on it
are unknowns with cells that end there, and its flux stands on the right. A wall that exchanges with what lies outside
is such a wall whose conductance is given: `exchange`, side → (1 or batch, m of the other axis). On an axis that wraps
round, the first and the last face are one and the same.

Arrays: b, u are (batch, x, y); a is (batch, components, x, y) with a_x its first component and a_y its last, the same
one for a scalar coefficient. With m unknowns per axis, a is padded to (…, mx + 2, my + 2), walls included;
`along_y` (batch, mx, my + 1) and `along_x` (batch, mx + 1, my) hold the conductances, those to the wall included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sciops.grids import Grid

Kinds = tuple[tuple[str, str], tuple[str, str]]
Side = tuple[int, int]  # (axis, end), end 0 low and −1 high
Exchange = Mapping[Side, Tensor]
Wraps = tuple[bool, bool]
DIRICHLET: Kinds = (("dirichlet", "dirichlet"), ("dirichlet", "dirichlet"))


@dataclass(frozen=True)
class Axis:
    """One axis: `unknown` picks the points to solve for, `pads` says where a point beyond them must be added,
    `inverse` (m + 1) is one over the distance from point to point, wall to wall through the unknowns, and 0 at a wall
    with a given flux; `dual` (m) is the width of the unknowns' cells, `gaps` the distance from the first and last
    unknown to their walls. Where the axis `wraps` round there are no walls."""

    unknown: slice
    pads: tuple[int, int]
    inverse: np.ndarray
    dual: np.ndarray
    gaps: tuple[float, float]
    wraps: bool = False

    @property
    def size(self) -> int:
        return len(self.dual)


def axes_of(grid: Grid, kinds: Kinds = DIRICHLET) -> tuple[Axis, Axis]:
    """Both axes of a grid whose walls are at its domain: wall points found, or added at their true distance.

    Raises ValueError when the grid is not 2-D, its points do not suit the kinds, or none is left to solve for.
    """
    if grid.ndim != 2:
        raise ValueError(f"grid has {grid.ndim} axes; expected 2, such as Grid((85, 85))")
    axes = []
    for k, (x, wall, h, pair) in enumerate(zip(grid.coordinates(), grid.domain, grid.spacing, kinds)):
        if pair[0] == "periodic":
            axes.append(_periodic_axis(len(x), wall, h, grid.centering, "xy"[k]))
        elif grid.centering == "periodic":
            raise ValueError(
                f"grid is periodic and the {'xy'[k]} axis has walls; they need a node or cell grid: "
                "Grid(shape, extent, 'node'), or 'cell' where the other axis is periodic"
            )
        else:
            axes.append(_axis(x, wall, h, grid.centering == "cell", pair))
    return tuple(axes)


def _periodic_axis(points: int, wall: tuple[float, float], h: float, centering: str, name: str) -> Axis:
    if centering == "node":
        raise ValueError(
            f"the {name} axis is periodic and the grid has nodes, the last of which would be the first again: "
            "pass Grid(shape, extent, 'periodic'), or 'cell' where the other axis has walls"
        )
    if abs(wall[1] - wall[0] - points * h) > 1e-9 * h:
        raise ValueError(
            f"the {name} axis is periodic with the period {wall[1] - wall[0]:g}, that of the domain, and its "
            f"{points} points of spacing {h:g} cover {points * h:g}: expected all of it"
        )
    return Axis(slice(0, points), (1, 1), np.full(points + 1, 1.0 / h), np.full(points, h), (h, h), wraps=True)


def _axis(x: np.ndarray, wall: tuple[float, float], h: float, cell: bool, kinds: tuple[str, str]) -> Axis:
    flux = [kind != "dirichlet" for kind in kinds]
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
    return Axis(slice(first, last), (int(not low), int(not high)), inverse, dual, (distance[0], distance[-1]))


def padded(a: Tensor, axes: tuple[Axis, Axis]) -> Tensor:
    """a with the coefficient of the nearest point repeated at every wall point that is not a known one of the grid, and
    that of the far end at either end of an axis that wraps round."""
    x, y = axes
    if not any(x.pads + y.pads):
        return a
    if x.wraps == y.wraps:
        return pad(a, (*y.pads, *x.pads), mode="circular" if x.wraps else "replicate")
    along_x, along_y = (0, 0, *x.pads), (*y.pads, 0, 0)
    a = pad(a, along_x, mode="circular" if x.wraps else "replicate")
    return pad(a, along_y, mode="circular" if y.wraps else "replicate")


def conductances(a: Tensor, axes: tuple[Axis, Axis], exchange: Exchange | None = None) -> tuple[Tensor, Tensor]:
    """(along_y, along_x) of a padded coefficient; every face value lies between its two coefficients."""
    x, y = axes
    a_x, a_y = a[:, 0], a[:, -1]
    along_y = _harmonic(a_y[:, 1:-1, :-1], a_y[:, 1:-1, 1:]) * _outer(x.dual, y.inverse, a)
    along_x = _harmonic(a_x[:, :-1, 1:-1], a_x[:, 1:, 1:-1]) * _outer(x.inverse, y.dual, a)
    for (k, end), conductance in (exchange or {}).items():
        (along_x if k == 0 else along_y.mT)[:, end] += conductance
    return along_y, along_x


def conductances_gradient(a: Tensor, axes: tuple[Axis, Axis], along_y: Tensor, along_x: Tensor) -> Tensor:
    """Σ along · ∂c/∂a of a padded a, by ∂/∂p of 2pq/(p + q) = 2q²/(p + q)²; `exchange` is not part of it."""
    x, y = axes
    gradient = torch.zeros_like(a)
    for component, along, faces in (
        (-1, along_y, (slice(1, -1), slice(None, -1), slice(1, -1), slice(1, None))),
        (0, along_x, (slice(None, -1), slice(1, -1), slice(1, None), slice(1, -1))),
    ):
        p_at, q_at = (slice(None), component, *faces[:2]), (slice(None), component, *faces[2:])
        width = _outer(x.dual, y.inverse, a) if component else _outer(x.inverse, y.dual, a)
        p, q = a[p_at], a[q_at]
        share, both = along * (2.0 * width), p + q
        gradient[p_at].addcmul_(share, (q / both).square_())  # never q², which tiny and huge coefficients leave
        gradient[q_at].addcmul_(share, (p / both).square_())
    return gradient


def wall_conductance(a: Tensor, axes: tuple[Axis, Axis], k: int, end: int) -> Tensor:
    """Of the faces at one end (0 or −1) of axis k, (batch, m of the other axis); a is padded."""
    field = a[:, 0] if k == 0 else a[:, -1].mT
    face = _harmonic(field[:, end, 1:-1], field[:, 1 if end == 0 else -2, 1:-1])
    return face * torch.from_numpy(axes[1 - k].dual * axes[k].inverse[end]).to(a.device)


def damping(a: Tensor, axes: tuple[Axis, Axis], k: int, end: int, transfer: Tensor) -> Tensor:
    """1 / (1 + βδ/a) of a side with A∂u/∂n + βu = g, (batch, m of the other axis): what the way δ from the first
    unknown to the wall leaves of g, and of the conductance β times the width. β is `transfer` on the unknowns."""
    field = a[:, 0] if k == 0 else a[:, -1].mT
    first = field[:, 1 if end == 0 else -2, 1:-1]
    return first / (first + transfer * axes[k].gaps[end])


def source(forcing: Tensor, axes: tuple[Axis, Axis]) -> Tensor:
    """f times the dual area, on the unknowns; f (batch, nx, ny), or (1, 1, 1) where it is a number."""
    x, y = axes
    if forcing.shape[1:] != (1, 1):
        forcing = forcing[:, x.unknown, y.unknown]
    return areas(axes, forcing) * forcing if len(forcing) != 1 else areas(axes, forcing)[None].mul_(forcing)


def areas(axes: tuple[Axis, Axis], like: Tensor) -> Tensor:
    """The dual areas (mx, my)."""
    return _outer(axes[0].dual, axes[1].dual, like)


def apply(along_y: Tensor, along_x: Tensor, u: Tensor, wraps: Wraps = (False, False)) -> Tensor:
    """A u as differences of fluxes: exact on constants, and rounded less than diagonal minus neighbours."""
    flux_y, flux_x = along_y.clone(), along_x.clone()
    flux_y[..., 1:-1] *= torch.diff(u, dim=2)
    flux_x[:, 1:-1] *= torch.diff(u, dim=1)
    for flux, first, last, round_ in (
        (flux_y.mT, u[..., 0], u[..., -1], wraps[1]),
        (flux_x, u[:, 0], u[:, -1], wraps[0]),
    ):
        flux[:, 0] *= first - last if round_ else first
        flux[:, -1] *= first - last if round_ else -last
    return (flux_y[..., :-1] - flux_y[..., 1:]).add_(flux_x[:, :-1]).sub_(flux_x[:, 1:])


def products(p: Tensor, q: Tensor, wraps: Wraps) -> tuple[Tensor, Tensor]:
    """(along_y, along_x): what ⟨p, A q⟩ takes of every conductance, (p_P − p_Q)(q_P − q_Q); a face that an axis wraps
    round to is counted as the first and not as the last."""
    along = []
    for dim in (2, 1):
        p_, q_ = (p, q) if dim == 1 else (p.mT, q.mT)
        product = p_.new_zeros(p_.shape[0], p_.shape[1] + 1, p_.shape[2])
        torch.mul(p_.diff(dim=1), q_.diff(dim=1), out=product[:, 1:-1])
        if wraps[dim - 1]:
            product[:, 0] = (p_[:, 0] - p_[:, -1]) * (q_[:, 0] - q_[:, -1])
        else:
            product[:, 0], product[:, -1] = p_[:, 0] * q_[:, 0], p_[:, -1] * q_[:, -1]
        along.append(product if dim == 1 else product.mT)
    return tuple(along)


def rounding(along_y: Tensor, along_x: Tensor, u: Tensor, wraps: Wraps = (False, False)) -> Tensor:
    """‖|A||u|‖ per sample: times half the machine epsilon, what rounding u alone does to the residual."""
    size = pad(u.abs(), (1, 1, 1, 1))
    if wraps[0]:
        size[:, 0], size[:, -1] = size[:, -2], size[:, 1]
    if wraps[1]:
        size[..., 0], size[..., -1] = size[..., -2], size[..., 1]
    inner = size[:, 1:-1, 1:-1]
    total = along_y[..., 1:] * (inner + size[:, 1:-1, 2:]) + along_y[..., :-1] * (inner + size[:, 1:-1, :-2])
    total = total + along_x[:, 1:] * (inner + size[:, 2:, 1:-1]) + along_x[:, :-1] * (inner + size[:, :-2, 1:-1])
    return total.flatten(1).norm(dim=1)


def _harmonic(p: Tensor, q: Tensor) -> Tensor:
    return 2.0 * p * (q / (p + q))


def _outer(p: np.ndarray, q: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(np.multiply.outer(p, q)).to(like.device)
