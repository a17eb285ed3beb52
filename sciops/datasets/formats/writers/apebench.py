"""APEBench's arrays with their scenario beside them; the layout is said in `sciops.datasets.formats.apebench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sciops._whole_files import replacing
from sciops.datasets.conventions import parameters_of
from sciops.datasets.formats.described.description import sidecar
from sciops.datasets.formats.shared.expectations import words
from sciops.datasets.formats.shared.hdf5_writing import (
    expect_common_parameters,
    expect_nothing_else,
    expect_trajectory,
    sizes,
    state_fields,
    times_in,
)
from sciops.datasets.formats.shared.numpy_writing import write_npy
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr


def write(groups: list[xr.Dataset], path: Path) -> None:
    """(samples, T + 1, channels, N, …) and ``<file>.json`` with what the array does not say."""
    (dataset,) = groups
    grid = expect_trajectory(dataset, "apebench", (1, 2, 3))
    fields = state_fields(dataset, grid)
    expect_nothing_else(dataset, "apebench", tuple(fields))
    expect_common_parameters(dataset, "apebench")
    length = grid.extent[0][1]
    if grid != Grid((grid.shape[0],) * grid.ndim, (0.0, length), "periodic"):
        raise ValueError(
            f"layout 'apebench' holds as many points on every axis of (0, L)^D, periodic; here {words(grid)}"
        )
    if len({field.dtype for field in fields.values()}) > 1:
        raise ValueError("layout 'apebench' holds one array; the fields here have several dtypes: use astype")
    times = times_in(dataset, "apebench")
    step = float(times[1] - times[0]) if len(times) > 1 else 1.0
    if not np.allclose(times, step * np.arange(len(times)), rtol=0, atol=1e-9 * step) or step <= 0:
        raise ValueError("layout 'apebench' holds times 0, Δt, 2Δt, …; the data set has others: use layout='native'")
    step = float(times[-1] / (len(times) - 1)) if len(times) > 1 else step
    parameters = parameters_of(dataset)
    info = {
        "num_spatial_dims": grid.ndim,
        "num_points": grid.shape[0],
        "num_channels": len(fields),
        "domain_extent": length,
        "dt": step,
        **parameters,
    }
    equation = dataset.attrs.get("equation", "unknown")
    about = {"equation": equation, "state": list(fields), "parameters": parameters}
    with replacing(path, size=sizes(fields)) as temporary:
        with open(temporary, "wb") as file:
            write_npy(file, list(fields.values()), channels=2)
        # first what explains the array, so that it never lies there unexplained
        with replacing(sidecar(path)) as beside:
            beside.write_text(json.dumps({"name": f"{grid.ndim}d_phy_{equation}", "info": info, "sciops": about}))
