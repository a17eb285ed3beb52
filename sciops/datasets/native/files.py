"""The native file: HDF5 that is valid netCDF4, one group per resolution, opened by plain ``xarray.open_dataset``.

::

    /                 sciops_schema, equation, config (JSON), solver, versions (JSON), splits (JSON), created
    /r421, /r64x96    a(sample, x, y), u(sample, x, y), x(x), y(y) with centering, extent and domain,
                      seed(sample), residual(sample), iterations(sample), status(sample), split(sample)
    /r1024            u(sample, time, x), time(time), … for a field that evolves

Fields are stored in their physical units with a checksum, one chunk per sample or, where that is more than a megabyte,
one per few times of a sample; nothing is normalised.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.arrays.kinds import refuse_complex
from sciops.datasets.blocks import pieces
from sciops.datasets.conventions import SPACE
from sciops.datasets.native.attributes import restore
from sciops.datasets.native.hdf5.store import open_hdf5
from sciops.datasets.native.layout import create_group, group_name, set_attributes, stored_bytes
from sciops.datasets.native.opening import open_store
from sciops.datasets.native.schema import SCHEMA
from sciops.datasets.native.store import Store
from sciops.datasets.order import in_order
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import replacing
from sciops.files.writable import writable_file

if TYPE_CHECKING:
    import xarray

__all__ = ["content_hash", "group_name", "read_native", "resolutions", "write_native"]

_ROOT = ("equation", "config", "solver", "versions", "splits", "created")


def write_native(
    path: str | os.PathLike[str],
    groups: xarray.Dataset | Iterable[xarray.Dataset] | Mapping[str, xarray.Dataset],
    *,
    attrs: Mapping[str, Any] | None = None,
    compression: int | None = None,
    overwrite: bool = False,
) -> Path:
    """Writes data sets as one native file, one group for each resolution, in an atomic write.

    Parameters
    ----------
    path : str or path-like
        The file; a name that ends in .zarr becomes a Zarr v3 store with the same names and attributes.
    groups : xarray.Dataset, iterable or mapping of them
        As `read_native` and `open_dataset` return them: dimensions (sample, x, y), coordinates with centering. The
        dimensions may come in any order; they are stored as (sample, time, any others, x, y, z). The keys of a mapping
        name the groups, otherwise `group_name` of the shape does. Lazy datasets are copied in blocks.
    attrs : mapping, optional
        Root attributes; dicts and lists become JSON. ``equation``, ``config``, ``solver``, ``versions``, ``splits`` and
        ``created`` are taken from the data sets unless they are given here.
    compression : int, optional
        Level 1–9, gzip with byte shuffle in HDF5 and zstd in Zarr; default none.
    overwrite : bool
        Whether an existing file, or native Zarr store, may be replaced.

    Returns
    -------
    Path
        The path.

    Raises
    ------
    ValueError
        When there is nothing to write, two groups have one name, or a field is complex.
    TypeError
        For data that are not numbers.
    FileExistsError
        When the path exists, unless `overwrite`.
    OSError
        When the disk is full; no file is left then.
    """
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(f"{path} is there already: remove it, or pass overwrite=True")
    writable_file(path, store=Path(path).suffix == ".zarr")
    datasets = _named(groups)
    root: dict[str, Any] = {"sciops_schema": SCHEMA, "layout": "native", "Conventions": "CF-1.11"}
    for dataset in datasets.values():
        root |= {key: dataset.attrs[key] for key in _ROOT if key in dataset.attrs}
    root |= dict(attrs or {})
    root.setdefault("created", now())
    owns = {}
    for name, dataset in datasets.items():
        owns[name] = {key: value for key, value in dataset.attrs.items() if key not in root} | {"layout": "native"}
        if "equation" in root:
            owns[name]["equation"] = root["equation"]
    if Path(path).suffix == ".zarr":
        from sciops.datasets.native.zarr.files import write_store

        named = {name: dataset.assign_attrs() for name, dataset in datasets.items()}
        for name, dataset in named.items():
            dataset.attrs = owns[name]
        write_store(Path(path), root, named, compression=compression)
        return Path(path)
    import h5netcdf

    shapes = [(v.dims, v.shape, v.dtype) for dataset in datasets.values() for v in dataset.variables.values()]
    size = 0 if compression is not None else stored_bytes(shapes)
    with replacing(path, size=size) as temporary, h5netcdf.File(temporary, "w") as file:
        set_attributes(file, root)
        for name, dataset in datasets.items():
            variables = {key: (v.dims, v.dtype, v.attrs) for key, v in dataset.variables.items()}
            group = create_group(file, name, dataset.sizes, variables, attrs=owns[name], compression=compression)
            for key, variable in dataset.variables.items():
                for block in pieces(variable.shape, variable.dtype.itemsize):
                    group.variables[key][block] = _numbers(variable[block].values)
    return Path(path)


def read_native(path: str | os.PathLike[str], resolution: int | Sequence[int] | None = None) -> xarray.Dataset:
    """Opens one resolution of a native file as a lazy dataset.

    Parameters
    ----------
    path : str or path-like
        The file or Zarr store.
    resolution : int or sequence of int, optional
        85 for 85 points on every axis, (64, 96) for another grid; default the finest.

    Returns
    -------
    xarray.Dataset
        The group, its attributes joined with those of the root. ``.load()`` reads it into memory, ``.close()`` closes
        the file.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    ValueError
        For a file that is not native, and for a missing resolution: the error names the available ones.
    OSError
        For a truncated or damaged file.
    """
    store = open_store(path)
    try:
        return read_group(store, resolution)
    except BaseException:
        store.close()
        raise


def read_group(store: Store, resolution: int | Sequence[int] | None = None) -> xarray.Dataset:
    """`read_native` of an open store, which closing the dataset closes; the next read opens it again."""
    from sciops.datasets.native.lazy import dataset_of

    name = next(iter(store.shapes)) if resolution is None else _stored_name(store, resolution)
    dataset = dataset_of(store, name)
    restore(dataset)
    dataset.attrs = {**store.attrs, **dataset.attrs}  # in place: a copy would not close the file
    return dataset


def _stored_name(store: Store, resolution: int | Sequence[int]) -> str:
    for name, shape in store.shapes.items():
        wanted = (resolution,) * len(shape) if isinstance(resolution, (int, np.integer)) else tuple(resolution)
        if wanted == shape:
            return name
    have = ", ".join(name[1:] for name in store.shapes)
    raise ValueError(f"{store.path}: no resolution {group_name(resolution)[1:]}; it holds {have}")


def resolutions(path: str | os.PathLike[str]) -> tuple[tuple[int, ...], ...]:
    """The grid shapes a native file holds, finest first; errors as in `read_native`."""
    with contextlib.closing(open_store(path)) as store:
        return tuple(store.shapes.values())


def content_hash(path: str | os.PathLike[str]) -> str:
    """sha256 (hexadecimal) of what a file holds, to be kept beside results computed from it.

    Native file: over the names, types, shapes and bytes of every variable of every group, in sorted order. Attributes
    such as the date do not count, nor do compression and chunks: two generations of one config have one hash. Any
    other file: over its bytes.

    Raises FileNotFoundError, and OSError when the file is truncated or damaged.
    """
    path = Path(path)
    digest = hashlib.sha256()
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if path.is_file() and not _is_native(path):
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    with contextlib.closing(open_store(path)) as store:
        for group in store.groups():
            for name, about in sorted(store.arrays(group, strict=True)[1].items()):
                little = about.dtype.newbyteorder("<")
                digest.update(f"{group}/{name} {little.str} {about.shape}\n".encode())
                for block in pieces(about.shape, about.dtype.itemsize):
                    whole = (*block, *(slice(None),) * (len(about.shape) - len(block)))
                    digest.update(np.ascontiguousarray(store.read(f"{group}/{name}", whole), dtype=little))
    return digest.hexdigest()


def _is_native(path: Path) -> bool:
    import h5py

    if not h5py.is_hdf5(path):
        return False
    with open_hdf5(path) as file:
        return "sciops_schema" in file.attrs


def now() -> str:
    """This moment in UTC, ISO 8601 to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _named(groups: Any) -> dict[str, xarray.Dataset]:
    import xarray

    if isinstance(groups, xarray.Dataset):
        groups = [groups]
    if isinstance(groups, Mapping):
        pairs = list(groups.items())
    else:
        pairs = []
        for dataset in groups:
            if "grid" in dataset.attrs:
                shape = parse_json(dataset.attrs["grid"])["shape"]
            else:
                shape = [dataset.sizes[axis] for axis in SPACE if axis in dataset.sizes]
            pairs.append((group_name(shape), dataset))
    names = [name for name, _ in pairs]
    if not pairs or len(set(names)) < len(names):
        raise ValueError(f"groups {names}: expected one dataset or more, each of another resolution")
    for _, dataset in pairs:
        for name, variable in dataset.variables.items():
            refuse_complex(variable, str(name))
    return {name: in_order(dataset) for name, dataset in pairs}


def _numbers(values: np.ndarray) -> np.ndarray:
    return values.astype(np.int8) if values.dtype.kind == "b" else values
