"""neuraloperator's `.pt` files: a torch dictionary {"x", "y"} without positions.

Darcy: x (samples, R, R), bool or float; y (samples, R, R). The public files are fields of 421 nodes on the unit box,
f = 1, u = 0 on the wall, of which every (421 // R)-th node is kept and the first R of these: 16 nodes at 26·j/420 (the
last at 390/420) and 32 nodes at 13·j/420 (the last at 403/420). One wall is on the grid, the other lies beyond the last
node. A bool x tells the phases apart (True is the more permeable one) but not their values; y is rescaled.

Navier–Stokes (`nsforcing_train_128.pt`): x, y (samples, R, R) as in Darcy, so that the numbers must tell: a
coefficient is positive, the forcing x of the vorticity has both signs. y is the vorticity it leads to; viscosity and
time are not in the file. Periodic; one unit period is assumed.

Burgers: x (samples, R) at time 0, y (samples, T, R) from time 0 on, visc (1, 1). Checked on the public files: y begins
with x, bit for bit; R points of one period on the unit interval, end point not stored. The time step is not in the file
but in its numbers: solutions of u_t + u u_x = ν u_xx obey d/dt ∫u²/2 = −ν ∫u_x², exactly. In the public files that
gives 0.0600 to three digits in every resolved sample, and solving from x with a step of 0.06 and the stated ν = 0.01
gives y again to 1e-4 (with 1/16, to 3e-2): 17 times from 0 to 0.96, every sixth of 101 on [0, 1].
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.bases import Basis
from sciops.datasets import blocks
from sciops.datasets.conventions import build_dataset, grid_of, state_of
from sciops.datasets.formats.containers.sniff import Entry, Probe
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.expectations import DERIVED, leave_out, state_fields, words
from sciops.datasets.formats.shared.hdf5_writing import blocks_of
from sciops.datasets.formats.shared.matlab_writing import viscosity_value
from sciops.datasets.formats.shared.reader import Reader
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import replacing
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

FINE_NODES = 421
GRID_KEY = "sciops_grid"  # an extra string our writer adds when the layout's own rule would not give the grid back
_ON_WALL = 0.25
LOOKED_AT = 256  # samples
SIGNS_IN = 4
_UNTIMED = "the time step is neither in the file nor clear from its numbers: times are not known"
_FORCED = (
    "x has both signs, as no coefficient has: it is taken for the forcing of Navier–Stokes, y for the vorticity; the "
    "viscosity and the time are not in the file"
)
_RESOLVED = 1e-4  # of the energy may lie in the last waves of the grid
_CLEAR = 1e-2  # relative spread of a step that the samples agree on
_SPARE = 1 << 16  # bytes of a file beside its numbers


def matches(probe: Probe) -> bool:
    """Whether the file is a torch dictionary with `x` and `y` of the Darcy (Navier–Stokes) or Burgers shapes."""
    if (
        probe.kind != "torch"
        or not {"x", "y"} <= set(probe.arrays)
        or any(probe.torch_arrays[0][name].stacked for name in ("x", "y"))
    ):
        return False
    x, y = probe.arrays["x"].shape, probe.arrays["y"].shape
    return _is_darcy(x, y) or _is_burgers(x, y)


def read(probe: Probe) -> xr.Dataset:
    """Darcy fields at their true nodes, a forcing and its vorticity, or Burgers trajectories."""
    x, y = probe.arrays["x"], probe.arrays["y"]
    if not _is_darcy(x.shape, y.shape):
        return _open_burgers(probe, y)
    return _open_flow(probe) if has_both_signs(probe.tensors["x"].numpy()) else _open_darcy(probe)


def has_both_signs(x: np.ndarray) -> bool:
    """Whether each of the first samples of x changes its sign, as a forcing does and no coefficient can."""
    few = x[:SIGNS_IN]
    return few.dtype.kind == "f" and few.size > 0 and all(one.min() < 0 < one.max() for one in few)


def node_grid(shape: tuple[int, ...], y: Any) -> tuple[Grid, str]:
    """(grid, how sure it is) for R nodes per axis of this layout.

    The last rows of y decide whether the far wall is on the grid: u falls linearly to 0 there, so that a last row d
    before the wall holds d/(d + h) of the row before it. Below a quarter it is on the wall. If it is not, 16 and 32
    nodes lie where the public files have them, other numbers are assumed to follow the same rule (every (421 // R)-th
    of 421 nodes, the first R of these), and above 421 the last node is assumed one step from the wall, as
    neuraloperator's own coordinates have it.
    """
    extent, sure = [], "known"
    for axis, n in enumerate(shape):
        last = np.asarray(y[(slice(LOOKED_AT), *(slice(None),) * axis, slice(-2, None))])
        size = np.abs(np.nan_to_num(np.moveaxis(last, axis + 1, 0), nan=0.0, posinf=0.0, neginf=0.0))
        rows = size.reshape(2, -1).mean(1, dtype=np.float64)
        if rows[-1] <= _ON_WALL * rows[-2]:
            extent.append((0.0, 1.0))
            sure = sure if sure != "known" else "seen: the last rows are on the wall"
            continue
        stride = FINE_NODES // n
        end = (n - 1) * stride / (FINE_NODES - 1) if stride else (n - 1) / n
        extent.append((0.0, end))
        if n not in (16, 32):
            sure = f"assumed: every {stride}-th of {FINE_NODES} nodes" if stride else "assumed: one step from the wall"
    return Grid(shape, tuple(extent), "node", ((0.0, 1.0),) * len(shape)), sure


def _open_darcy(probe: Probe) -> xr.Dataset:
    from sciops.datasets.formats.containers.lazy_arrays import CastArray

    data = probe.tensors
    x, y = data["x"].numpy(), data["y"].numpy()
    indicator = _is_indicator(x)
    grid, positions = node_grid(x.shape[1:], y)
    if isinstance(data.get(GRID_KEY), str):
        grid, positions = Grid.from_dict(parse_json(data[GRID_KEY])), "stored"
    about = (
        {"long_name": "coefficient", "units": "1", "comment": "indicator: 1 in the more permeable phase"}
        if indicator
        else {"long_name": "coefficient", "units": "1"}
    )
    fields: dict[str, Any] = {
        "a": (("sample", "x", "y"), x if x.dtype.kind == "f" else CastArray(x, np.dtype(np.float32)), about),
        "u": (("sample", "x", "y"), y, {"long_name": "solution", "units": "1"}),
    }
    return build_dataset(
        fields,
        grid,
        layout="neuralop",
        equation="darcy",
        coefficient="indicator" if indicator else "values",
        forcing=1.0,
        positions=positions,
    )


def _is_indicator(x: np.ndarray) -> bool:
    """Whether x says 0 or 1 everywhere; of other numbers, which are mapped from the disk, few are read."""
    blocks = (x[i : i + LOOKED_AT] for i in range(0, len(x), LOOKED_AT))
    return x.dtype == bool or all(bool(((one == 0) | (one == 1)).all()) for one in blocks)


def _open_flow(probe: Probe) -> xr.Dataset:
    data = probe.tensors
    x, y = data["x"].numpy(), data["y"].numpy()
    grid, positions = flow_grid(x.shape[1:]), "assumed: one unit period"
    if isinstance(data.get(GRID_KEY), str):
        grid, positions = Grid.from_dict(parse_json(data[GRID_KEY])), "stored"
    dims = ("sample", "x", "y")
    fields: dict[str, Any] = {
        "f": (dims, x, {"long_name": "forcing of the vorticity", "units": "1", "stored_as": "x"}),
        "u": (dims, y, {"long_name": "vorticity at the last time", "units": "1", "stored_as": "y"}),
    }
    return build_dataset(
        fields,
        grid,
        layout="neuralop",
        equation="navier_stokes",
        notes=(_FORCED,),
        boundary={"x": "periodic", "y": "periodic"},
        positions=positions,
    )


def flow_grid(shape: tuple[int, ...]) -> Grid:
    """Where the points of this layout's Navier–Stokes files are taken to lie."""
    return Grid(shape, (0.0, 1.0), "periodic")


def _open_burgers(probe: Probe, y: Entry) -> xr.Dataset:
    data = probe.tensors
    u = data["y"].numpy()
    fields: dict[str, Any] = {
        "a": (("sample", "x"), data["x"].numpy(), {"units": "1", "long_name": "u at time 0", "stored_as": "x"}),
        "u": (("sample", "time", "x"), u, {"units": "1", "long_name": "solution", "stored_as": "y"}),
    }
    parameters, times = {}, None
    if "visc" in probe.arrays and data["visc"].numel() == 1:
        parameters = {"viscosity": float(data["visc"].reshape(-1)[0])}
        times = fitted_times(u, parameters["viscosity"])
    return build_dataset(
        fields,
        Grid(y.shape[-1:], ((0.0, 1.0),), "periodic"),
        layout="neuralop",
        equation="burgers",
        notes=(_UNTIMED,) if times is None else (),
        times=times,
        time_comment="step fitted from the data, d/dt ∫u²/2 = −ν ∫u_x²; not stated in the file",
        state=("u",),
        parameters=parameters,
        boundary={"x": "periodic"},
        coefficient="initial",
        positions="known",
    )


def fitted_times(u: np.ndarray, viscosity: float) -> np.ndarray | None:
    """The times of (samples, times, n) solutions from 0 on by their `time_step`; None where it is not clear."""
    step = time_step(u[:LOOKED_AT], viscosity)
    return None if step is None else np.array([float(f"{step * i:.12g}") for i in range(u.shape[1])])


def time_step(u: np.ndarray, viscosity: float) -> float | None:
    """The constant step of solutions of Burgers' equation on a unit period, or None where it is not clear.

    u : (samples, times, n)
    returns : (E(0) − E(T)) / ν Σ ∫u_x² with E = ∫u²/2 and Simpson's rule in time, the median over the samples that n
        points resolve, to three digits, or two where these differ in the third; None unless they agree to 1 %
    """
    from scipy.integrate import simpson

    n = u.shape[-1]
    if u.shape[1] < 3 or n < 8 or not viscosity > 0 or not np.isfinite(u).all():
        return None
    basis = Basis("fourier", n, "periodic")
    u = u.astype(np.float64)
    u = u / (np.abs(u).max() or 1.0)  # the step is a ratio of energies, whatever their unit
    power = basis.multiplicity() * np.abs(basis.analysis(u)) ** 2
    total = power[..., 1:].sum(-1).max(-1)
    resolved = (total > 0) & (power[..., -max(2, n // 6) :].sum(-1).max(-1) < _RESOLVED * total)
    if resolved.sum() < 2:
        return None
    lost = 0.5 * (power[resolved, 0].sum(-1) - power[resolved, -1].sum(-1))
    steps = lost / simpson(viscosity * (basis.eigenvalues() * power[resolved]).sum(-1), axis=-1)
    step = float(np.median(steps))
    spread = float(np.median(np.abs(steps - step)))
    if not step > 0 or spread > _CLEAR * step:
        return None
    digits = 3 if spread < _CLEAR / 10 * step else 2  # Simpson's rule and the grid leave errors that all samples share
    return float(f"{step:.{digits}g}")


def _is_darcy(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    return len(x) == 3 and x == y and min(x[1:]) >= 2


def _is_burgers(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    return len(x) == 2 and len(y) == 3 and (y[0], y[2]) == x


def write(groups: list[xr.Dataset], path: Path) -> None:
    """Writes the one data set of `groups` to path, in the layout of this module."""
    import torch

    (dataset,) = groups
    equation = dataset.attrs.get("equation")
    if equation == "burgers":
        content, stated = _burgers(dataset), {}
    else:
        content, stated = _flow(dataset) if equation == "navier_stokes" else _darcy(dataset)
    size = sum(field.nbytes for field in content.values()) + _SPARE
    with replacing(path, size=size) as temporary:
        scratch, marks = temporary.with_suffix(".scratch"), dataset.attrs.get("coefficient") == "indicator"
        tensors = {name: _tensor(field, scratch, marks and name == "x") for name, field in content.items()}
        torch.save({**tensors, **stated}, temporary)


def _tensor(field: xr.DataArray, scratch: Path, marks: bool) -> Any:
    """The field as a tensor; a large one lies in a file without a name, of which the system holds what memory it has.

    scratch : the name that the file has for a moment
    marks : whether it is an indicator, to be kept as bool
    """
    import torch

    kind = torch.bool if marks else torch.from_numpy(np.empty(0, field.dtype)).dtype
    size = field.size * kind.itemsize
    if size <= blocks.BLOCK or not hasattr(os, "posix_fallocate"):
        tensor = torch.empty(field.shape, dtype=kind)
    else:
        try:
            with open(scratch, "xb") as file:
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk is met here, not when the memory is used
            tensor = torch.from_file(str(scratch), shared=True, size=field.size, dtype=kind).view(field.shape)
        finally:
            scratch.unlink(missing_ok=True)
    for part, (block,) in blocks_of([field]):
        tensor[part] = torch.from_numpy(np.ascontiguousarray(block > 0.5 if marks else block))
    return tensor


def _darcy(dataset: xr.Dataset) -> tuple[dict[str, xr.DataArray], dict[str, str]]:
    """(x and y, the grid where the layout's own rule would give another)."""
    grid = expect.coefficient_and_solution(dataset, "neuralop", equations=("darcy", "burgers", "navier_stokes"))
    expect.nodes(grid, "neuralop")
    expect.nothing_else(dataset, "neuralop", ("a", "u", *DERIVED))
    a, u = (dataset[name].transpose("sample", "x", "y") for name in ("a", "u"))
    expect.unit_source(dataset, "neuralop")
    natural = node_grid(grid.shape, u)[0]
    stated = {} if natural.same_points(grid) else {GRID_KEY: json.dumps(grid.to_dict())}
    return {"x": a, "y": u}, stated


def _flow(dataset: xr.Dataset) -> tuple[dict[str, xr.DataArray], dict[str, str]]:
    """(forcing and vorticity, the grid where it is not one unit period)."""
    if state_of(dataset) or not {"f", "u"} <= set(dataset.data_vars):
        raise ValueError(
            "layout 'neuralop' holds one forcing f and the vorticity u it leads to, no trajectories: use "
            "layout='li2020-ns'"
        )
    expect.nothing_else(dataset, "neuralop", ("f", "u"))
    expect.common_parameters(dataset, "neuralop", ())
    grid = grid_of(dataset, "u")
    if grid.ndim != 2 or grid.centering != "periodic":
        raise ValueError(f"layout 'neuralop' holds Navier–Stokes on 2-D periodic grids; the data set has {words(grid)}")
    f, u = (dataset[name].transpose("sample", "x", "y") for name in ("f", "u"))
    if not has_both_signs(f[:SIGNS_IN].values):
        raise ValueError(
            "layout 'neuralop' tells a forcing from a coefficient by its signs, and this one keeps its own: use "
            "layout='native'"
        )
    return {"x": f, "y": u}, {} if flow_grid(grid.shape).same_points(grid) else {GRID_KEY: json.dumps(grid.to_dict())}


def _burgers(dataset: xr.Dataset) -> dict[str, xr.DataArray]:
    import xarray

    grid = expect.trajectory(dataset, "neuralop", (1,), state=("u",))
    expect.unit_period(grid, "neuralop")
    expect.nothing_else(dataset, "neuralop", ("a", "u"))
    u = state_fields(dataset, grid)["u"]
    viscosity = viscosity_value(dataset, "neuralop")
    times = np.asarray(dataset["time"].values, np.float64) if "time" in dataset.coords else None
    if "times" in dataset or (times is not None and not _told(times, u, viscosity)):
        raise ValueError(
            "layout 'neuralop' has no place for times, and its reader would find others: use layout='li2020-burgers', "
            f"or {leave_out(['time'])}"
        )
    first = dataset["a"].transpose("sample", "x") if "a" in dataset else u[:, 0]
    return {"x": first, "y": u, **{name: xarray.DataArray(value) for name, value in viscosity.items()}}


def _told(times: np.ndarray, u: xr.DataArray, viscosity: dict[str, np.ndarray]) -> bool:
    """Whether the numbers tell these times, as in the public files."""
    found = fitted_times(u[:LOOKED_AT].values, float(viscosity["visc"][0, 0])) if viscosity else None
    return found is not None and np.array_equal(found, times)


READER = Reader(
    "neuralop",
    "torch.save of {'x': (samples, n, n), 'y': (samples, n, n)}, or {'x': (samples, n), 'y': (samples, times, n)}",
    matches,
    read,
)
WRITERS = {"neuralop": write}
