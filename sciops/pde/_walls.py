"""What stands on the four sides of a rectangle: a given value (Dirichlet) or a given flux (Neumann).

A side is (axis, end), end 0 low and −1 high. Values and fluxes are numbers, or arrays over the grid's points along the
side, the same for every sample or (batch, n).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from sciops._arrays import as_tensor
from sciops.grids import Grid
from sciops.pde import _five_point as scheme

Kind = Literal["dirichlet", "neumann"]
Boundary = Kind | Sequence[Any] | Mapping[str, Any]
Side = tuple[int, int]

KINDS = ("dirichlet", "neumann")
SIDES: tuple[Side, ...] = ((0, 0), (0, -1), (1, 0), (1, -1))
_ROUND_OFF = 1e-10  # share of ∫|f| + ∮|g| that counts as balanced


@dataclass(frozen=True)
class Walls:
    """The kind of every side, the data (1 or batch, n) of those where it is not zero, and the `level` (1 or batch,)
    that is subtracted from u while it is solved for, midway between the least and the largest given value."""

    kinds: scheme.Kinds
    data: dict[Side, Tensor]
    level: Tensor | None


def walls_of(boundary: Boundary, values: Any, flux: Any, grid: Grid, batch: int, device: torch.device) -> Walls:
    """Raises ValueError for words, shapes and sides that do not fit, and numbers that are not finite."""
    kinds = kinds_of(boundary)
    data = {
        side: tensor
        for name, given in (("values", values), ("flux", flux))
        for side, tensor in _data(name, given, kinds, grid, batch, device).items()
    }
    dirichlet = [data[side] for side in SIDES if _kind(kinds, side) == "dirichlet" and side in data]
    if not dirichlet:
        return Walls(kinds, data, None)
    low = torch.stack(torch.broadcast_tensors(*(side.amin(1) for side in dirichlet))).amin(0)
    high = torch.stack(torch.broadcast_tensors(*(side.amax(1) for side in dirichlet))).amax(0)
    return Walls(kinds, data, 0.5 * low + 0.5 * high)


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
    if len(pairs) != 2 or any(len(pair) != 2 or not set(pair) <= set(KINDS) for pair in pairs):
        hint = "; periodic axes have no walls, use sciops.pde.poisson for them" if "periodic" in str(boundary) else ""
        raise ValueError(
            f"boundary={boundary!r}: expected 'dirichlet' or 'neumann', such as 'neumann' or "
            f"{{'x': ('dirichlet', 'neumann'), 'y': 'neumann'}}{hint}"
        )
    return pairs


def right_side(b: Tensor, a: Tensor, axes: tuple[scheme.Axis, scheme.Axis], walls: Walls) -> Tensor:
    """b with what comes through the walls: the given fluxes, and c (v − level) from the given values; a is padded."""
    if not walls.data:
        return b
    b = b.expand(len(a), -1, -1).clone()
    for (k, end), data in walls.data.items():
        along = axes[1 - k]
        data = data[:, along.unknown]
        if walls.kinds[k][end] == "neumann":
            term = data * torch.from_numpy(along.dual).to(b.device)
        else:
            term = scheme.wall_conductance(a, axes, k, end) * (data - walls.level[:, None])
        (b if k == 0 else b.mT)[:, end] += term
    return b


def balanced(b: Tensor, axes: tuple[scheme.Axis, scheme.Axis], mean: str, single: bool) -> Tensor:
    """b with Σb = 0: less than round-off is taken off, more only where told to "project" f to mean zero."""
    total, size = b.sum((1, 2)), b.abs().sum((1, 2))
    if mean == "refuse":
        bad = torch.nonzero(total.abs() > _ROUND_OFF * size).flatten()
        if len(bad):
            i = int(bad[0])
            where = "" if single else f"sample {i}: "
            raise ValueError(
                f"{where}∫f + ∮flux = {total[i]:.6g} (of ∫|f| + ∮|flux| = {size[i]:.3g}), where neumann walls all "
                "round need 0: balance forcing and flux, or pass mean='project' to solve for f less a constant"
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
    kind = KINDS[0] if name == "values" else KINDS[1]
    mine = [side for side in SIDES if _kind(kinds, side) == kind]
    if isinstance(given, Mapping):
        if not set(given) <= {"x", "y"}:
            raise ValueError(f"{name} has the keys {sorted(map(str, given))}; expected 'x' and 'y'")
        entries = {}
        for k, axis in enumerate("xy"):
            entry = given.get(axis, 0.0)
            if not isinstance(entry, (tuple, list)):  # for the ends that take it; for none, to be refused below
                entry = [entry if word == kind or kind not in kinds[k] else 0.0 for word in kinds[k]]
            if len(entry) != 2:
                raise ValueError(
                    f"{name}[{axis!r}] has {len(entry)} entries; expected one for both ends or (low, high)"
                )
            entries[k, 0], entries[k, -1] = entry
    else:
        entries = {side: given for side in mine} or {side: given for side in SIDES}
    result = {}
    for side, entry in entries.items():
        axis, end = "xy"[side[0]], ("low", "high")[side[1]]
        data = _side(entry, f"{name} on the {end} {axis} side", grid.shape[1 - side[0]], batch, device)
        if side in mine:
            result[side] = data
        elif data.any():
            other = "flux" if name == "values" else "values"
            raise ValueError(
                f"{name} on the {end} {axis} side is not zero, but that side is {_kind(kinds, side)!r}: "
                f"pass it as {other}, or boundary {kind!r} there"
            )
    return result if any(data.any() for data in result.values()) else {}


def _side(entry: Any, name: str, points: int, batch: int, device: torch.device) -> Tensor:
    tensor, _ = as_tensor(entry, name)
    tensor = tensor.detach().to(device, torch.float64)
    if tuple(tensor.shape) not in ((), (points,), (1, points), (batch, points)):
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; expected a number, ({points},) or ({batch}, {points})"
        )
    if not torch.isfinite(tensor).all():
        raise ValueError(f"{name} holds NaN or infinity; expected finite numbers")
    return tensor.expand(points)[None] if tensor.ndim < 2 else tensor
