"""Checks of losses and of matrices between tasks, and the entries off the diagonal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sciops.arrays.kinds import as_tensor, refuse_complex
from sciops.values import check_whole


def numbers(values: Any, name: str) -> np.ndarray:
    """A float64 copy of real numbers of any kind: numpy, torch on any device, xarray, nested lists."""
    refuse_complex(values, name)
    return np.array(as_tensor(values, name)[0].detach().cpu().double().numpy())


def square(values: Any, name: str = "the matrix", *, least: int = 2) -> np.ndarray:
    """A matrix between tasks, (tasks, tasks) float64 with zeros on the diagonal; what stood there does not count.

    Raises ValueError for other shapes, for fewer than `least` tasks, and for NaN or infinity off the diagonal.
    """
    matrix = numbers(values, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < least:
        raise ValueError(f"{name} has shape {matrix.shape}: expected (tasks, tasks) of at least {least} tasks")
    np.fill_diagonal(matrix, 0.0)
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} holds NaN or infinity off its diagonal: leave out the tasks whose trainings failed")
    return matrix


def off_diagonal(matrix: np.ndarray) -> np.ndarray:
    """The entries off the diagonal, row by row: (..., n, n) → (..., n (n − 1))."""
    return matrix[..., ~np.eye(matrix.shape[-1], dtype=bool)]


def named(tasks: Iterable[str] | None, count: int) -> tuple[str, ...]:
    """The names of `count` tasks, by default their numbers; raises ValueError for another count or equal names."""
    names = tuple(map(str, range(count) if tasks is None else tasks))
    if len(names) != count or len(set(names)) != count:
        raise ValueError(f"tasks={list(names)}: expected {count} names that all differ")
    return names


def generator(rng: Any) -> np.random.Generator:
    """A generator of numpy as it is; raises TypeError for anything else, which would hide where numbers come from."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng={rng!r}: expected a generator, such as numpy.random.default_rng(0)")
    return rng


def check_permutations(permutations: int) -> int:
    """Raises ValueError below 99, where no p value can be small."""
    check_whole(99, permutations=permutations)
    return int(permutations)
