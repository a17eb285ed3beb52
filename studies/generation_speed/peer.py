"""Darcy data by pyamg, written as one would write it: what the generator is compared with.

Each process draws its own share of the fields, assembles them as CSR matrices without a loop, solves by Ruge–Stüben
multigrid and conjugate gradients until the true residual is there, and writes a file of its own: no process waits for
another, and no array passes between them.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from data_gen.darcy import DarcyConfig, coefficients
from sciops.grids import Grid
from studies.kit.solver_cases import matrix_of


def solve(a: np.ndarray, tol: float) -> tuple[np.ndarray, float]:
    """(u on all nodes, its true relative residual ≤ tol): pyamg stops by a norm of its own, so it is asked again."""
    import pyamg

    A, b = matrix_of(a)
    levels = pyamg.ruge_stuben_solver(A)
    inner, size = None, np.linalg.norm(b)
    for asked in (tol, 0.5 * tol, 0.25 * tol, 0.1 * tol):
        inner = levels.solve(b, x0=inner, tol=asked, accel="cg")
        rho = float(np.linalg.norm(b - A @ inner) / size)
        if rho <= tol:
            u = np.zeros_like(a)
            u[1:-1, 1:-1] = inner.reshape(len(a) - 2, -1)
            return u, rho
    raise RuntimeError(f"pyamg does not reach a true residual of {tol:.0e}, only {rho:.1e}")


def generate(config: DarcyConfig, path: Path, first: int, last: int, core: int | None = None) -> float:
    """Writes a and u of samples first … last − 1 on the finest grid, float32; returns the largest true residual.

    core : where to run; any when None
    """
    import h5py

    if core is not None:
        os.sched_setaffinity(0, {core})
    n = max(config.resolutions)
    worst = 0.0
    with h5py.File(path, "w") as file:
        fields = {
            name: file.create_dataset(name, (last - first, n, n), config.dtype, chunks=(1, n, n)) for name in "au"
        }
        for i in range(first, last):
            (a,) = coefficients(config, Grid((n, n)), [(i, i + 1)])
            u, rho = solve(a, config.tol)
            worst = max(worst, rho)
            fields["a"][i - first], fields["u"][i - first] = a, u
    return worst
