"""Poseidon's files; the layout is said in `sciops.datasets.formats.poseidon`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops._whole_files import replacing
from sciops.datasets.conventions import grid_of, parameters_of, state_of
from sciops.datasets.formats.poseidon import channels_of, natural_grid
from sciops.datasets.formats.shared.expectations import FLOATS, leave_out, words
from sciops.datasets.formats.shared.hdf5_writing import (
    blocks_of,
    expect_nothing_else,
    expect_trajectory,
    samples_of,
    sizes,
    state_grid,
)

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = "poseidon"
_STEADY = {"poisson": ("f", "u"), "airfoil": ("a", "u"), "helmholtz": ("a", "u", "bc")}
_EVOLVING = {
    "navier_stokes_velocity": "velocity",
    "compressible_euler": "data",
    "wave": "solution",
    "unknown": "solution",
}


def write(groups: list[xr.Dataset], path: Path) -> None:
    """The form of the layout that belongs to the equation; times have no place in any, and are refused."""
    (dataset,) = groups
    equation = dataset.attrs.get("equation")
    if equation not in {**_STEADY, **_EVOLVING}:
        raise ValueError(
            f"layout {LAYOUT!r} holds {', '.join({**_STEADY, **_EVOLVING})}; the data set is of {equation!r}"
        )
    if parameters_of(dataset):
        raise ValueError(f"layout {LAYOUT!r} has no place for the constants {', '.join(parameters_of(dataset))}")
    lost = [name for name in ("time", "times") if name in dataset.variables]
    if lost:
        raise ValueError(f"layout {LAYOUT!r} has no place for times: {leave_out(lost)}")
    grid = grid_of(dataset, "u")
    if grid.ndim != 2 or grid.shape[0] != grid.shape[1]:
        raise ValueError(f"layout {LAYOUT!r} holds n × n points; the data set has {words(grid)}")
    with_parts = _steady if equation in _STEADY else _evolving
    with_parts(dataset, str(equation), path)


def _evolving(dataset: xr.Dataset, equation: str, path: Path) -> None:
    import h5py

    grid = expect_trajectory(dataset, LAYOUT, (2,))
    names = [*state_of(dataset), *(["gravity"] if "gravity" in dataset else [])]
    carried = equation == "compressible_euler" and {"tracer", "gravity"} & set(names)
    key = "solution" if carried else _EVOLVING[equation]
    if equation == "wave" and "c" not in dataset:
        raise ValueError(f"layout {LAYOUT!r} holds a wave with its speed c (sample, x, y), which is not there")
    expect_nothing_else(dataset, LAYOUT, (*names, "c") if equation == "wave" else names)
    _expect_no_numbers(dataset, ())
    if channels_of(key, len(names)) != tuple(names):
        raise ValueError(
            f"layout {LAYOUT!r} holds {', '.join(channels_of(key, len(names)))} of {equation} in {len(names)} "
            f"channels; the data set has {', '.join(names)}"
        )
    fields = [dataset[name].transpose("sample", "time", "x", "y") for name in names]
    if len({field.dtype for field in fields}) > 1:
        raise ValueError(f"layout {LAYOUT!r} holds one array; the fields here have several dtypes: use astype")
    flat = equation == "wave"
    shape = fields[0].shape if flat else (*fields[0].shape[:2], len(fields), *grid.shape)
    speed = {"c": _steady_field(dataset, "c")} if flat else {}
    size = sizes({**dict(zip(names, fields)), **speed})
    with replacing(path, size=size) as temporary, h5py.File(temporary, "w") as file:
        chunks = (1, 1, *shape[2:])
        target = file.create_dataset(key, shape, fields[0].dtype, chunks=chunks if min(shape) else None)
        for part, blocks in blocks_of(fields):
            target[part] = blocks[0] if flat else np.stack(blocks, 2)
        for name, field in speed.items():
            held = file.create_dataset(name, field.shape, field.dtype)
            for part, (block,) in blocks_of([field]):
                held[part] = block
        state_grid(file, grid, natural_grid(equation, grid.shape)[0])


def _steady(dataset: xr.Dataset, equation: str, path: Path) -> None:
    import h5py

    names = _STEADY[equation]
    if state_of(dataset) or not set(names) <= set(dataset.data_vars):
        raise ValueError(f"layout {LAYOUT!r} holds steady {', '.join(names)} of {equation}; the data set has others")
    expect_nothing_else(dataset, LAYOUT, names)
    _expect_no_numbers(dataset, names)
    first, u = (_steady_field(dataset, name) for name in names[:2])
    grid = grid_of(dataset, "u")
    bc = np.asarray(dataset["bc"].values) if equation == "helmholtz" else None
    looked = np.asarray(u[:4].values)
    if equation == "airfoil":
        natural = natural_grid(equation, grid.shape)[0]
    else:
        natural = natural_grid(equation, grid.shape, looked, 0.0 if bc is None else bc[:4])[0]
    with replacing(path, size=2 * sizes({"a": first, "u": u})) as temporary, h5py.File(temporary, "w") as file:
        targets = _targets(file, equation, first, u)
        for part, blocks in blocks_of([first, u]) if bc is None else ():
            for target, block in zip(targets, blocks):
                target(part, block)
        for i, (a, solution) in samples_of([first, u]) if bc is not None else ():
            group = file.create_group(f"Sample_{i}")
            group["a"], group["u"], group["bc"] = a, solution, bc[i]
        state_grid(file, grid, natural)


def _targets(file: Any, equation: str, a: xr.DataArray, u: xr.DataArray) -> list[Any]:
    """Where the two fields go, block by block."""
    if equation == "poisson":
        arrays = [file.create_dataset(k, f.shape, f.dtype) for k, f in (("source", a), ("solution", u))]
        return [array.__setitem__ for array in arrays]
    if equation == "airfoil":
        if a.dtype != u.dtype:
            raise ValueError(f"layout {LAYOUT!r} holds one array; a is {a.dtype}, u {u.dtype}: use astype")
        whole = file.create_dataset("solution", (len(u), 2, *u.shape[1:]), u.dtype)
        return [lambda part, block, i=i: whole.__setitem__((part[0], i, *part[1:]), block) for i in range(2)]
    return []


def _steady_field(dataset: xr.Dataset, name: str) -> xr.DataArray:
    field = dataset[name]
    if set(field.dims) != {"sample", "x", "y"} or str(field.dtype) not in FLOATS:
        raise ValueError(
            f"layout {LAYOUT!r} holds {name} as floats over (sample, x, y); here {field.dtype} {field.dims}"
        )
    return field.transpose("sample", "x", "y")


def _expect_no_numbers(dataset: xr.Dataset, held: tuple[str, ...]) -> None:
    from sciops.datasets.formats.shared.hdf5_writing import expect_common_parameters

    expect_common_parameters(dataset.drop_vars([name for name in held if dataset[name].dims == ("sample",)]), LAYOUT)
