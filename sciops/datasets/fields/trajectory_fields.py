"""What a data set of trajectories holds: the variables that evolve, those known beforehand, their grid and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.kinds import for_torch
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr


def check_evolves(attrs: Any) -> None:
    """Raises ValueError for the attributes of a steady data set."""
    if attrs.get("task") != "trajectory":
        raise ValueError(
            f"the data set ({attrs.get('equation', 'no equation named')}) is steady, nothing in it evolves in time: "
            "take it as fields, sciops.datasets.FieldDataset or --task steady"
        )


def check_steady(attrs: Any) -> None:
    """Raises ValueError for the attributes of a data set whose fields evolve."""
    if attrs.get("task") == "trajectory":
        raise ValueError(
            f"the data set ({attrs.get('equation', 'no equation named')}) holds trajectories, a time-dependent task: "
            "take windows of it, sciops.datasets.TrajectoryDataset or --task step, trajectory, space-time or final"
        )


def state_names(source: xr.Dataset, asked: Sequence[str] | None) -> tuple[str, ...]:
    """The variables asked for, or those that the data set names; all evolve over (sample, time, x, …)."""
    from sciops.datasets.conventions import state_of

    check_evolves(source.attrs)
    names = state_of(source) if asked is None else asked
    evolving = [str(k) for k, v in source.data_vars.items() if v.dims[:2] == ("sample", "time") and v.ndim > 2]
    wrong = [name for name in names if name not in evolving]
    if wrong or not names:
        raise ValueError(
            f"state has {', '.join(map(repr, wrong)) or 'no variable'}: expected some of the fields over "
            f"(sample, time, x, …), here {', '.join(evolving) or 'none'}"
        )
    return tuple(names)


def shared_forcings(
    source: xr.Dataset, state: tuple[str, ...], forcings: tuple[str, ...], dtype: torch.dtype
) -> dict[str, Tensor]:
    """Those of `forcings` that all samples have in common, (time, *grid)."""
    space = source[state[0]].dims[2:]
    forms = (("time", *space), ("time",), ("sample", "time", *space), ("sample", "time"))
    for name in forcings:
        if name in state or name not in source.variables or source[name].dims not in forms:
            fits = [str(k) for k, v in source.variables.items() if v.dims in forms and k not in state]
            raise ValueError(
                f"forcings has {name!r}: expected fields over time and {', '.join(space)}, or numbers over time, that "
                f"are not of the state ({', '.join(state)}), here {', '.join(fits) or 'none'}"
            )
    shared = {name: as_tensor(source[name].values, dtype) for name in forcings if source[name].dims in forms[:2]}
    grid = tuple(source.sizes[axis] for axis in space)
    return {name: over_grid(values, 1, grid) for name, values in shared.items()}


def over_grid(values: Tensor, leading: int, grid: tuple[int, ...]) -> Tensor:
    """Fields as they are; numbers, which have the `leading` axes alone, as constant fields."""
    if values.ndim > leading:
        return values
    return values.reshape(*values.shape, *(1,) * len(grid)).expand(*values.shape, *grid)


def shared_inputs(
    source: xr.Dataset, state: tuple[str, ...], inputs: tuple[str, ...], dtype: torch.dtype
) -> dict[str, Tensor]:
    """Those of `inputs` that all samples have in common, (*grid)."""
    space = source[state[0]].dims[2:]
    forms = (space, ("sample", *space))
    for name in inputs:
        if name not in source.data_vars or source[name].dims not in forms:
            fits = [str(k) for k, v in source.data_vars.items() if v.dims in forms]
            evolves = name not in state and name in source.data_vars and "time" in source[name].dims
            raise ValueError(
                f"inputs has {name!r}: expected fields over {', '.join(space)} that do not change in time, "
                f"here {', '.join(fits) or 'none'}" + ("; one that does is among forcings" if evolves else "")
            )
    return {name: as_tensor(source[name].values, dtype) for name in inputs if source[name].dims == space}


def common_grid(source: xr.Dataset, state: tuple[str, ...]) -> Grid:
    """The grid of the state. Staggered variables may lie apart by a shift that is the same everywhere: to a map between
    functions it is a part of what a channel means, and the data set's own grid stands for all."""
    from sciops.datasets.conventions import grid_of

    grids = {name: grid_of(source, name) for name in state}
    first = grids[state[0]]
    for name, grid in grids.items():
        same = grid.shape == first.shape and np.allclose(grid.spacing, first.spacing, rtol=1e-6, atol=0.0)
        if not same:
            raise ValueError(
                f"state variables {state[0]!r} and {name!r} lie on different grids ({first.shape} and {grid.shape} "
                "points, or other spacings): bring them to one with sciops.resample, or pass state=(…) of one grid"
            )
    alike = all(grid == first for grid in grids.values())
    return first if alike or "grid" not in source.attrs else grid_of(source)


def times_of(source: xr.Dataset, frames: np.ndarray) -> tuple[np.ndarray, str]:
    """(times of the frames, their unit): as stated, else the numbers of the frames."""
    if "time" not in source.coords:
        return frames.astype(np.float64), "frames"
    time = source.coords["time"]
    return np.asarray(time.values, np.float64)[frames], str(time.attrs.get("units", "1"))


def clocks_of(source: xr.Dataset, frames: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """(samples, frames) float64: when each frame of each trajectory is, also where times differ by sample."""
    if "times" in source.variables and set(source["times"].dims) == {"sample", "time"}:
        return np.asarray(source["times"].transpose("sample", "time").values, np.float64)[samples][:, frames]
    return np.broadcast_to(times_of(source, frames)[0], (len(samples), len(frames)))


def parameter_values(
    source: xr.Dataset, parameters: tuple[str, ...], samples: np.ndarray, dtype: torch.dtype
) -> Tensor:
    """(samples, parameters): constants that the data set holds by sample or for all."""
    from sciops.datasets.conventions import parameters_of

    constants, columns = parameters_of(source), []
    for name in parameters:
        if name in source.data_vars and source[name].dims == ("sample",):
            columns.append(np.asarray(source[name].values)[samples])
        elif name in constants:
            columns.append(np.full(len(samples), constants[name]))
        else:
            known = [str(k) for k, v in source.data_vars.items() if v.dims == ("sample",)] + list(constants)
            raise ValueError(f"parameters has {name!r}: the data set has {', '.join(known) or 'none'}")
    values = np.stack(columns, 1) if columns else np.empty((len(samples), 0))
    return torch.from_numpy(values.astype(np.float64)).to(dtype)


def as_tensor(values: Any, dtype: torch.dtype) -> Tensor:
    """The numbers of an array as a tensor of that dtype."""
    return torch.from_numpy(for_torch(np.asarray(values))).to(dtype)


def whole(indices: Any, size: int, what: str) -> np.ndarray:
    """`indices` (array, list, range or slice) as numbers 0 … size − 1; raises IndexError, naming what they count."""
    if isinstance(indices, slice):
        return np.arange(*indices.indices(size))
    indices = np.asarray(indices, dtype=np.int64).reshape(-1)
    outside = indices[(indices < -size) | (indices >= size)]
    if outside.size:
        raise IndexError(f"{what} {outside[0]}: there are {size}")
    return np.where(indices < 0, indices + size, indices)
