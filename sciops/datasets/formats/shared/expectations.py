"""What writers demand of a data set, named so that ``expect.nodes(grid, layout)`` reads as it is meant.

Each raises ValueError, in one line, for a data set that the layout cannot hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sciops.datasets.conventions import RECORDS, SPACE, grid_of, parameters_of, state_of
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

FLOATS = ("float64", "float32")
DERIVED = ("Kcoeff", "Kcoeff_x", "Kcoeff_y")  # Li et al.'s smoothed coefficient, which a gives


def coefficient_and_solution(dataset: xr.Dataset, layout: str, equations: tuple[str, ...] = ("darcy",)) -> Grid:
    """The grid of a data set that a layout of a and u can hold; ValueError in one line for another."""
    found = equation(dataset, layout, equations)
    for name in ("a", "u"):
        if name not in dataset:
            raise ValueError(f"layout {layout!r} needs a and u; the data set holds {', '.join(map(str, dataset))}")
        if str(dataset[name].dtype) not in FLOATS:
            raise ValueError(f"layout {layout!r} holds floats; {name} is {dataset[name].dtype}: use astype('float32')")
    grid = grid_of(dataset)
    if found == "darcy":
        if grid.ndim != 2:
            raise ValueError(f"layout {layout!r} holds 2-D fields; the data set has {words(grid)}")
        zero_walls(dataset, layout)
    return grid


def equation(dataset: xr.Dataset, layout: str, equations: Sequence[str]) -> str:
    """The equation of a data set; ValueError for one that the layout does not hold."""
    equation = dataset.attrs.get("equation")
    if equation not in equations:
        raise ValueError(f"layout {layout!r} holds {', '.join(equations)}; the data set is of {equation!r}")
    return str(equation)


def unit_source(dataset: xr.Dataset, layout: str) -> None:
    """Raises ValueError for a Darcy problem with another source than f = 1, which the layout does not store."""
    if float(dataset.attrs.get("forcing", 1.0)) != 1.0:
        raise ValueError(f"layout {layout!r} means a source of 1; the data set has {dataset.attrs['forcing']}")


def unit_period(grid: Grid, layout: str) -> None:
    """Raises ValueError for points other than j/n, j = 0, …, n − 1, on every axis."""
    if grid != Grid(grid.shape, (0.0, 1.0), "periodic"):
        raise ValueError(f"layout {layout!r} holds one unit period from 0 on; the data set has {words(grid)}")


def zero_walls(dataset: xr.Dataset, layout: str) -> None:
    """Refuses Darcy problems with other walls or a source that varies: layouts that name neither mean u = 0."""
    if "walls" in dataset.attrs:
        raise ValueError(
            f"layout {layout!r} means u = 0 on the wall; the data set has {dataset.attrs['walls']}: use layout='native'"
        )
    if "f" in dataset:
        raise ValueError(f"layout {layout!r} means a constant source; the data set has f: use layout='native'")


def phase_values(dataset: xr.Dataset, layout: str) -> None:
    """Raises ValueError for a coefficient that is an indicator of two phases."""
    if dataset.attrs.get("coefficient") != "values":
        raise ValueError(
            f"layout {layout!r} holds coefficient values; the data set has an indicator of two phases: state them "
            "first, convert(…, phases=(low, high)), --phases LOW HIGH, as with_phases does"
        )


def nodes(grid: Grid, layout: str) -> None:
    """Raises ValueError for a grid of another centering than nodes."""
    if grid.centering != "node":
        raise ValueError(
            f"layout {layout!r} holds values at nodes; the data set has {words(grid)}: use 'pdebench-darcy'"
        )


def leave_out(names: Sequence[str]) -> str:
    """The remedy for variables and constants that a layout has no place for."""
    return f"leave them out with dataset.drop_vars({list(names)!r}) (--without {' '.join(names)})"


def words(grid: Grid) -> str:
    """The points of a grid and where they lie, for messages."""
    where = "" if grid.reaches_walls else f", and stops at {grid.extent} in {grid.domain}"
    return f"{'×'.join(map(str, grid.shape))} {grid.centering} points on {grid.domain}{where}"


def trajectory(
    dataset: xr.Dataset,
    layout: str,
    ndims: Sequence[int],
    *,
    state: Sequence[str] = (),
    equations: Sequence[str] = (),
) -> Grid:
    """The grid of a data set whose state is of floats over (sample, time, *space).

    state, equations : what the layout holds; any where they are empty

    Raises ValueError in one line for another data set.
    """
    held, equation = state, dataset.attrs.get("equation")
    state = state_of(dataset)
    if not state:
        raise ValueError(
            f"layout {layout!r} holds trajectories; the data set is steady ({', '.join(map(str, dataset.data_vars))})"
        )
    if (held and set(state) != set(held)) or (equations and equation not in equations):
        of = f" of {', '.join(equations)}" if equations else ""
        raise ValueError(
            f"layout {layout!r} holds {', '.join(held) or 'fields'}{of}; the data set evolves {', '.join(state)} of "
            f"{equation!r}"
        )
    grid = grid_of(dataset, state[0])
    if grid.ndim not in ndims:
        allowed = " or ".join(f"{d}-D" for d in ndims)
        raise ValueError(f"layout {layout!r} holds {allowed} fields; the data set has {words(grid)}")
    dims = ("sample", "time", *SPACE[: grid.ndim])
    for name in state:
        field = dataset[name]
        if set(field.dims) != set(dims):
            raise ValueError(f"layout {layout!r} holds {name} over {dims}; the data set has it over {field.dims}")
        if str(field.dtype) not in FLOATS:
            raise ValueError(f"layout {layout!r} holds floats; {name} is {field.dtype}: use astype('float32')")
        if not grid_of(dataset, name).same_points(grid):
            raise ValueError(
                f"layout {layout!r} holds all fields at the same points; {name} is staggered: resample it first"
            )
    return grid


def state_fields(dataset: xr.Dataset, grid: Grid) -> dict[str, xr.DataArray]:
    """The evolving variables with their axes in order."""
    return {name: dataset[name].transpose("sample", "time", *SPACE[: grid.ndim]) for name in state_of(dataset)}


def nothing_else(dataset: xr.Dataset, layout: str, held: Sequence[str]) -> None:
    """Refuses a data set with further fields: they would be lost. Records of a sample may stay behind."""
    lost = [
        str(name)
        for name, variable in dataset.data_vars.items()
        if name not in held and name != "times" and set(variable.dims) - {"sample"}
    ]
    if lost:
        raise ValueError(
            f"layout {layout!r} has no place for {', '.join(lost)}: {leave_out(lost)}, or use layout='native'"
        )


def common_parameters(dataset: xr.Dataset, layout: str, held: Sequence[str] | None = None) -> dict[str, float]:
    """The constants of a data set, for layouts that state one value a file; ValueError where they differ by sample.

    held : the only constants that the layout has a place for; None for any
    """
    varying = [n for n, v in dataset.data_vars.items() if v.dims == ("sample",) and n not in RECORDS]
    if varying:
        raise ValueError(
            f"layout {layout!r} states one value a file; {', '.join(map(str, varying))} differ by sample: write one "
            "file a value, or use layout='native'"
        )
    parameters = parameters_of(dataset)
    strange = [name for name in parameters if held is not None and name not in held]
    if strange:
        raise ValueError(
            f"layout {layout!r} has no place for {', '.join(strange)}: leave them out with convert(…, "
            f"without={strange!r}) (--without {' '.join(strange)})"
        )
    return parameters


def one_type(fields: Sequence[xr.DataArray], layout: str) -> None:
    """Raises ValueError for fields of different dtypes, for layouts that stack them in one array."""
    if len({field.dtype for field in fields}) > 1:
        raise ValueError(f"layout {layout!r} holds one array; the fields here have several dtypes: use astype")


def times_in(dataset: xr.Dataset, layout: str) -> np.ndarray:
    """The common times; ValueError where they differ by sample or are not known."""
    if "times" in dataset:
        raise ValueError(f"layout {layout!r} holds times common to all samples; here they differ: use layout='native'")
    if "time" not in dataset.coords:
        raise ValueError(
            f"layout {layout!r} states times; the data set does not know them: dataset.assign_coords(time=…) first"
        )
    return np.asarray(dataset["time"].values, dtype=np.float64)


def times_of_samples(dataset: xr.Dataset, layout: str) -> np.ndarray:
    """(samples, times) float64; ValueError where they are not known."""
    if "times" in dataset:
        return np.asarray(dataset["times"].transpose("sample", "time").values, np.float64)
    return np.tile(times_in(dataset, layout), (dataset.sizes["sample"], 1))
