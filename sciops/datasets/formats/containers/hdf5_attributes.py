"""What the attributes of an HDF5 array say of its axes and its numbers."""

from __future__ import annotations

from typing import Any

from sciops.datasets.formats.containers.numpy_files import Unsafe
from sciops.datasets.formats.containers.packing import ATTRIBUTES, Packing, packing_of
from sciops.files.messages import shown


def hdf5_dimensions(item: Any) -> tuple[str, ...]:
    """The name of each axis of an HDF5 array, by the dimension attached to it or its label; () where none has one."""
    import h5py

    if not any(h5py.h5a.exists(item.id, name) for name in (b"DIMENSION_LIST", b"DIMENSION_LABELS")):
        return ()
    try:
        names = tuple((axis[0].name or "").rsplit("/", 1)[-1] if len(axis) else axis.label for axis in item.dims)
    except (RuntimeError, KeyError, ValueError, TypeError, OSError):  # damaged references name nothing
        return ()
    return names if any(names) else ()


def hdf5_packing(item: Any) -> Packing | None:
    """How the numbers of an HDF5 array are packed; None where they are stored as they are."""
    import h5py

    if not h5py.h5a.get_num_attrs(item.id):  # one question where most arrays have no attribute
        return None
    stated = {name: item.attrs[name] for name in ATTRIBUTES if h5py.h5a.exists(item.id, name.encode())}
    try:
        return packing_of(stated, item.dtype) if stated else None
    except ValueError as error:
        raise Unsafe(f"holds {item.name}, whose {error}") from None


def missing_filter(item: Any) -> str | None:
    """The first filter of an array's chunks, by number and name, that the library can neither run nor load."""
    import h5py

    created = item.id.get_create_plist()
    for number, _, _, name in (created.get_filter(i) for i in range(created.get_nfilters())):
        if not h5py.h5z.filter_avail(number):
            return f"{number} ({shown(name.decode('utf-8', 'replace'), 40) or 'without a name'})"
    return None
