"""Data sets of several files, one after another, as one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from sciops.datasets.fields.trajectories import TrajectoryDataset
from sciops.datasets.fields.trajectory_fields import whole
from sciops.symmetry import Symmetry

_SAME = ("grid", "dtype", "inputs")
_SAME_WINDOWS = ("state", "parameters", "forcings", "time_step", "history", "lead", "horizon", "windows")


class JoinedDataset(Dataset):
    """The items of `parts`, all of them `FieldDataset` or all `TrajectoryDataset`, numbered through in their order.

    len, items, batch, close, and for trajectories also count, trajectories, constants, known, initial and clocks are
    those of the parts joined; grid and every other attribute are the first part's. Times that are not the same in all
    parts are the numbers of the frames. Raises ValueError where parts differ in grid, variables or frames.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)
        first = self.parts[0]
        windows = isinstance(first, TrajectoryDataset)
        for part in self.parts[1:]:
            for name in (*_SAME, *(_SAME_WINDOWS if windows else ("outputs",))):
                if getattr(part, name) != getattr(first, name):
                    raise ValueError(
                        f"{first.path} and {part.path} differ in {name}, {getattr(first, name)} and "
                        f"{getattr(part, name)}: name one file"
                    )

    def __repr__(self) -> str:
        return f"JoinedDataset({len(self)} items of {len(self.parts)} files, the first is {self.parts[0]!r})"

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {key: value[0] for key, value in self.batch([int(index)]).items()}

    def __getattr__(self, name: str) -> Any:
        if name == "parts" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.parts[0], name)

    @property
    def lazy(self) -> bool:
        return any(part.lazy for part in self.parts)

    @property
    def symmetry(self) -> Symmetry:
        """The symmetries that the problems of all parts have."""
        return functools.reduce(Symmetry.joined, [part.symmetry for part in self.parts])

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def samples(self) -> np.ndarray:
        """Numbers of the samples in their files, file after file."""
        return np.concatenate([part.samples for part in self.parts])

    @property
    def times(self) -> np.ndarray:
        return self.parts[0].times if self._one_time else self.parts[0]._frames.astype(np.float64)

    @property
    def time_units(self) -> str:
        return self.parts[0].time_units if self._one_time else "frames"

    @property
    def clocks(self) -> np.ndarray:
        return np.concatenate([part.clocks for part in self.parts])

    @property
    def _one_time(self) -> bool:
        first = self.parts[0]
        step = np.abs(np.diff(first.times)).min()
        return all(
            part.time_units == first.time_units and np.allclose(part.times, first.times, rtol=1e-6, atol=1e-3 * step)
            for part in self.parts
        )

    def batch(self, indices: Any) -> dict[str, Tensor]:
        order, parts = self._each(indices, [len(part) for part in self.parts], lambda part, own: part.batch(own))
        return {key: torch.cat([part[key] for part in parts])[order] for key in ("x", "y")}

    def trajectories(self, numbers: Any = slice(None)) -> Tensor:
        order, parts = self._each(numbers, self._counts, lambda part, own: part.trajectories(own))
        return torch.cat(parts)[order]

    def constants(self, numbers: Any = slice(None)) -> Tensor:
        order, parts = self._each(numbers, self._counts, lambda part, own: part.constants(own))
        return torch.cat(parts)[order]

    def known(self, numbers: Any = slice(None)) -> Tensor:
        order, parts = self._each(numbers, self._counts, lambda part, own: part.known(own))
        return torch.cat(parts)[order]

    def initial(self, numbers: Any = slice(None), steps: int = 1) -> Tensor:
        order, parts = self._each(numbers, self._counts, lambda part, own: part.initial(own, steps))
        return torch.cat(parts)[order]

    def subset(self, numbers: Any) -> JoinedDataset:
        """The samples `numbers`, file after file; within a file in the order given."""
        return JoinedDataset(self._each(numbers, self._counts, lambda part, own: part.subset(own))[1])

    def close(self) -> None:
        for part in self.parts:
            part.close()

    @property
    def _counts(self) -> list[int]:
        return [len(part.samples) for part in self.parts]

    def _each(self, indices: Any, sizes: list[int], call: Callable[[Any, np.ndarray], Any]) -> tuple[np.ndarray, list]:
        """What `call` gives of each part asked for, and where in these the indices are."""
        indices = whole(indices, sum(sizes), "item")
        ends = np.cumsum(sizes)
        owner = np.searchsorted(ends, indices, side="right")
        asked = [i for i in range(len(sizes)) if (owner == i).any()] or [0]
        where = np.concatenate([np.flatnonzero(owner == i) for i in asked])
        return np.argsort(where), [call(self.parts[i], indices[owner == i] - (ends[i] - sizes[i])) for i in asked]
