"""Fields as torch data sets: items and whole batches of {"x", "y"}, in memory when small, read on demand when large."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from sciops.arrays.dimensions import by_name
from sciops.arrays.kinds import for_torch, refuse_complex, refuse_masked
from sciops.datasets.conventions import SPACE
from sciops.datasets.fields.file_data import FileDataset, chosen_samples, names_of
from sciops.datasets.fields.symmetries import Statement, check_declared, kinds_of, statement, times
from sciops.datasets.native.rows import NativeRows
from sciops.datasets.order import check_field
from sciops.files.budget import Budget
from sciops.grids import Grid, check_on_grid
from sciops.symmetry import Symmetry

if TYPE_CHECKING:
    import xarray as xr

MEMORY_LIMIT = 2 * 1024**3


class TensorFields(Dataset):
    """Inputs x and outputs y on one grid, held as tensors.

    x, y : (samples, channels, *grid.shape)   torch or numpy, equal number of samples
    len(d) : samples
    d[i] : {"x": (channels, *grid), "y": (channels, *grid)}
    d.batch(indices) : {"x": (batch, channels, *grid), "y": (batch, channels, *grid)}
    d.lazy : False; True for data sets whose batches are read from a disk, which training reads ahead
    symmetry : `sciops.symmetry.Symmetry` of the problem, which augmentation by symmetries asks for; None: not known

    Raises ValueError naming the shapes when they do not fit each other or the grid, and for complex or masked fields.
    """

    lazy = False

    def __init__(self, x: Any, y: Any, grid: Grid, *, symmetry: Symmetry | None = None) -> None:
        for name, field in (("x", x), ("y", y)):
            refuse_masked(field, name)
            refuse_complex(field, name)
        self.x, self.y = _tensor(by_name(x)), _tensor(by_name(y))
        self.grid, self.symmetry = grid, symmetry
        for name, field in (("x", self.x), ("y", self.y)):
            if field.ndim != grid.ndim + 2:
                raise ValueError(
                    f"{name} has shape {tuple(field.shape)}; expected (samples, channels, *{grid.shape}): "
                    f"add the channel axis with {name}[:, None]"
                )
            check_on_grid(field, grid, name)
        if len(self.x) != len(self.y):
            raise ValueError(f"x has {len(self.x)} samples and y {len(self.y)}: expected the same number")

    def __repr__(self) -> str:
        shapes = f"x {tuple(self.x.shape[1:])} → y {tuple(self.y.shape[1:])}"
        where = f"{self.x.dtype} on {self.x.device}".removeprefix("torch.")
        return f"TensorFields({len(self)} samples, {shapes}, {where}, {self.grid!r})"

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": self.x[index], "y": self.y[index]}

    def batch(self, indices: Any) -> dict[str, Tensor]:
        """The samples at `indices` (tensor, array, list or slice), in that order."""
        if not isinstance(indices, slice):
            indices = torch.as_tensor(np.asarray(indices), dtype=torch.long, device=self.x.device)
        return {"x": self.x[indices], "y": self.y[indices]}

    def subset(self, indices: Any) -> TensorFields:
        """A data set of the samples at `indices`, renumbered from 0."""
        part = self.batch(indices)
        return TensorFields(part["x"], part["y"], self.grid, symmetry=self.symmetry)


class FieldDataset(FileDataset):
    """Samples of an opened data set, or of any file `open_dataset` knows, as torch tensors.

    dataset : xarray.Dataset or path
    split : "train", "validation", "test" (by the ``split`` the file stores) or None for every sample
    resolution : points per axis, for files that hold or nest several
    samples : sample numbers to keep, in this order; within `split` when both are given
    inputs, outputs : variables stacked along the channel axis; axes between sample and space, such as time, become
        channels too
    kinds : variable → what its channels are, "scalar", "pseudoscalar", "velocity:x" (`sciops.symmetry`): for fields
        whose equation does not say it, and over what the file says
    dtype : of the tensors; indicators and integers are converted
    memory_limit : bytes above which a file is read on demand instead of held in memory. Reading on demand keeps no
        open handle across processes, so that it works with DataLoader workers of every start method; `close` lets go
        of this process's. An xarray.Dataset is always held; pass its path to read on demand
    budget : what the file may take, as in `open_dataset`

    len(d), d[i], d.batch(indices), d.grid as in `TensorFields`; ``d.lazy`` says whether batches are read on demand;
    ``d.samples`` are the numbers of the samples in the file, ``d.attrs`` the data set's attributes, ``d.x`` and
    ``d.y`` whole tensors; ``d.symmetry`` is the `Symmetry` of the problem, by what the file states of its equation,
    walls and forcing.

    Raises ValueError for unknown variables, splits, resolutions, or sample numbers out of range.
    """

    def __init__(
        self,
        dataset: xr.Dataset | str | os.PathLike,
        *,
        split: str | None = None,
        resolution: int | tuple[int, ...] | None = None,
        samples: Sequence[int] | np.ndarray | None = None,
        inputs: Sequence[str] = ("a",),
        outputs: Sequence[str] = ("u",),
        kinds: Mapping[str, str] | None = None,
        dtype: torch.dtype = torch.float32,
        memory_limit: int = MEMORY_LIMIT,
        budget: Budget | None = None,
    ) -> None:
        from sciops.datasets.conventions import grid_of

        super().__init__(dataset, resolution, dtype, budget)
        self.inputs, self.outputs = names_of(inputs), names_of(outputs)
        self.stored = (*self.inputs, *self.outputs)
        with self._opening(dataset) as source:
            for name in self.stored:
                if name not in source.data_vars or "sample" not in source[name].dims:
                    fields = [key for key, value in source.data_vars.items() if value.ndim > 1]
                    raise ValueError(f"no field {name!r} in the data set: it holds {', '.join(map(str, fields))}")
            self.grid, self.attrs = grid_of(source, self.outputs[0]), dict(source.attrs)
            for name in self.stored:
                check_field(source[name], self.grid)
            self._stated = self._statement(source, kinds)
            self.samples = chosen_samples(source, split, samples)
            if self._fits(len(self.samples) * sum(source[n][0].size for n in self.stored), memory_limit):
                self._memory = TensorFields(*self._read(self._rows(source) or source, self.samples), self.grid)

    def __repr__(self) -> str:
        x, y = (", ".join(names) for names in (self.inputs, self.outputs))
        return f"FieldDataset({len(self)} samples, x = {x} → y = {y}, {self._place()})"

    @property
    def held_bytes(self) -> int:
        """Bytes of the fields that are held in memory."""
        return 0 if self._memory is None else self._memory.x.nbytes + self._memory.y.nbytes

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return super().__getitem__(index) if self._memory is None else self._memory[index]

    def batch(self, indices: Any) -> dict[str, Tensor]:
        """{"x": (batch, channels, *grid), "y": …} of the samples at `indices`, in that order."""
        if self._memory is not None:
            return self._memory.batch(indices)
        wanted = self.samples[indices if isinstance(indices, slice) else np.asarray(indices, dtype=np.int64)]
        x, y = self._read(self._source(), wanted)
        return {"x": x, "y": y}

    def subset(self, indices: Any) -> FieldDataset:
        """A data set of the samples at `indices` of this one, renumbered from 0; shares nothing that can change."""
        part = copy.copy(self)
        part.samples = self.samples[indices if isinstance(indices, slice) else np.asarray(indices, dtype=np.int64)]
        part._memory = None if self._memory is None else self._memory.subset(indices)
        return part

    @property
    def x(self) -> Tensor:
        return self._memory.x if self._memory is not None else self.batch(slice(None))["x"]

    @property
    def y(self) -> Tensor:
        return self._memory.y if self._memory is not None else self.batch(slice(None))["y"]

    def _statement(self, source: xr.Dataset, kinds: Mapping[str, str] | None) -> Statement:
        space = SPACE[: self.grid.ndim]
        check_declared(kinds, self.stored)
        sides = []
        for side in (self.inputs, self.outputs):
            found: tuple[str, ...] = ()
            for name in side:
                extra = [size for dim, size in source[name].sizes.items() if dim not in ("sample", *space)]
                kind = kinds_of(source, (name,), kinds)
                found += times(kind, math.prod(extra)) if extra else kind
            sides.append(found)
        where = {"path": self.path, "resolution": self.resolution}
        return statement(source, *sides, names=self.stored, grid=self.grid, kinds=kinds, **where)

    def _read(self, source: xr.Dataset | NativeRows, samples: np.ndarray) -> tuple[Tensor, Tensor]:
        from sciops.datasets.native.hdf5.store import samples_of

        with samples_of(self.path):
            return self._stack(source, self.inputs, samples), self._stack(source, self.outputs, samples)

    def _stack(self, source: xr.Dataset | NativeRows, names: tuple[str, ...], samples: np.ndarray) -> Tensor:
        parts = []
        for name in names:
            values = _values(source, name, samples)
            tensor = torch.from_numpy(for_torch(values))
            channels = math.prod(values.shape[1 : -self.grid.ndim])
            parts.append(tensor.to(self.dtype).reshape(len(values), channels, *self.grid.shape))
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def _tensor(field: Any) -> Tensor:
    return torch.from_numpy(for_torch(field)) if isinstance(field, np.ndarray) else torch.as_tensor(field)


def _values(source: xr.Dataset | NativeRows, name: str, samples: np.ndarray) -> np.ndarray:
    if isinstance(source, NativeRows):
        return source.read(name, samples)
    if len(samples) == source.sizes["sample"] and np.array_equal(samples, np.arange(len(samples))):
        return np.asarray(source[name].values)
    # files are read in order and each sample once, whatever the order asked for
    unique, back = np.unique(samples, return_inverse=True)
    values = np.asarray(source[name].isel(sample=unique).values)
    return values if len(back) == len(unique) and (np.diff(back) > 0).all() else values[back]
