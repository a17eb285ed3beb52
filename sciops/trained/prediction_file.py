"""Predictions for a file, written as a native file: batch by batch, so that neither file has to fit into memory."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch
from tqdm.auto import tqdm

from sciops.datasets.lazy import LazyArray
from sciops.datasets.native import write_native
from sciops.evaluation import frame_errors
from sciops.files.whole_files import is_store
from sciops.files.writable import refusal, writable_file
from sciops.trained.labelled import dataset_of, fields_of
from sciops.trained.opening import Trained, open_trained
from sciops.trained.problem import Problem, open_problem

if TYPE_CHECKING:
    import xarray as xr

_ENDINGS = (".h5", ".hdf5", ".nc", ".zarr")
_ABOUT = {"relative_l2": "‖prediction − truth‖ / ‖truth‖, every point alike, all variables together"}


@dataclass(frozen=True)
class Predicted:
    """What `write_predictions` wrote.

    path : the file
    samples : (samples,) numbers of the samples in the data
    relative_l2 : (samples, frames) where the data hold the truth, NaN elsewhere
    broken : number of samples whose prediction is not finite everywhere
    """

    path: Path
    samples: np.ndarray
    relative_l2: np.ndarray
    broken: int

    def __str__(self) -> str:
        text = f"wrote {self.path}: {len(self.samples)} samples"
        known = ~np.isnan(self.relative_l2)
        if known.any():
            own = np.where(known, self.relative_l2, 0).sum(1) / np.maximum(known.sum(1), 1)
            worst = int(np.argmax(own))
            text += f", relative L2 error {own.mean():.4g} on average, {own[worst]:.4g} at most"
            text += f" (sample {self.samples[worst]})"
            frames = int(known.any(0).sum())
            if frames < known.shape[1]:
                text += f", over the first {frames} of {known.shape[1]} frames: the data hold no more"
        else:
            text += ", whose truth the data do not hold"
        return text + (f"; {self.broken} are not finite everywhere" if self.broken else "")


def write_predictions(
    model: Any,
    data: str | os.PathLike,
    output: str | os.PathLike,
    *,
    samples: Sequence[int] | None = None,
    split: str | None = None,
    resolution: int | tuple[int, ...] | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> Predicted:
    """Writes what a model predicts for a file: per variable u the field u_predicted, and its error.

    Where the data hold the truth of all that is predicted, the file also holds u_error = u_predicted − u, and
    relative_l2 of each sample, or of each frame of it.

    Parameters
    ----------
    model : torch.nn.Module, str or path-like
        As in `sciops.predict`.
    data : str or path-like
        A file of any known layout, on any grid that the model takes; or the folder of files it was trained on.
    output : str or path-like
        The native file to write (.h5, .hdf5, .nc or .zarr); it appears only when whole.
    samples, split, resolution, steps
        As in `sciops.trained.problem.open_problem`.
    batch_size, device
        As in `sciops.predict`.
    overwrite : bool
        Whether an existing file may be replaced.
    progress : bool
        A bar on stderr, where that is a terminal.

    Returns
    -------
    Predicted

    Raises
    ------
    FileExistsError
        When the output exists, unless `overwrite`.
    ValueError
        For data that the model does not fit, an output that is the data, and what `open_problem` raises.
    OSError
        For an output that cannot be written, and a full disk, on which nothing is left.
    """
    data, output = Path(data), Path(output)
    _check_place(data, output, overwrite)
    trained = open_trained(model, device=device)
    problem = open_problem(trained, data, samples=samples, split=split, resolution=resolution, steps=steps)
    with ExitStack() as held:
        rows: dict[str, _Rows] = {}
        errors, broken = [], 0
        held.callback(problem.fields.close)
        output.parent.mkdir(parents=True, exist_ok=True)
        with tqdm(total=problem.count, unit="sample", disable=None if progress else True) as bar:
            for numbers in problem.batches(batch_size):
                values, own = _with_errors(problem, numbers)
                for name, (dims, part) in fields_of(problem, values).items():
                    if name not in rows:
                        file = held.enter_context(tempfile.TemporaryFile(dir=output.parent))
                        rows[name] = _Rows(file, output, dims, part.shape[1:], part.dtype)
                    rows[name].append(part)
                errors.append(own)
                broken += int((~np.isfinite(values["_predicted"]).reshape(len(numbers), -1).all(1)).sum())
                bar.update(len(numbers))
        relative = np.concatenate(errors)
        fields: dict[str, Any] = {name: (one.dims, one) for name, one in rows.items()}
        if problem.known == problem.frames:
            dims = ("sample", "time") if problem.by_frames else ("sample",)
            about = {"long_name": _ABOUT["relative_l2"]}
            fields["relative_l2"] = (dims, relative if problem.by_frames else relative[:, 0], about)
        write_native(output, _labelled(problem, trained, data, fields), overwrite=overwrite)
    return Predicted(output, problem.samples, relative, broken)


def _with_errors(problem: Problem, numbers: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Prediction and error of a batch, (batch, frames, channels, *grid), and its relative errors (batch, frames)."""
    prediction = problem.predict(numbers)
    own = np.full(prediction.shape[:2], np.nan)
    values = {"_predicted": prediction.numpy()}
    if problem.known:
        truth = problem.truth(numbers).to(prediction)
        if problem.known == problem.frames:
            values["_error"] = (prediction - truth).numpy()
        found = frame_errors(prediction[:, : problem.known], truth, ("relative_l2",), grid=problem.grid)
        own[:, : problem.known] = found["relative_l2"]
    return values, own


def _labelled(problem: Problem, trained: Trained, data: Path, fields: dict[str, Any]) -> xr.Dataset:
    from sciops.datasets.formats import open_dataset

    state = tuple(f"{name}_predicted" for name in problem.names)
    of = {"model": trained.name, "run": str(trained.folder or ""), "data": str(data), "task": problem.task}
    folder = data.is_dir() and not is_store(data)
    path = problem.fields.path if folder else data
    with open_dataset(path, problem.grid.shape if folder else problem.fields.resolution) as source:
        return dataset_of(
            problem,
            fields,
            source,
            state=state,
            content="predictions",
            config=json.dumps(of),
            solver=f"the model {trained.name}",
        )


def _check_place(data: Path, output: Path, overwrite: bool) -> None:
    """Raises before any work where the output cannot or must not be written."""
    if output.suffix not in _ENDINGS:
        raise ValueError(
            f"{output}: predictions are written as a native file, {', '.join(_ENDINGS)}; sciops convert writes it "
            "again in another layout"
        )
    if not data.exists():
        raise FileNotFoundError(f"{data}: no such file")
    writable_file(output, store=is_store(output))
    if output.exists() and os.path.samefile(data, output):
        raise ValueError(f"{output} is the data itself, which would be lost: name another file to write")
    if os.path.lexists(output) and not overwrite:
        raise FileExistsError(f"{output} is there already: remove it, or pass overwrite=True (--overwrite)")


class _Rows(LazyArray):
    """A variable whose samples are appended to a nameless file and read back when it is written to its place."""

    def __init__(
        self, file: IO[bytes], output: Path, dims: tuple[str, ...], row: tuple[int, ...], dtype: np.dtype
    ) -> None:
        self.file, self.path, self.dims, self.row, self.dtype = file, output, dims, row, np.dtype(dtype)
        self.count = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.count, *self.row)

    def append(self, rows: np.ndarray) -> None:
        try:
            self.file.write(np.ascontiguousarray(rows).tobytes())
        except OSError as error:
            raise refusal(error, self.path) from None
        self.count += len(rows)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        samples, *rest = key
        numbers = np.arange(self.count)[samples]
        first, last = (int(numbers.min()), int(numbers.max()) + 1) if numbers.size else (0, 0)
        size = math.prod(self.row) * self.dtype.itemsize
        self.file.seek(first * size)
        content = self.file.read((last - first) * size)
        found = np.frombuffer(content, self.dtype).reshape(last - first, *self.row)[numbers - first]
        for axis, one in reversed(
            list(enumerate(rest, start=np.ndim(numbers)))
        ):  # the last first: numbers take axes away
            found = found[(slice(None),) * axis + (one,)]
        return found
