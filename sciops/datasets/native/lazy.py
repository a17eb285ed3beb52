"""A group of a native file as a lazy `xarray.Dataset`: numbers are read when they are asked for.

Imported where a file is opened, since it needs xarray.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray
from xarray.core import indexing

from sciops.datasets.lazy import LazyArray
from sciops.datasets.native.store import Store, Stored


class StoredArray(LazyArray):
    """An array of a store as xarray's lazy backend array; it can be pickled and forked."""

    def __init__(self, store: Store, key: str, about: Stored) -> None:
        self.store, self.key, self.shape, self.dtype = store, key, about.shape, about.dtype

    supports = indexing.IndexingSupport.OUTER_1VECTOR  # HDF5 takes one list of indices in a selection

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        return self.store.read(self.key, key)


def dataset_of(store: Store, group: str) -> xarray.Dataset:
    """A group as a lazy dataset, in the form of `xarray.open_dataset`; positions and times are read at once."""
    attrs, arrays = store.arrays(group)
    variables = {}
    for name, about in arrays.items():
        data: Any = indexing.LazilyIndexedArray(StoredArray(store, f"{group}/{name}", about))
        variables[name] = xarray.Variable(about.dims, data, about.attrs)
        if about.dims == (name,):
            variables[name] = variables[name].load()
    try:
        dataset = xarray.Dataset(variables, attrs=attrs)
    except ValueError as error:
        text = " ".join(str(error).split())[:160]
        raise ValueError(f"{store.path / group}: {text}; generate the file again") from None
    # decode_times would make dates or durations of a time axis in seconds
    dataset = xarray.decode_cf(dataset, decode_times=False)
    for name, variable in dataset.variables.items():
        if name not in dataset.indexes:  # what a user has read whole is kept, as by xarray.open_dataset
            variable.data = indexing.MemoryCachedArray(indexing.CopyOnWriteArray(variable._data))
    dataset.set_close(store.close)
    return dataset
