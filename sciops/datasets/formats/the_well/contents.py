"""The table of contents of a file of The Well: what is stored, along which axes, with which flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sciops.arrays.dimensions import LEADING, SPACE
from sciops.datasets.formats.containers.sniff import Probe, readable
from sciops.datasets.formats.shared.axes import MOST_POINTS, is_real
from sciops.datasets.native.hdf5.guard import open_survivable
from sciops.datasets.native.hdf5.inflation import Inflation

GROUPS = ("t0_fields", "t1_fields", "t2_fields")


@dataclass(frozen=True)
class Stored:
    """One array: `dims` are its named axes ("sample", "time", the file's space dimensions), then D for each order."""

    key: str
    name: str
    dims: tuple[str, ...]
    order: int
    attrs: dict[str, Any]


@dataclass(frozen=True)
class Wall:
    """One boundary condition: its kind, its dimensions, its mask over `dims` and values where there are any."""

    name: str
    kind: str
    dims: tuple[str, ...]
    space: tuple[str, ...]
    mask: np.ndarray | None
    values: np.ndarray | None
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Contents:
    """What a file of The Well states: its samples, axes, times and fields."""

    samples: int
    space: tuple[str, ...]
    sizes: dict[str, int]
    times: np.ndarray | None
    axes: dict[str, np.ndarray | None]
    centering: dict[str, str]
    fields: tuple[Stored, ...]
    scalars: dict[str, tuple[tuple[str, ...], np.ndarray]]
    walls: tuple[Wall, ...]
    notes: tuple[str, ...]


def contents(probe: Probe) -> Contents:
    """What the file holds; ValueError in one line where its shapes contradict its flags."""
    import h5py

    from sciops.datasets.formats.the_well.rules import findings_in

    with readable(probe.path, "an HDF5 file"), open_survivable(probe.path) as file:
        notes = [f"against the format: {text}" for text in findings_in(file)]
        space = _strings(file["dimensions"].attrs.get("spatial_dims"))
        if not space:  # the attribute is not there: the datasets are
            space = tuple(name for name in file["dimensions"] if name != "time")
        shown = [name for name in space if not isinstance(file["dimensions"].get(name), h5py.Dataset)]
        if shown or not 1 <= len(space) <= 3:
            raise ValueError(
                f"{probe.path}: dimensions names {', '.join(space) or 'nothing'}"
                + (f", and holds no {', '.join(shown)}" if shown else ": one to three space dimensions can be read")
            )
        if set(space) <= set(SPACE) and list(space) != sorted(space):
            raise ValueError(
                f"{probe.path}: spatial_dims is {', '.join(space)}: expected {', '.join(sorted(space))}, and the axes "
                "of the fields in that order"
            )
        sizes = {name: int(file[f"dimensions/{name}"].shape[-1]) for name in ("time", *space)}
        sizes["sample"] = _samples(file, probe)
        fields = []
        for order, group in enumerate(GROUPS):
            for name in _listed(file, group):
                fields.append(_stored(probe, file[group][name], f"{group}/{name}", name, order, space, sizes))
        scalars = {}
        for name in _listed(file, "scalars"):
            data = file["scalars"][name]
            if data.size and data.size <= MOST_POINTS and is_real(str(data.dtype), "biuf"):
                scalars[name] = _scalar(probe, data, name, sizes)
        walls = _walls(file, space)
        times = _small(file["dimensions/time"])
        axes = {name: _small(file[f"dimensions/{name}"]) for name in space}
        centering = {name: str(file[f"dimensions/{name}"].attrs.get("sciops_centering", "")) for name in space}
    if not fields:
        raise ValueError(f"{probe.path}: t0_fields, t1_fields and t2_fields hold no field: nothing can be read")
    return Contents(
        sizes["sample"], space, sizes, times, axes, centering, tuple(fields), scalars, tuple(walls), tuple(notes)
    )


def flag(attrs: Any, name: str, otherwise: bool) -> bool:
    """A yes or no among the attributes; `otherwise` where it is missing or no truth value."""
    value = attrs.get(name)
    return bool(value) if isinstance(value, (bool, np.bool_, int, np.integer)) else otherwise


def _stored(
    probe: Probe, data: Any, key: str, name: str, order: int, space: tuple[str, ...], sizes: dict[str, int]
) -> Stored:
    along = np.asarray(data.attrs.get("dim_varying", np.ones(len(space), bool)))
    if along.shape != (len(space),) or along.dtype.kind not in "biu":
        raise ValueError(
            f"{probe.path}: {key} has dim_varying = {along.tolist()!r} for the dimensions {', '.join(space)}: expected "
            "one boolean each"
        )
    dims = ("sample",) * flag(data.attrs, "sample_varying", True) + ("time",) * flag(data.attrs, "time_varying", True)
    dims += tuple(one for one, varies in zip(space, along) if varies)
    expected = tuple(sizes[one] for one in dims) + (len(space),) * order
    if data.shape != expected or not is_real(str(data.dtype)):
        raise ValueError(
            f"{probe.path}: {key} is {data.dtype}{list(data.shape)}; what it says it varies along gives "
            f"{list(expected)}: its flags or its shape are wrong"
        )
    named = probe.arrays[key].dims
    if any(own in (*LEADING, *space) and own != dim for own, dim in zip(named, dims)):
        raise ValueError(
            f"{probe.path}: {key} varies along ({', '.join(dims)}) by its flags; the file itself names its axes "
            f"({', '.join(named)})"
        )
    attrs = {one: flag(data.attrs, one, False) for one in ("symmetric", "antisymmetric")} if order == 2 else {}
    if isinstance(data.attrs.get("sciops_names"), str):
        attrs["sciops_names"] = data.attrs["sciops_names"]
    return Stored(key, name, dims, order, attrs)


def _scalar(probe: Probe, data: Any, name: str, sizes: dict[str, int]) -> tuple[tuple[str, ...], np.ndarray]:
    dims = ("sample",) * flag(data.attrs, "sample_varying", False) + ("time",) * flag(data.attrs, "time_varying", False)
    expected = tuple(sizes[one] for one in dims)
    Inflation(probe.path, name).check(data)
    values = np.asarray(data[()])
    if not dims and values.size == 1:  # the prose prints (1,), the checker wants ()
        values = values.reshape(())
    if values.shape != expected:
        raise ValueError(
            f"{probe.path}: scalar {name} has shape {values.shape}; what it says it varies along gives {expected}"
        )
    return dims, values


def _samples(file: Any, probe: Probe) -> int:
    count = file.attrs.get("n_trajectories")
    if isinstance(count, (int, np.integer)) and count >= 0:
        return int(count)
    for group in GROUPS:
        for name in _listed(file, group):
            if flag(file[group][name].attrs, "sample_varying", True) and file[group][name].shape:
                return int(file[group][name].shape[0])
    raise ValueError(f"{probe.path}: n_trajectories is missing, and no field tells the number of samples")


def _walls(file: Any, space: tuple[str, ...]) -> list[Wall]:
    import h5py

    walls = []
    group = file.get("boundary_conditions")
    for name in group if isinstance(group, h5py.Group) else ():
        item = group.get(name)
        if not isinstance(item, h5py.Group):
            continue
        kind = item.attrs.get("bc_type")
        named = _strings(item.attrs.get("associated_dims"))
        dims = tuple(one for one in space if one in named)
        axes = ("sample",) * flag(item.attrs, "sample_varying", False)
        axes += ("time",) * flag(item.attrs, "time_varying", False)
        mask, values = (_small(item.get(key)) for key in ("mask", "values"))
        fields = _strings(item.attrs.get("associated_fields"))
        walls.append(Wall(name, str(kind).lower(), (*axes, *dims), dims, mask, values, fields))
    return walls


def _listed(file: Any, group: str) -> list[str]:
    """Names of a group's arrays: those its list names first, then any that the list forgets."""
    import h5py

    held = file.get(group)
    if not isinstance(held, h5py.Group):
        return []
    arrays = [name for name in held if isinstance(held.get(name), h5py.Dataset)]
    listed = [name for name in _strings(held.attrs.get("field_names")) if name in arrays]
    return [*dict.fromkeys(listed), *(name for name in arrays if name not in listed)]


def _small(data: Any) -> np.ndarray | None:
    import h5py

    if not isinstance(data, h5py.Dataset) or not data.size or data.size > MOST_POINTS:
        return None
    Inflation(data.file.filename, data.name).check(data)
    return np.asarray(data[()]) if is_real(str(data.dtype), "biuf") else None


def _strings(value: Any) -> tuple[str, ...]:
    values = np.atleast_1d(value).tolist() if value is not None else []
    return tuple(one.decode() if isinstance(one, bytes) else one for one in values if isinstance(one, (str, bytes)))
