"""Which symmetries of the square a problem has, and what each of them does to its channels: `Symmetry`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.grids import Grid
from sciops.symmetry.channels import NotSymmetricError, action, check_kind
from sciops.symmetry.elements import Element, elements_of

_AXES = "xyz"


@dataclass(frozen=True)
class Symmetry:
    """The symmetries that a problem has in common with its box: exchanges and mirror images of the axes.

    An element g is a symmetry where the solution of moved inputs is the moved solution, F(g a) = g F(a). That needs a
    grid that g maps onto itself, known channels, walls that g maps onto walls of the same kind and value, and nothing
    else that prefers a direction. It states the problem: the equation itself is taken to have no preferred direction
    beyond what is given here.

    Parameters
    ----------
    inputs, outputs : what each channel of x and of y is (`sciops.symmetry.channels.check_kind`): "scalar",
        "pseudoscalar" (vorticity in two dimensions), "fixed" (positions of the points), or a component of a vector or
        tensor, "velocity:x", "K:xx"; "unknown:name" allows nothing but the identity
    walls : axis → what is given at its low and its high end, compared (numbers to rounding), such as
        {"x": ("u = 1", "u = 0"), "y": ("no flux", "no flux")}. An entry may be (text, values along the side). Axes
        that are not named are alike
    vectors : name → constants of the equation that have a direction and are not channels, such as
        {"gravity": (0, −1)}: an element must keep them
    broken : element, as text → why it is not a symmetry, beyond what the rest says
    unknown : why nothing is known, so that no element but the identity is allowed; "" where that is not so

    Raises ValueError for kinds that are not of this list, repeated components, and walls or vectors of a wrong form.

    >>> Symmetry(("scalar",), ("scalar",), {"x": ("u = 1", "u = 0")}).elements(Grid((5, 5)), "allowed")[1:]
    (Element(axes=(0, 1), mirrored=(False, True)),)
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    walls: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    vectors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    unknown: str = ""

    def __post_init__(self) -> None:
        for side in ("inputs", "outputs"):
            kinds = getattr(self, side)
            if isinstance(kinds, str):
                raise ValueError(f"{side}={kinds!r}: expected one kind for each channel, such as ({kinds!r},)")
            for kind in kinds:
                check_kind(kind)
            components = [kind for kind in kinds if ":" in kind and not kind.startswith("unknown:")]
            if len(set(components)) < len(components):
                raise ValueError(f"{side}={tuple(kinds)!r} repeat a component: give each vector a name of its own")
            object.__setattr__(self, side, tuple(kinds))
        walls = {axis: tuple(map(_plain, ends)) for axis, ends in self.walls.items()}
        if set(walls) - set(_AXES) or any(len(ends) != 2 for ends in walls.values()):
            raise ValueError(f"walls={dict(self.walls)!r}: expected axis → (low end, high end), the axes being x, y, z")
        object.__setattr__(self, "walls", walls)
        vectors = {name: tuple(map(float, vector)) for name, vector in self.vectors.items()}
        object.__setattr__(self, "vectors", vectors)
        object.__setattr__(self, "broken", dict(self.broken))

    @classmethod
    def of_scalars(cls, inputs: int = 1, outputs: int = 1) -> Symmetry:
        """The problem whose channels are scalars and that has every symmetry of its grid, such as Darcy flow between
        walls u = 0 with a constant source."""
        return cls(("scalar",) * inputs, ("scalar",) * outputs)

    def reason(self, element: Element, grid: Grid) -> str | None:
        """Why `element` is not a symmetry of the problem on this grid; None where it is."""
        if element.is_identity:
            return None
        if self.unknown:
            return self.unknown
        unfit = element.unfit(grid) or self.broken.get(str(element)) or self._walls_differ(element)
        if unfit:
            return unfit
        for name, vector in self.vectors.items():
            if len(vector) != grid.ndim:
                return f"{name} = {vector} has {len(vector)} components, the grid {grid.ndim} axes"
            image = [sign * vector[axis] for axis, sign in zip(element.axes, element.signs)]
            if not np.allclose(image, vector, rtol=1e-9, atol=0.0):
                return f"{name} = {_vector(vector)} would be {_vector(image)}"
        try:
            for kinds in (self.inputs, self.outputs):
                action(kinds, element)
        except NotSymmetricError as error:
            return str(error)
        return None

    def elements(self, grid: Grid, group: str = "allowed", *, name: str = "group") -> tuple[Element, ...]:
        """The elements of the group on this grid, the identity first.

        group : "transpose", the exchange of the axes; "square", all exchanges and mirror images; "allowed", those of
            the square that the problem has, at least one beside the identity
        name : of the option that errors speak of

        Raises ValueError naming the first element that the problem does not have, and why.
        """
        members = elements_of(group, grid.ndim)
        reasons = {element: self.reason(element, grid) for element in members}
        kept = tuple(element for element in members if reasons[element] is None)
        if group == "allowed" and len(kept) > 1:
            return kept
        for element, reason in reasons.items():
            if reason is not None:
                raise ValueError(
                    f"{name}={group!r}: {element} is not a symmetry here, {reason}; {self._rest(grid, name)}"
                )
        return kept

    def move(self, fields: Tensor, element: Element, grid: Grid, side: str = "inputs") -> Tensor:
        """g applied to fields (batch, channel, *grid): every channel moved, exchanged and signed.

        side : "inputs" or "outputs", whose kinds the channels have

        Raises ValueError where the number of channels is not that of the kinds.
        """
        kinds = getattr(self, side)
        if element.is_identity:
            return fields
        if fields.shape[1] != len(kinds):
            raise ValueError(
                f"the fields have {fields.shape[1]} channels, the symmetry states {len(kinds)} {side}: {kinds}"
            )
        found = action(kinds, element)
        moved = element.move(fields, grid)
        if any(source != c for c, (source, _) in enumerate(found)):
            moved = moved[:, [source for source, _ in found]]
        if any(sign < 0 for _, sign in found):
            signs = torch.tensor([sign for _, sign in found], dtype=moved.dtype, device=moved.device)
            moved = moved * signs.view(-1, *(1,) * grid.ndim)
        fixed = [c for c, kind in enumerate(kinds) if kind == "fixed"]
        if fixed:
            moved = moved.clone()
            moved[:, fixed] = fields[:, fixed]
        return moved

    def kept_by(self, fields: Any, kinds: tuple[str, ...], grid: Grid, name: str) -> Symmetry:
        """This symmetry without the elements that change given fields, such as a forcing that is not a channel.

        fields : (samples, len(kinds), *grid); name : what they are, for the reason
        """
        given = torch.as_tensor(fields)
        own, broken = Symmetry(kinds, ()), dict(self.broken)
        for element in elements_of("allowed", grid.ndim):
            if element.is_identity or element.unfit(grid):
                continue
            try:
                change = (own.move(given, element, grid) - given).abs().max()
                kept = bool(change <= 1e-6 * given.abs().max())
            except NotSymmetricError:
                kept = False
            if not kept:
                broken.setdefault(str(element), f"it changes {name}, which is not among the inputs")
        return replace(self, broken=broken)

    def joined(self, other: Symmetry) -> Symmetry:
        """The symmetries that both have."""
        if (self.inputs, self.outputs) != (other.inputs, other.outputs):
            return replace(self, unknown=f"the channels differ: {self.inputs} and {other.inputs}")
        if (self.walls, self.vectors) != (other.walls, other.vectors):
            return replace(self, unknown="walls or constants with a direction differ between the parts of the data")
        return replace(self, broken={**self.broken, **other.broken}, unknown=self.unknown or other.unknown)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and strings for JSON; ``Symmetry(**values)`` reads it back."""
        return asdict(self)

    def _walls_differ(self, element: Element) -> str | None:
        for k, (axis, mirror) in enumerate(zip(element.axes, element.mirrored)):
            there, here = (self.walls.get(_AXES[a], (None, None)) for a in (axis, k))
            there = there[::-1] if mirror else there
            # values along a side run backwards where the axis along it does
            backwards = len(element.axes) == 2 and element.mirrored[1 - k]
            for end, (moved, own) in enumerate(zip(there, here)):
                moved = _reversed(moved) if backwards else moved
                if not _same(moved, own):
                    low = end if not mirror else 1 - end
                    return (
                        f"the {('low', 'high')[low]} {_AXES[axis]} side ({_said(moved)}) would be the "
                        f"{('low', 'high')[end]} {_AXES[k]} side ({_said(own)})"
                    )
        return None

    def _rest(self, grid: Grid, name: str) -> str:
        kept = [e for e in elements_of("allowed", grid.ndim) if self.reason(e, grid) is None][1:]
        if not kept:
            return "it has none but the identity" + (
                f": leave {name} out" if name == "group" else f": pass {name}='none'"
            )
        if grid.ndim == 2 and all(e.mirrored == (False, False) for e in kept):
            return f"pass {name}='transpose'"
        return f"pass {name}='allowed' for what it has: {', '.join(map(str, kept))}"


def _plain(entry: Any) -> Any:
    """Lists as tuples, so that what came from JSON compares equal."""
    return tuple(map(_plain, entry)) if isinstance(entry, (list, tuple)) else entry


def _same(one: Any, other: Any) -> bool:
    """Whether two descriptions of a side say the same, numbers to rounding."""
    if _are_numbers(one) and _are_numbers(other):
        one, other = np.atleast_1d(one), np.atleast_1d(other)
        return one.shape == other.shape and bool(
            (abs(one - other) <= 1e-9 * max(abs(one).max(), abs(other).max())).all()
        )
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def _are_numbers(entry: Any) -> bool:
    values = entry if isinstance(entry, tuple) else (entry,)
    return bool(values) and all(isinstance(value, (int, float)) for value in values)


def _reversed(entry: Any) -> Any:
    """Values along a side in reverse order: every tuple of numbers in a wall's description."""
    if not isinstance(entry, tuple):
        return entry
    if _are_numbers(entry):
        return entry[::-1]
    return tuple(map(_reversed, entry))


def _said(entry: Any) -> str:
    if isinstance(entry, tuple) and not _are_numbers(entry):
        named = len(entry) == 2 and isinstance(entry[0], str) and _are_numbers(entry[1])
        return (" " if named else ", ").join(map(_said, entry))
    if isinstance(entry, tuple) and len(entry) > 3:
        return f"{entry[0]:g} … {entry[-1]:g}"
    if isinstance(entry, float):
        return f"{entry:g}"
    text = "nothing stated" if entry is None else str(entry)
    return text if len(text) < 60 else text[:57] + "…"


def _vector(values: Any) -> str:
    return "(" + ", ".join(f"{value:g}" for value in values) + ")"
