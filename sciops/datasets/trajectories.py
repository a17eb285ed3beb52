"""Windows over trajectories as torch data: past frames in, later frames out, in memory when small."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from sciops.datasets._native_rows import NativeRows, native_rows
from sciops.datasets.torch_data import MEMORY_LIMIT, _names, _pick
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr


class TrajectoryDataset(Dataset):
    """x = (u_w, …, u_{w+h−1}; constants), y = (u_{w+h+l}, …, u_{w+h+l+n−1}): every window of every trajectory.

    dataset : path, or an opened xarray.Dataset, whose fields evolve (``task`` "trajectory")
    split, resolution, samples : which trajectories, as in `FieldDataset`. Samples are whole trajectories, so that two
        data sets over different samples share no frame
    state : variables that evolve together, stacked along the channels; default those the data set names
    history, lead, horizon : frames in (h), frames left out after them (l), frames out (n). horizon=None takes every
        frame that is left, lead=None goes to the last `horizon` ones: one window a trajectory
    start, stop, stride : the frames of a trajectory are its stored ones from `start`, before `stop`, every `stride`-th;
        windows begin at every one of them
    inputs : fields that stay the same, such as a forcing, (sample, *grid) or (*grid): channels of x after the state
    parameters : numbers of each sample, or constants of the data set, spread over the grid: channels after `inputs`
    dtype : of the tensors
    memory_limit : bytes above which frames are read when asked for, a window at a time. An xarray.Dataset is always
        held; pass its path to read on demand

    len(d) : trajectories × windows; item i is window ``i % d.windows`` of trajectory ``i // d.windows``
    d.batch(indices) : {"x": (batch, history·channels + constants, *grid), "y": (batch, horizon·channels, *grid)},
        oldest frame first, within a frame in the order of ``d.state``
    d.trajectories(numbers) : (batch, frames, channels, *grid)
    d.constants(numbers) : (batch, constants, *grid)
    d.count, d.windows, d.channels, d.constant_channels : trajectories, windows in each, variables in a frame, constants
    d.lazy : whether frames are read when asked for; d.close() lets go of the file until then
    d.times : (frames,) float64 as the file states them, else frame numbers; d.time_units; d.samples : their numbers in
        the file; d.grid, d.attrs

    Staggered variables, shifted against each other by the same everywhere, are channels like any others.

    Raises ValueError for a steady data set, names it does not hold, state variables on grids of different shape or
    spacing, and windows longer than the trajectories.
    """

    def __init__(
        self,
        dataset: xr.Dataset | str | os.PathLike,
        *,
        split: str | None = None,
        resolution: int | tuple[int, ...] | None = None,
        samples: Sequence[int] | np.ndarray | None = None,
        state: str | Sequence[str] | None = None,
        history: int = 1,
        horizon: int | None = 1,
        lead: int | None = 0,
        stride: int = 1,
        start: int = 0,
        stop: int | None = None,
        inputs: str | Sequence[str] = (),
        parameters: str | Sequence[str] = (),
        dtype: torch.dtype = torch.float32,
        memory_limit: int = MEMORY_LIMIT,
    ) -> None:
        from sciops.datasets.conventions import at_resolution, split_indices
        from sciops.datasets.readers import open_dataset

        for name, value, least in (
            ("history", history, 1),
            ("horizon", horizon, 1),
            ("lead", lead, 0),
            ("stride", stride, 1),
        ):
            if value is not None and (int(value) != value or value < least):
                raise ValueError(f"{name}={value!r}: expected a whole number of at least {least}")
        self.path = Path(dataset) if isinstance(dataset, (str, os.PathLike)) else None
        self.resolution, self.dtype = resolution, dtype
        self.inputs, self.parameters = _names(inputs), _names(parameters)
        self._opened: tuple[int, xr.Dataset | NativeRows] | None = None
        source = at_resolution(dataset, resolution) if self.path is None else open_dataset(self.path, resolution)
        try:
            self.attrs = dict(source.attrs)
            self.state = _state(source, state)
            self.grid = _common_grid(source, self.state)
            self._frames = np.arange(source.sizes["time"])[start:stop:stride]
            self.times, self.time_units = _times(source, self._frames)
            self._lay_windows(history, lead, horizon)
            chosen = np.arange(source.sizes["sample"]) if split is None else split_indices(source, split)
            self.samples = chosen if samples is None else _pick(chosen, samples)
            self._shared = self._shared_inputs(source)
            self._numbers = self._read_parameters(source)
            size = len(self.samples) * (len(self._frames) * self.channels + len(self.inputs)) * self.grid.size
            held = self.path is None or size * torch.empty((), dtype=dtype).element_size() <= memory_limit
            self._memory = self._read(source, self.samples, self._frames) if held else None
            self._fields = self._read_inputs(source, self.samples) if held and self.inputs else None
        finally:
            if self.path is not None:
                source.close()

    def __len__(self) -> int:
        return len(self.samples) * self.windows

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {key: value[0] for key, value in self.batch([int(index)]).items()}

    @property
    def lazy(self) -> bool:
        return self._memory is None

    def close(self) -> None:
        """Closes the file where it is read on demand; the next batch opens it again."""
        if self._opened is not None and self._opened[0] == os.getpid():
            self._opened[1].close()
        self._opened = None

    @property
    def count(self) -> int:
        return len(self.samples)

    @property
    def channels(self) -> int:
        return len(self.state)

    @property
    def constant_channels(self) -> int:
        return len(self.inputs) + len(self.parameters)

    def batch(self, indices: Any) -> dict[str, Tensor]:
        """{"x", "y"} of the windows at `indices` (array, list or slice), in that order."""
        indices = _whole(indices, len(self), "window")
        trajectories, starts = np.divmod(indices, self.windows)
        length = self.history + self.lead + self.horizon
        frames = self._window_frames(trajectories, starts, length)
        x = torch.cat([frames[:, : self.history].flatten(1, 2), self.constants(trajectories)], 1)
        return {"x": x, "y": frames[:, self.history + self.lead :].flatten(1, 2)}

    def trajectories(self, numbers: Any = slice(None)) -> Tensor:
        """(batch, frames, channels, *grid): the whole trajectories `numbers`, counted within this data set."""
        numbers = _whole(numbers, self.count, "trajectory")
        if self._memory is not None:
            return self._memory[numbers]
        unique, back = np.unique(self.samples[numbers], return_inverse=True)
        return self._read(self._source(), unique, self._frames)[back]

    def constants(self, numbers: Any = slice(None)) -> Tensor:
        """(batch, constant channels, *grid) of the trajectories `numbers`: `inputs`, then `parameters`."""
        numbers = _whole(numbers, self.count, "trajectory")
        spread = self._numbers[numbers].reshape(len(numbers), len(self.parameters), *(1,) * self.grid.ndim)
        spread = spread.expand(-1, -1, *self.grid.shape)
        if not self.inputs:
            return spread
        if self._fields is not None:
            return torch.cat([self._fields[numbers], spread], 1)
        unique, back = np.unique(self.samples[numbers], return_inverse=True)
        return torch.cat([self._read_inputs(self._source(), unique)[back], spread], 1)

    def subset(self, numbers: Any) -> TrajectoryDataset:
        """A data set of the trajectories `numbers` of this one, renumbered from 0."""
        numbers = _whole(numbers, self.count, "trajectory")
        part = object.__new__(TrajectoryDataset)
        part.__dict__.update(self.__dict__)
        part._opened = None
        part.samples, part._numbers = self.samples[numbers], self._numbers[numbers]
        for name in ("_memory", "_fields"):
            held = getattr(self, name)
            setattr(part, name, None if held is None else held[numbers])
        return part

    def _lay_windows(self, history: int, lead: int | None, horizon: int | None) -> None:
        if lead is None and horizon is None:
            raise ValueError("lead=None, horizon=None: give one of them, the other takes the frames that are left")
        frames = len(self._frames)
        self.history = history
        self.lead = frames - history - horizon if lead is None else lead
        self.horizon = frames - history - lead if horizon is None else horizon
        self.windows = frames - history - self.lead - self.horizon + 1
        if self.windows < 1 or self.horizon < 1 or self.lead < 0:
            raise ValueError(
                f"history={history}, lead={lead}, horizon={horizon}: a trajectory has {frames} frames of the "
                "start, stop and stride given; ask for fewer in a window, or take a smaller stride"
            )

    def _shared_inputs(self, source: xr.Dataset) -> dict[str, Tensor]:
        """Those of `inputs` that all samples have in common."""
        space = source[self.state[0]].dims[2:]
        for name in self.inputs:
            if name not in source.data_vars or source[name].dims not in (space, ("sample", *space)):
                fits = [str(k) for k, v in source.data_vars.items() if v.dims in (space, ("sample", *space))]
                raise ValueError(
                    f"inputs has {name!r}: expected fields over {', '.join(space)} that do not change in time, "
                    f"here {', '.join(fits) or 'none'}"
                )
        return {n: _tensor(source[n].values, self.dtype) for n in self.inputs if source[n].dims == space}

    def _read_parameters(self, source: xr.Dataset) -> Tensor:
        from sciops.datasets.conventions import parameters_of

        constants, columns = parameters_of(source), []
        for name in self.parameters:
            if name in source.data_vars and source[name].dims == ("sample",):
                columns.append(np.asarray(source[name].values)[self.samples])
            elif name in constants:
                columns.append(np.full(len(self.samples), constants[name]))
            else:
                known = [str(k) for k, v in source.data_vars.items() if v.dims == ("sample",)] + list(constants)
                raise ValueError(f"parameters has {name!r}: the data set has {', '.join(known) or 'none'}")
        values = np.stack(columns, 1) if columns else np.empty((len(self.samples), 0))
        return torch.from_numpy(values.astype(np.float64)).to(self.dtype)

    def _window_frames(self, trajectories: np.ndarray, starts: np.ndarray, length: int) -> Tensor:
        """(batch, length, channels, *grid); on demand a trajectory is read once, from its first to its last frame."""
        if self._memory is not None:
            return self._memory[trajectories[:, None], starts[:, None] + np.arange(length)]
        source = self._source()
        result = torch.empty(len(starts), length, self.channels, *self.grid.shape, dtype=self.dtype)
        for sample in np.unique(self.samples[trajectories]):
            here = np.flatnonzero(self.samples[trajectories] == sample)
            first, last = starts[here].min(), starts[here].max() + length
            block = self._read(source, np.array([sample]), self._frames[first:last])[0]
            result[here] = block[(starts[here] - first)[:, None] + np.arange(length)]
        return result

    def _read(self, source: xr.Dataset | NativeRows, samples: np.ndarray, frames: np.ndarray) -> Tensor:
        """(samples, frames, channels, *grid); `samples` ascend unless the whole is read."""
        step = int(frames[1] - frames[0]) if len(frames) > 1 else 1
        time = slice(int(frames[0]), int(frames[-1]) + 1, step)
        return torch.stack([self._values(source, name, samples, time=time) for name in self.state], 2)

    def _read_inputs(self, source: xr.Dataset | NativeRows, samples: np.ndarray) -> Tensor:
        return torch.stack([self._values(source, name, samples) for name in self.inputs], 1)

    def _values(self, source: xr.Dataset | NativeRows, name: str, samples: np.ndarray, **time: slice) -> Tensor:
        from sciops.datasets._native_layout import samples_of

        if name in self._shared:
            return self._shared[name].expand(len(samples), *self.grid.shape)
        if isinstance(source, NativeRows):
            values = source.read(name, samples, tuple(time.values()))
        else:
            with samples_of(self.path):
                values = np.asarray(source[name].isel(sample=samples, **time).values)
        return _tensor(values, self.dtype)

    def _source(self) -> xr.Dataset | NativeRows:
        # one handle per process: a forked worker must not share its parent's
        if self._opened is None or self._opened[0] != os.getpid():
            from sciops.datasets.readers import open_dataset

            source = open_dataset(self.path, self.resolution)
            rows = native_rows(self.path, source, (*self.state, *(n for n in self.inputs if n not in self._shared)))
            if rows is not None:
                source.close()
            self._opened = (os.getpid(), source if rows is None else rows)
        return self._opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def _tensor(values: Any, dtype: torch.dtype) -> Tensor:
    values = np.asarray(values)
    return torch.from_numpy(np.ascontiguousarray(values, values.dtype.newbyteorder("="))).to(dtype)


def check_evolves(attrs: Any) -> None:
    """Raises ValueError for the attributes of a steady data set."""
    if attrs.get("task") != "trajectory":
        raise ValueError(
            f"the data set ({attrs.get('equation', 'no equation named')}) is steady, nothing in it evolves in time: "
            "take it as fields, sciops.datasets.FieldDataset or --task steady"
        )


def check_steady(attrs: Any) -> None:
    """Raises ValueError for the attributes of a data set whose fields evolve."""
    if attrs.get("task") == "trajectory":
        raise ValueError(
            f"the data set ({attrs.get('equation', 'no equation named')}) holds trajectories, a time-dependent task: "
            "take windows of it, sciops.datasets.TrajectoryDataset or --task step, trajectory, space-time or final"
        )


def _state(source: xr.Dataset, asked: str | Sequence[str] | None) -> tuple[str, ...]:
    from sciops.datasets.conventions import state_of

    check_evolves(source.attrs)
    names = state_of(source) if asked is None else _names(asked)
    evolving = [str(k) for k, v in source.data_vars.items() if v.dims[:2] == ("sample", "time") and v.ndim > 2]
    wrong = [name for name in names if name not in evolving]
    if wrong or not names:
        raise ValueError(
            f"state has {', '.join(map(repr, wrong)) or 'no variable'}: expected some of the fields over "
            f"(sample, time, x, …), here {', '.join(evolving) or 'none'}"
        )
    return tuple(names)


def _common_grid(source: xr.Dataset, state: tuple[str, ...]) -> Grid:
    """The grid of the state. Staggered variables may lie apart by a shift that is the same everywhere: to a map between
    functions it is a part of what a channel means, and the data set's own grid stands for all."""
    from sciops.datasets.conventions import grid_of

    grids = {name: grid_of(source, name) for name in state}
    first = grids[state[0]]
    for name, grid in grids.items():
        same = grid.shape == first.shape and np.allclose(grid.spacing, first.spacing, rtol=1e-6, atol=0.0)
        if not same:
            raise ValueError(
                f"state variables {state[0]!r} and {name!r} lie on different grids ({first.shape} and {grid.shape} "
                "points, or other spacings): bring them to one with sciops.resample, or pass state=(…) of one grid"
            )
    alike = all(grid == first for grid in grids.values())
    return first if alike or "grid" not in source.attrs else grid_of(source)


def _times(source: xr.Dataset, frames: np.ndarray) -> tuple[np.ndarray, str]:
    if "time" not in source.coords:
        return frames.astype(np.float64), "frames"
    time = source.coords["time"]
    return np.asarray(time.values, np.float64)[frames], str(time.attrs.get("units", "1"))


def _whole(indices: Any, size: int, what: str) -> np.ndarray:
    if isinstance(indices, slice):
        return np.arange(*indices.indices(size))
    indices = np.asarray(indices, dtype=np.int64).reshape(-1)
    outside = indices[(indices < -size) | (indices >= size)]
    if outside.size:
        raise IndexError(f"{what} {outside[0]}: there are {size}")
    return np.where(indices < 0, indices + size, indices)
