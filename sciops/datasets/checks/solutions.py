"""Darcy problems of a file solved again and compared with what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.checks.statistics import Findings, Statistics
from sciops.files.untrusted import parse_json
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_WRONG = 0.2  # relative L2 against the solution: not discretisation, another equation
_NOTABLE = 0.02
_SOLVED = 1e-4  # the same where the file says that u was solved on this very grid


def check_solutions(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings, count: int) -> None:
    """Solves `count` samples again on the data set's own grid and compares.

    The coefficient is a, or a_x and a_y; the forcing is the variable f, or the number in the attribute of that name;
    the attribute ``walls`` holds the solver's boundary, values, flux and transfer as JSON, where they are not the
    defaults.
    """
    if not is_solvable(dataset, grid) or not set(_coefficients(dataset)) | {"u"} <= set(s.fields):
        return
    from sciops.metrics import relative_l2
    from sciops.pde import darcy

    sound = [s.finite[name] & (s.low[name] > 0) for name in _coefficients(dataset)]
    usable = np.flatnonzero(np.all(sound, 0) & s.finite["u"] & (np.fmax(s.high["u"], -s.low["u"]) > 0))
    chosen = (
        np.unique(usable[np.linspace(0, len(usable) - 1, min(count, len(usable))).astype(int)]) if len(usable) else []
    )
    if not len(chosen):
        return
    block = dataset.isel(sample=chosen)
    u = np.asarray(block["u"].values, dtype=np.float64)
    try:
        a, options = stated_problem(block)
        solution = darcy.solve(a, grid, on_failure="flag", **options)
    except (TypeError, ValueError) as error:
        found.add(
            "error", "", None, f"walls or forcing make no Darcy problem: {error}", "correct the attribute 'walls'"
        )
        return
    error = np.where(solution.status == "failed", 0.0, relative_l2(solution.u, u, grid))
    worst, mean = int(chosen[np.argmax(error)]), float(error.mean())
    here = dataset.attrs.get("layout") == "native" and (
        dataset.attrs.get("labels") == "solved" or str(dataset.attrs.get("solved_on", "")) == str(grid.shape[0])
    )
    if here and error.max() > _SOLVED:
        found.add(
            "error",
            "u",
            worst,
            f"does not solve −∇·(a∇u) = f with the a beside it: relative L2 difference {error.max():.2g}",
            "generate the file again",
        )
    elif mean > _WRONG:
        found.add(
            "warning",
            "u",
            worst,
            f"differs from the solution of −∇·(a∇u) = f on this grid by {mean:.2g} (mean relative L2 of {len(chosen)})",
            "values of a, source or scale are not what they seem: sciops.datasets.fit_two_phase(dataset) tries others",
        )
    elif mean > _NOTABLE and dataset.attrs.get("layout") != "native":
        found.add(
            "note",
            "u",
            None,
            f"differs from the solution on this grid by {mean:.2g} (mean relative L2 of {len(chosen)} samples)",
            "coarse interfaces or rough labels: print it beside the errors of models",
        )


def is_solvable(dataset: xr.Dataset, grid: Grid) -> bool:
    """Whether `darcy.solve` takes the problems of a data set on this grid: values of a, between walls, in the plane."""
    known = dataset.attrs.get("equation") == "darcy" and dataset.attrs.get("coefficient") == "values"
    held = set(_coefficients(dataset)) <= set(dataset.data_vars)
    return known and held and grid.ndim == 2 and grid.centering != "periodic" and min(grid.shape) >= 3


def stated_problem(block: xr.Dataset) -> tuple[np.ndarray, dict[str, Any]]:
    """(a, options of `darcy.solve`) of the samples of a solvable data set, as `check_solutions` describes them.

    Raises ValueError or TypeError where the attributes are no numbers and JSON.
    """
    names = _coefficients(block)
    a = [np.asarray(block[name].values, dtype=np.float64) for name in names]
    options: dict[str, Any] = {
        "tensor": len(names) == 2,
        "mean": "project",
    }  # a balanced f is so to its stored precision
    options["forcing"] = np.asarray(block["f"].values if "f" in block else float(block.attrs.get("forcing", 1.0)))
    walls = parse_json(block.attrs.get("walls", "{}"))
    options |= {key: walls[key] for key in ("boundary", "values", "flux", "transfer") if key in walls}
    return np.stack(a, 1) if len(a) == 2 else a[0], options


def _coefficients(dataset: xr.Dataset) -> list[str]:
    return ["a"] if "a" in dataset else ["a_x", "a_y"]
