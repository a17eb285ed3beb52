"""Native HDF5 files open for reading, and the input check of every HDF5 file that is opened."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets.conventions import SPACE
from sciops.datasets.native.hdf5.guard import open_survivable
from sciops.datasets.native.hdf5.inflation import Inflation
from sciops.datasets.native.schema import check_schema, finest_first
from sciops.datasets.native.store import Stored
from sciops.files.budget import current_budget, opening_within
from sciops.files.messages import shown

_NOT_NATIVE = "HDF5, but no native file (it lacks sciops_schema); sciops.open_dataset reads other layouts"


class Hdf5Store:
    """A native HDF5 file as a `Store`; deflated chunks are measured (`Inflation`) before HDF5 unpacks them."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self.budget = Path(path), current_budget()
        self._place = self.path.absolute()
        self._inflations: dict[str, Inflation] = {}
        self._held: tuple[int, Any] | None = (os.getpid(), open_hdf5(path))
        try:
            check_schema(path, self.file.attrs, _NOT_NATIVE)
            attrs = self.file.attrs.items()
            self.attrs = {k: v.item() if isinstance(v, np.generic) else v for k, v in attrs if k[0] != "_"}
        except BaseException:
            self.close()
            raise

    @property
    def file(self) -> Any:
        """The open h5py file of this process."""
        if self._held is None or self._held[0] != os.getpid():
            with opening_within(self.budget):
                self._held = (os.getpid(), open_hdf5(self._place))
        return self._held[1]

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = {}
        for name in self.file:
            if name[0] == "r" and name[1:].replace("x", "").isdigit():
                shapes[name] = _shape(self.path, name, self.file.get(name))
        return finest_first(self.path, shapes)

    def groups(self) -> list[str]:
        import h5py

        return sorted(name for name, item in self.file.items() if isinstance(item, h5py.Group))

    def arrays(self, group: str, *, strict: bool = False) -> tuple[dict[str, Any], dict[str, Stored]]:
        import h5netcdf

        held = self.file[group]
        with h5netcdf.File(self.file, "r", phony_dims="access", decode_vlen_strings=True) as names:
            inside = names[group]
            if strict and inside.groups:
                name = shown(f"{group}/{min(inside.groups)}", 80)
                raise ValueError(f"{self.path}: {name} is a group where a native file has arrays")
            arrays = {
                name: Stored(variable.dimensions, held[name].shape, held[name].dtype, _attributes(variable.attrs))
                for name, variable in inside.variables.items()
            }
            return _attributes(inside.attrs), arrays

    def measured(self, key: str, index: tuple[Any, ...]) -> Any:
        """The open h5py array, of which the entries at `index` can be read."""
        item = self.file[key]
        if key not in self._inflations:
            self._inflations[key] = Inflation(self._place, key, budget=self.budget)
        self._inflations[key].check(item, index)
        return item

    def read(self, key: str, index: tuple[Any, ...]) -> np.ndarray:
        with samples_of(self.path):
            return np.asarray(self.measured(key, index)[index])

    def close(self) -> None:
        if self._held is not None and self._held[0] == os.getpid():
            self._held[1].close()
        self._held = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": None}


def _attributes(attrs: Any) -> dict[str, Any]:
    """Attributes as h5netcdf gives them, bytes as text where they are one."""
    return {key: _text(value) if key not in ("_FillValue", "missing_value") else value for key, value in attrs.items()}


def _text(value: Any) -> Any:
    with contextlib.suppress(UnicodeDecodeError):
        return value.decode() if isinstance(value, bytes) else value
    return value


def open_hdf5(path: str | os.PathLike[str]) -> Any:
    """The open h5py file.

    Raises FileNotFoundError, ValueError (not HDF5, or what `open_survivable` refuses) or OSError (truncated, damaged),
    in one line with the remedy.
    """

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        return open_survivable(path)
    except OSError as error:
        if isinstance(error, PermissionError):
            raise
        text = str(error)
        if "truncated" in text:
            why = f"truncated ({path.stat().st_size} bytes are here, more were written)"
        elif "signature" in text:
            raise ValueError(f"{path}: not an HDF5 file ({path.stat().st_size} bytes)") from None
        elif "lock" in text:
            raise OSError(f"{path}: another process has the file open for writing; try again when it is done") from None
        else:
            why = f"damaged ({text.splitlines()[0]})"
        raise OSError(f"{path}: {why}; copy it again, or remove it and generate it again") from None


@contextlib.contextmanager
def samples_of(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Around reads of numbers: what HDF5 says about a sample with a wrong checksum becomes one line with the remedy."""
    try:
        yield
    except OSError as error:
        if error.errno is not None or "read data" not in str(error):
            raise
        raise OSError(
            f"{path}: damaged, part of its numbers cannot be read; `sciops validate {path}` names the samples: copy "
            "the file again, or generate it again"
        ) from None


def _shape(path: Path, name: str, group: Any) -> tuple[int, ...]:
    """The number of points on each axis of a group of a native file."""
    import h5py

    positions = [group.get(axis) for axis in SPACE if axis in group] if isinstance(group, h5py.Group) else [None]
    if not all(isinstance(axis, h5py.Dataset) and axis.ndim == 1 for axis in positions):
        raise ValueError(
            f"{path}: {name} is not a group of fields with the positions of their points along each axis: the file is "
            "damaged; copy it again, or generate it again"
        )
    return tuple(map(len, positions))
