"""Batches of a native file for `studies.analysis_speed`: the data set that training uses against bare h5py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studies.kit.fields.smooth import write_fields
from studies.kit.timing import interleaved, ratio

_FIELDS = ("a", "u")


def measure(folder: Path, *, points: int, samples: int, batch: int, rounds: int, seed: int) -> dict[str, Any]:
    """{"opening", "bytes", "orders": {order: {"seconds", "rate", "ratio", "fastest"}}}; both read a cached file.

    "ratio" is the rate of the data set over that of the fastest of h5py's ways. Raises RuntimeError where a batch is
    not that of the file to the bit.
    """
    import h5py

    from sciops.datasets import load_splits

    path = write_fields(folder / "fields.h5", (points,), train=samples, validation=1, test=1, seed=seed)
    try:
        start = time.perf_counter()
        dataset = load_splits(path, memory_limit=1).train
        opening = time.perf_counter() - start
        numbers = np.random.default_rng(seed).permutation(samples)
        with h5py.File(path) as file:
            stored = [file[f"r{points}/{name}"] for name in _FIELDS]
            orders = {
                "in order": _compare(dataset, stored, np.arange(samples), batch, rounds, ("slice",)),
                "shuffled": _compare(dataset, stored, numbers, batch, rounds, ("rows", "list")),
            }
        dataset.close()
    finally:
        path.unlink()
    return {"opening": opening, "bytes": 4 * len(_FIELDS) * samples * points**2, "orders": orders}


def require_same(name: str, batch: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """RuntimeError unless the tensors hold what the arrays do, bit for bit."""
    for key, array in zip(("x", "y"), arrays):
        if not torch.equal(batch[key], torch.from_numpy(array)[:, None]):
            raise RuntimeError(f"{name}: {key} of a batch is not what h5py reads")


def by_slice(stored: Any, rows: np.ndarray) -> np.ndarray:
    """Rows that follow one another, in one read."""
    return stored[int(rows[0]) : int(rows[-1]) + 1]


def by_list(stored: Any, rows: np.ndarray) -> np.ndarray:
    """The rows in one read by h5py's list of ascending numbers, put in the order asked for."""
    order = np.argsort(rows)
    return stored[rows[order]][np.argsort(order)]


def by_rows(stored: Any, rows: np.ndarray) -> np.ndarray:
    """Row by row, in the order of the file, to where they are asked for."""
    values = np.empty((len(rows), *stored.shape[1:]), stored.dtype)
    for i in np.argsort(rows):
        values[i] = stored[int(rows[i])]
    return values


_WAYS = {"slice": by_slice, "list": by_list, "rows": by_rows}


def _compare(
    dataset: Any, stored: list[Any], order: np.ndarray, batch: int, rounds: int, ways: tuple[str, ...]
) -> dict[str, Any]:
    def parts() -> Iterator[np.ndarray]:
        return (order[start : start + batch] for start in range(0, len(order), batch))

    def every(read: Callable[[np.ndarray], Any]) -> Callable[[], None]:
        def epoch() -> None:
            for rows in parts():
                read(rows)

        return epoch

    readers = {f"h5py, {way}": lambda rows, way=_WAYS[way]: [way(field, rows) for field in stored] for way in ways}
    for rows in parts():
        mine = dataset.batch(rows)
        for name, read in readers.items():
            require_same(name, mine, read(rows))
    calls = {"sciops": every(dataset.batch)} | {name: every(read) for name, read in readers.items()}
    seconds = interleaved(calls, rounds=rounds)
    fastest = min(readers, key=lambda name: np.median(seconds[name]))
    size = sum(field.dtype.itemsize * len(order) * field[0].size for field in stored)
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    return {
        "seconds": medians,
        "all_seconds": seconds,
        "rate": {name: size / value for name, value in medians.items()},
        "ratio": ratio(seconds[fastest], seconds["sciops"]),
        "fastest": fastest,
    }
