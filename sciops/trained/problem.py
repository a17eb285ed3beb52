"""Samples of a data set as a trained model takes them: what goes in, what it predicts, what is true."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sciops.datasets.fields.space_time import SpaceTimeDataset
from sciops.datasets.fields.split_sources import is_folder
from sciops.datasets.fields.splits import INPUTS, load_splits
from sciops.datasets.fields.torch_data import FieldDataset
from sciops.datasets.fields.trajectories import TrajectoryDataset
from sciops.datasets.fields.trajectory_fields import check_steady
from sciops.evaluation import frames_of
from sciops.grids import Grid
from sciops.models import Stepper
from sciops.models.apply import apply_model, evaluating, placed_for, real_dtype_of, unwrapped
from sciops.runs import file_hash
from sciops.trained.opening import Trained, read_record, samples_at_once
from sciops.values import check_whole

if TYPE_CHECKING:
    import xarray as xr

_HELD = 2**28  # bytes of fields that are held in memory; more are read batch by batch
_WINDOWS = {"start": 0, "stop": None, "inputs": (), "parameters": (), "forcings": (), "time_step": False}
_EXTENT = {"step": (0, 1), "trajectory": (0, None), "space-time": (0, None), "final": (None, 1)}  # lead, horizon


@dataclass(frozen=True)
class Problem:
    """Samples of a data set, with the model that predicts them.

    trained : the model
    data : `FieldDataset`, `TrajectoryDataset` or `SpaceTimeDataset`
    part : "test" where the samples are the test part of the training's own data, else None
    names : the variables that are predicted; a steady one may have several channels
    frames : number of frames predicted of a sample; 1 where nothing evolves
    known : the first of these frames whose truth the data hold; 0 without truth
    times : (frames,) of the predicted frames; None for a steady problem
    """

    trained: Trained
    data: Any
    part: str | None
    names: tuple[str, ...]
    frames: int = 1
    known: int = 1
    times: np.ndarray | None = None

    @property
    def task(self) -> str:
        return self.trained.task

    @property
    def by_frames(self) -> bool:
        """Whether the model gives frames against time."""
        return self.task in ("step", "trajectory", "space-time")

    @property
    def fields(self) -> Any:
        """The data on the grid of space."""
        return self.data.source if self.task == "space-time" else self.data

    @property
    def grid(self) -> Grid:
        return self.fields.grid

    @property
    def count(self) -> int:
        return len(self.fields.samples)

    @property
    def samples(self) -> np.ndarray:
        """Numbers of the samples in their file."""
        return np.asarray(self.fields.samples)

    @property
    def batch_size(self) -> int:
        """Samples of a forward pass that fit into memory."""
        return samples_at_once(self.grid.size)

    def batches(self, batch_size: int | None = None) -> list[np.ndarray]:
        """Numbers of the samples, counted from 0, in batches. Raises ValueError for a `batch_size` below 1."""
        size = self.batch_size if batch_size is None else batch_size
        check_whole(batch_size=size)
        return [np.arange(a, min(a + size, self.count)) for a in range(0, self.count, size)]

    def predict(self, numbers: Any) -> Tensor:
        """(batch, frames, channels, *grid) on the CPU, of the samples with these numbers; NaN from where a rollout
        is no longer finite."""
        model = self.trained.model
        with torch.no_grad(), evaluating(model), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of rollouts that break: their frames are NaN
            if not self.by_frames:
                x = placed_for(model, self.data.batch(numbers)["x"])
                return apply_model(model, x, self.grid)[:, None].cpu()
            predict, _ = frames_of(model, self.task, self.data)
            return predict(self._initial(numbers), self.grid, self.frames).cpu()

    def truth(self, numbers: Any) -> Tensor:
        """(batch, known, channels, *grid)."""
        if not self.by_frames:
            return self.data.batch(numbers)["y"][:, None]
        first = self.fields.history
        return self.fields.trajectories(numbers)[:, first : first + self.known]

    def inputs(self, numbers: Any) -> Tensor:
        """(batch, channels, *grid): the inputs of a steady problem, the last frame given of one that evolves."""
        if self.task == "steady":
            return self.data.batch(numbers)["x"]
        return self.fields.trajectories(numbers)[:, self.fields.history - 1]

    def _initial(self, numbers: Any) -> Tensor:
        told = self.fields.forcing_channels or self.fields.time_step
        return self.fields.initial(numbers, self.frames if told or self.task != "step" else 1)


def open_problem(
    trained: Trained,
    source: Path | xr.Dataset,
    *,
    samples: Sequence[int] | None = None,
    split: str | None = None,
    resolution: int | tuple[int, ...] | None = None,
    steps: int | None = None,
    held_out: bool = False,
) -> Problem:
    """The samples of a file or data set that the model is to predict.

    Parameters
    ----------
    trained : Trained
        The model; what its training recorded says which variables go in.
    source : Path or xarray.Dataset
        A file of any known layout, the folder of files that it was trained on, or an opened data set.
    samples, split, resolution
        As in `FieldDataset`; default all samples on the file's own grid. Of a folder, `split` is "test" by default.
    steps : int, optional
        Frames that a stepper predicts; default as many as the data hold.
    held_out : bool
        Whether of the training's own data the test part alone is meant, unless `samples` or `split` say otherwise.

    Raises
    ------
    ValueError
        For data that the model does not fit, and what the data sets raise.
    """
    task, options, part = trained.task, _options(trained, resolution), split
    folder = isinstance(source, Path) and is_folder(source)
    if steps is not None and task != "step":
        raise ValueError(f"steps={steps}: only a model of one step of time makes rollouts, and this one is {task}")
    if folder or (held_out and samples is None and split is None and is_own(trained, source)):
        part = split or "test"
        data = _as_trained(trained, source, part, options)
        outside = [number for number in samples or () if number >= len(data.samples)]
        if outside:
            raise ValueError(f"samples holds {outside[0]}: the {part} part of {source} has {len(data.samples)}")
        data = data if samples is None else data.subset(list(samples))
        known = True
    else:
        about, names = _look_into(source, resolution)
        options |= {"samples": samples, "split": split}
        if task == "steady":
            check_steady(about)
            inputs = tuple(trained.config.get("inputs") or ()) or (next((n for n in INPUTS if n in names), INPUTS[0]),)
            known = "u" in names
            data = FieldDataset(source, inputs=inputs, outputs=("u",) if known else inputs[:1], **options)
        else:
            data, known = TrajectoryDataset(source, **_windows(trained), **options), True
    if task == "space-time":
        data = SpaceTimeDataset(data)
    if not (data.source if task == "space-time" else data).samples.size:
        raise ValueError(f"{source} holds no {part + ' ' if part else ''}sample: sciops info tells what it holds")
    return _tried(_described(trained, data, part, known, steps))


def is_own(trained: Trained, source: Any) -> bool:
    """Whether the file or folder is the one that the model was trained on."""
    recorded = trained.config.get("data")
    if not isinstance(recorded, str) or not isinstance(source, Path) or trained.folder is None:
        return False
    if os.path.exists(recorded):
        return os.path.samefile(recorded, source)
    known = read_record(trained.folder, "environment.json").get("data") or {}
    return Path(recorded).name == source.name and known.get(recorded) == file_hash(source)


def _described(trained: Trained, data: Any, part: str | None, known: bool, steps: int | None) -> Problem:
    task = trained.task
    if task == "steady":
        return Problem(trained, data, part, ("u",), known=int(known))
    fields = data.source if task == "space-time" else data
    if task == "final":
        return Problem(trained, data, part, tuple(fields.state), times=fields.times[-1:])
    later = fields.times[fields.history :]
    frames = len(later) if steps is None else steps
    check_whole(steps=frames)
    if frames > len(later):
        step = fields.times[-1] - fields.times[-2]
        later = np.concatenate([later, later[-1] + step * np.arange(1, frames - len(later) + 1)])
    known_frames = min(frames, len(fields.times) - fields.history)
    out = trained.channels("out")
    if task == "trajectory" and out is not None and out != frames * len(fields.state):
        raise ValueError(
            f"the model gives {out // len(fields.state)} frames at once, and the data hold {frames} after the first "
            f"{fields.history}: name data with as many frames as it was trained on"
        )
    return Problem(trained, data, part, tuple(fields.state), int(frames), known_frames, later[:frames])


def _tried(problem: Problem) -> Problem:
    """The problem, whose first sample was predicted; raises ValueError where that is not what the data hold."""
    short = Problem(**{**vars(problem), "frames": 1}) if problem.task == "step" else problem
    y = short.predict([0])
    if problem.known and y.shape[2:] != problem.truth([0]).shape[2:]:
        raise ValueError(
            f"the model gives (channels, *grid) = {tuple(y.shape[2:])} and the data hold "
            f"{tuple(problem.truth([0]).shape[2:])} of {', '.join(problem.names)}: name data of the model's own problem"
        )
    return problem


def _options(trained: Trained, resolution: Any) -> dict[str, Any]:
    dtype = real_dtype_of(trained.model) or torch.float32
    return {"resolution": resolution, "dtype": dtype, "memory_limit": _HELD}


def _windows(trained: Trained) -> dict[str, Any]:
    """Options of `TrajectoryDataset`, as the training had them."""
    config = trained.config
    own = unwrapped(trained.model)
    history = own.history if isinstance(own, Stepper) else config.get("history", 1)
    windows = {name: config.get(name, default) for name, default in _WINDOWS.items()}
    strides = config.get("stride", 1)
    stride = strides[0] if isinstance(strides, Sequence) else strides
    lead, horizon = _EXTENT[trained.task]
    return windows | {
        "history": history,
        "stride": stride,
        "state": config.get("state") or None,
        "lead": lead,
        "horizon": horizon,
    }


def _as_trained(trained: Trained, source: Any, part: str, options: dict[str, Any]) -> Any:
    """The samples of a part of the training's own data, or of a folder, as the training split them."""
    config = trained.config
    asked = {name: config.get(f"{name}_samples") for name in ("train", "validation", "test")}
    of_training = config.get("resolution") or ()
    if options["resolution"] is None and of_training:
        options = {**options, "resolution": of_training[0]}
    elif options["resolution"] is not None and options["resolution"] not in of_training:
        asked = {"train": None, "validation": None, "test": asked["test"]}
    steady = trained.task == "steady"
    fields: Mapping[str, Any] = (
        {"inputs": tuple(config.get("inputs") or ()) or None} if steady else {"windows": _windows(trained)}
    )
    given = {name: count for name, count in asked.items() if count is not None}
    found = getattr(load_splits(source, **given, **fields, **options, equation=config.get("equation")), part, None)
    if found is None:
        raise ValueError(f"{source} has no {part} samples as the training split it: name some, --samples 0:10")
    return found


def _look_into(source: Any, resolution: Any) -> tuple[dict[str, Any], list[str]]:
    from sciops.datasets.formats import open_dataset

    if not isinstance(source, Path):
        return dict(source.attrs), [str(name) for name in source.data_vars]
    with open_dataset(source, resolution) as dataset:
        return dict(dataset.attrs), [str(name) for name in dataset.data_vars]
