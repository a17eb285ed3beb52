"""The CNO benchmarks' files, one group a sample; the layout is said in `sciops.datasets.formats.cno`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sciops._whole_files import replacing
from sciops.datasets.conventions import grid_of, state_of
from sciops.datasets.formats.cno import RANGES, natural_grid
from sciops.datasets.formats.shared.expectations import DERIVED, FLOATS, expect_values, expect_zero_walls, words
from sciops.datasets.formats.shared.hdf5_writing import (
    blocks_of,
    expect_common_parameters,
    expect_nothing_else,
    samples_of,
    sizes,
    state_grid,
)

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = "cno"
_EQUATIONS = (*RANGES, "cno")


def write(groups: list[xr.Dataset], path: Path) -> None:
    """`input` and `output` of each sample, and their least and largest values over the training samples."""
    import h5py

    (dataset,) = groups
    equation = dataset.attrs.get("equation")
    if equation not in _EQUATIONS or state_of(dataset):
        raise ValueError(
            f"layout {LAYOUT!r} holds steady pairs of {', '.join(_EQUATIONS)}; the data set is of {equation!r}"
            + (" and evolves in time" if state_of(dataset) else "")
        )
    name = "f" if equation == "poisson" else "a"
    if not {name, "u"} <= set(dataset.data_vars):
        raise ValueError(f"layout {LAYOUT!r} needs {name} and u; the data set holds {', '.join(map(str, dataset))}")
    if equation == "darcy":
        expect_values(dataset, LAYOUT)
        expect_zero_walls(dataset, LAYOUT)
        if float(dataset.attrs.get("forcing", 1.0)) != 1.0:
            raise ValueError(f"layout {LAYOUT!r} means a source of 1; the data set has {dataset.attrs['forcing']}")
    grid = grid_of(dataset, "u")
    fields = [dataset[key] for key in (name, "u")]
    if grid.ndim != 2 or any(set(f.dims) != {"sample", "x", "y"} or str(f.dtype) not in FLOATS for f in fields):
        raise ValueError(f"layout {LAYOUT!r} holds floats over (sample, x, y); the data set has {words(grid)}")
    expect_nothing_else(dataset, LAYOUT, (name, "u", *DERIVED))
    expect_common_parameters(dataset, LAYOUT)
    fields = [field.transpose("sample", "x", "y") for field in fields]
    ranges = [_training_range(dataset, field) for field in fields] if equation in RANGES else []
    prefix, suffix = ("sample" if equation == "darcy" else "Sample"), "_t_5" if equation == "wave" else ""
    with replacing(path, size=2 * sizes(dict(enumerate(fields)))) as temporary, h5py.File(temporary, "w") as file:
        for i, (a, u) in samples_of(fields):
            group = file.create_group(f"{prefix}_{i}{suffix}")
            group["input"], group["output"] = a, u
        for key, (low, high) in zip(RANGES.get(equation, ()), ranges):
            file[f"min_{key}"], file[f"max_{key}"] = low, high
        state_grid(file, grid, natural_grid(equation, grid.shape, np.asarray(fields[1][:4].values))[0])


def _training_range(dataset: xr.Dataset, field: xr.DataArray) -> tuple[float, float]:
    """The numbers the file had, else those of the training samples, all where there is no split."""
    if {"training_min", "training_max"} <= set(field.attrs):
        return float(field.attrs["training_min"]), float(field.attrs["training_max"])
    kept = field.isel(sample=np.flatnonzero(dataset["split"].values == 0)) if "split" in dataset else field
    kept = kept if kept.sizes["sample"] else field
    ends = [(float(block.min()), float(block.max())) for _, (block,) in blocks_of([kept])]
    return min(low for low, _ in ends), max(high for _, high in ends)
