"""What a symmetry does to each channel: scalars, pseudoscalars, components of vectors and tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sciops.symmetry.elements import Element

_AXES = "xyz"
KINDS = "'scalar', 'pseudoscalar', 'fixed', or a component such as 'velocity:x' and 'K:xy'"


class NotSymmetricError(ValueError):
    """An element that a problem does not have; the message is the reason."""


def check_kind(kind: str) -> None:
    """Raises ValueError unless `kind` is one of those below.

    "scalar" : stays as it is, wherever it is moved to
    "pseudoscalar" : changes its sign with every reflection, as vorticity in two dimensions does
    "name:x", "name:xy" : the component of a vector or tensor called `name`; with "pseudo-" before the name, of a
        pseudovector, as vorticity is in three dimensions. A component "xy" stands for "yx" where that is no channel
    "fixed" : does not move with the fields, as the positions of the points do not
    "unknown:name" : nothing is known, so that no element but the identity is allowed
    """
    name, colon, index = kind.partition(":") if isinstance(kind, str) else ("", "", "")
    if kind in ("scalar", "pseudoscalar", "fixed") or (name == "unknown" and colon):
        return
    if not (name and colon and index) or set(index) - set(_AXES):
        raise ValueError(f"{kind!r} is not the kind of a channel: expected {KINDS}")


def action(kinds: Sequence[str], element: Element) -> tuple[tuple[int, int], ...]:
    """(source, sign) for each channel: channel c of the moved fields is sign · (moved channel `source`).

    Raises NotSymmetricError where a channel is unknown, or becomes a component that is not among the channels.
    """
    if element.is_identity:
        return tuple((c, 1) for c in range(len(kinds)))
    place = {kind: c for c, kind in enumerate(kinds)}
    found = []
    for c, kind in enumerate(kinds):
        name, colon, index = kind.partition(":")
        if name == "unknown":
            raise NotSymmetricError(
                f"it is not known what becomes of channel {index!r}: declare its kind, {index}={KINDS}"
            )
        if not colon:
            found.append((c, element.determinant if kind == "pseudoscalar" else 1))
            continue
        axes = [_AXES.index(letter) for letter in index]
        if max(axes) >= len(element.axes):
            raise NotSymmetricError(f"channel {kind!r} is a component along an axis that the grid does not have")
        source = "".join(_AXES[element.axes[k]] for k in axes)
        partner = place.get(f"{name}:{source}", place.get(f"{name}:{source[::-1]}"))
        if partner is None:
            raise NotSymmetricError(f"channel {kind!r} would be {name}:{source}, which is not among the channels")
        sign = math.prod(element.signs[k] for k in axes)
        found.append((partner, sign * (element.determinant if name.startswith("pseudo-") else 1)))
    return tuple(found)
