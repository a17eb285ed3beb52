"""A data set as The Well keeps one: a folder with a file a split, and the statistics its loader normalises with."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.order import in_order
from sciops.files.whole_files import replacing
from sciops.files.writable import writable_folder

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["well_statistics", "write_well_folder"]

_FOLDERS = {"train": "train", "validation": "valid", "test": "test"}
_BLOCK = 1 << 26  # bytes of a field held at once


def write_well_folder(
    source: str | os.PathLike[str] | xr.Dataset,
    folder: str | os.PathLike[str],
    name: str,
    *,
    dtype: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Writes ``<folder>/<name>/data/{train,valid,test}/<name>.hdf5`` and ``<folder>/<name>/stats.yaml``; returns that
    folder, as ``WellDataset(path=that_folder, well_split_name="train")`` expects it (``well_dataset_name`` takes the
    names of The Well's own sets alone).

    source : a file of any known layout, or an opened data set, with a stored split; ``load_splits`` or
        ``dataset["split"] = ("sample", codes)`` (0 train, 1 validation, 2 test) states one
    dtype : "float32" to round a source in double precision, which the format does not hold
    overwrite : whether files that are there already may be replaced

    The statistics are of the training samples (`well_statistics`). Raises ValueError when there is no split, no
    training sample, or something the layout cannot hold, FileExistsError, and what `open_dataset` raises. Warns for a
    steady problem, which ``WellDataset`` does not take.
    """
    import xarray as xr

    from sciops.datasets.conventions import split_indices
    from sciops.datasets.formats import open_dataset
    from sciops.datasets.formats.casting import Casting
    from sciops.datasets.formats.the_well.writer import remark, write

    if not name or Path(name).name != name or name.startswith("."):
        raise ValueError(f"name={name!r}: expected one word, such as 'burgers', for the folder and the data set")
    base = Path(folder) / name
    targets = {split: base / "data" / part / f"{name}.hdf5" for split, part in _FOLDERS.items()}
    if not overwrite:
        there = [path for path in (*targets.values(), base / "stats.yaml") if path.exists()]
        if there:
            raise FileExistsError(f"{there[0]} is there already: remove it, or pass overwrite=True")
    writable_folder(base)
    dataset = in_order(source) if isinstance(source, xr.Dataset) else open_dataset(source)
    try:
        parts = {split: split_indices(dataset, split) for split in _FOLDERS}
        if not len(parts["train"]):
            raise ValueError("no sample is for training: the statistics would be of nothing; state another split")
        for split, samples in parts.items():
            if len(samples):
                part = dataset.isel(sample=samples)
                part = part if dtype is None else Casting(dtype).apply(part)
                write([part], targets[split], name=name)
    finally:
        if not isinstance(source, xr.Dataset):
            dataset.close()
    if (line := remark(dataset)) is not None:
        warnings.warn(line, stacklevel=2)
    text = _yaml(well_statistics(targets["train"]))
    with replacing(base / "stats.yaml") as temporary:
        temporary.write_text(text, encoding="utf-8")
    return base


def well_statistics(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Mean, standard deviation and root mean square of each field of a file of The Well, as ``stats.yaml`` has them.

    With u over samples, times and points and Δu = u(t + 1) − u(t) over neighbouring times:

        mean, std = √⟨(u − mean)²⟩, rms = √⟨u²⟩      and the same of Δu as mean_delta, std_delta, rms_delta

    Component by component for vectors (D numbers) and tensors (D × D). Fields that do not vary in time have no delta.
    Everything is summed in float64, block by block about a running mean, so that a field of any size and any offset
    passes through. Unlike The Well's own script, which takes axis 1 for time, a field without a sample axis gets the
    right delta.

    returns : {"mean": {field: number or nested lists}, "std": …, "rms": …, "mean_delta": …, …}
    """
    from sciops.datasets.native.hdf5.store import open_hdf5, samples_of

    found: dict[str, dict[str, Any]] = {f"{key}{end}": {} for end in ("", "_delta") for key in ("mean", "std", "rms")}
    with open_hdf5(path) as file, samples_of(path):
        for order in range(3):
            group = file[f"t{order}_fields"]
            for name in group.attrs["field_names"]:
                moments = {"": _Moments(order), "_delta": _Moments(order)}
                for block, change in _blocks(group[name]):
                    moments[""].add(block)
                    if change is not None:
                        moments["_delta"].add(change)
                for end, one in moments.items():
                    if one.count:
                        values = one.results()
                        found |= {f"{key}{end}": found[f"{key}{end}"] | {name: values[key]} for key in values}
    return found


class _Moments:
    """Count, mean and √Σ(x − mean)², merged block by block (Chan, Golub and LeVeque): no square leaves float64."""

    def __init__(self, order: int) -> None:
        self.order, self.count, self.mean, self.deviation = order, 0, 0.0, 0.0

    def add(self, values: np.ndarray) -> None:
        axes = tuple(range(values.ndim - self.order))
        count = int(np.prod([values.shape[axis] for axis in axes]))
        if not count:
            return
        mean = values.mean(axis=axes)
        apart = values - mean
        unit = np.abs(apart).max(axis=axes)
        unit = np.where(unit > 0, unit, 1.0)
        own = np.sqrt(np.square(apart / unit).sum(axis=axes)) * unit
        total, step = self.count + count, mean - self.mean
        between = np.abs(step) * np.sqrt(self.count * count / total)
        self.deviation = np.hypot(np.hypot(self.deviation, own), between)
        self.mean, self.count = self.mean + step * (count / total), total

    def results(self) -> dict[str, Any]:
        std = self.deviation / np.sqrt(self.count)
        values = {"mean": self.mean, "std": std, "rms": np.hypot(std, self.mean)}
        return {key: np.asarray(value).tolist() for key, value in values.items()}


def _blocks(data: Any) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """float64 blocks of a field and its change in time, a sample and a run of times at once."""
    by_sample, in_time = (bool(data.attrs[key]) for key in ("sample_varying", "time_varying"))
    for sample in range(data.shape[0]) if by_sample else (None,):
        one = (slice(None),) if sample is None else (slice(sample, sample + 1),)
        if not in_time:
            yield data[one if by_sample else ()].astype(np.float64), None
            continue
        axis = int(by_sample)
        steps, size = data.shape[axis], max(1, 8 * int(np.prod(data.shape[axis + 1 :])))
        length = max(1, _BLOCK // size)
        for start in range(0, steps, length):
            # one time of the block before, for the change that leads into this one
            first = max(0, start - 1)
            part = slice(first, min(start + length, steps))
            block = data[(*one, part) if by_sample else (part,)].astype(np.float64)
            yield np.take(block, range(start - first, block.shape[axis]), axis), np.diff(block, axis=axis)


def _yaml(values: dict[str, dict[str, Any]]) -> str:
    lines = []
    for key in sorted(values):
        lines.append(f"{key}:" if values[key] else f"{key}: {{}}")
        lines += [f"  {_word(name)}: {_numbers(value)}" for name, value in sorted(values[key].items())]
    return "\n".join(lines) + "\n"


def _numbers(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_numbers(one) for one in value)}]"
    if not np.isfinite(value):
        return {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}[str(float(value))]
    return f"{value:.16e}"  # YAML takes 1e-05 for a word: a number needs its point


def _word(name: str) -> str:
    import json

    plain = name.isidentifier() and name.lower() not in ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
    return name if plain else json.dumps(name)
