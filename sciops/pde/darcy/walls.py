"""What stands on the four sides of a rectangle: a given value (Dirichlet), a given flux (Neumann), a flux that grows as
the value falls (Robin), or nothing, where an axis wraps round.

A side is (axis, end), end 0 low and −1 high. Values, fluxes and transfer coefficients are numbers, or arrays over the
grid's points along the side, the same for every sample or (batch, n).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.grids import Grid
from sciops.pde.darcy import five_point as scheme
from sciops.pde.darcy.five_point import Side

Kind = Literal["dirichlet", "neumann", "robin", "periodic"]
Boundary = Kind | Sequence[Any] | Mapping[str, Any]

KINDS = ("dirichlet", "neumann", "robin", "periodic")
_TAKERS = {"values": ("dirichlet",), "flux": ("neumann", "robin"), "transfer": ("robin",)}
SIDES: tuple[Side, ...] = ((0, 0), (0, -1), (1, 0), (1, -1))
_ROUND_OFF = 1e-10  # share of ∫|f| + ∮|g| that counts as balanced


@dataclass(frozen=True)
class Walls:
    """The kind of every side, the data (1 or batch, n) of those where it is not zero, the `transfer` coefficients of
    the robin sides, and the `level` (1 or batch,) that is subtracted from u while it is solved for, midway between the
    least and the largest given value."""

    kinds: scheme.Kinds
    data: dict[Side, Tensor]
    transfer: dict[Side, Tensor]
    level: Tensor | None

    @property
    def open(self) -> bool:
        """Whether nothing but a constant of u is left free: no side holds a value, none exchanges."""
        return not {"dirichlet", "robin"} & {kind for pair in self.kinds for kind in pair}


def walls_of(
    boundary: Boundary, values: Any, flux: Any, transfer: Any, grid: Grid, batch: int, device: torch.device
) -> Walls:
    """Raises ValueError for conditions, shapes and sides that do not fit, and numbers that are not finite."""
    kinds = kinds_of(boundary)
    data = {
        side: tensor
        for name, given in (("values", values), ("flux", flux))
        for side, tensor in _data(name, given, kinds, grid, batch, device).items()
    }
    exchange = _data("transfer", transfer, kinds, grid, batch, device)
    for side in (side for side in SIDES if _kind(kinds, side) == "robin"):
        if side not in exchange or not ((exchange[side] >= 0).all() and (exchange[side].amax(1) > 0).all()):
            raise ValueError(
                f"transfer on the {_name(side)} side has to be ≥ 0, and > 0 somewhere in every sample, for "
                "A∂u/∂n + transfer·u = flux: pass transfer, or boundary 'neumann' there"
            )
    # u does not depend on the level
    dirichlet = [data[side].detach() for side in SIDES if _kind(kinds, side) == "dirichlet" and side in data]
    if not dirichlet:
        return Walls(kinds, data, exchange, None)
    low = torch.stack(torch.broadcast_tensors(*(side.amin(1) for side in dirichlet))).amin(0)
    high = torch.stack(torch.broadcast_tensors(*(side.amax(1) for side in dirichlet))).amax(0)
    return Walls(kinds, data, exchange, 0.5 * low + 0.5 * high)


def kinds_of(boundary: Boundary) -> scheme.Kinds:
    """((low x, high x), (low y, high y)) of one word, one for each axis, or {"x": word or pair, "y": word or pair}."""
    if isinstance(boundary, Mapping):
        if not set(boundary) <= {"x", "y"}:
            raise ValueError(f"boundary has the keys {sorted(map(str, boundary))}; expected 'x' and 'y'")
        axes = [boundary.get(name, "dirichlet") for name in "xy"]
    else:
        axes = [boundary] * 2 if isinstance(boundary, str) else boundary
    try:
        pairs = tuple((word, word) if isinstance(word, str) else tuple(word) for word in axes)
    except TypeError:
        pairs = ()
    if len(pairs) != 2 or any(len(pair) != 2 or not all(word in KINDS for word in pair) for pair in pairs):
        raise ValueError(
            f"boundary={boundary!r}: expected 'dirichlet', 'neumann', 'robin' or 'periodic', such as 'neumann' or "
            "{'x': ('dirichlet', 'neumann'), 'y': 'periodic'}"
        )
    for name, pair in zip("xy", pairs):
        if pair.count("periodic") == 1:
            raise ValueError(f"boundary of the {name} axis is {pair}: an axis is periodic at both ends or at neither")
    return pairs


def exchange(a: Tensor, axes: tuple[scheme.Axis, scheme.Axis], walls: Walls) -> dict[Side, Tensor]:
    """The conductances to what lies behind robin sides, (batch, m of the other axis); a is padded."""
    result = {}
    for (k, end), transfer in walls.transfer.items():
        along = axes[1 - k]
        transfer = transfer[:, along.unknown]
        result[k, end] = (
            scheme.damping(a, axes, k, end, transfer) * transfer * torch.from_numpy(along.dual).to(a.device)
        )
    return result


def right_side(
    b: Tensor, a: Tensor, axes: tuple[scheme.Axis, scheme.Axis], walls: Walls, exchange: scheme.Exchange
) -> Tensor:
    """b with what comes through the walls: the given fluxes, and c (v − level) from the given values; a is padded."""
    if not walls.data:
        return b
    b = b.expand(len(a), -1, -1).clone()
    for (k, end), data in walls.data.items():
        along = axes[1 - k]
        data = data[:, along.unknown]
        if walls.kinds[k][end] != "dirichlet":
            term = data * torch.from_numpy(along.dual).to(b.device)
            if (k, end) in exchange:
                term = term * scheme.damping(a, axes, k, end, walls.transfer[k, end][:, along.unknown])
        else:
            term = scheme.wall_conductance(a, axes, k, end) * (data - walls.level[:, None])
        (b if k == 0 else b.mT)[:, end] += term
    if walls.level is not None:
        for (k, end), conductance in exchange.items():
            (b if k == 0 else b.mT)[:, end] -= conductance * walls.level[:, None]
    return b


def balanced(b: Tensor, axes: tuple[scheme.Axis, scheme.Axis], mean: str, single: bool) -> Tensor:
    """b with Σb = 0: a sum below round-off is subtracted, a larger one only where `mean` is "project"."""
    total, size = b.sum((1, 2)), b.abs().sum((1, 2))
    if mean == "refuse":
        bad = torch.nonzero(total.abs() > _ROUND_OFF * size).flatten()
        if len(bad):
            i = int(bad[0])
            where = "" if single else f"sample {i}: "
            raise ValueError(
                f"{where}∫f + ∮flux = {total[i]:.6g} (of ∫|f| + ∮|flux| = {size[i]:.3g}), where boundaries that hold "
                "no value, neumann walls all round or periodic ones, need 0: balance forcing and flux, or pass "
                "mean='project' to solve for f less a constant"
            )
    area = scheme.areas(axes, b)
    return b - area * (total / area.sum())[:, None, None]


def write_values(u: Tensor, axes: tuple[scheme.Axis, scheme.Axis], walls: Walls) -> None:
    """The given values on the wall nodes of u (batch, nx, ny); corners between two of them take the mean."""
    known = [
        side for side in SIDES if side in walls.data and _kind(walls.kinds, side) == "dirichlet" and on_grid(axes, side)
    ]
    for k, end in known:
        (u if k == 0 else u.mT)[:, end] = walls.data[k, end]
    for _, first in (side for side in known if side[0] == 0):
        for _, second in (side for side in known if side[0] == 1):
            u[:, first, second] = 0.5 * (walls.data[0, first][:, second] + walls.data[1, second][:, first])


def on_grid(axes: tuple[scheme.Axis, scheme.Axis], side: Side) -> bool:
    """Whether the side is a row of grid points whose value is given."""
    return not axes[side[0]].pads[side[1]]


def _kind(kinds: scheme.Kinds, side: Side) -> str:
    return kinds[side[0]][side[1]]


def _data(
    name: str, given: Any, kinds: scheme.Kinds, grid: Grid, batch: int, device: torch.device
) -> dict[Side, Tensor]:
    """side → (1 or batch, n) for every side of the kind that `name` belongs to; empty where all is zero."""
    if isinstance(given, (int, float)) and given == 0:
        return {}
    takers = _TAKERS[name]
    mine = [side for side in SIDES if _kind(kinds, side) in takers]
    if isinstance(given, Mapping):
        if not set(given) <= {"x", "y"}:
            raise ValueError(f"{name} has the keys {sorted(map(str, given))}; expected 'x' and 'y'")
        entries = {}
        for k, axis in enumerate("xy"):
            entry = given.get(axis, 0.0)
            if not isinstance(entry, (tuple, list)):  # for the ends that take it; for none, to be refused below
                taken = [word in takers for word in kinds[k]]
                entry = [entry if mine_too or not any(taken) else 0.0 for mine_too in taken]
            if len(entry) != 2:
                raise ValueError(
                    f"{name}[{axis!r}] has {len(entry)} entries; expected one for both ends or (low, high)"
                )
            entries[k, 0], entries[k, -1] = entry
    else:
        entries = {side: given for side in mine} or {side: given for side in SIDES}
    result = {}
    for side, entry in entries.items():
        data = _side(entry, f"{name} on the {_name(side)} side", grid.shape[1 - side[0]], batch, device)
        if side in mine:
            result[side] = data
        elif data.any():
            kind = _kind(kinds, side)
            other = [
                f"pass it as {word}, or " for word in ("values", "flux") if kind in _TAKERS[word] and name != "transfer"
            ]
            raise ValueError(
                f"{name} on the {_name(side)} side is not zero, but that side is {kind!r}: "
                f"{''.join(other)}boundary {takers[0]!r} there"
            )
    return result if any(data.any() for data in result.values()) else {}


def _name(side: Side) -> str:
    return f"{('low', 'high')[side[1]]} {'xy'[side[0]]}"


def _side(entry: Any, name: str, points: int, batch: int, device: torch.device) -> Tensor:
    tensor, _ = as_tensor(entry, name)
    tensor = tensor.to(device, torch.float64)
    if tuple(tensor.shape) not in ((), (points,), (1, points), (batch, points)):
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; expected a number, ({points},) or ({batch}, {points})"
        )
    if not torch.isfinite(tensor).all():
        raise ValueError(f"{name} holds NaN or infinity; expected finite numbers")
    return tensor.expand(points)[None] if tensor.ndim < 2 else tensor
