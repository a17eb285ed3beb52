"""PDEBench's incompressible flow (arXiv:2210.07182), `ns_incom_inhom_2d_512-0.h5`.

``velocity`` : (samples, T, X, Y, 2) single; ``particles`` : (samples, T, X, Y, 1) a tracer; ``force`` : (samples, X, Y,
2); ``t`` : (samples, T); attributes ``config``, YAML with the viscosity ``NU`` and the walls, and ``latestIndex``, the
last state that was written: a simulation that was cut short leaves zeros after it, and they are left out here.

    v_t + v·∇v = −∇p + ν Δv + c f,  ∇·v = 0,  c_t + v·∇c = 0

Velocity and force were staggered in the simulation and averaged to the cell centres where everything is stored. The
file holds no coordinates: cell centres of the box that ``domain_size`` states are assumed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import SPACE, build_dataset
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.containers.yaml_lines import settings
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import MOST_POINTS, check_size, is_real, number, numbers, periodic_cells
from sciops.datasets.formats.shared.expectations import state_fields, times_of_samples, words
from sciops.datasets.formats.shared.hdf5_writing import blocks_of, lossless, sizes
from sciops.datasets.formats.shared.reader import Reader
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import replacing
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

WALLS = {"ZERO": "wall", "BOUNDARY": "open", "PERIODIC": "periodic"}
LAYOUT = "pdebench-ns"
_STATE, _FORCE = ("vx", "vy", "particles"), ("fx", "fy")


def matches(probe: Probe) -> bool:
    """Whether the file is HDF5 with velocity, particles, force and t whose shapes agree."""
    if probe.kind != "hdf5" or not probe.stored("velocity", "particles", "force", "t"):
        return False
    shapes = {name: probe.arrays[name].shape for name in ("velocity", "particles", "force", "t")}
    if len(shapes["velocity"]) != 5 or min(shapes["velocity"]) < 1:
        return False
    samples, steps, nx, ny, _ = shapes["velocity"]
    expected = {"velocity": (samples, steps, nx, ny, 2), "particles": (samples, steps, nx, ny, 1)}
    expected |= {"force": (samples, nx, ny, 2), "t": (samples, steps)}
    return shapes == expected and all(is_real(probe.arrays[name].dtype, "f") for name in shapes)


def read(probe: Probe) -> xr.Dataset:
    """vx, vy and particles over (sample, time, x, y), the force fx, fy over (sample, x, y), lazily."""
    from sciops.datasets.formats.containers.hdf5_arrays import H5Array

    samples, stored, nx, ny, _ = probe.arrays["velocity"].shape
    check_size(probe, (nx, ny))
    steps, cut = _steps(probe, stored)
    config = settings(probe.attrs.get("config"))
    fields: dict[str, Any] = {}
    for component, axis in enumerate("xy"):
        about = {"units": "1", "long_name": f"velocity along {axis}", "stored_as": f"velocity[..., {component}]"}
        about |= {"part_of": "velocity", "component": axis}
        array = H5Array(probe.path, "velocity", pick={-1: component}, stop={1: steps})
        fields[f"v{axis}"] = (("sample", "time", "x", "y"), array, about)
    array = H5Array(probe.path, "particles", pick={-1: 0}, stop={1: steps})
    about = {"units": "1", "long_name": "tracer", "stored_as": "particles"}
    fields["particles"] = (("sample", "time", "x", "y"), array, about)
    for component, axis in enumerate("xy"):
        about = {"units": "1", "long_name": f"force along {axis}", "stored_as": f"force[..., {component}]"}
        about |= {"part_of": "force", "component": axis}
        array = H5Array(probe.path, "force", pick={-1: component})
        fields[f"f{axis}"] = (("sample", "x", "y"), array, about)
    times, own, timed = _times(probe, samples, steps)
    fields |= own
    viscosity = number(config.get("NU")) if isinstance(config.get("NU"), float) else None
    unknown = () if viscosity is not None else ("attribute config does not state NU: the viscosity is not known",)
    wall = WALLS.get(str(config.get("velocity_extrapolation")))
    grid = box((nx, ny), config.get("domain_size"), wall)
    return build_dataset(
        fields,
        grid,
        layout="pdebench-ns",
        equation="navier_stokes_velocity",
        notes=(*cut, *timed, *unknown),
        times=times,
        state=("vx", "vy", "particles"),
        parameters=None if viscosity is None else {"viscosity": viscosity},
        boundary=dict.fromkeys(SPACE[:2], wall) if wall else None,
        positions="assumed: cell centres of the box, whose size is in the settings",
    )


def box(shape: tuple[int, int], size: Any, wall: str | None) -> Grid:
    """Cells of [0, Lx] × [0, Ly]; periodic points at their centres where the flow is."""
    stated = isinstance(size, list) and len(size) == 2 and all(isinstance(v, float) and 0 < v < np.inf for v in size)
    extents = [(0.0, length) for length in (size if stated else (1.0, 1.0))]
    return periodic_cells(shape, extents) if wall == "periodic" else Grid(shape, tuple(extents), "cell")


def _steps(probe: Probe, stored: int) -> tuple[int, tuple[str, ...]]:
    latest = number(probe.attrs.get("latestIndex"))
    if latest is None or latest + 1 >= stored:
        return stored, ()
    if latest < 0:
        raise ValueError(
            f"{probe.path}: latestIndex = {latest:g}: the simulation wrote no state; run it again, or take another file"
        )
    steps = int(latest) + 1
    return steps, (f"the simulation stopped after {steps} of {stored} states: the rest was never written",)


def _times(probe: Probe, samples: int, steps: int) -> tuple[np.ndarray | None, dict[str, Any], tuple[str, ...]]:
    stored = numbers(probe, "t", MOST_POINTS)
    times = None if stored is None else stored[:, :steps].astype(np.float64)
    if times is None or not np.isfinite(times).all() or (np.diff(times, axis=1) <= 0).any():
        return None, {}, ("t is not finite and increasing: times are not known",)
    if (times == times[0]).all():
        return times[0], {}, ()
    about = {"units": "1", "long_name": "time of each sample", "stored_as": "t"}
    return np.arange(steps), {"times": (("sample", "time"), times, about)}, ()


def write(groups: list[xr.Dataset], path: Path) -> None:
    """`velocity`, `particles`, `force`, `t`, and the settings that say the box, the walls and the viscosity."""
    import h5py

    (dataset,) = groups
    grid = expect.trajectory(dataset, LAYOUT, (2,))
    fields = state_fields(dataset, grid)
    if set(fields) != set(_STATE) or not set(_FORCE) <= set(dataset.data_vars):
        raise ValueError(
            f"layout {LAYOUT!r} holds vx, vy, particles that evolve, and the force fx, fy; the data set holds "
            f"{', '.join(map(str, dataset.data_vars))}"
        )
    expect.equation(dataset, LAYOUT, ("navier_stokes_velocity",))
    expect.nothing_else(dataset, LAYOUT, (*_STATE, *_FORCE))
    text = _config(dataset, grid)
    times = lossless(times_of_samples(dataset, LAYOUT))
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


def _config(dataset: xr.Dataset, grid: Grid) -> str:
    parameters = expect.common_parameters(dataset, LAYOUT, ("viscosity",))
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


READER = Reader(
    "pdebench-ns",
    "HDF5 with velocity (samples, times, nx, ny, 2), particles (…, 1), force (samples, nx, ny, 2), t (samples, times)",
    matches,
    read,
)
WRITERS = {"pdebench-ns": write}
