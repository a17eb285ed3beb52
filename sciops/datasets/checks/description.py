"""`sciops info`: what a file is and holds, on one screen."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import SPACE, SPLITS, grid_of, parameters_of, state_of
from sciops.datasets.native.hdf5.store import samples_of
from sciops.files.budget import Budget, within_budget
from sciops.files.messages import plain_errors, reading, shown
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import bytes_on_disk, is_store
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["describe"]

_SAMPLES = 256
_POINTS = 2**24

_EQUATIONS = {
    "advection": "u_t + c·∇u = 0",
    "burgers": "u_t + u u_x = ν u_xx",
    "kdv": "u_t + u u_x + u_xxx = 0, with the coefficients below",
    "kuramoto_sivashinsky": "u_t + u u_x + u_xx + u_xxxx = 0",
    "heat": "u_t = ν Δu",
    "fisher_kpp": "u_t = ν Δu + ρ u(1 − u)",
    "gray_scott": "A_t = D_A ΔA − AB² + F(1 − A), B_t = D_B ΔB + AB² − (F + k)B",
    "wave": "u_tt = c² Δu",
    "navier_stokes": "w_t + u·∇w = ν Δw + f, incompressible, w the vorticity",
    "poisson": "−Δu = f",
    "helmholtz": "−Δu − k² a u = f, a = 1 in a file without it",
}


@within_budget
@plain_errors()
def describe(path: str | os.PathLike, *, budget: Budget | None = None) -> str:
    """Describes a file: layout, grids, fields with shapes, dtypes and ranges, splits, findings, and the next command.

    Parameters
    ----------
    path : str or path-like
        A file, or a folder: one line for each known file in it.
    budget : Budget, optional
        What each file may take, as in `open_dataset`.

    Returns
    -------
    str
        The text. Of files with more than 16 million points per field, ranges and findings come from evenly spread
        samples, and the text says so.

    Raises
    ------
    ValueError
        For a folder without a file; otherwise as in `open_dataset`.
    """
    path = Path(path)
    if path.is_dir() and not is_store(path):
        text = _folder(path)
    else:
        with samples_of(path):
            text = _file(path)
    return "\n".join(shown(line, 400 + len(str(path))) for line in text.split("\n"))


def _file(path: Path) -> str:
    from sciops.datasets.formats import opened_resolutions

    with opened_resolutions(path) as datasets, reading(path):
        dataset = datasets[0]
        lines = [f"{path}  ({_size(bytes_on_disk(path))})", f"layout       {_layout(dataset)}"]
        lines += _about(dataset)
        lines += [line for each in datasets for line in _grid_lines(each)]
        lines.append(f"splits       {_splits(dataset)}")
        lines += _findings(path, dataset)
        lines += _next(path, datasets)
    return "\n".join(lines)


def _folder(folder: Path) -> str:
    from sciops.datasets.fields.split_sources import files_of

    lines = [str(folder)]
    files = files_of(folder)
    if not files:
        raise ValueError(f"{folder} holds no file: name a file, or a folder of data files")
    lines += [f"  {str(path.relative_to(folder)):28s} {_in_brief(path)}" for path in files]
    lines.append("next         sciops info FILE; in Python: sciops.datasets.load_splits(folder, resolution)")
    return "\n".join(lines)


def _in_brief(path: Path) -> str:
    from sciops.datasets.formats import find_reader, open_dataset, probe

    try:
        if find_reader(path) is None:
            probe(path)
            return "unknown layout"
        with open_dataset(path) as dataset:
            shape = "×".join(str(dataset.sizes[axis]) for axis in SPACE if axis in dataset.sizes)
            about = f"{dataset.attrs['equation']}, {dataset.sizes.get('sample', 1)} samples, {shape}"
            return f"{dataset.attrs['layout']}: {about}"
    except (OSError, ValueError, ImportError) as error:
        return f"cannot be opened: {shown(str(error), 200)}"


def _layout(dataset: xr.Dataset) -> str:
    attrs = dataset.attrs
    extras = [f"{key} {attrs[key]}" for key in ("solver", "created") if key in attrs]
    return ", ".join([str(attrs["layout"]), f"equation {attrs['equation']}", *extras])


def _about(dataset: xr.Dataset) -> list[str]:
    attrs, lines = dataset.attrs, []
    if attrs.get("equation") == "darcy":
        lines.append(f"equation     {_darcy(dataset)}")
    if attrs.get("coefficient") == "indicator":
        lines.append("coefficient  two phases marked 0 and 1, their values not stated")
    if attrs.get("equation") in _EQUATIONS:
        lines.append(f"equation     {_EQUATIONS[attrs['equation']]}")
    state, parameters = state_of(dataset), parameters_of(dataset)
    if state:
        lines.append(f"task         trajectory of {', '.join(state)}{_times(dataset)}")
    if parameters:
        lines.append(f"parameters   {', '.join(f'{name} {value:g}' for name, value in parameters.items())}")
    walls = _boundary(dataset)
    if walls:
        lines.append(f"boundary     {walls}")
    config = parse_json(attrs.get("config", "{}"))
    if isinstance(config, dict) and config:
        shown = [f"{key}={config[key]}" for key in sorted(config) if not isinstance(config[key], (dict, list))]
        lines.append(f"config       {', '.join(shown)}")
    return lines


def _darcy(dataset: xr.Dataset) -> str:
    """The equation with the file's own source, tensor and walls."""
    source = "f" if "f" in dataset else f"{float(dataset.attrs.get('forcing', 1.0)):g}"
    tensor = "diag(a_x, a_y)" if "a_x" in dataset else "a"
    try:
        walls = parse_json(dataset.attrs.get("walls", "{}"))
        said = [
            f"{key} {json.dumps(walls[key], ensure_ascii=False)}"
            for key in ("boundary", "values", "flux")
            if key in walls
        ]
    except (json.JSONDecodeError, TypeError):
        said = [str(dataset.attrs["walls"])]
    return f"−∇·({tensor}∇u) = {source}, " + (", ".join(said) if said else "u = 0 on the wall")


def _times(dataset: xr.Dataset) -> str:
    if "time" not in dataset.coords:
        return f", {dataset.sizes['time']} times of which the file says nothing"
    times = np.asarray(dataset["time"].values, dtype=np.float64)
    steps = np.diff(times)
    even = steps.size and np.ptp(steps) <= 1e-6 * np.abs(steps).max()
    step = f", step {steps.mean():.6g}" if even else ", unevenly spaced" if steps.size else ""
    return f", {times.size} times {times.min():.6g} … {times.max():.6g}{step}"


def _boundary(dataset: xr.Dataset) -> str:
    try:
        walls = parse_json(dataset.attrs.get("boundary", "{}"))
        return ", ".join(f"{axis} {kind}" for axis, kind in walls.items())
    except (json.JSONDecodeError, AttributeError):
        return str(dataset.attrs["boundary"])


def _grid_lines(dataset: xr.Dataset) -> list[str]:
    positions = dataset.attrs.get("positions")
    note = f"; positions {positions}" if positions else ""
    if "no_grid" in dataset.attrs:
        lines = [f"grid         none; state one: sciops.open_dataset(path, grid=sciops.Grid(...)){note}"]
    else:
        lines = [f"grid         {_grid_words(grid_of(dataset))}{note}"]
    for name, variable in dataset.data_vars.items():
        if name == "split" or variable.size == 0:
            continue
        values, partial = _spread(variable)
        finite = values[np.isfinite(values)]
        of = f"|{name}| " if finite.dtype.kind == "c" else ""
        finite = np.abs(finite) if of else finite
        low, high = (f"{finite.min():.6g}", f"{finite.max():.6g}") if finite.size else ("-", "-")
        shape = ", ".join(f"{dim} {size}" for dim, size in variable.sizes.items())
        levels = np.unique(finite[: 2**16])
        kinds = f", values {' '.join(f'{v:g}' for v in levels)}" if variable.ndim > 1 and len(levels) <= 4 else ""
        note = " (of evenly spread samples)" if partial else ""
        lines.append(f"  {name!s:11s}{variable.dtype!s:9s}({shape})  {of}{low} … {high}{kinds}{note}")
    return lines


def _grid_words(grid: Grid) -> str:
    shape = "×".join(map(str, grid.shape))
    parts = []
    for name, (low, high), (left, right) in zip(SPACE, grid.extent, grid.domain):
        wall = "" if (low, high) == (left, right) else f", walls at {left:g} and {right:g}"
        parts.append(f"{name} in [{low:.6g}, {high:.6g}]{wall}")
    return f"{shape} {grid.centering} points, {'; '.join(dict.fromkeys(parts))}"


def _spread(variable: xr.DataArray) -> tuple[np.ndarray, bool]:
    if variable.ndim < 2 or variable.size <= _POINTS:
        return np.asarray(variable.values), False
    chosen, size = {}, variable.size
    for dim in variable.dims[:2]:  # samples, and where one alone is too much some of its times
        n = variable.sizes[dim]
        count = max(1, min(_SAMPLES, _POINTS * n // size))
        chosen[dim] = slice(0, n, -(-n // count))
        size = size // n * len(range(n)[chosen[dim]])
        if size <= _POINTS:
            break
    return np.asarray(variable.isel(chosen).values), True


def _splits(dataset: xr.Dataset) -> str:
    if "split" not in dataset:
        return f"none stored; {dataset.sizes['sample']} samples"
    stored = np.asarray(dataset["split"].values)
    return ", ".join(f"{name} {int((stored == code).sum())}" for code, name in enumerate(SPLITS))


def _findings(path: Path, dataset: xr.Dataset) -> list[str]:
    from sciops.datasets.checks.validation import validate

    if max((v.size for v in dataset.data_vars.values()), default=0) > _POINTS:
        return [f"findings     not looked for in a file this large: sciops validate {shlex.quote(str(path))}"]
    findings = validate(path)
    if not findings:
        return ["findings     none"]
    counts = {kind: sum(f.severity == kind for f in findings) for kind in ("error", "warning", "note")}
    counted = ", ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in counts.items() if count)
    return [
        f"findings     {counted}: sciops validate {shlex.quote(str(path))}",
        *(f"  {finding.severity}: {_short(finding)}" for finding in findings[:4]),
    ]


def _short(finding: Any) -> str:
    where = finding.field + ("" if finding.sample is None else f" sample {finding.sample}")
    return f"{where}: {finding.message}" if where else finding.message


def _next(path: Path, datasets: Sequence[xr.Dataset]) -> list[str]:
    """Commands that work on this file as they stand."""
    dataset, quoted = datasets[0], shlex.quote(str(path))
    train = f"next         sciops train --data {quoted}"
    python = f"             in Python: sciops.open_dataset({str(path)!r})"
    if dataset.attrs.get("content") == "predictions":
        return ["next" + python[4:]]
    if "a_x" in dataset:
        return [f"{train} --inputs a_x a_y", python]
    if "f" in dataset and "a" in dataset:
        return [f"{train} --inputs a f", python]
    if state_of(dataset):
        return [f"{train} --task step      one step ahead, then rollouts", python]
    lines = [train]
    points = _shifted_grids(datasets)
    if points:
        low, every = points[0], " ".join(map(str, points))
        lines.append(
            f"             sciops study resolution_shift --data {quoted} --train-grids {low} --test-grids {every}"
        )
    if dataset.attrs.get("coefficient") == "indicator":
        lines.append("             in Python: sciops.datasets.fit_two_phase(path) finds the contrast of the phases")
    return [*lines, python]


def _shifted_grids(datasets: Sequence[xr.Dataset]) -> list[int]:
    """Points per axis of the grids that the resolution-shift study can compare, the coarsest first; [] for fewer than
    two, for an equation or walls that it does not solve, and without training or test samples."""
    first = datasets[0]
    if first.attrs.get("equation") != "darcy" or "walls" in first.attrs or "split" not in first:
        return []
    stored = set(np.asarray(first["split"].values).tolist())
    shapes = {grid_of(dataset).shape for dataset in datasets}
    square = all(len(shape) == 2 and shape[0] == shape[1] for shape in shapes)
    parts = {SPLITS.index("train"), SPLITS.index("test")} <= stored
    return sorted(shape[0] for shape in shapes) if square and parts and len(shapes) > 1 else []


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
