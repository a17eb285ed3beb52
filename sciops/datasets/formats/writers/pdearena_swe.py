"""pdearena's shallow water on the sphere, as NetCDF-4; the layout is said in `sciops.datasets.formats.pdearena_swe`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sciops._whole_files import replacing
from sciops.datasets.conventions import parameters_of, state_of
from sciops.datasets.formats.pdearena_swe import STATE, UNITS, WORDS
from sciops.datasets.formats.shared.expectations import words
from sciops.datasets.formats.shared.hdf5_writing import (
    blocks_of,
    expect_common_parameters,
    expect_nothing_else,
    expect_trajectory,
    sizes,
    times_in,
)
from sciops.datasets.native.layout import set_attributes

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = "pdearena-swe"


def write(groups: list[xr.Dataset], path: Path) -> None:
    """From north to south, one level, and no axis ``b`` where there is one sample, as the simulator writes it."""
    import h5netcdf

    (dataset,) = groups
    grid = expect_trajectory(dataset, LAYOUT, (2,))
    if dataset.attrs.get("equation") != "shallow_water" or set(state_of(dataset)) != set(STATE):
        raise ValueError(
            f"layout {LAYOUT!r} evolves {', '.join(STATE)} of shallow_water; the data set evolves "
            f"{', '.join(state_of(dataset))} of {dataset.attrs.get('equation')!r}"
        )
    if grid.centering != "cell" or dataset.attrs.get("grid_type") != "spherical":
        raise ValueError(f"layout {LAYOUT!r} holds cells of latitude and longitude; the data set has {words(grid)}")
    names = [name for name in WORDS if name in dataset]
    expect_nothing_else(dataset, LAYOUT, (*names, "latitude"))
    expect_common_parameters(dataset, LAYOUT)
    if parameters_of(dataset):
        raise ValueError(f"layout {LAYOUT!r} has no place for the constants {', '.join(parameters_of(dataset))}")
    times = times_in(dataset, LAYOUT)
    fields = [dataset[name].transpose("sample", "time", "x", "y") for name in names]
    several = len(fields[0]) != 1
    lat, lon = grid.coordinates()
    lat = np.asarray(dataset["latitude"].values, np.float64) if "latitude" in dataset else lat
    lead = ("b",) * several
    with (
        replacing(path, size=sizes(dict(zip(names, fields)))) as temporary,
        h5netcdf.File(temporary, "w") as file,
    ):
        lengths = {"b": len(fields[0]), "time": len(times), "lev": 1, "lat": len(lat), "lon": len(lon)}
        file.dimensions = lengths if several else {name: n for name, n in lengths.items() if name != "b"}
        axes = {"time": times, "lev": np.ones(1, np.int32), "lat": lat[::-1], "lon": lon}
        units = {"time": dataset["time"].attrs.get("units", "1"), "lat": "degrees_north", "lon": "degrees_east"}
        for name, values in axes.items():
            variable = file.create_variable(name, (name,), data=values)
            set_attributes(variable, {"units": units.get(name, "1")})
        targets = []
        for name, field in zip(names, fields):
            dims = (*lead, "time", *(("lev",) if name != "pres" else ()), "lat", "lon")
            chunks = tuple(1 if dim in ("b", "time", "lev") else lengths[dim] for dim in dims)
            target = file.create_variable(name, dims, field.dtype, chunks=chunks)
            about = {"long_name": WORDS[name], "units": field.attrs.get("units", UNITS[name])}
            set_attributes(target, about)
            targets.append(target)
        for part, blocks in blocks_of(fields):
            for name, target, block in zip(names, targets, blocks):
                southward = block[:, :, ::-1] if name == "pres" else block[:, :, None, ::-1]
                target[part if several else slice(None)] = southward if several else southward[0]
