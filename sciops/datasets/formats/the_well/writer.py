"""Files of The Well; the format is in `the_well.reader`, and `check_well` finds nothing in these.

Beyond the format, and invisible to The Well's own loader: ``sciops_centering`` on each dimension, and root attributes
``sciops`` (the equation and what else the format has no place for) and, where the coordinates alone would not give
the grid back, ``sciops_grid``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import RECORDS, SPACE, grid_of, parameters_of
from sciops.datasets.formats.shared.axes import GRID_ATTR
from sciops.datasets.formats.shared.expectations import leave_out
from sciops.datasets.formats.shared.hdf5_writing import blocks_of, lossless, sizes
from sciops.datasets.formats.the_well.reader import OURS
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import replacing
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

LAYOUT = "the-well"
_KEPT = ("equation", "state", "coefficient", "forcing", "walls")
_KINDS = ("periodic", "wall", "open")


def write(groups: list[xr.Dataset], path: Path, *, name: str | None = None) -> None:
    """One file. Vectors and tensors are put together from the components that say ``part_of`` and ``component``.

    name : ``dataset_name``; the data set's own, or its equation, by default
    """
    import h5py

    (dataset,) = groups
    grid = grid_of(dataset, next(iter(_on_grid(dataset)), "a"))
    fields, extra = _fields(dataset, grid), _extra(dataset)
    scalars = _scalars(dataset, [*(n for parts in fields.values() for n in parts["names"]), *extra])
    held = {n: dataset[n] for parts in fields.values() for n in parts["names"]}
    with replacing(path, size=sizes(held)) as temporary, h5py.File(temporary, "w") as file:
        _root(file, dataset, grid, name)
        _dimensions(file, dataset, grid)
        _scalar_group(file, dataset, scalars)
        _boundary_group(file, dataset, grid, extra)
        for order in range(3):
            group = file.create_group(f"t{order}_fields")
            mine = {field: parts for field, parts in fields.items() if parts["order"] == order}
            group.attrs["field_names"] = _strings(mine)
            for field, parts in mine.items():
                _write_field(group, field, parts, dataset, grid)


def remark(dataset: xr.Dataset) -> str | None:
    """What a user of the file must know: their loader takes a time as input and a later one as output."""
    times = dataset.sizes.get("time", 1)
    if times > 1:
        return None
    which = "a steady problem" if "time" not in dataset.sizes else "one time"
    return (
        f"this file of {which} keeps The Well's format, but its loader, WellDataset, asks for two times or more "
        "('1 steps is not enough'); open it with open_dataset or load_splits"
    )


def _on_grid(dataset: xr.Dataset) -> list[str]:
    return [str(n) for n, v in dataset.data_vars.items() if set(v.dims) & set(SPACE) and "bc_type" not in v.attrs]


def _fields(dataset: xr.Dataset, grid: Grid) -> dict[str, dict[str, Any]]:
    """Field name → its order, the variables that are its components in order, and their axes."""
    axes = SPACE[: grid.ndim]
    for name in _on_grid(dataset):
        variable = dataset[name]
        if not set(variable.dims) <= {"sample", "time", *axes}:
            raise ValueError(f"layout {LAYOUT!r} holds fields over sample, time, space; {name} is over {variable.dims}")
        if str(variable.dtype) != "float32":
            raise ValueError(
                f"layout {LAYOUT!r} holds float32; {name} is {variable.dtype}: convert(…, dtype='float32'), "
                "--dtype float32"
            )
        if not grid_of(dataset, name).same_points(grid) and set(axes) <= set(variable.dims):
            raise ValueError(f"layout {LAYOUT!r} holds all fields at the same points; {name} is staggered: resample it")
    wholes: dict[str, list[str]] = {}
    for name in _on_grid(dataset):
        wholes.setdefault(str(dataset[name].attrs.get("part_of", "")), []).append(name)
    fields: dict[str, dict[str, Any]] = {}
    for whole, names in wholes.items():
        order, ordered = _components(dataset, names, axes) if whole else (0, [])
        if order and whole not in fields:
            fields[whole] = {"order": order, "names": ordered}
            continue
        for name in names:
            fields[name] = {"order": 0, "names": [name]}
    return fields


def _components(dataset: xr.Dataset, names: list[str], axes: tuple[str, ...]) -> tuple[int, list[str]]:
    """(1 or 2, the variables in the order of the components); (0, []) when they do not make a whole tensor."""
    by_component = {str(dataset[name].attrs.get("component", "")): name for name in names}
    alike = {(frozenset(dataset[name].dims), str(dataset[name].dtype)) for name in names}
    for order in (1, 2):
        wanted = ["".join(axes[k] for k in index) for index in np.ndindex(*(len(axes),) * order)]
        if set(by_component) == set(wanted) and len(names) == len(wanted) and len(alike) == 1:
            return order, [by_component[component] for component in wanted]
    return 0, []


def _extra(dataset: xr.Dataset) -> list[str]:
    """Masks and values of walls that a reader of this layout kept."""
    names = [str(n) for n in dataset.data_vars if "bc_type" in dataset[n].attrs]
    return [name for name in names if name.startswith(("mask_", "values_"))]


def _scalars(dataset: xr.Dataset, held: list[str]) -> dict[str, xr.DataArray]:
    """Numbers over sample and time; a variable that is neither these nor a field has no place."""
    found = {}
    for name, variable in dataset.data_vars.items():
        if name in held or name == "times" or (name in RECORDS and variable.dims == ("sample",)):
            continue
        if not set(variable.dims) <= {"sample", "time"} or variable.dtype.kind not in "iuf":
            raise ValueError(
                f"layout {LAYOUT!r} has no place for {name} over {variable.dims} of {variable.dtype}: "
                f"{leave_out([str(name)])}, or use layout='native'"
            )
        found[str(name)] = variable
    return found


def _root(file: Any, dataset: xr.Dataset, grid: Grid, name: str | None) -> None:
    file.attrs["dataset_name"] = name or dataset.attrs.get("dataset_name") or str(dataset.attrs.get("equation", ""))
    file.attrs["grid_type"] = str(dataset.attrs.get("grid_type", "cartesian"))
    file.attrs["n_spatial_dims"] = grid.ndim
    file.attrs["n_trajectories"] = dataset.sizes["sample"]
    parameters = parameters_of(dataset)
    taken = {"dataset_name", "grid_type", "n_spatial_dims", "n_trajectories", "simulation_parameters", OURS, GRID_ATTR}
    if clash := sorted(taken & set(parameters)):
        raise ValueError(f"layout {LAYOUT!r} uses the name {clash[0]} itself: give the parameter another")
    file.attrs["simulation_parameters"] = _strings(parameters)
    file.attrs.update(parameters)
    ours = {key: dataset.attrs[key] for key in _KEPT if key in dataset.attrs}
    if "state" in ours:
        ours["state"] = parse_json(ours["state"])
    file.attrs[OURS] = json.dumps({k: v.item() if isinstance(v, np.generic) else v for k, v in ours.items()})
    # coordinates are in single precision here; the statement is exact, and carries walls beyond the last point
    file.attrs[GRID_ATTR] = json.dumps(grid.to_dict())


def _dimensions(file: Any, dataset: xr.Dataset, grid: Grid) -> None:
    group = file.create_group("dimensions")
    names = [str(dataset[axis].attrs.get("long_name", axis)) if axis in dataset.coords else axis for axis in SPACE]
    names = names[: grid.ndim] if _plain(names[: grid.ndim]) else list(SPACE[: grid.ndim])
    group.attrs["spatial_dims"] = _strings(names)
    for name, points in zip(names, grid.coordinates()):
        group[name] = points.astype(np.float32)
        group[name].attrs.update({"sample_varying": False, "time_varying": False, "sciops_centering": grid.centering})
    if "times" in dataset:
        times = dataset["times"].transpose("sample", "time").values
    elif "time" in dataset.coords:
        times = dataset["time"].values
    else:
        times = np.arange(dataset.sizes.get("time", 1))
    group["time"] = lossless(times)
    group["time"].attrs.update({"sample_varying": bool(np.ndim(times) == 2), "time_varying": True})


def _scalar_group(file: Any, dataset: xr.Dataset, scalars: dict[str, xr.DataArray]) -> None:
    group, parameters = file.create_group("scalars"), parameters_of(dataset)
    if both := sorted(set(parameters) & set(scalars)):
        raise ValueError(f"layout {LAYOUT!r}: {both[0]} is a parameter and a variable at once: rename one")
    group.attrs["field_names"] = _strings([*parameters, *scalars])
    for name, value in parameters.items():
        group[name] = lossless(value)
        group[name].attrs.update({"sample_varying": False, "time_varying": False})
    for name, variable in scalars.items():
        dims = tuple(dim for dim in ("sample", "time") if dim in variable.dims)
        group[name] = lossless(variable.transpose(*dims).values) if variable.dtype.kind == "f" else variable.values
        group[name].attrs.update({"sample_varying": "sample" in dims, "time_varying": "time" in dims})


def _boundary_group(file: Any, dataset: xr.Dataset, grid: Grid, extra: list[str]) -> None:
    group, dims = file.create_group("boundary_conditions"), list(file["dimensions"].attrs["spatial_dims"])
    stated: dict[str, str] = parse_json(dataset.attrs.get("boundary", "{}"))
    if not stated and grid.centering == "periodic":
        stated = dict.fromkeys(SPACE[: grid.ndim], "periodic")
    for axis, dim, n in zip(SPACE, dims, grid.shape):
        low, _, high = str(stated.get(axis, "")).partition("-")
        sides = {low: [0, n - 1]} if not high else {low: [0], high: [n - 1]}
        for kind, ends in sides.items():
            if kind in ("", "unknown"):
                continue
            if kind not in _KINDS:
                raise ValueError(f"layout {LAYOUT!r} knows {', '.join(_KINDS)} walls; boundary[{axis!r}] is {kind!r}")
            mask = np.zeros(n, bool)
            mask[ends] = True
            _wall(group.create_group(f"{dim}_{kind}"), kind, [dim], [], mask)
    for name in extra:
        about, kind = dataset[name].attrs, str(dataset[name].attrs["bc_type"])
        title = str(about.get("long_name", name.partition("_")[2]))
        short = parse_json(about.get("associated_dims", "[]"))
        if title not in group:
            long = [dims[SPACE.index(axis)] for axis in short]
            _wall(group.create_group(title), kind, long, parse_json(about.get("associated_fields", "[]")), None)
        values = dataset[name].values
        if name.startswith("mask_"):
            if "mask" in group[title]:  # the ends alone, which the mask knows better
                del group[title]["mask"]
            group[title]["mask"] = values.astype(bool)
            group[title].attrs["sample_varying"] = "sample" in dataset[name].dims
            group[title].attrs["time_varying"] = "time" in dataset[name].dims
        else:
            group[title]["values"] = values


def _wall(group: Any, kind: str, dims: list[str], fields: list[str], mask: np.ndarray | None) -> None:
    group.attrs.update({"bc_type": kind.upper(), "sample_varying": False, "time_varying": False})
    group.attrs["associated_dims"], group.attrs["associated_fields"] = _strings(dims), _strings(fields)
    if mask is not None:
        group["mask"] = mask


def _write_field(group: Any, field: str, parts: dict[str, Any], dataset: xr.Dataset, grid: Grid) -> None:
    variables, order = [dataset[name] for name in parts["names"]], parts["order"]
    axes = SPACE[: grid.ndim]
    dims = [dim for dim in ("sample", "time", *axes) if dim in variables[0].dims]
    variables = [variable.transpose(*dims) for variable in variables]
    shape = (*variables[0].shape, *(grid.ndim,) * order)
    samples = dims[:1] == ["sample"] and min(shape) > 0
    leading = sum(dim in ("sample", "time") for dim in dims)
    chunks = (*(1,) * leading, *shape[leading:]) if samples else None
    target = group.create_dataset(field, shape, np.float32, chunks=chunks)
    if samples:
        for part, blocks in blocks_of(variables):
            target[part] = np.stack(blocks, -1).reshape(*blocks[0].shape, *shape[variables[0].ndim :])
    else:
        target[...] = np.stack([variable.values for variable in variables], -1).reshape(shape)
    target.attrs["dim_varying"] = np.array([axis in dims for axis in axes])
    target.attrs.update({"sample_varying": "sample" in dims, "time_varying": "time" in dims})
    if order == 2:
        for flag in ("symmetric", "antisymmetric"):
            target.attrs[flag] = bool(variables[0].attrs.get(flag, False))
    if order:
        target.attrs["sciops_names"] = json.dumps(parts["names"])


def _plain(names: list[str]) -> bool:
    return len(set(names)) == len(names) and "time" not in names and all(n.isidentifier() for n in names)


def _strings(names: Any) -> np.ndarray:
    """A list of names as The Well's checker wants it: an array even of one, and of none."""
    import h5py

    return np.array(list(names), dtype=h5py.string_dtype())
