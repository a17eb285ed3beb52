"""The solvers that the Darcy solver is held against, and one comparison at equal true residual."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sciops.pde import darcy
from studies.kit.solver_cases import check, matrix_of


def with_pyamg(A, b: np.ndarray, tol: float) -> np.ndarray:
    """The solution of Au = b by conjugate gradients with one cycle of Ruge and Stüben's multigrid a step."""
    import pyamg

    return pyamg.ruge_stuben_solver(A).solve(b, tol=tol, accel="cg")


def with_spsolve(A, b: np.ndarray, tol: float) -> np.ndarray:
    """The solution of Au = b by sparse LU."""
    from scipy.sparse.linalg import spsolve

    return spsolve(A, b)


def timed(call: Callable, *arguments: Any, **options: Any) -> tuple[float, Any]:
    """(seconds, result) of a call."""
    start = time.perf_counter()
    result = call(*arguments, **options)
    return time.perf_counter() - start, result


def pyamg_tolerance(A, b: np.ndarray, tol: float) -> float:
    """What to ask of pyamg so that the *true* residual reaches tol: its own test is on a norm of its own."""
    for asked in (tol, 0.5 * tol, 0.25 * tol, 0.1 * tol):
        if np.linalg.norm(b - A @ with_pyamg(A, b, asked)) <= tol * np.linalg.norm(b):
            return asked
    raise RuntimeError(f"pyamg does not reach a true residual of {tol:.0e}")


def compare(a: np.ndarray, repeats: int, peers: dict[str, Callable], *, tol: float) -> list[dict[str, Any]]:
    """One row a solver, ours in both forms: times per sample of every repeat, their median, the worst true residual,
    iterations. Raises RuntimeError where a solution is not within `tol`, or not ours."""
    systems = {i: matrix_of(a[i]) for i in {r % len(a) for r in range(repeats)}}
    forms = ("numba", "torch")
    darcy.solve(a[:1], tol=tol, threads=1)  # compiles, or loads what was compiled before
    asked = {r: pyamg_tolerance(*systems[r], tol) if "pyamg" in peers else None for r in systems}
    times: dict[str, list[float]] = {name: [] for name in [*forms, *peers]}
    residuals: dict[str, list[float]] = {name: [] for name in times}
    iterations = {}
    for repeat in range(repeats):
        i = repeat % len(a)
        A, b = systems[i]
        for form in forms:
            seconds, solution = timed(darcy.solve, a, tol=tol, backend=form, threads=1)
            if form == "numba":
                reference = solution.u[i, 1:-1, 1:-1]
            times[form].append(seconds / len(a))
            residuals[form].append(check(form, A, b, solution.u[i, 1:-1, 1:-1], reference, tol))
            iterations[form] = int(solution.iterations.max())
        for name, solver in peers.items():
            matrix = A.tocsc() if name == "spsolve" else A
            seconds, u = timed(solver, matrix, b, asked[i] if name == "pyamg" else tol)
            times[name].append(seconds)
            residuals[name].append(check(name, A, b, u, reference, tol))
    return [
        {
            "solver": name,
            "n": a.shape[1],
            "batch": len(a) if name in forms else 1,
            "seconds": float(np.median(times[name])),
            "all_seconds": times[name],
            "residual": max(residuals[name]),
            "iterations": iterations.get(name),
        }
        for name in times
    ]
