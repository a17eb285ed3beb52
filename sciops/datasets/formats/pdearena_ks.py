"""pdearena's and LPSDA's files of one-dimensional equations (arXiv:2209.15616, 2202.07643), `KS_train_2048.h5`.

Group ``train``, ``valid`` or ``test`` with ``pde_{T}-{n}`` (N, T, n), ``t`` (N, T), ``x`` (N, n), and a number a sample
of ``dt``, ``dx`` and, where it varies, the viscosity ``v``. One period, the end point not stored, n·dx long.

Lengths and time steps differ by sample on purpose. Where they do the grid is one unit period, the variable ``length``
(sample) says how long each is, coordinate ``time`` counts steps and ``times`` (sample, time) holds the true ones.

    kuramoto_sivashinsky   u_t + u u_x + u_xx + ν u_xxxx = 0     ν = v, or 1
    kdv                    u_t + u u_x + u_xxx = 0
    heat                   u_t = ν u_xx

The same layout holds all three, and the equation stands in the name of the file alone: with ``v`` it is the first; else
the first sample tells, as ∫u² is kept by KdV and only ever falls in the heat equation.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import build_dataset
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import check_size, is_real, numbers
from sciops.datasets.formats.shared.expectations import state_fields, times_of_samples, words
from sciops.datasets.formats.shared.hdf5_writing import sizes, write_blocks
from sciops.datasets.formats.shared.pdearena import (
    MODES,
    each_sample,
    expect_constants,
    mode_for,
    per_sample,
    split_variable,
)
from sciops.datasets.formats.shared.reader import Reader
from sciops.files.whole_files import replacing
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_NAME = re.compile(r"(train|valid|test)/pde_(\d{1,9})-(\d{1,9})", re.ASCII)
_KEPT = 1e-3
LAYOUT = "pdearena-ks"
_EQUATIONS = ("kuramoto_sivashinsky", "kdv", "heat")


def matches(probe: Probe) -> bool:
    """Whether one group train, valid or test of an HDF5 file holds `pde_{T}-{n}` of that shape, `dx` and `dt` (N,)."""
    if probe.kind != "hdf5":
        return False
    found = _found(probe)
    if found is None:
        return False
    entry = probe.arrays[found.string]
    shape, samples = entry.shape, (entry.shape[:1])
    stated = (int(found[2]), int(found[3]))
    sized = all(
        probe.arrays[f"{found[1]}/{k}"].shape == samples for k in ("dt", "dx") if f"{found[1]}/{k}" in probe.arrays
    )
    here = probe.stored(f"{found[1]}/dt", f"{found[1]}/dx")
    return here and sized and is_real(entry.dtype, "f") and len(shape) == 3 and shape[1:] == stated and shape[2] >= 2


def read(probe: Probe) -> xr.Dataset:
    """u over (sample, time, x), lazily."""
    from sciops.datasets.formats.containers.hdf5_arrays import H5Array

    found = _found(probe)
    mode, stored = found[1], found.string
    samples, steps, n = probe.arrays[stored].shape
    check_size(probe, (samples, steps, n))
    u = H5Array(probe.path, stored)
    fields: dict[str, Any] = {
        "u": (
            ("sample", "time", "x"),
            u,
            {"units": "1", "long_name": "solution", "stored_as": stored},
        )
    }
    length, notes = 1.0, []
    dx = _positive(probe, f"{mode}/dx", samples)
    if dx is None:
        notes.append(f"{mode}/dx is not finite and positive: a unit period is assumed")
    elif (dx == dx[0]).all():
        length = float(n * dx[0])
    else:
        about = {"units": "1", "long_name": "length of the period", "stored_as": f"{n}·{mode}/dx"}
        fields["length"] = (("sample",), n * dx, about)
    times, timed = _times(probe, mode, samples, steps)
    if times is not None and times.ndim == 2:
        fields["times"] = (("sample", "time"), times, {"units": "1", "long_name": "time", "stored_as": f"{mode}/t"})
        times, units = np.arange(steps, dtype=np.float64), "steps"
    else:
        units = "1"
    viscosity, varying = per_sample(probe, f"{mode}/v", "viscosity", "viscosity", samples)
    equation = _equation(u, f"{mode}/v" in probe.arrays)
    fields |= varying | split_variable(mode, samples)
    return build_dataset(
        fields,
        Grid(n, (0.0, length), "periodic"),
        layout="pdearena-ks",
        equation=equation,
        notes=(*notes, *timed),
        times=times,
        time_units=units,
        state=("u",),
        parameters=viscosity,
        boundary={"x": "periodic"},
        positions="known: in units of each sample's length" if "length" in fields else "stored",
    )


def _found(probe: Probe) -> Any:
    found = [match for match in map(_NAME.fullmatch, probe.arrays) if match is not None]
    return min(found, key=lambda match: MODES.index(match[1])) if len(found) == 1 else None


def _positive(probe: Probe, name: str, samples: int) -> np.ndarray | None:
    values = numbers(probe, name)
    good = values is not None and values.shape == (samples,) and bool(np.isfinite(values).all() and (values > 0).all())
    return values.astype(np.float64) if good else None


def _times(probe: Probe, mode: str, samples: int, steps: int) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """(times (T,), or (N, T) where they differ by sample, notes)."""
    t, dt = numbers(probe, f"{mode}/t"), _positive(probe, f"{mode}/dt", samples)
    if t is not None and t.shape == (samples, steps) and np.isfinite(t).all() and (np.diff(t, axis=1) > 0).all():
        t = t.astype(np.float64)
    elif dt is not None:
        t = np.arange(steps) * dt[:, None]
    else:
        return None, (f"{mode}/t and {mode}/dt are not finite and increasing: times are not known",)
    return (t[0] if (t == t[0]).all() else t), ()


def _equation(u: Any, stated: bool) -> str:
    from xarray.core import indexing

    if stated:
        return "kuramoto_sivashinsky"
    first = np.asarray(u[indexing.OuterIndexer((0, slice(None), slice(None)))], np.float64)
    energy = np.square(first / (np.abs(first).max() or 1.0)).sum(1)
    if np.isfinite(energy).all() and energy[0] > 0 and len(energy) > 2:
        if np.ptp(energy) < _KEPT * energy[0]:
            return "kdv"
        if (np.diff(energy) < 0).all():
            return "heat"
    return "kuramoto_sivashinsky"


def write(groups: list[xr.Dataset], path: Path) -> None:
    """Group train, valid or test with the field, its times and positions, and dt, dx and v of each sample."""
    import h5py

    (dataset,) = groups
    grid = expect.trajectory(dataset, LAYOUT, (1,), state=("u",), equations=_EQUATIONS)
    length = grid.extent[0][1]
    if grid != Grid(grid.shape, (0.0, length), "periodic") or ("length" in dataset and length != 1.0):
        raise ValueError(f"layout {LAYOUT!r} holds one period from 0 on; the data set has {words(grid)}")
    expect.nothing_else(dataset, LAYOUT, ("u", "times"))
    expect_constants(dataset, LAYOUT, ("viscosity", "length"))
    viscosity = each_sample(dataset, "viscosity")
    if viscosity is not None and dataset.attrs["equation"] != "kuramoto_sivashinsky":
        raise ValueError(f"layout {LAYOUT!r} states a viscosity for kuramoto_sivashinsky alone")
    mode, times = mode_for(dataset, LAYOUT), times_of_samples(dataset, LAYOUT)
    u = state_fields(dataset, grid)["u"]
    samples, steps, n = u.shape
    lengths = each_sample(dataset, "length")
    dx = _divided(np.full(samples, length) if lengths is None else lengths, n)
    with replacing(path, size=sizes({"u": u})) as temporary, h5py.File(temporary, "w") as file:
        group = file.create_group(mode)
        target = group.create_dataset(f"pde_{steps}-{n}", u.shape, u.dtype, chunks=(1, steps, n))
        write_blocks([target], [u])
        group["t"], group["dx"] = times, dx
        group["dt"] = (times[:, -1] - times[:, 0]) / max(steps - 1, 1) if steps > 1 else np.ones(samples)
        group["x"] = np.arange(n) * dx[:, None]
        if viscosity is not None:
            group["v"] = viscosity


def _divided(lengths: np.ndarray, n: int) -> np.ndarray:
    """The steps that times n give these lengths again, to the last bit where there are such numbers."""
    steps = lengths / n
    for near in (np.nextafter(steps, np.inf), np.nextafter(steps, 0.0)):
        steps = np.where((n * steps != lengths) & (n * near == lengths), near, steps)
    return steps


READER = Reader(
    "pdearena-ks", "HDF5 with a group train, valid or test of pde_T-n (samples, T, n), dt and dx", matches, read
)
WRITERS = {"pdearena-ks": write}
