"""pdearena's Navier–Stokes files (arXiv:2209.15616), `NavierStokes2D_train_….h5`: buoyant smoke in a closed box.

Group ``train``, ``valid`` or ``test`` with ``u`` (smoke), ``vx``, ``vy`` (N, T, nx, ny) double, ``t`` (N, T), ``x``
(N, nx), ``y`` (N, ny), and per sample ``dt``, ``dx``, ``dy``, ``buo_y``. The group is the split.

The coordinates in the files belong to none of the fields. PhiFlow has smoke at the centres of nx × ny cells and each
velocity on the faces across it, of which the files keep the lower ones; they state x = linspace(0, Lx, nx) and
dx = Lx/(nx − 1), 0.25197 where the cells of the published files are 0.25 wide. Here smoke lies at (i + ½, j + ½) h, vx
at (i, j + ½) h and vy at (i + ½, j) h, each with its own ``grid``; the walls are x = 0 and Lx, and the faces on the
upper ones are not in the file. ``t`` in the same way is linspace(tmin, tmax, T), and the states lie ``dt`` apart: the
times here are t[0] + k dt. Where the stored positions or times are not of this form they are believed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import build_dataset, grid_of, state_of
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import check_size, is_real, numbers
from sciops.datasets.formats.shared.expectations import FLOATS, times_of_samples, words
from sciops.datasets.formats.shared.hdf5_writing import sizes, write_blocks
from sciops.datasets.formats.shared.pdearena import (
    MODES,
    each_sample,
    expect_constants,
    mode_for,
    mode_of,
    per_sample,
    split_variable,
)
from sciops.datasets.formats.shared.reader import Reader
from sciops.files.whole_files import replacing
from sciops.grids import Grid, Interval

if TYPE_CHECKING:
    import xarray as xr

FIELDS = {"u": "smoke", "vx": "velocity along x", "vy": "velocity along y"}
_CLOSE = 1e-6
LAYOUT = "pdearena-ns"


def matches(probe: Probe) -> bool:
    """Whether the file is HDF5 with a group train, valid or test of `u`, `vx`, `vy`, all (N, T, nx, ny)."""
    if probe.kind != "hdf5" or mode_of(probe, FIELDS) is None:
        return False
    entries = [probe.arrays[f"{mode_of(probe, FIELDS)}/{name}"] for name in FIELDS]
    shape = entries[0].shape
    real = all(is_real(entry.dtype, "f") for entry in entries)
    return (
        real and {entry.shape for entry in entries} == {shape} and len(shape) == 4 and min(shape) >= 1 < min(shape[2:])
    )


def read(probe: Probe) -> xr.Dataset:
    """u, vx, vy over (sample, time, x, y), lazily, each on its own grid."""
    import json

    from sciops.datasets.formats.containers.hdf5_arrays import H5Array

    mode, notes = str(mode_of(probe, FIELDS)), []
    samples, steps, *shape = probe.arrays[f"{mode}/u"].shape
    check_size(probe, (samples, steps, *shape))
    lengths = []
    for axis, n in zip("xy", shape):
        length, note = _length(probe, f"{mode}/{axis}", f"{mode}/d{axis}", n)
        lengths.append(length)
        notes += [note] * bool(note)
    grids = staggered(tuple(shape), tuple(lengths))
    times, units, timed = _times(probe, mode, samples, steps)
    notes += timed
    fields: dict[str, Any] = {}
    for name, long_name in FIELDS.items():
        about = {"units": "1", "long_name": long_name, "stored_as": f"{mode}/{name}"}
        if name != "u":
            about["grid"] = json.dumps(grids[name].to_dict())
        fields[name] = (("sample", "time", "x", "y"), H5Array(probe.path, f"{mode}/{name}"), about)
    constants, varying = per_sample(probe, f"{mode}/buo_y", "buoyancy_y", "buoyancy along y", samples)
    fields |= varying | split_variable(mode, samples)
    common = times if times is not None and times.ndim == 1 else None
    if times is not None and common is None:
        fields["times"] = (("sample", "time"), times, {"units": units, "long_name": "time"})
        common, units = np.arange(steps, dtype=np.float64), "steps"
    others = [other for other in MODES if other != mode and any(k.startswith(f"{other}/") for k in probe.arrays)]
    if others:
        notes.append(f"group {mode} is read; {', '.join(others)} of the same file is left out")
    return build_dataset(
        fields,
        grids["u"],
        layout="pdearena-ns",
        equation="navier_stokes_velocity",
        notes=tuple(notes),
        times=common,
        time_units=units,
        state=tuple(FIELDS),
        parameters=constants,
        boundary={"x": "wall", "y": "wall"},
        positions="known",
    )


def staggered(shape: tuple[int, ...], lengths: tuple[float, ...]) -> dict[str, Grid]:
    """Where smoke and the two velocities lie in a box of these lengths."""
    walls = tuple((0.0, length) for length in lengths)
    h = [length / n for n, length in zip(shape, lengths)]
    centres = [(0.5 * d, (n - 0.5) * d) for n, d in zip(shape, h)]
    faces = [(0.0, (n - 1) * d) for n, d in zip(shape, h)]
    extents: dict[str, tuple[Interval, ...]] = {"vx": (faces[0], centres[1]), "vy": (centres[0], faces[1])}
    return {"u": Grid(shape, walls, "cell"), **{k: Grid(shape, e, "node", walls) for k, e in extents.items()}}


def _length(probe: Probe, name: str, step: str, n: int) -> tuple[float, str]:
    """(length of the box along an axis, note)."""
    points, steps = numbers(probe, name), numbers(probe, step)
    if points is not None and points.ndim == 2 and points.shape[1] == n and np.isfinite(points).all():
        if np.ptp(points, axis=0).max() > _CLOSE * np.ptp(points):
            return 1.0, f"{name} differs by sample: the unit interval is assumed"
        row = points[0].astype(np.float64)
        span = row[-1] - row[0]
        uniform = span > 0 and np.abs(row - np.linspace(row[0], row[-1], n)).max() < _CLOSE * span
        if uniform and abs(row[0]) < _CLOSE * span:
            return float(row[-1]), (
                f"{name} runs from wall to wall, as no field does: smoke lies at the centres of {n} cells of "
                f"{row[-1] / n:.6g}, velocities on their faces"
            )
        if uniform and abs(row[0] - 0.5 * span / (n - 1)) < _CLOSE * span:
            return float(row[-1] + row[0]), ""
        return 1.0, f"{name} is neither cell centres from 0 on nor points from wall to wall: a unit length is assumed"
    if steps is not None and np.isfinite(steps).all() and steps.size and steps.min() > 0:
        return float(steps.flat[0]) * (n - 1), f"{name} is missing: the length is {step} times {n - 1}"
    return 1.0, f"{name} is missing: a unit length is assumed"


def _times(probe: Probe, mode: str, samples: int, steps: int) -> tuple[np.ndarray | None, str, list[str]]:
    """(times (T,) or (N, T), units, notes)."""
    t, dt = numbers(probe, f"{mode}/t"), numbers(probe, f"{mode}/dt")
    if t is None or t.shape != (samples, steps) or not np.isfinite(t).all():
        return None, "1", [f"{mode}/t is missing, of another shape or not finite: times are not known"]
    t, notes = t.astype(np.float64), []
    if dt is not None and dt.shape == (samples,) and np.isfinite(dt).all() and (dt > 0).all() and steps > 1:
        exact = t[:, :1] + np.arange(steps) * dt[:, None].astype(np.float64)
        if np.abs(exact - t).max() > 1e-3 * dt.min():
            stored = (t[0, -1] - t[0, 0]) / (steps - 1)
            notes.append(f"{mode}/t has steps of {stored:.6g} and {mode}/dt says {dt[0]:.6g}: times go by dt from t[0]")
            t = exact
    if (np.diff(t, axis=1) <= 0).any():
        return None, "1", [f"{mode}/t does not increase: times are not known"]
    return (t[0] if (t == t[0]).all() else t), "1", notes


def write(groups: list[xr.Dataset], path: Path) -> None:
    """Group train, valid or test; positions as pdearena states them, which its loaders expect, from wall to wall."""
    import h5py

    (dataset,) = groups
    if set(state_of(dataset)) != set(FIELDS):
        raise ValueError(
            f"layout {LAYOUT!r} evolves {', '.join(FIELDS)}; the data set {', '.join(state_of(dataset)) or 'nothing'}"
        )
    grid = grid_of(dataset, "u")
    lengths = tuple(b for _, b in grid.extent)
    if grid.ndim != 2 or grid.centering != "cell" or any(a != 0 for a, _ in grid.extent):
        raise ValueError(
            f"layout {LAYOUT!r} holds smoke at the cells of a box from 0 on; the data set has {words(grid)}"
        )
    natural = staggered(grid.shape, lengths)
    for name in FIELDS:
        if not grid_of(dataset, name).same_points(natural[name]):
            raise ValueError(
                f"layout {LAYOUT!r} holds vx and vy on the lower faces of the cells, staggered; {name} of the data set "
                f"lies at {words(grid_of(dataset, name))}"
            )
    expect.nothing_else(dataset, LAYOUT, (*FIELDS, "times"))
    expect_constants(dataset, LAYOUT, ("buoyancy_y",))
    mode, times = mode_for(dataset, LAYOUT), times_of_samples(dataset, LAYOUT)
    step = np.diff(times, axis=1)
    if step.size and np.ptp(step, axis=1).max() > 1e-6 * step.min():
        raise ValueError(f"layout {LAYOUT!r} holds equal time steps; the data set has {step.min():g} … {step.max():g}")
    fields = [dataset[name].transpose("sample", "time", "x", "y") for name in FIELDS]
    if any(str(field.dtype) not in FLOATS for field in fields):
        raise ValueError(f"layout {LAYOUT!r} holds floats: use astype('float32')")
    samples = dataset.sizes["sample"]
    buoyancy = each_sample(dataset, "buoyancy_y")
    with replacing(path, size=sizes(dict(zip(FIELDS, fields)))) as temporary, h5py.File(temporary, "w") as file:
        group = file.create_group(mode)
        targets = [
            group.create_dataset(k, f.shape, f.dtype, chunks=(1, 1, *grid.shape)) for k, f in zip(FIELDS, fields)
        ]
        write_blocks(targets, fields)
        group["t"] = times
        group["dt"] = step.mean(1) if step.size else np.ones(samples)
        for axis, n, length in zip("xy", grid.shape, lengths):
            group[axis] = np.tile(np.linspace(0, length, n), (samples, 1))
            group[f"d{axis}"] = np.full(samples, length / (n - 1))
        if buoyancy is not None:
            group["buo_y"] = buoyancy


READER = Reader(
    "pdearena-ns", "HDF5 with a group train, valid or test of u, vx, vy (samples, times, n, n)", matches, read
)
WRITERS = {"pdearena-ns": write}
