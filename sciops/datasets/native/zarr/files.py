"""Native stores in Zarr v3, written whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.native.schema import check_schema
from sciops.datasets.native.zarr.layout import ZarrSpec, array_files, group_json, spec_of
from sciops.datasets.native.zarr.store import NOT_NATIVE, store_attributes
from sciops.files.whole_files import hidden, remove_abandoned, replacing, synchronize

if TYPE_CHECKING:
    import xarray

_SHARD_BYTES = 32 << 20


def write_store(
    path: Path, root: Mapping[str, Any], datasets: Mapping[str, xarray.Dataset], *, compression: int | None = None
) -> None:
    """A store with one group per dataset, there under its name only when whole; a native store there is replaced.

    compression : level of zstd; None stores the numbers as they are

    Raises FileExistsError when something else has the name, and what `replacing` raises.
    """
    if path.exists():
        try:
            check_schema(path, store_attributes(path), NOT_NATIVE)
        except (ValueError, OSError):
            raise FileExistsError(f"{path} is there and is not a native store; remove it or name another") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path)
    temporary = hidden(path, "tmp")
    temporary.mkdir()  # fails where anything has that name
    try:
        for name, dataset in datasets.items():
            sizes = [v.nbytes // v.shape[0] for v in dataset.variables.values() if v.dims[:1] == ("sample",) and v.size]
            shard = max(1, min(_SHARD_BYTES // max(1, *sizes, 1), max(1, dataset.sizes.get("sample", 1))))
            for key, variable in dataset.variables.items():
                held_whole = variable.dims == (key,) or key == "split"
                spec = spec_of(
                    variable.dims,
                    variable.shape,
                    variable.dtype,
                    variable.attrs,
                    shard=None if held_whole else shard,
                    level=compression,
                )
                _write_array(temporary / name / key, spec, variable)
            write_file(temporary / name / "zarr.json", group_json(dataset.attrs, temporary / name))
        write_file(temporary / "zarr.json", group_json(root, temporary))
        publish(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_file(path: Path, data: bytes, *, last: bool = True, alone: bool = True) -> None:
    """A file that is there only when whole; `last` and `alone` as in `replacing`."""
    with replacing(path, last=last, alone=alone) as temporary:
        temporary.write_bytes(data)


def publish(store: Path, path: Path) -> None:
    """Gives a whole store its final name, all its files being there for good; one of that name goes away."""
    for folder in (store, *(p for p in store.rglob("*") if p.is_dir())):
        synchronize(folder)
    old = hidden(path, "old")
    if path.exists():
        os.rename(path, old)
    os.rename(store, path)
    synchronize(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def _write_array(folder: Path, spec: ZarrSpec, variable: xarray.Variable) -> None:
    step = spec.shard or 0
    for index in range(-(-spec.shape[0] // step) if step else 1):
        block = variable[index * step : (index + 1) * step] if step else variable
        for name, data in array_files(spec, np.asarray(block.values), first=index).items():
            if name != "zarr.json" or index == 0:
                write_file(folder / name, data, last=False, alone=False)
    if step and not spec.shape[0]:
        write_file(folder / "zarr.json", array_files(spec)["zarr.json"])
