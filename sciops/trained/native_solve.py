"""The native solver on the samples that a model predicts: its error against the file's solution, and its time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.checks.solutions import is_solvable, stated_problem
from sciops.datasets.fields.phases import with_phases
from sciops.metrics import relative_l2
from sciops.trained.problem import Problem

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class NativeSolve:
    """Solutions of the equation on the data's own grid, compared with those of the file.

    numbers : of the samples that were solved, counted within the problem
    relative_l2 : (samples,) of the solver's u against the file's; NaN where it failed
    seconds : for one sample, with as many threads as the model had; compilation is left out
    """

    numbers: np.ndarray
    relative_l2: np.ndarray
    seconds: float


def native_solve(problem: Problem, count: int, phases: tuple[float, float] | None = None) -> NativeSolve | str:
    """Solves up to `count` samples, evenly spread over those of the problem; a text says why none can be.

    phases : values of a coefficient of which the file marks two phases only
    """
    from sciops.datasets.formats import open_dataset

    if hasattr(problem.fields, "parts"):
        return "only of samples in one file"
    with open_dataset(problem.fields.path, problem.fields.resolution) as dataset:
        if phases is None and dataset.attrs.get("coefficient") == "indicator":
            return "the file marks two phases without their values; state them, --phases LOW HIGH"
        stated = dataset if phases is None else with_phases(dataset, *phases)
        if not is_solvable(stated, problem.grid):
            return f"no solver here for the equation {dataset.attrs.get('equation', '')!r} of this file on its grid"
        numbers = np.unique(np.linspace(0, problem.count - 1, min(count, problem.count)).round().astype(int))
        return _solved(problem, stated.isel(sample=problem.samples[numbers]), numbers)


def _solved(problem: Problem, block: xr.Dataset, numbers: np.ndarray) -> NativeSolve | str:
    from sciops.pde import darcy

    options: dict[str, Any]
    try:
        a, options = stated_problem(block)
        options["on_failure"] = "flag"
        forcing = options["forcing"]
        first = options | {"forcing": forcing[:1] if forcing.ndim == 3 else forcing}
        darcy.solve(a[:1], problem.grid, **first)  # compiles
        began = time.perf_counter()
        solution = darcy.solve(a, problem.grid, **options)
        seconds = (time.perf_counter() - began) / len(a)
    except (TypeError, ValueError) as error:
        return f"the solver refuses the file's problem: {error}"
    truth = np.asarray(block["u"].values, np.float64)
    failed = solution.status == "failed"
    errors = relative_l2(np.where(failed[:, None, None], 0.0, solution.u), truth)
    return NativeSolve(numbers, np.where(failed, np.nan, errors), seconds)
