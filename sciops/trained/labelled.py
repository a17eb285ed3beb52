"""Predictions with names: the variables of a problem over (sample, time, x, …), with its coordinates and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import SPACE, build_dataset, parameters_of
from sciops.files.untrusted import parse_json
from sciops.trained.problem import Problem

if TYPE_CHECKING:
    import xarray as xr

# what the attributes of a data set say of its equation
_KEPT = ("walls", "forcing", "positions")
SAMPLE = {"long_name": "number of the sample in the file it was predicted for"}


def dims_of(problem: Problem, channels: int) -> tuple[str, ...]:
    """The dimensions of a predicted variable."""
    space = SPACE[: problem.grid.ndim]
    if problem.by_frames:
        return ("sample", "time", *space)
    several = problem.task == "steady" and channels > 1
    return ("sample", *(("channel",) if several else ()), *space)


def fields_of(problem: Problem, values: Mapping[str, Any]) -> dict[str, tuple[tuple[str, ...], Any]]:
    """Variables as `build_dataset` takes them, of arrays (sample, frames, channels, *grid) by the ending of the name.

    An ending "_error" makes ``u_error`` of the variable u.
    """
    fields = {}
    for ending, array in values.items():
        channels = array.shape[2]
        dims = dims_of(problem, channels)
        for c, name in enumerate(problem.names):
            if problem.by_frames:
                part = array[:, :, c]
            elif "channel" in dims:
                part = array[:, 0]
            else:
                part = array[:, 0, c]
            fields[name + ending] = (dims, part)
    return fields


def dataset_of(
    problem: Problem, fields: Mapping[str, Any], source: xr.Dataset, *, state: tuple[str, ...] = (), **attrs: Any
) -> xr.Dataset:
    """The variables as a data set in the common form, with what `source` says of equation, walls and constants.

    state : names of the variables that evolve; default those of the problem
    """
    about = source.attrs
    boundary = parse_json(about["boundary"]) if "boundary" in about else None
    numbers = problem.samples
    evolving = (state or problem.names) if problem.by_frames else ()
    return build_dataset(
        {**fields, "sample": (("sample",), numbers.astype(np.int64), SAMPLE)},
        problem.grid,
        layout="native",
        equation=str(about.get("equation", "")),
        times=problem.times if problem.by_frames else None,
        time_units=getattr(problem.fields, "time_units", "1"),
        state=evolving,
        parameters=parameters_of(source),
        boundary=boundary,
        **{key: about[key] for key in _KEPT if key in about},
        **attrs,
    )
