"""Which samples train, which select, which test: as the file stores it, or as the caller states it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sciops.arrays.short import html_table
from sciops.datasets.conventions import SPLITS
from sciops.datasets.fields.joined import JoinedDataset
from sciops.datasets.fields.split_sources import Pool, sources_of
from sciops.datasets.fields.torch_data import MEMORY_LIMIT, FieldDataset, TensorFields
from sciops.datasets.fields.trajectories import TrajectoryDataset
from sciops.datasets.fields.trajectory_fields import check_evolves, check_steady
from sciops.files.budget import Budget, within_budget

HELD_OUT = 0.1
INPUTS = ("a", "f")  # what a steady solution u may be the answer to


@dataclass(frozen=True)
class Splits:
    """The three parts of a data set; None where there is no such part."""

    train: FieldDataset | TensorFields | TrajectoryDataset | JoinedDataset | None = None
    validation: FieldDataset | TensorFields | TrajectoryDataset | JoinedDataset | None = None
    test: FieldDataset | TensorFields | TrajectoryDataset | JoinedDataset | None = None

    def __repr__(self) -> str:
        return "\n".join(["Splits", *(f"  {part:10}  {text}" for part, text in self._rows())])

    def _repr_html_(self) -> str:
        return html_table("Splits", self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        return [(part, "—" if getattr(self, part) is None else repr(getattr(self, part))) for part in SPLITS]


@within_budget
def load_splits(
    path: str | os.PathLike,
    resolution: int | tuple[int, ...] | None = None,
    *,
    files: Collection[str] | None = None,
    train: Any = None,
    validation: Any = None,
    test: Any = None,
    equation: str | None = None,
    inputs: tuple[str, ...] | None = None,
    outputs: tuple[str, ...] = ("u",),
    windows: Mapping[str, Any] | None = None,
    kinds: Mapping[str, str] | None = None,
    dtype: torch.dtype = torch.float32,
    memory_limit: int = MEMORY_LIMIT,
    budget: Budget | None = None,
) -> Splits:
    """Opens the training, validation and test data of a file or of a folder of files.

    A part that neither file nor folder has is held out from the end of the training samples in file order: test takes
    the last tenth, validation the tenth before it, each at least one sample where one is left to train on (or the
    counts given; 0 for none). In a folder with a test file at any resolution, no test samples are held out. Nothing is
    shuffled: the same call always gives the same parts.

    Parameters
    ----------
    path : str or path-like
        A file that stores its splits (native); a file that does not (any other layout); a folder whose file names say
        train/training/smooth1, val/valid/validation, test/testing/smooth2 (darcy_train_16.pt, …); or a folder with such
        folders in it or in its data/ (The Well's data/train/*.hdf5), whose files are joined. What the files hold is
        read from their content.
    resolution : int or tuple of int, optional
        Points per axis. In a folder, files of exactly this grid come first, then finer ones that nest it. Default: the
        grid of the training file with the fewest points.
    files : collection of str, optional
        Names of the files of a folder that are meant; default all of them.
    train, validation, test : optional
        Samples of each part. None: all of it. A count n: the first n training samples, the last n of the other parts.
        (start, stop): that range. A list or array: those numbers. Numbers count within the part where the file or
        folder has it, otherwise within the training samples.
    equation : str, optional
        In a folder of several equations; default the only one that is steady, or with `windows` evolves.
    inputs, outputs : tuple of str
        Fields of a steady problem, as in `FieldDataset`; default input ``a``, or ``f`` where there is no ``a``.
    windows : mapping, optional
        For trajectories: options of `TrajectoryDataset`, ``{"history": 10, "horizon": 1, …}``, its own `inputs` among
        them; {} for its defaults. A sample is a whole trajectory, so that no two parts share a frame. Default: the
        problem is steady.
    kinds : mapping, optional
        Variable → what its channels are, as in `FieldDataset`.
    dtype, memory_limit
        As in `FieldDataset`.
    budget : Budget, optional
        What each file may take, as in `open_dataset`.

    Returns
    -------
    Splits
        The parts; None for a part without samples.

    Raises
    ------
    ValueError
        For parts that overlap or name a sample twice, counts that do not fit, folders without a file for `resolution`,
        steady data with `windows` and trajectories without.

    Examples
    --------
    >>> load_splits("data", resolution=16, validation=100).train    # doctest: +SKIP
    """
    path = Path(path)
    sources = sources_of(path, resolution, equation, windows is not None, files)
    pools = sources.pools
    asked = {"train": train, "validation": validation, "test": test}
    chosen = {
        part: replace(pool, samples=_choose(pool.samples, asked[part], part))
        for part, pool in pools.items()
        if part != "train"
    }
    if "train" in pools:
        pool = pools["train"]
        rest = pool.samples
        for part in ("test", "validation"):
            if part in pools:
                continue
            tenth = min(max(1, round(HELD_OUT * len(pool.samples))), len(rest) - 1)  # one is left to train on
            default = max(0, tenth) if part in sources.held_out else 0
            held = _choose(rest, asked[part], part, within=pool.samples, default=default)
            rest = rest[~np.isin(rest, held)]
            chosen[part] = replace(pool, samples=held)
        chosen["train"] = replace(pool, samples=_choose(rest, train, "train", within=pool.samples))
    elif train is not None:
        raise ValueError(f"train={train!r}: {path} holds no training samples at resolution {resolution}")
    _check_disjoint(chosen)
    options = {"resolution": sources.resolution, "dtype": dtype, "memory_limit": memory_limit}
    options |= {} if kinds is None else {"kinds": kinds}
    fields = None if windows is not None else {"inputs": inputs, "outputs": outputs}
    return Splits(**{part: _open(pool, windows, fields, options) for part, pool in chosen.items() if len(pool.samples)})


def _open(
    pool: Pool, windows: Mapping[str, Any] | None, fields: dict[str, Any] | None, options: dict[str, Any]
) -> FieldDataset | TrajectoryDataset | JoinedDataset:
    """The pool's samples as one data set; its files share the memory limit."""
    parts, left = [], options["memory_limit"]
    for path, samples in pool.by_file():
        attrs, known = _look_into(path, options["resolution"])
        own = {**options, "samples": samples, "memory_limit": left}
        if windows is not None:
            check_evolves(attrs)
            parts.append(TrajectoryDataset(path, **windows, **own))
        else:
            check_steady(attrs)
            inputs = fields["inputs"] or (next((name for name in INPUTS if name in known), INPUTS[0]),)
            parts.append(FieldDataset(path, inputs=inputs, outputs=fields["outputs"], **own))
        left -= parts[-1].held_bytes
    return parts[0] if len(parts) == 1 else JoinedDataset(parts)


def _look_into(path: Path, resolution: Any) -> tuple[dict[str, Any], list[str]]:
    from sciops.datasets.formats import open_dataset

    with open_dataset(path, resolution) as dataset:
        return dict(dataset.attrs), [str(name) for name in dataset.data_vars]


def _choose(
    pool: np.ndarray, asked: Any, part: str, *, within: np.ndarray | None = None, default: int | None = None
) -> np.ndarray:
    """`asked` as sample numbers: counts are taken from `pool`, ranges and lists from `within`."""
    within = pool if within is None else within
    if asked is None:
        if default is None:
            return pool
        asked = default
    if isinstance(asked, (int, np.integer)):
        if not 0 <= asked <= len(pool):
            raise ValueError(f"{part}={asked}: there are {len(pool)} samples to take from")
        return pool[:asked] if part == "train" else pool[len(pool) - asked :]
    if isinstance(asked, tuple) and len(asked) == 2:
        start, stop = asked
        if not 0 <= start <= stop <= len(within):
            raise ValueError(f"{part}={asked}: expected 0 ≤ start ≤ stop ≤ {len(within)}")
        return within[start:stop]
    numbers = np.asarray(asked)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError(f"{part}={asked!r}: expected a count, (start, stop), or a list of sample numbers")
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(within):
        raise ValueError(f"{part} holds numbers outside 0 … {len(within) - 1}")
    values, counts = np.unique(numbers, return_counts=True)
    if (counts > 1).any():
        twice = int(values[counts > 1][0])
        raise ValueError(f"{part} names sample {twice} {int(counts.max())} times: expected each sample once")
    return within[numbers]


def _check_disjoint(chosen: dict[str, Pool]) -> None:
    parts = [(part, chosen[part]) for part in SPLITS if part in chosen]
    for i, (first, one) in enumerate(parts):
        for second, other in parts[i + 1 :]:
            shared = np.intersect1d(one.samples, other.samples) if one.paths == other.paths else np.empty(0)
            if shared.size:
                raise ValueError(
                    f"{first} and {second} share {shared.size} samples, the first is {int(shared[0])}: "
                    "state ranges that do not overlap"
                )
