"""Variables of a native HDF5 file as xarray has opened them, their deflated chunks measured before they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from sciops.datasets.native.inflation import Inflation
from sciops.datasets.native.layout import open_hdf5

if TYPE_CHECKING:
    import xarray


class MeasuredArray(BackendArray):
    """The values of a lazy variable; chunks are measured by `inflation` first.

    key : path of the stored array in the file
    """

    def __init__(self, variable: xarray.Variable, key: str, inflation: Inflation) -> None:
        self.variable, self.key, self.inflation = variable, key, inflation
        self.shape, self.dtype = variable.shape, variable.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        with open_hdf5(self.inflation.path) as file:
            self.inflation.check(file[self.key], key)
        return np.asarray(self.variable[key].values)


def check_positions(path: str, group: str) -> None:
    """Measures the arrays of one axis in a group, which xarray reads when it opens the file."""
    with open_hdf5(path) as file:
        for key, item in file[group].items():
            if getattr(item, "shape", None) and len(item.shape) == 1:
                Inflation(path, key).check(item)


def measured(dataset: xarray.Dataset, path: str, group: str) -> None:
    """Puts a `MeasuredArray` in the place of each variable with chunks to be measured."""
    import xarray

    with open_hdf5(path) as file:
        for key, variable in dataset.variables.items():
            inflation = Inflation(path, str(key))
            if variable.ndim > 1 and inflation.is_needed(file[group][key]):
                data: Any = indexing.LazilyIndexedArray(MeasuredArray(variable, f"{group}/{key}", inflation))
                dataset[key] = xarray.Variable(variable.dims, data, variable.attrs, variable.encoding)
