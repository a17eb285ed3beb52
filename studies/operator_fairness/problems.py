"""Darcy problems −∇·(a∇u) = 1 by boundary, contrast and roughness: one random field, solved in every regime."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sciops.grids import Grid, restrict
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field, two_phase
from studies.kit.cells import kept_arrays

if TYPE_CHECKING:
    from studies.operator_fairness import Config

BOUNDARIES: dict[str, Callable[[Grid], dict[str, Any]]] = {
    "zero": lambda grid: {},
    "driven": lambda grid: {"values": {"x": (_LEVEL, 0.0), "y": _LEVEL * (1 - _axis(grid))}},
    "no flow": lambda grid: {"boundary": {"y": "neumann"}},
    "periodic": lambda grid: {"boundary": {"y": "periodic"}},
}
"""u = 0 on all sides; u = 0.1 (1 − x) on all sides; u = 0 on the sides in x, and no flow or a period in y."""

_LEVEL = 0.1
_ALPHA, _MODES = 2.0, 64
_FIRST = {"train": 0, "validation": 1_000_000, "test": 2_000_000, "worst": 3_000_000, "all": 4_000_000}
"""Number of the first random field of each set: no field is in two sets."""

Regime = tuple[str, int, float]


@dataclass(frozen=True)
class Problems:
    """Samples in rows.

    x, y : inputs (rows, 1 + boundaries, n, n), log10 of a and constant channels that name the boundary; solutions
        (rows, 1, n, n)
    x_fine, y_fine : the same on twice the points
    field : (rows,) number of the random field. regime : (rows,) index in `regimes(config)`
    """

    x: Tensor
    y: Tensor
    x_fine: Tensor
    y_fine: Tensor
    field: np.ndarray
    regime: np.ndarray


def grids(config: Config) -> tuple[Grid, Grid]:
    """The grid of training, and that of twice the points on which the problems are solved."""
    coarse, fine = (Grid((n, n), centering="cell") for n in (config.points, 2 * config.points))
    return coarse, fine


def regimes(config: Config) -> list[Regime]:
    """(boundary, contrast, τ) of every regime."""
    return list(itertools.product(config.boundaries, config.contrasts, config.roughness))


def labels(config: Config) -> list[dict[str, str]]:
    """Factor → level of every regime."""
    return [
        {"boundary": boundary, "contrast": f"1:{contrast}", "roughness": f"τ = {tau:g}"}
        for boundary, contrast, tau in regimes(config)
    ]


def problem_set(config: Config, folder: Path | None, name: str, worst: int | None = None) -> Problems:
    """One of the sets "train", "validation", "test", "all" and "worst": further samples of all regimes, or of one.

    worst : index of the regime, for the set "worst"
    """
    count = len(regimes(config))
    if name in ("validation", "test"):
        fields = getattr(config, name)
        field, regime = np.arange(fields).repeat(count), np.tile(np.arange(count), fields)
    else:
        field = np.arange(config.train if name == "train" else config.extra)
        regime = field % count if worst is None else np.full(len(field), worst)
    field = field + _FIRST[name]
    asked = {
        "points": config.points,
        "regimes": regimes(config),
        "field": [int(field[0]), len(field)],
        "of": regime.tolist(),
        "each": len(np.unique(field)),
    }
    arrays = kept_arrays(folder, f"problems-{name}", asked, lambda: _solved(config, field, regime))
    x, x_fine = (_inputs(config, arrays[key], regime) for key in ("a", "a_fine"))
    y, y_fine = (torch.from_numpy(arrays[key])[:, None] for key in ("u", "u_fine"))
    return Problems(x, y, x_fine, y_fine, field, regime)


def solve_regime(config: Config, a: np.ndarray, grid: Grid, boundary: str) -> np.ndarray:
    """Solutions (rows, *grid) for coefficients (rows, *grid)."""
    return np.asarray(darcy.solve(a, grid, **BOUNDARIES[boundary](grid)).u)


def _solved(config: Config, field: np.ndarray, regime: np.ndarray) -> dict[str, np.ndarray]:
    """a on both grids, at their own points; u on both, solved on the finer one and averaged over the cells."""
    coarse, fine = grids(config)
    a, a_fine, u_fine = (np.empty((len(field), *grid.shape)) for grid in (coarse, fine, fine))
    table = regimes(config)
    for tau in config.roughness:
        of_tau = [i for i, k in enumerate(regime) if table[k][2] == tau]
        drawn: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for i in of_tau:
            number = int(field[i])
            if number not in drawn:
                drawn = {number: tuple(_random(grid, tau, number) for grid in (coarse, fine))}
            root = np.sqrt(table[regime[i]][1])
            a[i], a_fine[i] = (two_phase(values, 1 / root, root) for values in drawn[number])
    for boundary in config.boundaries:
        rows = np.array([i for i, k in enumerate(regime) if table[k][0] == boundary], dtype=int)
        for part in np.array_split(rows, -(-len(rows) // 128)) if len(rows) else []:
            u_fine[part] = solve_regime(config, a_fine[part], fine, boundary)
    made = {"a": a, "a_fine": a_fine, "u": restrict(u_fine, fine, coarse), "u_fine": u_fine}
    return {name: values.astype(np.float32) for name, values in made.items()}


def _random(grid: Grid, tau: float, number: int) -> np.ndarray:
    """The Gaussian field of one number; the same random coefficients for every τ and grid."""
    return gaussian_random_field(grid, 1, tau=tau, alpha=_ALPHA, seed=0, modes=_MODES, first=number)[0]


def _inputs(config: Config, a: np.ndarray, regime: np.ndarray) -> Tensor:
    """(rows, 1 + boundaries, n, n)."""
    boundaries = [config.boundaries.index(regimes(config)[k][0]) for k in regime]
    named = np.eye(len(config.boundaries), dtype=np.float32)[boundaries]
    channels = np.broadcast_to(named[:, :, None, None], (*named.shape, *a.shape[1:]))
    return torch.from_numpy(np.concatenate([np.log10(a)[:, None], channels], axis=1).astype(np.float32))


def _axis(grid: Grid) -> np.ndarray:
    """x of the points along a side in y."""
    return np.asarray(grid.coordinates()[0])
