"""The checks of `validate` that concern fields which evolve in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import state_of
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

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


TRAJECTORY_CHECKS = (check_times, check_evolution)
