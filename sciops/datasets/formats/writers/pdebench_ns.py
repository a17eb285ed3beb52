"""PDEBench's incompressible flow; the layout is said in `sciops.datasets.formats.pdebench_ns`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops._untrusted import parse_json
from sciops._whole_files import replacing
from sciops.datasets.conventions import parameters_of
from sciops.datasets.formats.pdebench_ns import WALLS, box
from sciops.datasets.formats.shared.expectations import words
from sciops.datasets.formats.shared.hdf5_writing import (
    blocks_of,
    expect_common_parameters,
    expect_nothing_else,
    expect_trajectory,
    lossless,
    sizes,
    state_fields,
    times_in,
)
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = "pdebench-ns"
_STATE, _FORCE = ("vx", "vy", "particles"), ("fx", "fy")


def write(groups: list[xr.Dataset], path: Path) -> None:
    """`velocity`, `particles`, `force`, `t`, and the settings that say the box, the walls and the viscosity."""
    import h5py

    (dataset,) = groups
    grid = expect_trajectory(dataset, LAYOUT, (2,))
    fields = state_fields(dataset, grid)
    if set(fields) != set(_STATE) or not set(_FORCE) <= set(dataset.data_vars):
        raise ValueError(
            f"layout {LAYOUT!r} holds vx, vy, particles that evolve, and the force fx, fy; the data set holds "
            f"{', '.join(map(str, dataset.data_vars))}"
        )
    if dataset.attrs.get("equation") != "navier_stokes_velocity":
        raise ValueError(
            f"layout {LAYOUT!r} holds navier_stokes_velocity; the data set is of {dataset.attrs.get('equation')!r}"
        )
    expect_nothing_else(dataset, LAYOUT, (*_STATE, *_FORCE))
    expect_common_parameters(dataset, LAYOUT)
    text = _config(dataset, grid)
    times = _times(dataset)
    vx, vy, particles = (fields[name] for name in _STATE)
    force = [dataset[name].transpose("sample", "x", "y") for name in _FORCE]
    samples, steps, nx, ny = vx.shape
    with replacing(path, size=sizes({**fields, **dict(zip(_FORCE, force))})) as temporary:
        with h5py.File(temporary, "w") as file:
            file.attrs["config"], file.attrs["latestIndex"] = text, steps - 1
            shapes = {"velocity": (samples, steps, nx, ny, 2), "particles": (samples, steps, nx, ny, 1)}
            shapes["force"] = (samples, nx, ny, 2)
            for name, shape in shapes.items():
                chunks = (1, 1, *shape[2:])
                dtype = force[0].dtype if name == "force" else vx.dtype
                file.create_dataset(name, shape, dtype, chunks=chunks, compression="lzf", shuffle=True)
            for part, (one, two, three) in blocks_of([vx, vy, particles]):
                file["velocity"][part] = np.stack([one, two], -1)
                file["particles"][part] = three[..., None]
            for part, blocks in blocks_of(force):
                file["force"][part] = np.stack(blocks, -1)
            file["t"] = times


def _times(dataset: xr.Dataset) -> np.ndarray:
    if "times" in dataset:
        return lossless(dataset["times"].transpose("sample", "time").values)
    times = lossless(times_in(dataset, LAYOUT))
    return np.broadcast_to(times, (dataset.sizes["sample"], len(times)))


def _config(dataset: xr.Dataset, grid: Grid) -> str:
    parameters = parameters_of(dataset)
    if set(parameters) - {"viscosity"}:
        raise ValueError(f"layout {LAYOUT!r} states viscosity; the data set has {', '.join(parameters)}")
    boundary: dict[str, Any] = parse_json(dataset.attrs.get("boundary", "{}"))
    kinds = set(boundary.values())
    words_of = {kind: word for word, kind in WALLS.items()}
    if len(kinds) > 1 or not kinds <= set(words_of):
        raise ValueError(f"layout {LAYOUT!r} states one kind of wall for all sides; the data set has {boundary}")
    wall = kinds.pop() if kinds else None
    size = [b - a for a, b in grid.extent]
    if not box(grid.shape, [float(v) for v in size], wall).same_points(grid):
        raise ValueError(f"layout {LAYOUT!r} holds cells of a box that begins at 0; the data set has {words(grid)}")
    lines = [f"domain_size: {size!r}", f"grid_size: {list(grid.shape)!r}"]
    lines += [f"NU: {parameters['viscosity']!r}"] if parameters else []
    lines += [f"velocity_extrapolation: {words_of[wall]}"] if wall else []
    return "\n".join(lines) + "\n"
