"""The Well's written format (arXiv:2412.00568, `docs/data_format.md`) as a list of what a file breaks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["check_well"]

KINDS = ("WALL", "OPEN", "PERIODIC")
ORDERS = {"t0_fields": 0, "t1_fields": 1, "t2_fields": 2}
_MOST = 2**24  # entries of a mask that are counted


def check_well(path: str | os.PathLike[str]) -> list[str]:
    """What in a file breaks The Well's rules, one line each with the place; an empty list when nothing does.

    Checked as the project's own checker does: root attributes and their types; the groups ``dimensions``,
    ``boundary_conditions``, ``scalars``, ``t0_fields``, ``t1_fields``, ``t2_fields`` and their lists of names;
    ``sample_varying``, ``time_varying`` (true for ``time``, though the prose does not print it) and ``dim_varying`` as
    booleans; shapes, which are (trajectories, where they vary by sample)(T, where they vary in time)(the dimensions
    they vary along)(D for each order of the tensor); and beyond it what the prose says: fields in single precision,
    ``symmetric`` and ``antisymmetric`` of tensors, wall kinds, and ``values`` for each true entry of ``mask``.

    Where the prose and the checker disagree, the checker is followed: a field that does not vary in time has no time
    axis (the prose prints FieldB as T × W × H, it is B × W × H); a tensor is (…, D, D), not (…, D²); a constant scalar
    has shape (), not (1,); ``associated_dims`` is a list even of one name.

    Raises FileNotFoundError, ValueError (not HDF5) or OSError (damaged), as `open_dataset` does.
    """
    from sciops.datasets.native.hdf5.store import open_hdf5

    with open_hdf5(path) as file:
        return findings_in(file)


def findings_in(file: Any) -> list[str]:
    """The same for an open h5py file."""
    found: list[str] = []
    say = found.append
    root = file.attrs
    for name, kind, words in (
        ("dataset_name", str, "a string"),
        ("grid_type", str, "a string"),
        ("n_spatial_dims", (int, np.integer), "a whole number"),
        ("n_trajectories", (int, np.integer), "a whole number"),
    ):
        if name not in root:
            say(f"/: attribute {name} is missing")
        elif not isinstance(root[name], kind):
            say(f"/: attribute {name} is {root[name]!r}, not {words}")
    groups = ("dimensions", "boundary_conditions", "scalars", *ORDERS)
    missing = [name for name in groups if not hasattr(_at(file, name), "keys")]
    found += [f"/: group {name} is missing" for name in missing]
    for name in _names(root, "simulation_parameters", "/", say):
        if name not in root:
            say(f"/: simulation parameter {name} is not a root attribute")
        if "scalars" not in missing and _array(file, f"scalars/{name}") is None:
            say(f"/: simulation parameter {name} is not a dataset in scalars")
    counts = [root.get(name) for name in ("n_spatial_dims", "n_trajectories")]
    if "dimensions" in missing or not all(isinstance(count, (int, np.integer)) for count in counts):
        return found  # shapes have nothing to be compared with
    sizes = _dimensions(file, say)
    if sizes is None:
        return found
    for group, order in ORDERS.items():
        if group not in missing:
            _fields(file, group, order, sizes, say)
    if "scalars" not in missing:
        for name in _names(file["scalars"].attrs, "field_names", "/scalars", say):
            _dataset(file, f"scalars/{name}", sizes, say)
    if "boundary_conditions" not in missing:
        for name in file["boundary_conditions"]:
            _boundary(file, f"boundary_conditions/{name}", sizes, say)
    return found


def _dimensions(file: Any, say: Callable[[str], None]) -> dict[str, int] | None:
    """Lengths of "sample", "time" and each space dimension; None when one of them is not there."""
    group, count = file["dimensions"], int(file.attrs["n_spatial_dims"])
    names = _names(group.attrs, "spatial_dims", "/dimensions", say)
    if len(names) != count:
        say(f"/dimensions: spatial_dims names {len(names)}, n_spatial_dims is {count}")
    sizes = {"sample": int(file.attrs["n_trajectories"])}
    for name in ("time", *names):
        data = _array(file, f"dimensions/{name}")
        if data is None or not data.shape:
            say(f"/dimensions: {name} is missing or has no axis")
            return None
        sizes[name] = data.shape[-1]
    for name in ("time", *names):
        data = file[f"dimensions/{name}"]
        flags = _flags(data, f"/dimensions/{name}", say)
        if flags is None:
            continue
        before = (sizes["sample"],) * flags["sample_varying"]
        if name == "time":
            wanted = (*before, *(sizes["time"],) * flags["time_varying"])
        else:
            wanted = (*before, *(sizes["time"],) * flags["time_varying"], sizes[name])
        if data.shape != wanted:
            say(f"/dimensions/{name}: shape {data.shape}, expected {wanted} by its sample_varying and time_varying")
    return sizes


def _fields(file: Any, group: str, order: int, sizes: dict[str, int], say: Callable[[str], None]) -> None:
    space = [name for name in sizes if name not in ("sample", "time")]
    for name in _names(file[group].attrs, "field_names", f"/{group}", say):
        data = _array(file, f"{group}/{name}")
        along = None if data is None else data.attrs.get("dim_varying")
        if data is not None and (not isinstance(along, np.ndarray) or along.shape != (len(space),)):
            say(f"/{group}/{name}: dim_varying is {along!r}, not a list of {len(space)} booleans")
            continue
        dims = [n for n, varies in zip(space, along if along is not None else ()) if varies]
        _dataset(file, f"{group}/{name}", sizes, say, dims, (len(space),) * order)
        if data is not None and data.dtype != np.float32:
            say(f"/{group}/{name}: holds {data.dtype}, not float32")
        if data is not None and order == 2:
            for flag in ("symmetric", "antisymmetric"):
                if not isinstance(data.attrs.get(flag), (bool, np.bool_)):
                    say(f"/{group}/{name}: attribute {flag} is {data.attrs.get(flag)!r}, not a boolean")


def _boundary(file: Any, place: str, sizes: dict[str, int], say: Callable[[str], None]) -> None:
    group = _at(file, place)
    if not hasattr(group, "keys"):
        say(f"/{place}: is not a group")
        return
    kind = group.attrs.get("bc_type")
    if not isinstance(kind, str) or kind.upper() not in KINDS:
        say(f"/{place}: bc_type is {kind!r}, not one of {', '.join(KINDS)}")
    _names(group.attrs, "associated_fields", f"/{place}", say)
    dims = _names(group.attrs, "associated_dims", f"/{place}", say)
    unknown = [name for name in dims if name not in sizes or name in ("sample", "time")]
    if unknown:
        say(f"/{place}: associated_dims names {', '.join(unknown)}, which spatial_dims does not")
        return
    flags, mask = _flags(group, f"/{place}", say), _array(file, f"{place}/mask")
    if mask is None:
        say(f"/{place}: mask is missing")
    if flags is None or mask is None or not dims:
        return
    wanted = _lengths(flags, sizes) + tuple(sizes[n] for n in sizes if n in dims)
    if mask.shape != wanted:
        say(f"/{place}/mask: shape {mask.shape}, expected {wanted}")
        return
    if mask.dtype.kind != "b":
        say(f"/{place}/mask: holds {mask.dtype}, not bool")
    values = _array(file, f"{place}/values")
    if (
        values is not None
        and values.shape
        and mask.size <= _MOST
        and not (flags["sample_varying"] or flags["time_varying"])
    ):
        count = int(np.count_nonzero(mask[()]))
        if values.shape[-1] != count:
            say(f"/{place}/values: {values.shape[-1]} values for {count} true entries of mask")


def _dataset(
    file: Any,
    place: str,
    sizes: dict[str, int],
    say: Callable[[str], None],
    dims: list[str] | None = None,
    tensor: tuple[int, ...] = (),
) -> None:
    data = _array(file, place)
    if data is None:
        say(f"/{place}: is missing")
        return
    flags = _flags(data, f"/{place}", say)
    if flags is None:
        return
    wanted = _lengths(flags, sizes) + tuple(sizes[name] for name in dims or ()) + tensor
    if data.shape != wanted:
        say(f"/{place}: shape {data.shape}, expected {wanted} by what it says it varies along")


def _lengths(flags: dict[str, bool], sizes: dict[str, int]) -> tuple[int, ...]:
    return (sizes["sample"],) * flags["sample_varying"] + (sizes["time"],) * flags["time_varying"]


def _flags(item: Any, place: str, say: Callable[[str], None]) -> dict[str, bool] | None:
    flags = {name: item.attrs.get(name) for name in ("sample_varying", "time_varying")}
    wrong = [name for name, value in flags.items() if not isinstance(value, (bool, np.bool_))]
    for name in wrong:
        say(f"{place}: attribute {name} is {flags[name]!r}, not a boolean")
    return None if wrong else {name: bool(value) for name, value in flags.items()}


def _names(attrs: Any, key: str, place: str, say: Callable[[str], None]) -> list[str]:
    if key not in attrs:
        say(f"{place}: attribute {key} is missing")
        return []
    value = attrs[key]
    if not isinstance(value, np.ndarray) or not all(isinstance(name, str) for name in value.flat):
        say(f"{place}: attribute {key} is {value!r}, not a list of strings")
        return [value] if isinstance(value, str) else []
    return [str(name) for name in value.flat]


def _at(file: Any, place: str) -> Any:
    try:
        return file[place]
    except (KeyError, OSError, RuntimeError):  # not there, or a link that leads nowhere
        return None


def _array(file: Any, place: str) -> Any:
    item = _at(file, place)
    return item if item is not None and hasattr(item, "dtype") and item.shape is not None else None
