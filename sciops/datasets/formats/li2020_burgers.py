"""Li et al.'s Burgers files, `burgers_data_R10.mat` (arXiv:2010.08895), and their trajectories (arXiv:2111.03794).

``a``, ``u`` : (samples, n). u_t + u u_x = ν u_xx on one unit period, n points at j/n: `a` at time 0, `u` at time 1.
The file has no time axis and no viscosity (0.1 in the paper), so that it is a steady map a → u here. ``a_smooth``,
``a_smooth_x``, ``a_x`` are passed on under these names.

``input`` (samples, n), ``output`` (samples, T, n), ``tspan`` (1, T), ``visc`` : a trajectory u (sample, time, x) with
its constants; `a` is the input again. The public generator (`gen_burgers1.m`) leaves the first entry of `output` zero
where time 0 belongs, and its loader's older form expects T = len(tspan) − 1 states from the second time on: in both
cases time 0 is the input. MATLAB v5, or v7.3 with all axes reversed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import build_dataset, grid_of, state_of
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.li2020_ns import viscosity_of
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import check_size
from sciops.datasets.formats.shared.expectations import state_fields, times_in, words
from sciops.datasets.formats.shared.matlab_writing import Stored, matlab_writers, viscosity_value
from sciops.datasets.formats.shared.reader import Reader
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

EXTRA = ("a_smooth", "a_smooth_x", "a_x")
_INITIAL = {"units": "1", "long_name": "u at time 0"}


def matches(probe: Probe) -> bool:
    """Whether the file is MATLAB (v5 or v7.3) with `a`, `u` (N, n), or `input` (N, n) and `output` (N, T, n)."""
    if probe.kind not in ("mat5", "hdf5"):
        return False
    if probe.stored("a", "u"):
        a, u = probe.arrays["a"].shape, probe.arrays["u"].shape
        # one row, one column and numbers are variables of any MATLAB file
        return len(a) == 2 and a == u and min(a) >= 2
    if not probe.stored("input", "output"):
        return False
    a, u = probe.arrays["input"].shape, probe.arrays["output"].shape
    # the same in either order: reversed axes leave the ends of output the axes of input
    return len(a) == 2 and len(u) == 3 and (u[0], u[2]) == a and min(u) >= 1 and a[_space(probe)] >= 2


def read(probe: Probe) -> xr.Dataset:
    """a → u over (sample, x), or the trajectory u over (sample, time, x); axes of v7.3 files put back in order."""
    return _trajectory(probe) if probe.stored("input", "output") and not probe.stored("a", "u") else _map(probe)


def _map(probe: Probe) -> xr.Dataset:
    shape = probe.arrays["a"].shape
    check_size(probe, shape)
    names = ["a", "u", *(name for name in EXTRA if probe.stored(name) and probe.arrays[name].shape == shape)]
    words = {"a": "u at time 0", "u": "u at time 1"}
    fields = {
        name: (
            ("sample", "x"),
            _array(probe, name, 2),
            {"units": "1", "long_name": words.get(name, name), "stored_as": name},
        )
        for name in names
    }
    fields["u"][2]["comment"] = "time 1 by arXiv:2010.08895; the file states no time"
    viscosity, notes = viscosity_of(probe)
    return build_dataset(
        fields,
        Grid(shape[_space(probe)], (0.0, 1.0), "periodic"),
        layout="li2020-burgers",
        equation="burgers",
        notes=notes,
        parameters=viscosity,
        boundary={"x": "periodic"},
        coefficient="initial",
        positions="known",
    )


def _trajectory(probe: Probe) -> xr.Dataset:
    from sciops.datasets.formats.containers.lazy_arrays import matlab_array

    check_size(probe, probe.arrays["output"].shape)
    axes = (2, 1, 0) if _reversed(probe) else None
    first, later = matlab_array(probe, "input", (1, 0) if axes else None), matlab_array(probe, "output", axes)
    whole, times, notes = _with_first(probe, first, later)
    viscosity, unstated = viscosity_of(probe)
    fields = {
        "a": (("sample", "x"), first, {**_INITIAL, "stored_as": "input"}),
        "u": (("sample", "time", "x"), whole, {"units": "1", "long_name": "solution", "stored_as": "output"}),
    }
    return build_dataset(
        fields,
        Grid(whole.shape[-1], (0.0, 1.0), "periodic"),
        layout="li2020-burgers",
        equation="burgers",
        notes=(*notes, *unstated),
        times=times,
        state=("u",),
        parameters=viscosity,
        boundary={"x": "periodic"},
        coefficient="initial",
        positions="known",
    )


def _with_first(probe: Probe, first: Any, later: Any) -> tuple[Any, np.ndarray | None, tuple[str, ...]]:
    """(trajectory from time 0 on, its times, notes)."""
    from sciops.datasets.formats.containers.lazy_arrays import PrecededArray, TailArray, matlab_values

    steps = later.shape[1]
    tspan = matlab_values(probe, "tspan") if probe.stored("tspan") else np.empty(0)
    good = len(tspan) > 1 and bool(np.isfinite(tspan).all() and (np.diff(tspan) > 0).all())
    if good and len(tspan) == steps + 1:
        return PrecededArray(first, later, axis=1), tspan, ()
    if steps > 1 and _is_empty(first, later):
        whole = PrecededArray(first, TailArray(later, axis=1), axis=1)
        notes: tuple[str, ...] = ("output is zero at its first time, where the input belongs: the input is put there",)
    else:
        whole, notes = later, ()
    if good and len(tspan) == steps:
        return whole, tspan, notes
    return whole, None, (*notes, "tspan is missing or has another length: times are not known, only their order")


def _is_empty(first: Any, later: Any) -> bool:
    from xarray.core import indexing

    started = np.asarray(first[indexing.BasicIndexer((0, slice(None)))])
    state = np.asarray(later[indexing.BasicIndexer((0, 0, slice(None)))])
    return bool((state == 0).all() and (started != 0).any())


def _array(probe: Probe, name: str, rank: int) -> Any:
    from sciops.datasets.formats.containers.lazy_arrays import matlab_array

    return matlab_array(probe, name, tuple(range(rank))[::-1] if _reversed(probe) else None)


def _reversed(probe: Probe) -> bool:
    return probe.kind == "hdf5" and probe.matlab


def _space(probe: Probe) -> int:
    return 0 if _reversed(probe) else 1


def _contents(dataset: xr.Dataset, layout: str) -> tuple[dict[str, Stored], dict[str, Any]]:
    """a → u, or a trajectory with its times; ν, where it is known, as ``visc``."""
    grid = grid_of(dataset, "u")
    if grid.ndim != 1:
        raise ValueError(f"layout {layout!r} holds 1-D fields; the data set has {words(grid)}")
    expect.unit_period(grid, layout)
    values: dict[str, Any] = viscosity_value(dataset, layout)
    if not state_of(dataset):
        expect.coefficient_and_solution(dataset, layout, equations=("burgers",))
        extra = [name for name in EXTRA if name in dataset]
        expect.nothing_else(dataset, layout, ("a", "u", *extra))
        return {name: Stored(dataset[name].transpose("sample", "x")) for name in ("a", "u", *extra)}, values
    expect.trajectory(dataset, layout, (1,), state=("u",), equations=("burgers",))
    expect.nothing_else(dataset, layout, ("a", "u"))
    u = state_fields(dataset, grid)["u"]
    if "time" in dataset.coords or "times" in dataset:
        values["tspan"] = times_in(dataset, layout)[None]
    first = dataset["a"].transpose("sample", "x") if "a" in dataset else u[:, 0]
    return {"input": Stored(first), "output": Stored(u)}, {k: np.asarray(v) for k, v in values.items()}


READER = Reader(
    "li2020-burgers",
    "a MATLAB file (v5 or v7.3) with a and u (samples, n), or input (samples, n) and output (samples, times, n)",
    matches,
    read,
)
WRITERS = matlab_writers("li2020-burgers", _contents)
