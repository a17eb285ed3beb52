"""A native file of random smooth fields and a smooth operator of them, made in seconds, of any size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sciops.grids import Grid

_BLOCK = 64  # fields at a time
_MODES = 10  # cosines per axis


def write_fields(
    path: Path, points: Sequence[int], *, train: int, validation: int, test: int, seed: int, dimensions: int = 2
) -> Path:
    """a: Gaussian fields of covariance (−Δ + 9 I)⁻²; u = s + a²/4 with s the same draw of covariance (−Δ + 9 I)⁻³.

    points : nodes per axis of each grid in the file; all grids see the same functions
    train, validation, test : how many fields, stored as the file's splits
    """
    from sciops.datasets import build_dataset, write_native

    samples = train + validation + test
    split = np.repeat(np.int8([0, 1, 2]), (train, validation, test))
    named = {"flag_values": np.int8([0, 1, 2]), "flag_meanings": "train validation test"}
    dims = ("sample", "x", "y", "z")[: dimensions + 1]
    datasets = []
    for n in points:
        grid = Grid((n,) * dimensions)
        a, u = (np.empty((samples, *grid.shape), np.float32) for _ in range(2))
        for start in range(0, samples, _BLOCK):
            part = slice(start, min(start + _BLOCK, samples))
            a[part], u[part] = _fields(grid, part, seed)
        fields = {
            "a": (dims, a, {"units": "1", "long_name": "random field", "kind": "scalar"}),
            "u": (dims, u, {"units": "1", "long_name": "its image", "kind": "scalar"}),
            "split": (("sample",), split, named),
        }
        datasets.append(build_dataset(fields, grid, layout="native", equation="smoothing"))
    return write_native(path, datasets, overwrite=True)


def _fields(grid: Grid, part: slice, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sciops.random_fields import gaussian_random_field

    law = {"tau": 3.0, "seed": seed, "first": part.start, "modes": _MODES, "normalize": True}
    a, smooth = (gaussian_random_field(grid, part.stop - part.start, alpha=alpha, **law) for alpha in (2.0, 3.0))
    return a, smooth + 0.25 * a**2
