"""Native stores in Zarr v3: written whole, read lazily, hashed like the HDF5 file with the same fields."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from sciops._whole_files import hidden, remove_abandoned, replacing, synchronize
from sciops.datasets.blocks import pieces
from sciops.datasets.messages import shown
from sciops.datasets.native.schema import check_schema
from sciops.datasets.native.zarr_layout import ZarrSpec, array_files, group_json, missing_zarr, spec_of
from sciops.datasets.native.zarr_store import NOT_NATIVE, group_names, group_of, store_attributes

if TYPE_CHECKING:
    import xarray

_SHARD_BYTES = 32 << 20


class ZarrArray(BackendArray):
    """An array of a store as xarray's lazy backend array; it can be pickled and forked.

    Raises OSError naming the file when a chunk is damaged, by its checksum or in any other way.
    """

    def __init__(self, path: Path, key: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.path, self.key, self.shape, self.dtype = path, key, shape, dtype
        self._opened: tuple[int, Any] | None = None

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        try:
            return np.asarray(self._array().oindex[key])
        except (MemoryError, PermissionError, ImportError):
            raise
        except Exception as error:
            text = shown(str(error), 120) or type(error).__name__
            raise OSError(
                f"{self.path}: damaged, part of {self.key} cannot be read ({text}); "
                f"`sciops validate {self.path}` names the samples: copy the store again, or generate it again"
            ) from None

    def _array(self) -> Any:
        if self._opened is None or self._opened[0] != os.getpid():
            try:
                import zarr
            except ImportError:
                raise missing_zarr() from None
            # a store of the file system and nothing else: in a path as text "::" and "://" open other places
            store = zarr.storage.LocalStore(self.path, read_only=True)
            from sciops.datasets.native.zarr_inflation import measured

            array = zarr.open_array(store, path=self.key, mode="r", zarr_format=3)
            self._opened = (os.getpid(), measured(array))
        return self._opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def open_group(path: Path, name: str) -> xarray.Dataset:
    """A group of a store as a lazy dataset, in the form that `xarray.open_dataset` gives of the HDF5 group."""
    import xarray

    attrs, arrays = group_of(path, name)
    variables = {}
    for key, stored in arrays.items():
        data: Any = indexing.LazilyIndexedArray(ZarrArray(path, f"{name}/{key}", stored.shape, stored.dtype))
        variables[key] = xarray.Variable(stored.dims, data, stored.attrs)
        if stored.dims == (key,):
            variables[key] = variables[key].load()
    try:
        dataset = xarray.Dataset(variables, attrs=attrs)
    except ValueError as error:
        raise ValueError(f"{path / name}: {' '.join(str(error).split())[:160]}; generate the store again") from None
    return xarray.decode_cf(dataset, decode_times=False)


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
            raise FileExistsError(f"{path} is there and is no native store; remove it or name another") from None
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


def hash_of(path: Path, digest: Any) -> None:
    """Feeds the fields of a store to a hash, as those of an HDF5 file."""
    for group in group_names(path):
        for key, stored in sorted(group_of(path, group)[1].items()):
            array = indexing.LazilyIndexedArray(ZarrArray(path, f"{group}/{key}", stored.shape, stored.dtype))
            digest.update(f"{group}/{key} {stored.dtype.newbyteorder('<').str} {stored.shape}\n".encode())
            for block in pieces(stored.shape, stored.dtype.itemsize):
                whole = (*block, *(slice(None),) * (len(stored.shape) - len(block)))
                values = array[indexing.BasicIndexer(whole)].get_duck_array()
                digest.update(np.ascontiguousarray(values, dtype=stored.dtype.newbyteorder("<")))


def _write_array(folder: Path, spec: ZarrSpec, variable: xarray.Variable) -> None:
    step = spec.shard or 0
    for index in range(-(-spec.shape[0] // step) if step else 1):
        block = variable[index * step : (index + 1) * step] if step else variable
        for name, data in array_files(spec, np.asarray(block.values), first=index).items():
            if name != "zarr.json" or index == 0:
                write_file(folder / name, data, last=False, alone=False)
    if step and not spec.shape[0]:
        write_file(folder / "zarr.json", array_files(spec)["zarr.json"])
