"""pdearena's Navier–Stokes files; the layout is said in `sciops.datasets.formats.pdearena_ns`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sciops._whole_files import replacing
from sciops.datasets.conventions import grid_of, state_of
from sciops.datasets.formats.pdearena_ns import FIELDS, staggered
from sciops.datasets.formats.shared.expectations import FLOATS, words
from sciops.datasets.formats.shared.hdf5_writing import blocks_of, expect_nothing_else, sizes
from sciops.datasets.formats.shared.pdearena_writing import each_sample, expect_constants, mode_for, times_of_samples

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = "pdearena-ns"


def write(groups: list[xr.Dataset], path: Path) -> None:
    """Group train, valid or test; positions as pdearena states them, which its loaders expect, from wall to wall."""
    import h5py

    (dataset,) = groups
    if set(state_of(dataset)) != set(FIELDS):
        raise ValueError(
            f"layout {LAYOUT!r} evolves {', '.join(FIELDS)}; the data set {', '.join(state_of(dataset)) or 'nothing'}"
        )
    grid = grid_of(dataset, "u")
    lengths = tuple(b for _, b in grid.extent)
    if grid.ndim != 2 or grid.centering != "cell" or any(a != 0 for a, _ in grid.extent):
        raise ValueError(
            f"layout {LAYOUT!r} holds smoke at the cells of a box from 0 on; the data set has {words(grid)}"
        )
    natural = staggered(grid.shape, lengths)
    for name in FIELDS:
        if not grid_of(dataset, name).same_points(natural[name]):
            raise ValueError(
                f"layout {LAYOUT!r} holds vx and vy on the lower faces of the cells, staggered; {name} of the data set "
                f"lies at {words(grid_of(dataset, name))}"
            )
    expect_nothing_else(dataset, LAYOUT, (*FIELDS, "times"))
    expect_constants(dataset, LAYOUT, ("buoyancy_y",))
    mode, times = mode_for(dataset, LAYOUT), times_of_samples(dataset, LAYOUT)
    step = np.diff(times, axis=1)
    if step.size and np.ptp(step, axis=1).max() > 1e-6 * step.min():
        raise ValueError(f"layout {LAYOUT!r} holds equal time steps; the data set has {step.min():g} … {step.max():g}")
    fields = [dataset[name].transpose("sample", "time", "x", "y") for name in FIELDS]
    if any(str(field.dtype) not in FLOATS for field in fields):
        raise ValueError(f"layout {LAYOUT!r} holds floats: use astype('float32')")
    samples = dataset.sizes["sample"]
    buoyancy = each_sample(dataset, "buoyancy_y")
    with replacing(path, size=sizes(dict(zip(FIELDS, fields)))) as temporary, h5py.File(temporary, "w") as file:
        group = file.create_group(mode)
        targets = [
            group.create_dataset(k, f.shape, f.dtype, chunks=(1, 1, *grid.shape)) for k, f in zip(FIELDS, fields)
        ]
        for part, blocks in blocks_of(fields):
            for target, block in zip(targets, blocks):
                target[part] = block
        group["t"] = times
        group["dt"] = step.mean(1) if step.size else np.ones(samples)
        for axis, n, length in zip("xy", grid.shape, lengths):
            group[axis] = np.tile(np.linspace(0, length, n), (samples, 1))
            group[f"d{axis}"] = np.full(samples, length / (n - 1))
        if buoyancy is not None:
            group["buo_y"] = buoyancy
