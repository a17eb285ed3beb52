"""The native file as one of the layouts; `sciops.datasets.native` says what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import at_resolution
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared.reader import Reader, Resolution
from sciops.datasets.native import write_native
from sciops.datasets.native.files import read_group
from sciops.datasets.native.opening import open_store
from sciops.datasets.native.store import Store
from sciops.files.messages import shown
from sciops.files.untrusted import parse_json

if TYPE_CHECKING:
    import xarray as xr

# what the attributes hold as JSON: tables by name, or lists of text
_TABLES = ("grid", "parameters", "boundary", "splits", "config", "walls", "versions")
_LISTS = ("state", "notes")


def matches(probe: Probe) -> bool:
    """Whether the file is HDF5 or a Zarr store with our schema number."""
    return probe.kind in ("hdf5", "zarr") and "sciops_schema" in probe.attrs


def read(probe: Probe) -> xr.Dataset:
    """The finest group."""
    return read_at(probe, None)


def read_at(probe: Probe, resolution: Resolution) -> xr.Dataset:
    """The group of this resolution; a resolution that is not stored is taken from the finest group that nests it.

    Raises ValueError where an attribute that everything else relies on is not what it should be, and what
    `read_native` raises.
    """
    store = _store(probe)
    try:
        probe.arrays  # noqa: B018  sizes are compared with what is stored
        return _checked(probe, _group(store, resolution))
    except BaseException:
        store.close()
        raise


def _store(probe: Probe) -> Store:
    """The open file, which the data sets of all its resolutions share."""
    if probe.store is None:
        probe.store = open_store(probe.path)
    return probe.store


def _checked(probe: Probe, dataset: xr.Dataset) -> xr.Dataset:
    """The data set, if its attributes are what everything else relies on."""
    for holder in (dataset, *dataset.variables.values()):
        for name, value in holder.attrs.items():
            if np.asarray(value).dtype.kind == "V":  # bytes of no known meaning compare with nothing
                holder.attrs[name] = shown(repr(value), 100)
    for name in (*_TABLES, *_LISTS):
        if name in dataset.attrs and not _is_sound(dataset.attrs[name], listed=name in _LISTS):
            wanted = "a JSON list of texts" if name in _LISTS else "a JSON object"
            raise ValueError(
                f"{probe.path}: attribute {name} is {shown(repr(dataset.attrs[name]), 100)}, and {wanted} is expected; "
                "write the file again"
            )
    if "sample" not in dataset.sizes or not dataset.data_vars:
        held = shown(", ".join(map(str, dataset.sizes)), 100) or "none"
        raise ValueError(f"{probe.path}: a native file without samples (dimensions: {held}); write it again")
    forcing = np.asarray(dataset.attrs.get("forcing", 1.0))
    kinds = "biuf" if dataset.attrs.get("equation") == "darcy" else "biufU"  # flows name theirs
    if forcing.shape or forcing.dtype.kind not in kinds:
        raise ValueError(f"{probe.path}: attribute forcing is {shown(repr(forcing), 100)}, and one number is expected")
    return dataset


def _is_sound(text: Any, *, listed: bool) -> bool:
    try:
        value = parse_json(text)
    except (TypeError, ValueError):
        return False
    if listed:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, dict)


def resolutions(probe: Probe) -> tuple[tuple[int, ...], ...]:
    """The shapes of the grids that the file stores, finest first."""
    return tuple(_store(probe).shapes.values())


def _group(store: Store, resolution: Resolution) -> xr.Dataset:
    stored = tuple(store.shapes.values())
    wanted = (resolution,) * len(stored[0]) if isinstance(resolution, int) else resolution
    if wanted is None or tuple(wanted) in stored:
        return read_group(store, wanted)
    try:
        return at_resolution(read_group(store), tuple(wanted))
    except ValueError as error:
        have = ", ".join("×".join(map(str, shape)) for shape in stored)
        raise ValueError(f"{store.path} stores {have}; {error}") from None


def write(groups: list[xr.Dataset], path: Path) -> None:
    """One group per data set, with all that they hold."""
    write_native(path, groups, overwrite=True)  # `convert` has asked


READER = Reader(
    "native",
    "HDF5 or Zarr v3 with the root attribute sciops_schema and groups such as /r85",
    matches,
    read,
    named=True,
    read_at=read_at,
    resolutions=resolutions,
)
WRITERS = {"native": write}
