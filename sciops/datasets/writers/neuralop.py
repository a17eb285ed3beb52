"""neuraloperator's `.pt` dictionaries; the layout is said in `sciops.datasets.readers.neuralop`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets._native_files import replacing
from sciops.datasets.writers._expect import expect, expect_nodes, whole
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr


def write(groups: list[xr.Dataset], path: Path) -> None:
    import torch

    from sciops.datasets.readers.neuralop import GRID_KEY, node_grid

    (dataset,) = groups
    grid = expect(dataset, "neuralop", equations=("darcy", "burgers"))
    a, u = (whole(dataset[name]) for name in ("a", "u"))
    content: dict[str, Any] = {"x": a, "y": u}
    if dataset.attrs["equation"] == "burgers":
        if grid != Grid(grid.shape, (0.0, 1.0), "periodic"):
            raise ValueError(f"layout 'neuralop' holds Burgers on one unit period; the data set has {grid}")
        if "viscosity" in dataset.attrs:
            content["visc"] = np.full((1, 1), float(dataset.attrs["viscosity"]))
    else:
        expect_nodes(grid, "neuralop")
        if dataset.attrs.get("coefficient") == "indicator":
            content["x"] = a > 0.5
        if float(dataset.attrs.get("forcing", 1.0)) != 1.0:
            raise ValueError(f"layout 'neuralop' means a source of 1; the data set has {dataset.attrs['forcing']}")
    tensors: dict[str, Any] = {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in content.items()}
    if dataset.attrs["equation"] == "darcy" and not node_grid(grid.shape, u)[0].same_points(grid):
        tensors[GRID_KEY] = json.dumps(grid.to_dict())
    with replacing(path) as temporary:
        torch.save(tensors, temporary)
