"""Li et al.'s Navier–Stokes files, MATLAB v5 and v7.3; the layout is said in `sciops.datasets.formats.li2020_ns`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import state_of
from sciops.datasets.formats.shared.expectations import words
from sciops.datasets.formats.shared.hdf5_writing import (
    expect_common_parameters,
    expect_nothing_else,
    expect_trajectory,
    state_fields,
)
from sciops.datasets.formats.shared.matlab_writing import Stored, viscosity_value, write_v5, write_v73
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr


def write(groups: list[xr.Dataset], path: Path) -> None:
    """MATLAB v5; ν, where it is known, as ``visc``."""
    (dataset,) = groups
    write_v5(path, *_contents(dataset, "li2020-ns"), "li2020-ns")


def write_hdf5(groups: list[xr.Dataset], path: Path) -> None:
    """MATLAB v7.3."""
    (dataset,) = groups
    write_v73(path, *_contents(dataset, "li2020-ns-v7.3"))


def _contents(dataset: xr.Dataset, layout: str) -> tuple[dict[str, Stored], dict[str, Any]]:
    grid = expect_trajectory(dataset, layout, (2,))
    if state_of(dataset) != ("w",) or dataset.attrs.get("equation") != "navier_stokes":
        raise ValueError(
            f"layout {layout!r} holds the vorticity w of navier_stokes; the data set is of "
            f"{dataset.attrs.get('equation')!r} and evolves {', '.join(state_of(dataset))}"
        )
    forcing = dataset.attrs.get("forcing", "li2020")
    if forcing != "li2020":
        raise ValueError(f"layout {layout!r} means the forcing of its authors, li2020; the data set has {forcing!r}")
    if grid != Grid(grid.shape, (0.0, 1.0), "periodic"):
        raise ValueError(f"layout {layout!r} holds one unit period from 0 on; the data set has {words(grid)}")
    expect_nothing_else(dataset, layout, ("w",))
    expect_common_parameters(dataset, layout)
    w = state_fields(dataset, grid)["w"]
    if w.shape[1] < 2:
        raise ValueError(f"layout {layout!r} holds time 0 and later ones; the data set has {w.shape[1]} time")
    values: dict[str, Any] = viscosity_value(dataset, layout)
    if "times" in dataset:
        raise ValueError(f"layout {layout!r} holds times common to all samples; here they differ: use layout='native'")
    if "time" in dataset.coords:
        times = np.asarray(dataset["time"].values, np.float64)
        if times[0] != 0:
            raise ValueError(
                f"layout {layout!r} begins at time 0; the data set begins at {times[0]:g}: shift its times"
            )
        values["t"] = times[None, 1:]
    fields = {"a": Stored(w[:, 0]), "u": Stored(w[:, 1:], time_last=True)}
    return fields, values
