"""Darcy fields of the li2020 law on nested grids, solved on one fine grid, as training, validation and test sets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from sciops.datasets import FreshFields, Splits, TensorFields
from sciops.grids import Grid
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field, two_phase
from sciops.symmetry import Symmetry
from studies.kit.cells import kept_arrays

_LAW: dict[str, Any] = {"tau": 3.0, "alpha": 2.0, "modes": 192}
_PHASES = {"low": 3.0, "high": 12.0}
_BEYOND = 2**40  # number of the first field of a stream: beyond those of every set
_BLOCK = 50  # fields drawn and solved at a time


def darcy_splits(
    folder: Path | None, sizes: Sequence[int], samples: tuple[int, int, int], *, finest: int = 421, seed: int = 0
) -> tuple[dict[int, Splits], float | None]:
    """Train, validation and test fields by nodes per axis, and the seconds that those to learn from took to make.

    Darcy flow −∇·(a∇u) = 1 of the li2020 law, a = 3 or 12 by the sign of a Gaussian field (τ = 3, α = 2), u = 0 on the
    walls, solved on `finest` nodes per axis and taken at those of every size. All sizes hold the same functions. The
    seconds are those of training and validation fields, None for fields that were kept before times were.

    Parameters
    ----------
    folder : path or None
        Where the fields are kept, in a file for each law, sizes and numbers of samples; None keeps nothing.
    sizes : sequence of int
        Nodes per axis, each nested in `finest`.
    samples : (int, int, int)
        Training, validation and test fields.
    """
    drawn, phases = {**_LAW, "seed": seed}, _PHASES
    made_by = {"finest": finest, "sizes": tuple(sizes), "samples": samples, "drawn": drawn, "phases": phases}
    found = kept_arrays(folder, "fields", made_by, lambda: _solved(finest, sizes, sum(samples), drawn, phases))
    learned = sum(samples[:2]) / sum(samples)
    seconds = float(found["seconds"]) * learned if "seconds" in found else None
    return _split({n: (found[f"a{n}"], found[f"u{n}"]) for n in sizes}, samples), seconds


def endless_darcy(n: int, length: int, *, finest: int = 421, seed: int = 0, passes: int = 1) -> FreshFields:
    """Fields of the same law, solved on `finest` nodes and taken at n of them, without end; every field `passes` times.

    None of them is in `darcy_splits`; length : fields of an epoch, by the first of which normalisers are fitted.
    """
    grid, make = Grid((n, n)), partial(_made, n, finest, seed)
    about = f"Darcy, li2020, seed {seed}, solved on {finest}"
    return FreshFields(
        make, grid, length=length, first=_BEYOND, passes=passes, about=about, symmetry=Symmetry.of_scalars()
    )


def _made(n: int, finest: int, seed: int, numbers: np.ndarray) -> dict[str, np.ndarray]:
    fine, s = Grid((finest,) * 2), (finest - 1) // (n - 1)
    breaks = np.flatnonzero(np.diff(numbers) > 1) + 1
    drawn = [
        gaussian_random_field(fine, len(part), first=int(part[0]), seed=seed, **_LAW)
        for part in np.split(numbers, breaks)
        if len(part)
    ]
    a = two_phase(np.concatenate(drawn), **_PHASES)
    u = darcy.solve(a, fine, threads=1).u  # a sample has the same bits whatever the batch
    return {"x": a[:, None, ::s, ::s].astype(np.float32), "y": u[:, None, ::s, ::s].astype(np.float32)}


def _solved(
    finest: int, sizes: Sequence[int], total: int, drawn: dict[str, Any], phases: dict[str, float]
) -> dict[str, Any]:
    """Coefficients a and solutions u by size, and the seconds they took: {"a85": …, "u85": …, …, "seconds": …}."""
    fine = Grid((finest,) * 2)
    start = time.perf_counter()
    parts: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {n: [] for n in sizes}
    for first in tqdm(range(0, total, _BLOCK), desc="fields", unit="block", disable=None, leave=False):
        count = min(_BLOCK, total - first)
        g = gaussian_random_field(fine, count, first=first, **drawn)
        a = two_phase(g, **phases)
        u = darcy.solve(a, fine).u
        for n in sizes:
            s = (finest - 1) // (n - 1)
            parts[n].append((a[:, ::s, ::s].astype(np.float32), u[:, ::s, ::s].astype(np.float32)))
    found = {
        f"{name}{n}": np.concatenate(side) for n, blocks in parts.items() for name, side in zip("au", zip(*blocks))
    }
    return found | {"seconds": np.array(time.perf_counter() - start)}


def _split(fields: dict[int, tuple[np.ndarray, np.ndarray]], samples: tuple[int, int, int]) -> dict[int, Splits]:
    ends = np.cumsum([0, *samples])
    found = {}
    for n, (a, u) in fields.items():
        grid, symmetry = Grid((n, n)), Symmetry.of_scalars()  # u = 0 on all walls, f = 1
        parts = [TensorFields(a[i:j, None], u[i:j, None], grid, symmetry=symmetry) for i, j in zip(ends[:-1], ends[1:])]
        found[n] = Splits(*parts)
    return found
