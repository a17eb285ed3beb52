"""PDEBench's Darcy files; the layout is said in `sciops.datasets.formats.pdebench_darcy`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sciops._whole_files import replacing
from sciops.datasets.formats.shared.expectations import DERIVED, expect, expect_values, words
from sciops.datasets.formats.shared.hdf5_writing import blocks_of, expect_nothing_else, sizes
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr


def write(groups: list[xr.Dataset], path: Path) -> None:
    """Writes the one data set of `groups` to path, in the layout of this module."""
    import h5py

    (dataset,) = groups
    grid = expect(dataset, "pdebench-darcy")
    expect_values(dataset, "pdebench-darcy")
    expect_nothing_else(dataset, "pdebench-darcy", ("a", "u", *DERIVED))
    if grid.centering != "cell" or grid != Grid(grid.shape, None, "cell"):
        raise ValueError(
            f"layout 'pdebench-darcy' holds cell centres of the unit box; the data set has {words(grid)}: resampling "
            "a coefficient would change the equation, so generate on Grid(shape, centering='cell')"
        )
    size = sizes({name: dataset[name] for name in ("a", "u")})
    with replacing(path, size=size) as temporary, h5py.File(temporary, "w") as file:
        for stored, name, between in (("nu", "a", ()), ("tensor", "u", (1,))):
            field = dataset[name].transpose("sample", "x", "y")
            shape = (field.shape[0], *between, *field.shape[1:])
            target = file.create_dataset(stored, shape, field.dtype, chunks=(1, *shape[1:]))
            for part, (block,) in blocks_of([field]):
                target[(part[0], *(0,) * len(between), *part[1:])] = block
        for name, points in zip(("x-coordinate", "y-coordinate"), grid.coordinates()):
            file[name] = points.astype(np.float32)
        file.attrs["beta"] = float(dataset.attrs.get("forcing", 1.0))
