"""neuraloperator's `.pt` dictionaries; the layout is said in `sciops.datasets.formats.neuralop`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops._whole_files import replacing
from sciops.datasets import blocks
from sciops.datasets.conventions import grid_of, parameters_of, state_of
from sciops.datasets.formats.shared.expectations import DERIVED, expect, expect_nodes, leave_out, words
from sciops.datasets.formats.shared.hdf5_writing import (
    blocks_of,
    expect_common_parameters,
    expect_nothing_else,
    expect_trajectory,
    state_fields,
)
from sciops.datasets.formats.shared.matlab_writing import viscosity_value
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr


_SPARE = 1 << 16  # bytes of a file beside its numbers


def write(groups: list[xr.Dataset], path: Path) -> None:
    """Writes the one data set of `groups` to path, in the layout of this module."""
    import torch

    (dataset,) = groups
    equation = dataset.attrs.get("equation")
    if equation == "burgers":
        content, stated = _burgers(dataset), {}
    else:
        content, stated = _flow(dataset) if equation == "navier_stokes" else _darcy(dataset)
    size = sum(field.nbytes for field in content.values()) + _SPARE
    with replacing(path, size=size) as temporary:
        scratch, marks = temporary.with_suffix(".scratch"), dataset.attrs.get("coefficient") == "indicator"
        tensors = {name: _tensor(field, scratch, marks and name == "x") for name, field in content.items()}
        torch.save({**tensors, **stated}, temporary)


def _tensor(field: xr.DataArray, scratch: Path, marks: bool) -> Any:
    """The field as a tensor; a large one lies in a file without a name, of which the system holds what memory it has.

    scratch : the name that the file has for a moment
    marks : whether it is an indicator, to be kept as bool
    """
    import torch

    kind = torch.bool if marks else torch.from_numpy(np.empty(0, field.dtype)).dtype
    size = field.size * kind.itemsize
    if size <= blocks.BLOCK or not hasattr(os, "posix_fallocate"):
        tensor = torch.empty(field.shape, dtype=kind)
    else:
        try:
            with open(scratch, "xb") as file:
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk is met here, not when the memory is used
            tensor = torch.from_file(str(scratch), shared=True, size=field.size, dtype=kind).view(field.shape)
        finally:
            scratch.unlink(missing_ok=True)
    for part, (block,) in blocks_of([field]):
        tensor[part] = torch.from_numpy(np.ascontiguousarray(block > 0.5 if marks else block))
    return tensor


def _darcy(dataset: xr.Dataset) -> tuple[dict[str, xr.DataArray], dict[str, str]]:
    """(x and y, the grid where the layout's own rule would give another)."""
    from sciops.datasets.formats.neuralop import GRID_KEY, node_grid

    grid = expect(dataset, "neuralop", equations=("darcy", "burgers", "navier_stokes"))
    expect_nodes(grid, "neuralop")
    expect_nothing_else(dataset, "neuralop", ("a", "u", *DERIVED))
    a, u = (dataset[name].transpose("sample", "x", "y") for name in ("a", "u"))
    if float(dataset.attrs.get("forcing", 1.0)) != 1.0:
        raise ValueError(f"layout 'neuralop' means a source of 1; the data set has {dataset.attrs['forcing']}")
    natural = node_grid(grid.shape, u)[0]
    stated = {} if natural.same_points(grid) else {GRID_KEY: json.dumps(grid.to_dict())}
    return {"x": a, "y": u}, stated


def _flow(dataset: xr.Dataset) -> tuple[dict[str, xr.DataArray], dict[str, str]]:
    """(forcing and vorticity, the grid where it is not one unit period)."""
    from sciops.datasets.formats.neuralop import GRID_KEY, SIGNS_IN, flow_grid, has_both_signs

    if state_of(dataset) or not {"f", "u"} <= set(dataset.data_vars):
        raise ValueError(
            "layout 'neuralop' holds one forcing f and the vorticity u it leads to, no trajectories: use "
            "layout='li2020-ns'"
        )
    expect_nothing_else(dataset, "neuralop", ("f", "u"))
    expect_common_parameters(dataset, "neuralop")
    grid = grid_of(dataset, "u")
    if grid.ndim != 2 or grid.centering != "periodic":
        raise ValueError(f"layout 'neuralop' holds Navier–Stokes on 2-D periodic grids; the data set has {words(grid)}")
    if parameters_of(dataset):
        raise ValueError(
            f"layout 'neuralop' has no place for the constants {', '.join(parameters_of(dataset))} of Navier–Stokes"
        )
    f, u = (dataset[name].transpose("sample", "x", "y") for name in ("f", "u"))
    if not has_both_signs(f[:SIGNS_IN].values):
        raise ValueError(
            "layout 'neuralop' tells a forcing from a coefficient by its signs, and this one keeps its own: use "
            "layout='native'"
        )
    return {"x": f, "y": u}, {} if flow_grid(grid.shape).same_points(grid) else {GRID_KEY: json.dumps(grid.to_dict())}


def _burgers(dataset: xr.Dataset) -> dict[str, xr.DataArray]:
    import xarray

    grid = expect_trajectory(dataset, "neuralop", (1,))
    if grid != Grid(grid.shape, (0.0, 1.0), "periodic"):
        raise ValueError(f"layout 'neuralop' holds Burgers on one unit period; the data set has {words(grid)}")
    if state_of(dataset) != ("u",):
        raise ValueError(f"layout 'neuralop' holds u; the data set evolves {', '.join(state_of(dataset))}")
    expect_nothing_else(dataset, "neuralop", ("a", "u"))
    expect_common_parameters(dataset, "neuralop")
    u = state_fields(dataset, grid)["u"]
    viscosity = viscosity_value(dataset, "neuralop")
    times = np.asarray(dataset["time"].values, np.float64) if "time" in dataset.coords else None
    if "times" in dataset or (times is not None and not _told(times, u, viscosity)):
        raise ValueError(
            "layout 'neuralop' has no place for times, and its reader would find others: use layout='li2020-burgers', "
            f"or {leave_out(['time'])}"
        )
    first = dataset["a"].transpose("sample", "x") if "a" in dataset else u[:, 0]
    return {"x": first, "y": u, **{name: xarray.DataArray(value) for name, value in viscosity.items()}}


def _told(times: np.ndarray, u: xr.DataArray, viscosity: dict[str, np.ndarray]) -> bool:
    """Whether the numbers tell these times, as in the public files."""
    from sciops.datasets.formats.neuralop import LOOKED_AT, fitted_times

    found = fitted_times(u[:LOOKED_AT].values, float(viscosity["visc"][0, 0])) if viscosity else None
    return found is not None and np.array_equal(found, times)
