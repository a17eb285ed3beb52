"""PDEBench's files with one group a sample; the layout is said in `sciops.datasets.formats.pdebench_groups`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sciops._untrusted import parse_json
from sciops._whole_files import replacing
from sciops.datasets.conventions import RECORDS, SPACE, parameters_of
from sciops.datasets.formats.pdebench_groups import CONSTANTS, STATES, WALLS
from sciops.datasets.formats.shared.expectations import words
from sciops.datasets.formats.shared.hdf5_writing import (
    cells_around,
    expect_nothing_else,
    expect_trajectory,
    lossless,
    samples_of,
    sizes,
    state_fields,
    times_in,
)
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = "pdebench-groups"
_NAMES = {"diffusion_reaction": "2d_diff-react", "shallow_water": "2d_rdb", "diffusion_sorption": "1d_diff-sorp"}


def write(groups: list[xr.Dataset], path: Path) -> None:
    """A group a sample with `data`, its grid, and its settings, from which a reader tells the equation."""
    import h5py

    (dataset,) = groups
    grid = expect_trajectory(dataset, LAYOUT, (1, 2))
    fields = state_fields(dataset, grid)
    equation = str(dataset.attrs.get("equation"))
    _expect_names(tuple(fields), equation)
    points = [lossless(axis) for axis in grid.coordinates()]
    cells = cells_around(points, LAYOUT)
    if grid.centering != "cell" or not Grid(grid.shape, tuple(cells), "cell").same_points(grid):
        raise ValueError(f"layout {LAYOUT!r} holds values of cells; the data set has {words(grid)}")
    boundary = parse_json(dataset.attrs.get("boundary", "null"))
    if boundary and equation in WALLS and set(boundary.values()) != {WALLS[equation]}:
        raise ValueError(f"layout {LAYOUT!r} means {WALLS[equation]} for {equation}; the data set has {boundary}")
    expect_nothing_else(dataset, LAYOUT, tuple(fields))
    settings = _settings(dataset, equation)
    times = lossless(times_in(dataset, LAYOUT))
    names = _group_names(dataset)
    with replacing(path, size=sizes(fields)) as temporary, h5py.File(temporary, "w") as file:
        for sample, values in samples_of(list(fields.values())):
            group = file.create_group(names[sample])
            group.create_dataset("data", data=np.stack(values, axis=-1), compression="lzf")
            for axis, place in zip(SPACE, points):
                group[f"grid/{axis}"] = place
            group["grid/t"] = times
            group.attrs["config"] = _config(equation, settings, sample, cells)


def _expect_names(names: tuple[str, ...], equation: str) -> None:
    free = ("u",) if len(names) == 1 else tuple(f"u{i}" for i in range(len(names)))
    expected = STATES.get(equation, free if equation == "unknown" else None)
    if expected is None:
        known = ", ".join((*STATES, "unknown"))
        raise ValueError(f"layout {LAYOUT!r} holds {known}; the data set is of {equation!r}")
    if names != expected:
        raise ValueError(
            f"layout {LAYOUT!r} holds {', '.join(expected)} for {equation}; the data set evolves {', '.join(names)}"
        )


def _settings(dataset: xr.Dataset, equation: str) -> dict[str, list[float]]:
    """Each setting with its value for each sample."""
    samples, allowed = dataset.sizes["sample"], CONSTANTS.get(equation, ())
    values = {name: [value] * samples for name, value in parameters_of(dataset).items()}
    varying = [n for n, v in dataset.data_vars.items() if v.dims == ("sample",) and (n not in RECORDS or n == "seed")]
    values |= {str(name): np.asarray(dataset[name].values).tolist() for name in varying}
    strange = sorted(set(values) - {*allowed, "seed"})
    if strange:
        raise ValueError(
            f"layout {LAYOUT!r} states {', '.join(allowed) or 'no parameters'} for {equation}; it has no place for "
            f"{', '.join(strange)}"
        )
    missing = sorted(set(allowed[:2]) - set(values)) if equation != "shallow_water" else {"gravity"} - set(values)
    if missing:
        raise ValueError(f"layout {LAYOUT!r} needs {', '.join(missing)} to say that this is {equation}: add them")
    return values


def _group_names(dataset: xr.Dataset) -> list[str]:
    numbers = np.arange(dataset.sizes["sample"])
    if "sample" in dataset.coords and dataset["sample"].dtype.kind in "iu":
        named = np.asarray(dataset["sample"].values)
        # groups are read in the order of their numbers, which must be that of the samples
        numbers = named if len(named) and named.min() >= 0 and (np.diff(named) > 0).all() else numbers
    return [f"{number:04d}" for number in numbers]


def _config(equation: str, settings: dict[str, list[float]], sample: int, cells: list[tuple[float, float]]) -> str:
    lines = {name: values[sample] for name, values in settings.items()}
    for (low, high), keys in zip(cells, (("x_left", "x_right"), ("y_bottom", "y_top"))):
        lines |= dict(zip(keys, (low, high)))
    return f"name: {_NAMES.get(equation, 'unknown')}\nsim:\n" + "".join(f"  {k}: {v!r}\n" for k, v in lines.items())
