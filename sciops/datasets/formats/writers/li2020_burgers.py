"""Li et al.'s Burgers files, MATLAB v5 and v7.3; the layout is said in `sciops.datasets.formats.li2020_burgers`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import grid_of, state_of
from sciops.datasets.formats.li2020_burgers import EXTRA
from sciops.datasets.formats.shared.expectations import expect, words
from sciops.datasets.formats.shared.hdf5_writing import (
    expect_common_parameters,
    expect_nothing_else,
    expect_trajectory,
    state_fields,
    times_in,
)
from sciops.datasets.formats.shared.matlab_writing import Stored, viscosity_value, write_v5, write_v73
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr


def write(groups: list[xr.Dataset], path: Path) -> None:
    """MATLAB v5: a → u, or a trajectory with its times; ν, where it is known, as ``visc``."""
    (dataset,) = groups
    write_v5(path, *_contents(dataset, "li2020-burgers"), "li2020-burgers")


def write_hdf5(groups: list[xr.Dataset], path: Path) -> None:
    """MATLAB v7.3."""
    (dataset,) = groups
    write_v73(path, *_contents(dataset, "li2020-burgers-v7.3"))


def _contents(dataset: xr.Dataset, layout: str) -> tuple[dict[str, Stored], dict[str, Any]]:
    grid = grid_of(dataset, "u")
    if grid.ndim != 1 or grid != Grid(grid.shape, (0.0, 1.0), "periodic"):
        raise ValueError(f"layout {layout!r} holds one unit period from 0 on; the data set has {words(grid)}")
    expect_common_parameters(dataset, layout)
    values: dict[str, Any] = viscosity_value(dataset, layout)
    if not state_of(dataset):
        expect(dataset, layout, equations=("burgers",))
        extra = [name for name in EXTRA if name in dataset]
        expect_nothing_else(dataset, layout, ("a", "u", *extra))
        return {name: Stored(dataset[name].transpose("sample", "x")) for name in ("a", "u", *extra)}, values
    expect_trajectory(dataset, layout, (1,))
    if state_of(dataset) != ("u",) or dataset.attrs.get("equation") != "burgers":
        raise ValueError(
            f"layout {layout!r} holds u of burgers; the data set is of {dataset.attrs.get('equation')!r} and evolves "
            f"{', '.join(state_of(dataset))}"
        )
    expect_nothing_else(dataset, layout, ("a", "u"))
    u = state_fields(dataset, grid)["u"]
    if "time" in dataset.coords or "times" in dataset:
        values["tspan"] = times_in(dataset, layout)[None]
    first = dataset["a"].transpose("sample", "x") if "a" in dataset else u[:, 0]
    return {"input": Stored(first), "output": Stored(u)}, {k: np.asarray(v) for k, v in values.items()}
