"""The checks of `validate` that concern fields which evolve in time."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import parameters_of, state_of
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_SOLVED = ("advection", "burgers", "kdv", "kuramoto_sivashinsky", "heat", "fisher_kpp")
_TIMES = 3  # compared after the first
_WRONG = 0.2  # relative L2: not discretisation, another equation
_NOTABLE = 0.02
_EXACT = 1e-3  # where the file says that it was solved on this very grid
_GROWTH = 1e4  # times the first frame's largest value: no stable scheme does that to a smooth field


def check_times(dataset: xr.Dataset, grid: Grid, s: Any, found: Any) -> None:
    """Times that the file states must be finite and increase."""
    for name in ("time", "times"):
        if name not in dataset.variables or dataset.sizes.get("time", 0) < 1:
            continue
        times = np.atleast_2d(np.asarray(dataset[name].values, dtype=np.float64))
        wrong = np.flatnonzero(~(np.isfinite(times).all(1) & (np.diff(times, axis=1) > 0).all(1)))
        if not wrong.size:
            continue
        sample = int(wrong[0]) if name == "times" else None
        bad = times[wrong[0]]
        after = int(np.flatnonzero(~np.isfinite(bad[1:]) | ~(np.diff(bad) > 0))[0]) + 1 if bad.size > 1 else 0
        found.add(
            "error",
            name,
            sample,
            f"does not increase: {bad[after]:g} follows {bad[max(after - 1, 0)]:g} at step {after}",
            "set the times, dataset.assign_coords(time=…), and write the file again",
        )


def check_evolution(dataset: xr.Dataset, grid: Grid, s: Any, found: Any) -> None:
    """A state that never changes, or grows without bound, is the mark of a failed run or a wrong axis."""
    state = [name for name in state_of(dataset) if name in s.fields and dataset.sizes["time"] > 1]
    if not state:
        return
    frozen = np.all([s.frozen[name] for name in state], axis=0)
    finite = np.all([s.finite[name] for name in state], axis=0)
    found.each(
        "warning",
        state[0],
        np.flatnonzero(frozen & finite),
        "never changes: every time holds the same field",
        "leave these samples out, or check which axis is time",
    )
    for name in state:
        grown = finite & (s.last[name] > _GROWTH * np.maximum(s.first[name], np.finfo(np.float32).tiny))
        grown &= s.first[name] > 0
        found.each(
            "warning",
            name,
            np.flatnonzero(grown),
            f"grows more than {_GROWTH:g} times from the first time to the last",
            "the run that made it was unstable: leave these samples out",
        )


def check_trajectory_solutions(dataset: xr.Dataset, grid: Grid, s: Any, found: Any, count: int) -> None:
    """Solves `count` samples again from their first state, on the data set's own grid, and compares the next times.

    Only where the file names an equation of `sciops.pde` that has one field on a periodic grid, its times, and every
    constant that the equation needs; chaotic equations part ways later than the three times looked at.
    """
    equation, state = str(dataset.attrs.get("equation")), state_of(dataset)
    if equation not in _SOLVED or len(state) != 1 or grid.centering != "periodic" or "time" not in dataset.coords:
        return
    if {"times", "length"} & set(dataset.variables):  # times or periods that differ by sample: no common solve
        return
    times = np.asarray(dataset["time"].values, dtype=np.float64)
    (name,) = state
    usable = np.flatnonzero(s.finite[name] & ~s.frozen[name] & (s.first[name] > 0)) if name in s.fields else []
    if len(usable) == 0 or times.size < 2 or not np.isfinite(times).all() or not (np.diff(times) > 0).all():
        return
    chosen = np.unique(usable[np.linspace(0, len(usable) - 1, min(count, len(usable))).astype(int)])
    solve = importlib.import_module(f"sciops.pde.{equation}").solve
    constants = _constants(dataset, solve, chosen)
    if constants is None:
        return
    from sciops.metrics import relative_l2

    u = np.asarray(dataset[name].isel(sample=chosen, time=slice(0, 1 + _TIMES)).values, dtype=np.float64)
    try:
        again = solve(u[:, 0], grid, times=times[1 : 1 + _TIMES] - times[0], **constants).u
    except (ValueError, RuntimeError):  # a step or a grid of other needs than ours: nothing is learned about the file
        return
    error = np.stack([relative_l2(again[:, i], u[:, i + 1], grid) for i in range(again.shape[1])]).max(0)
    worst, mean = int(chosen[np.argmax(error)]), float(error.mean())
    attrs = dataset.attrs
    here = attrs.get("layout") == "native" and str(attrs.get("solved_on", "")) in ("its own grid", str(grid.shape[0]))
    what = f"the solution of its equation from its first state (relative L2 {mean:.2g}, mean of {len(chosen)} samples)"
    if here and error.max() > _EXACT:
        found.add("error", name, worst, f"differs from {what}", "generate the file again")
    elif mean > _WRONG:
        found.add(
            "warning",
            name,
            worst,
            f"differs from {what}",
            "constants, times or scale are not what they seem, or the grid is too coarse for the equation",
        )
    elif mean > _NOTABLE:
        found.add(
            "note",
            name,
            None,
            f"differs from {what}",
            "its grid is coarse, or another scheme made it: print it beside the errors of models",
        )


def _constants(dataset: xr.Dataset, solve: Any, chosen: np.ndarray) -> dict[str, Any] | None:
    """The equation's constants as the file states them, for all samples or by sample.

    None when one is missing, and when the file states one that the solver does not have: another equation, then.
    """
    stated, constants = parameters_of(dataset), {}
    if not set(stated) <= set(inspect.signature(solve).parameters):
        return None
    for parameter in inspect.signature(solve).parameters.values():
        name = parameter.name
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY or name in ("times", "dt", "order", "dealias"):
            continue
        if name in dataset and dataset[name].dims == ("sample",):
            constants[name] = np.asarray(dataset[name].values, dtype=np.float64)[chosen]
        elif name in stated:
            constants[name] = stated[name]
        elif parameter.default is inspect.Parameter.empty:
            return None
    return constants


TRAJECTORY_CHECKS = (check_times, check_evolution)
