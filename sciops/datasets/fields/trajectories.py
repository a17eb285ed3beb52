"""Windows over trajectories as torch data: past frames in, later frames out, in memory when small."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.kinds import refuse_complex
from sciops.datasets.fields.file_data import FileDataset, chosen_samples, names_of
from sciops.datasets.fields.symmetries import Statement, check_declared, kinds_of, statement, times
from sciops.datasets.fields.torch_data import MEMORY_LIMIT
from sciops.datasets.fields.trajectory_fields import (
    as_tensor,
    clocks_of,
    common_grid,
    over_grid,
    parameter_values,
    shared_forcings,
    shared_inputs,
    state_names,
    times_of,
    whole,
)
from sciops.datasets.native.rows import NativeRows
from sciops.datasets.order import check_field
from sciops.files.budget import Budget
from sciops.values import check_whole

if TYPE_CHECKING:
    import xarray as xr


class TrajectoryDataset(FileDataset):
    """x = (u_w, …, u_{w+h−1}; constants; known), y = (u_{w+h+l}, …, u_{w+h+l+n−1}): every window of every trajectory.

    dataset : path, or an opened xarray.Dataset, whose fields evolve (``task`` "trajectory")
    split, resolution, samples : which trajectories, as in `FieldDataset`. Samples are whole trajectories, so that two
        data sets over different samples share no frame
    state : variables that evolve together, stacked along the channels; default those the data set names
    history, lead, horizon : frames in (h), frames left out after them (l), frames out (n). horizon=None takes every
        frame that is left, lead=None goes to the last `horizon` ones: one window a trajectory
    start, stop, stride : the frames of a trajectory are its stored ones from `start`, before `stop`, every `stride`-th;
        windows begin at every one of them
    inputs : fields that stay the same, such as a mask, (sample, *grid) or (*grid): channels of x after the state
    parameters : numbers of each sample, or constants of the data set, spread over the grid: channels after `inputs`
    forcings : fields that change in time but are known at every time, f_k, (sample, time, *grid) or (time, *grid), or
        numbers, (sample, time) or (time,), such as "time" itself: a step k → k + 1 is given f_k and f_{k+1}, so that x
        ends with f_{w+h−1}, …, f_{w+h+l+n−1}
    time_step : whether x holds the length of each step: last in x come t_{k+1} − t_k of the l + n steps, spread over
        the grid, of each trajectory's own ``times`` where the file has such. Then one model serves several strides
    kinds : variable or constant → what its channels are, as in `FieldDataset`
    dtype : of the tensors
    memory_limit : bytes above which frames are read when asked for, a window at a time. An xarray.Dataset is always
        held; pass its path to read on demand
    budget : what the file may take, as in `open_dataset`

    len(d) : trajectories × windows; item i is window ``i % d.windows`` of trajectory ``i // d.windows``
    d.batch(indices) : {"x": (batch, history·channels + constants + known, *grid), "y": (batch, horizon·channels,
        *grid)}, oldest frame first, within a frame in the order of ``d.state``; known = (l + n + 1)·forcings, and
        l + n with `time_step`
    d.initial(numbers, steps) : the same x of the first window of each trajectory, for `steps` steps from there
    d.trajectories(numbers) : (batch, frames, channels, *grid); d.known(numbers) : (batch, frames, forcings, *grid)
    d.constants(numbers) : (batch, constants, *grid)
    d.count, d.windows : trajectories, windows in each; d.channels, d.constant_channels, d.forcing_channels : variables
        in a frame, constants, forcings; d.step_channels : what a model of one step takes
    d.lazy : whether frames are read when asked for; d.close() lets go of the file until then
    d.times : (frames,) float64 as the file states them, else frame numbers; d.time_units; d.samples : their numbers in
        the file; d.clocks : (trajectories, frames) float64, as d.times or each trajectory's own; d.grid, d.attrs;
        d.symmetry : the `Symmetry` of the problem, by what the file states of its equation, walls and forcing

    Staggered variables, shifted against each other by the same everywhere, are channels like any others.

    Raises ValueError for a steady data set, names it does not hold, state variables on grids of different shape or
    spacing, windows longer than the trajectories, and with `time_step` and several frames of history for times that
    are not evenly spaced, since x does not hold the time between the frames seen.
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
        forcings: str | Sequence[str] = (),
        time_step: bool = False,
        kinds: Mapping[str, str] | None = None,
        dtype: torch.dtype = torch.float32,
        memory_limit: int = MEMORY_LIMIT,
        budget: Budget | None = None,
    ) -> None:
        check_whole(history=history, stride=stride, horizon=1 if horizon is None else horizon)
        check_whole(0, lead=0 if lead is None else lead)
        super().__init__(dataset, resolution, dtype, budget)
        self.stride, self.time_step = stride, time_step
        self.inputs, self.parameters, self.forcings = names_of(inputs), names_of(parameters), names_of(forcings)
        with self._opening(dataset) as source:
            self.attrs = dict(source.attrs)
            self.state = state_names(source, None if state is None else names_of(state))
            self.grid = common_grid(source, self.state)
            for name in self.state:
                check_field(source[name], self.grid)
            for name in {*self.forcings, *self.inputs, *self.parameters} & set(source.variables):
                refuse_complex(source[name], name)
            self._frames = np.arange(source.sizes["time"])[start:stop:stride]
            self.times, self.time_units = times_of(source, self._frames)
            self._lay_windows(history, lead, horizon)
            self.samples = chosen_samples(source, split, samples)
            self.clocks = clocks_of(source, self._frames, self.samples)
            self._check_clocks()
            self._shared = shared_forcings(source, self.state, self.forcings, dtype)
            self._shared |= shared_inputs(source, self.state, self.inputs, dtype)
            self.stored = (*self.state, *(n for n in (*self.forcings, *self.inputs) if n not in self._shared))
            common_grid(source, (*self.state, *self.forcings))
            self._numbers = parameter_values(source, self.parameters, self.samples, dtype)
            self._stated = self._statement(source, kinds)
            in_frame = self.channels + self.forcing_channels
            size = len(self.samples) * (len(self._frames) * in_frame + len(self.inputs)) * self.grid.size
            held = self._fits(size, memory_limit)
            self._memory = self._read(source, self.samples, self._frames) if held else None
            self._fields = self._read_inputs(source, self.samples) if held and self.inputs else None

    def __len__(self) -> int:
        return len(self.samples) * self.windows

    def __repr__(self) -> str:
        left = f", {self.lead} between" if self.lead else ""
        frames = f"{self.history} → {self.horizon} frames of {', '.join(self.state)}{left}"
        extra = [*self.inputs, *self.parameters, *self.forcings, *["step lengths"] * self.time_step]
        given = f" given {', '.join(extra)}" if extra else ""
        windows = f"{self.count} trajectories × {self.windows} windows"
        return f"TrajectoryDataset({windows}, {frames}{given}, {self._place()})"

    @property
    def held_bytes(self) -> int:
        """Bytes of the fields that are held in memory."""
        return sum(held.nbytes for held in (self._memory, self._fields) if held is not None)

    @property
    def count(self) -> int:
        return len(self.samples)

    @property
    def channels(self) -> int:
        return len(self.state)

    @property
    def constant_channels(self) -> int:
        return len(self.inputs) + len(self.parameters)

    @property
    def forcing_channels(self) -> int:
        return len(self.forcings)

    @property
    def step_channels(self) -> int:
        seen = self.history * self.channels + self.constant_channels
        return seen + 2 * self.forcing_channels + int(self.time_step)

    def batch(self, indices: Any) -> dict[str, Tensor]:
        """{"x", "y"} of the windows at `indices` (array, list or slice), in that order."""
        indices = whole(indices, len(self), "window")
        trajectories, starts = np.divmod(indices, self.windows)
        steps = self.lead + self.horizon
        if self.lead and not self.forcings:  # what is left out need not be read
            seen = self._window_frames(trajectories, starts, self.history)
            later = self._window_frames(trajectories, starts + self.history + self.lead, self.horizon)
        else:
            seen = self._window_frames(trajectories, starts, self.history + steps)
            later = seen[:, self.history + self.lead :]
        return {"x": self._x(seen, trajectories, starts, steps), "y": later[:, :, : self.channels].flatten(1, 2)}

    def initial(self, numbers: Any = slice(None), steps: int = 1) -> Tensor:
        """x of the first window of the trajectories `numbers`, with what is known of the `steps` steps after it."""
        most = len(self._frames) - self.history
        if not 1 <= steps <= most:
            raise ValueError(f"steps={steps}: the trajectories have {most} frames after the first {self.history}")
        numbers = whole(numbers, self.count, "trajectory")
        starts = np.zeros(len(numbers), np.int64)
        seen = self._window_frames(numbers, starts, self.history + (steps if self.forcings else 0))
        return self._x(seen, numbers, starts, steps)

    def trajectories(self, numbers: Any = slice(None)) -> Tensor:
        """(batch, frames, channels, *grid): the whole trajectories `numbers`, counted within this data set."""
        return self._whole_trajectories(numbers)[:, :, : self.channels]

    def known(self, numbers: Any = slice(None)) -> Tensor:
        """(batch, frames, forcings, *grid) of the whole trajectories `numbers`."""
        return self._whole_trajectories(numbers)[:, :, self.channels :]

    def constants(self, numbers: Any = slice(None)) -> Tensor:
        """(batch, constant channels, *grid) of the trajectories `numbers`: `inputs`, then `parameters`."""
        numbers = whole(numbers, self.count, "trajectory")
        spread = over_grid(self._numbers[numbers], 2, self.grid.shape)
        if not self.inputs:
            return spread
        if self._fields is not None:
            return torch.cat([self._fields[numbers], spread], 1)
        unique, back = np.unique(self.samples[numbers], return_inverse=True)
        return torch.cat([self._read_inputs(self._source(), unique)[back], spread], 1)

    def subset(self, numbers: Any) -> TrajectoryDataset:
        """A data set of the trajectories `numbers` of this one, renumbered from 0."""
        numbers = whole(numbers, self.count, "trajectory")
        part = copy.copy(self)
        part.samples, part._numbers = self.samples[numbers], self._numbers[numbers]
        part.clocks = self.clocks[numbers]
        for name in ("_memory", "_fields"):
            held = getattr(self, name)
            setattr(part, name, None if held is None else held[numbers])
        return part

    def _statement(self, source: xr.Dataset, kinds: Mapping[str, str] | None) -> Statement:
        """Of the channels of a window: x is the frames seen, the constants, the forcings of each step, its length."""
        names = (*self.state, *self.inputs, *self.parameters, *self.forcings)
        check_declared(kinds, names)
        parts = (self.state, (*self.inputs, *self.parameters), self.forcings)
        state, constants, known = (kinds_of(source, part, kinds) for part in parts)
        steps = self.lead + self.horizon
        x = (*times(state, self.history), *constants, *times(known, steps + 1 if known else 0))
        x += ("scalar",) * (steps * self.time_step)
        where = {"path": self.path, "resolution": self.resolution}
        return statement(source, x, times(state, self.horizon), names=names, grid=self.grid, kinds=kinds, **where)

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

    def _check_clocks(self) -> None:
        if not self.time_step or self.history == 1 or not self.count:
            return
        steps = np.diff(self.clocks, axis=1)
        uneven = np.ptp(steps, axis=1) > 1e-3 * np.abs(steps).max(1)
        if uneven.any():
            raise ValueError(
                f"time_step=True, history={self.history}: the times of sample {self.samples[int(uneven.argmax())]} are "
                "not evenly spaced, and x does not hold the time between them; pass history=1"
            )

    def _x(self, frames: Tensor, trajectories: np.ndarray, starts: np.ndarray, steps: int) -> Tensor:
        """x of windows: of `frames` the first are seen, and those with forcings go on to the end of the last step."""
        seen = frames[:, : self.history, : self.channels].flatten(1, 2)
        parts = [seen, self.constants(trajectories)]
        if self.forcings:
            parts.append(frames[:, self.history - 1 : self.history + steps, self.channels :].flatten(1, 2))
        if self.time_step:
            at = starts[:, None] + np.arange(self.history - 1, self.history + steps)
            took = np.diff(self.clocks[trajectories[:, None], at], axis=1)
            parts.append(over_grid(torch.from_numpy(took).to(self.dtype), 2, self.grid.shape))
        return torch.cat(parts, 1)

    def _whole_trajectories(self, numbers: Any) -> Tensor:
        numbers = whole(numbers, self.count, "trajectory")
        if self._memory is not None:
            return self._memory[numbers]
        unique, back = np.unique(self.samples[numbers], return_inverse=True)
        return self._read(self._source(), unique, self._frames)[back]

    def _window_frames(self, trajectories: np.ndarray, starts: np.ndarray, length: int) -> Tensor:
        """(batch, length, channels + forcings, *grid); on demand a trajectory is read once, from its first to its last
        frame."""
        if self._memory is not None:
            return self._memory[trajectories[:, None], starts[:, None] + np.arange(length)]
        source = self._source()
        in_frame = self.channels + self.forcing_channels
        result = torch.empty(len(starts), length, in_frame, *self.grid.shape, dtype=self.dtype)
        for sample in np.unique(self.samples[trajectories]):
            here = np.flatnonzero(self.samples[trajectories] == sample)
            first, last = starts[here].min(), starts[here].max() + length
            block = self._read(source, np.array([sample]), self._frames[first:last])[0]
            result[here] = block[(starts[here] - first)[:, None] + np.arange(length)]
        return result

    def _read(self, source: xr.Dataset | NativeRows, samples: np.ndarray, frames: np.ndarray) -> Tensor:
        """(samples, frames, channels + forcings, *grid); `samples` ascend unless the whole is read."""
        step = int(frames[1] - frames[0]) if len(frames) > 1 else 1
        time = slice(int(frames[0]), int(frames[-1]) + 1, step)
        names = (*self.state, *self.forcings)
        return torch.stack([self._values(source, name, samples, time=time) for name in names], 2)

    def _read_inputs(self, source: xr.Dataset | NativeRows, samples: np.ndarray) -> Tensor:
        return torch.stack([self._values(source, name, samples) for name in self.inputs], 1)

    def _values(self, source: xr.Dataset | NativeRows, name: str, samples: np.ndarray, **time: slice) -> Tensor:
        from sciops.datasets.native.hdf5.store import samples_of

        if name in self._shared:
            shared = self._shared[name]
            shared = shared[time["time"]] if time else shared
            return shared.expand(len(samples), *shared.shape)
        if isinstance(source, NativeRows):
            values = source.read(name, samples, tuple(time.values()))
        else:
            with samples_of(self.path):
                values = np.asarray(source[name].isel(sample=samples, **time).values)
        return over_grid(as_tensor(values, self.dtype), 1 + len(time), self.grid.shape)
