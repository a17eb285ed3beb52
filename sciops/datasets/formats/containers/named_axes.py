"""The names that a file itself gives to the axes of its arrays: NetCDF's dimensions, HDF5's dimension scales."""

from __future__ import annotations

from collections.abc import Sequence

from sciops.arrays.dimensions import LEADING, SPACE, named_order
from sciops.datasets.formats.containers.sniff import Entry, Probe

KNOWN = (*LEADING, *SPACE)


def axes_by_name(entry: Entry, known: Sequence[str] = KNOWN) -> tuple[int, ...]:
    """The stored axes in the order of the names that are `known`; as stored where the file names none of them."""
    return named_order(entry.dims or ("",) * len(entry.shape), known)


def shape_by_name(entry: Entry, known: Sequence[str] = KNOWN) -> tuple[int, ...]:
    """The lengths of `axes_by_name`."""
    return tuple(entry.shape[axis] for axis in axes_by_name(entry, known))


def check_order(probe: Probe) -> None:
    """Raises ValueError where the file names the axes of an array in another order than (sample, time, x, y, z)."""
    for name, entry in probe.arrays.items():
        order = axes_by_name(entry)
        if order != tuple(range(len(order))):
            stated, wanted = (
                ", ".join(entry.dims[axis] or "?" for axis in axes) for axes in (range(len(order)), order)
            )
            raise ValueError(
                f"{probe.path} names the axes of {name} ({stated}), and this layout has them as ({wanted}): write the "
                "file again in that order, such as with xarray's transpose"
            )


def contradicted(entry: Entry, dims: Sequence[str]) -> bool:
    """Whether the file gives an axis the name of another one of `dims`."""
    return any(own in KNOWN and said in KNOWN and own != said for own, said in zip(entry.dims, dims))
