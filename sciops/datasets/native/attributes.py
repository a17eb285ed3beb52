"""Attributes of a variable that other programs act on: in a native file they have names that nobody does.

By the CF conventions ``scale_factor`` in a file means that its numbers are packed, ``missing_value`` that some of them
are none, and every reader, xarray included, changes the numbers accordingly. A native file holds the numbers of its
data set as they are, so that such an attribute of the data set is kept as ``stated_scale_factor``, and comes back under
its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

_KEPT = "stated_"
_ACTED_ON = frozenset(
    ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "valid_min", "valid_max", "valid_range")
    + ("coordinates", "dtype")  # which say what is a coordinate, and what is a bool
)


def to_store(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes under the names that they have in a native file."""
    return {f"{_KEPT}{name}" if name in _ACTED_ON else name: value for name, value in attrs.items()}


def restore(dataset: xr.Dataset) -> None:
    """Gives the attributes of all variables the names that `to_store` took from them."""
    for variable in dataset.variables.values():
        variable.attrs = {
            name.removeprefix(_KEPT) if name.removeprefix(_KEPT) in _ACTED_ON else name: value
            for name, value in variable.attrs.items()
        }
