"""Numbers of every sample that `validate` gathers in one pass, and the list of its findings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.blocks import pieces
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

SHOWN = 8  # samples that a finding names


class Findings:
    """Collects findings; `each` folds many samples into one, naming the first few."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make, self.items = make, []

    def add(self, severity: str, field: str, sample: int | None, message: str, remedy: str) -> None:
        self.items.append(self.make(severity, field, sample, message, remedy))

    def each(self, severity: str, field: str, samples: np.ndarray, message: str, remedy: str) -> None:
        if len(samples) == 0:
            return
        if len(samples) > 1:
            shown = ", ".join(str(int(s)) for s in samples[:SHOWN])
            message += f" ({len(samples)} samples: {shown}{', …' if len(samples) > SHOWN else ''})"
        self.add(severity, field, int(samples[0]), message, remedy)


class Statistics:
    """Per sample: finite or not, least and largest value, trace on the walls of the grid, and a hash of the fields."""

    def __init__(self, dataset: xr.Dataset, grid: Grid) -> None:
        self.grid = grid
        self.fields = [n for n, v in dataset.data_vars.items() if v.ndim > 1 and "sample" in v.dims]
        count = dataset.sizes.get("sample", 0)
        self.unreadable = np.zeros(count, bool)
        self.finite = {name: np.ones(count, bool) for name in self.fields}
        self.low = {name: np.full(count, np.inf) for name in self.fields}
        self.high = {name: np.full(count, -np.inf) for name in self.fields}
        self.trace = np.zeros(count)
        self.other = np.zeros(count, bool)  # an indicator that is neither 0 nor 1
        timed = [n for n in self.fields if dataset[n].dims[:2] == ("sample", "time")]
        self.frozen = {name: np.ones(count, bool) for name in timed}
        self.first = {name: np.zeros(count) for name in timed}  # largest value at the first time, and at the last
        self.last = {name: np.zeros(count) for name in timed}
        self.hashes: list[bytes] = [b""] * count
        self.numbers = [n for n, v in dataset.data_vars.items() if v.dims == ("sample",) and v.dtype.kind == "f"]
        self.walls = _walls(grid) if grid.centering == "node" else []

    def add(self, start: int, block: xr.Dataset) -> None:
        """Takes in the samples of a block, which begins at number `start`; doing so twice changes nothing."""
        digests = [hashlib.blake2b(digest_size=16) for _ in range(block.sizes["sample"])]
        for name in self.fields:
            field = block[name]
            for part in pieces(field.shape, field.dtype.itemsize, whole_samples=name not in self.frozen):
                values = np.asarray(field[part].values)
                self._add(name, start + part[0].start, part[1:], values, field.shape[1])
                for digest, sample in zip(digests[part[0]], values.reshape(len(values), -1)):
                    digest.update(np.ascontiguousarray(sample).tobytes())
        for i, digest in enumerate(digests):
            self.hashes[start + i] = digest.digest()

    def _add(self, name: str, start: int, times: tuple[slice, ...], values: np.ndarray, steps: int) -> None:
        flat, samples = values.reshape(len(values), -1), slice(start, start + len(values))
        if flat.dtype.kind == "c":  # real and imaginary parts side by side
            flat = np.ascontiguousarray(flat).view(flat.real.dtype)
        flat = flat if flat.dtype.kind == "f" else flat.astype(np.float64)
        finite = np.isfinite(flat)
        self.finite[name][samples] &= finite.all(1)
        low, high = self.low[name], self.high[name]
        low[samples] = np.minimum(low[samples], np.min(flat, 1, where=finite, initial=np.inf))
        high[samples] = np.maximum(high[samples], np.max(flat, 1, where=finite, initial=-np.inf))
        if name in self.frozen:
            begin, end = (times[0].start, times[0].stop) if times else (0, steps)
            if begin == 0:
                self._first_state = values[:, :1].copy()
                self.first[name][samples] = np.abs(values[:, 0]).reshape(len(values), -1).max(1)
            if end == steps:
                self.last[name][samples] = np.abs(values[:, -1]).reshape(len(values), -1).max(1)
            self.frozen[name][samples] &= (values == self._first_state).reshape(len(values), -1).all(1)
        if name == "u" and values.ndim == self.grid.ndim + 1:
            for axis, index in self.walls:
                wall = np.abs(np.take(values, index, axis + 1)).reshape(len(values), -1).max(1)
                self.trace[samples] = np.fmax(self.trace[samples], wall)
        if name == "a":
            self.other[samples] |= ((flat != 0) & (flat != 1)).any(1)

    def skip(self, sample: int) -> None:
        """Leaves out a sample whose bytes cannot be read."""
        self.unreadable[sample] = True
        self.hashes[sample] = f"unreadable {sample}".encode()
        for name in self.fields:
            self.finite[name][sample] = False
            self.low[name][sample] = self.high[name][sample] = 0.0


def _walls(grid: Grid) -> list[tuple[int, int]]:
    """(axis, index) of the grid's rows that lie on a wall."""
    return [
        (axis, index)
        for axis, (ends, walls, h) in enumerate(zip(grid.extent, grid.domain, grid.spacing))
        for index, end, wall in ((0, ends[0], walls[0]), (-1, ends[1], walls[1]))
        if abs(end - wall) <= 1e-9 * h
    ]
