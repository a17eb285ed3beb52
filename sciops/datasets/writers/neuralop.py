"""neuraloperator's `.pt` dictionaries; the layout is said in `sciops.datasets.readers.neuralop`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sciops.datasets._native_files import replacing
from sciops.datasets.conventions import state_of
from sciops.datasets.writers._expect import expect, expect_nodes, whole, words
from sciops.datasets.writers._hdf5 import (
    expect_common_parameters,
    expect_nothing_else,
    expect_trajectory,
    state_fields,
)
from sciops.datasets.writers._matlab import viscosity_value
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr


def write(groups: list[xr.Dataset], path: Path) -> None:
    """Writes the one data set of `groups` to path, in the layout of this module."""
    import torch

    (dataset,) = groups
    is_burgers = dataset.attrs.get("equation") == "burgers"
    content, stated = (_burgers(dataset), {}) if is_burgers else _darcy(dataset)
    tensors = {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in content.items()}
    with replacing(path) as temporary:
        torch.save({**tensors, **stated}, temporary)


def _darcy(dataset: xr.Dataset) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """(x and y, the grid where the layout's own rule would give another)."""
    from sciops.datasets.readers.neuralop import GRID_KEY, node_grid

    grid = expect(dataset, "neuralop", equations=("darcy", "burgers"))
    expect_nodes(grid, "neuralop")
    a, u = (whole(dataset[name].transpose("sample", "x", "y")) for name in ("a", "u"))
    if float(dataset.attrs.get("forcing", 1.0)) != 1.0:
        raise ValueError(f"layout 'neuralop' means a source of 1; the data set has {dataset.attrs['forcing']}")
    stated = {} if node_grid(grid.shape, u)[0].same_points(grid) else {GRID_KEY: json.dumps(grid.to_dict())}
    return {"x": a > 0.5 if dataset.attrs.get("coefficient") == "indicator" else a, "y": u}, stated


def _burgers(dataset: xr.Dataset) -> dict[str, np.ndarray]:
    grid = expect_trajectory(dataset, "neuralop", (1,))
    if grid != Grid(grid.shape, (0.0, 1.0), "periodic"):
        raise ValueError(f"layout 'neuralop' holds Burgers on one unit period; the data set has {words(grid)}")
    if state_of(dataset) != ("u",):
        raise ValueError(f"layout 'neuralop' holds u; the data set evolves {', '.join(state_of(dataset))}")
    expect_nothing_else(dataset, "neuralop", ("a", "u"))
    expect_common_parameters(dataset, "neuralop")
    u = state_fields(dataset, grid)["u"].values
    viscosity = viscosity_value(dataset, "neuralop")
    times = np.asarray(dataset["time"].values, np.float64) if "time" in dataset.coords else None
    if "times" in dataset or (times is not None and not _told(times, u, viscosity)):
        raise ValueError(
            "layout 'neuralop' has no place for times, and its reader would find others: use layout='li2020-burgers', "
            "or leave them out with dataset.drop_vars('time')"
        )
    first = whole(dataset["a"].transpose("sample", "x")) if "a" in dataset else u[:, 0]
    return {"x": first, "y": u, **viscosity}


def _told(times: np.ndarray, u: np.ndarray, viscosity: dict[str, np.ndarray]) -> bool:
    """Whether the numbers tell these times, as in the public files."""
    from sciops.datasets.readers.neuralop import fitted_times

    found = fitted_times(u, float(viscosity["visc"][0, 0])) if viscosity else None
    return found is not None and np.array_equal(found, times)
