"""pdearena's files of one-dimensional equations; the layout is said in `sciops.datasets.formats.pdearena_ks`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sciops._whole_files import replacing
from sciops.datasets.conventions import state_of
from sciops.datasets.formats.shared.expectations import words
from sciops.datasets.formats.shared.hdf5_writing import (
    blocks_of,
    expect_nothing_else,
    expect_trajectory,
    sizes,
    state_fields,
)
from sciops.datasets.formats.shared.pdearena_writing import each_sample, expect_constants, mode_for, times_of_samples
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = "pdearena-ks"
_EQUATIONS = ("kuramoto_sivashinsky", "kdv", "heat")


def write(groups: list[xr.Dataset], path: Path) -> None:
    """Group train, valid or test with the field, its times and positions, and dt, dx and v of each sample."""
    import h5py

    (dataset,) = groups
    grid = expect_trajectory(dataset, LAYOUT, (1,))
    if state_of(dataset) != ("u",) or dataset.attrs.get("equation") not in _EQUATIONS:
        raise ValueError(
            f"layout {LAYOUT!r} holds u of {', '.join(_EQUATIONS)}; the data set is of "
            f"{dataset.attrs.get('equation')!r} and evolves {', '.join(state_of(dataset))}"
        )
    length = grid.extent[0][1]
    if grid != Grid(grid.shape, (0.0, length), "periodic") or ("length" in dataset and length != 1.0):
        raise ValueError(f"layout {LAYOUT!r} holds one period from 0 on; the data set has {words(grid)}")
    expect_nothing_else(dataset, LAYOUT, ("u", "times"))
    expect_constants(dataset, LAYOUT, ("viscosity", "length"))
    viscosity = each_sample(dataset, "viscosity")
    if viscosity is not None and dataset.attrs["equation"] != "kuramoto_sivashinsky":
        raise ValueError(f"layout {LAYOUT!r} states a viscosity for kuramoto_sivashinsky alone")
    mode, times = mode_for(dataset, LAYOUT), times_of_samples(dataset, LAYOUT)
    u = state_fields(dataset, grid)["u"]
    samples, steps, n = u.shape
    lengths = each_sample(dataset, "length")
    dx = _divided(np.full(samples, length) if lengths is None else lengths, n)
    with replacing(path, size=sizes({"u": u})) as temporary, h5py.File(temporary, "w") as file:
        group = file.create_group(mode)
        target = group.create_dataset(f"pde_{steps}-{n}", u.shape, u.dtype, chunks=(1, steps, n))
        for part, (block,) in blocks_of([u]):
            target[part] = block
        group["t"], group["dx"] = times, dx
        group["dt"] = (times[:, -1] - times[:, 0]) / max(steps - 1, 1) if steps > 1 else np.ones(samples)
        group["x"] = np.arange(n) * dx[:, None]
        if viscosity is not None:
            group["v"] = viscosity


def _divided(lengths: np.ndarray, n: int) -> np.ndarray:
    """The steps that times n give these lengths again, to the last bit where there are such numbers."""
    steps = lengths / n
    for near in (np.nextafter(steps, np.inf), np.nextafter(steps, 0.0)):
        steps = np.where((n * steps != lengths) & (n * near == lengths), near, steps)
    return steps
