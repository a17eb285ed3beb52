"""PDEBench's files with one group a sample (arXiv:2210.07182): diffusion–reaction, shallow water, diffusion–sorption.

``0000/data`` : (T, X, Y, C) or (T, X, C) single; ``0000/grid/x``, ``y``, ``t`` : cell centres and times; attribute
``config`` of each group : the settings of its simulation as YAML, which decide the equation:

* ``sim: Du, Dv, k``       diffusion_reaction   u_t = Du Δu + u − u³ − k − v,  v_t = Dv Δv + u − v   no flux at walls
* ``sim: gravity``         shallow_water        h, of a dam that breaks; waves leave the box
* ``sim: D, por, …``       diffusion_sorption   R(u) u_t = D u_xx,  u = `sol` at x = 0

Without them the equation is "unknown". Settings that are equal in all samples are ``parameters``, others variables
over ``sample``. Groups may have any names; numbers become the coordinate ``sample``. The positions of the first group
serve all; those of the last are compared with them.

PDEBench's diffusion–reaction generator numbers its points with x running fastest and then calls the axes (x, y): on
its square box, with the same diffusion along both, exchanging x and y is a symmetry, and the order of the axes is
taken as stored. Where nx ≠ ny the lengths of the coordinates tell.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import RECORDS, SPACE, build_dataset, parameters_of
from sciops.datasets.formats.containers.sniff import Probe, readable
from sciops.datasets.formats.containers.yaml_lines import settings
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import cell_extents, is_real, numbers, times_of
from sciops.datasets.formats.shared.expectations import state_fields, times_in, words
from sciops.datasets.formats.shared.hdf5_writing import cells_around, lossless, samples_of, sizes
from sciops.datasets.formats.shared.reader import Reader
from sciops.datasets.native.hdf5.guard import open_survivable
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import replacing
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

CONSTANTS = {
    "diffusion_reaction": ("Du", "Dv", "k"),
    "shallow_water": ("gravity", "dam_radius", "inner_height"),
    "diffusion_sorption": ("D", "por", "rho_s", "k_f", "n_f", "sol"),
}
STATES = {"diffusion_reaction": ("u", "v"), "shallow_water": ("h",), "diffusion_sorption": ("u",)}
WALLS = {"diffusion_reaction": "wall", "shallow_water": "open", "diffusion_sorption": "wall"}
_TELLS = {"diffusion_reaction": ("Du", "Dv"), "shallow_water": ("gravity",), "diffusion_sorption": ("D", "por")}
LAYOUT = "pdebench-groups"
_NAMES = {"diffusion_reaction": "2d_diff-react", "shallow_water": "2d_rdb", "diffusion_sorption": "1d_diff-sorp"}


def matches(probe: Probe) -> bool:
    """Whether the file is HDF5 with groups that hold `data`, `grid/t`, `grid/x` (and `grid/y`), and no array beside."""
    if probe.kind != "hdf5" or any("/" not in name for name in probe.arrays):
        return False
    first = next((name for name in probe.arrays if re.fullmatch("[^/]+/data", name)), None)
    if first is None:
        return False
    group, entry = first.removesuffix("/data"), probe.arrays[first]
    axes = [f"{group}/grid/{axis}" for axis in ("t", *SPACE[: len(entry.shape) - 2])]
    return (
        len(entry.shape) in (3, 4)
        and min(entry.shape) >= 1
        and is_real(entry.dtype, "f")
        and all(name in probe.arrays and len(probe.arrays[name].shape) == 1 for name in axes)
    )


def read(probe: Probe) -> xr.Dataset:
    """The channels of `data` as variables over (sample, time, x[, y]), each sample read from its own group."""
    from sciops.datasets.formats.containers.hdf5_arrays import H5Groups

    groups, shape = _groups(probe)
    configs = _configs(probe, groups)
    equation, known = _equation(configs)
    ndim, channels = len(shape) - 2, shape[-1]
    lengths = [_length(probe, f"{groups[0]}/grid/{axis}") for axis in SPACE[:ndim]]
    swapped = ndim == 2 and lengths[0] != lengths[1] and list(shape[2:0:-1]) == lengths
    space = tuple(reversed(shape[1:-1])) if swapped else tuple(shape[1:-1])
    extents, placed = _extents(probe, groups, space, configs[0])
    times, comment, timed = times_of(numbers(probe, f"{groups[0]}/grid/t"), shape[0], f"{groups[0]}/grid/t")
    names = STATES.get(equation, ())
    if len(names) != channels:
        names = ("u",) if channels == 1 else tuple(f"u{i}" for i in range(channels))
    keys, axes = [f"{group}/data" for group in groups], (0, 2, 1, 3) if swapped else None
    fields: dict[str, Any] = {
        name: (
            ("sample", "time", *SPACE[:ndim]),
            H5Groups(probe.path, keys, probe.arrays, axes, pick={-1: channel}),
            {"units": "1", "long_name": name, "stored_as": f"data[..., {channel}]"},
        )
        for channel, name in enumerate(names)
    }
    common, varying = _constants(configs, equation)
    dataset = build_dataset(
        fields | varying,
        Grid(space, tuple(extents), "cell"),
        layout="pdebench-groups",
        equation=equation,
        notes=(*placed, *timed, *known),
        times=times,
        time_comment=comment,
        state=names,
        parameters=common,
        boundary=dict.fromkeys(SPACE[:ndim], WALLS[equation]) if equation in WALLS else None,
        positions="assumed: cell centres" if placed else "stored",
    )
    if all(group.isascii() and group.isdigit() and len(group) < 16 for group in groups):
        named = np.array([int(group) for group in groups])
        if len(np.unique(named)) == len(named):
            dataset = dataset.assign_coords(sample=("sample", named, {"long_name": "name of the group"}))
    return dataset


def _groups(probe: Probe) -> tuple[list[str], tuple[int, ...]]:
    """Names in natural order, and the shape of `data` that all share."""
    names = sorted({name.split("/", 1)[0] for name in probe.arrays}, key=_natural)
    whole = [name for name in names if f"{name}/data" in probe.arrays]
    first = probe.arrays[f"{whole[0]}/data"]
    for name in names:
        entry = probe.arrays.get(f"{name}/data")
        if entry is None or entry != first:
            there = "nothing" if entry is None else f"{entry.dtype}{list(entry.shape)}"
            raise ValueError(
                f"{probe.path}: group {name} holds {there} as data, group {whole[0]} {first.dtype}{list(first.shape)}: "
                "samples of one data set have one shape; move the odd ones to a file of their own"
            )
    return names, first.shape


def _configs(probe: Probe, groups: list[str]) -> list[dict[str, Any]]:
    with readable(probe.path, "an HDF5 file"), open_survivable(probe.path) as file:
        texts = [file[group].attrs.get("config") for group in groups]
    return [settings(text) for text in texts]


def _equation(configs: list[dict[str, Any]]) -> tuple[str, tuple[str, ...]]:
    found = {
        next((name for name, keys in _TELLS.items() if all(f"sim.{key}" in config for key in keys)), "unknown")
        for config in configs
    }
    if len(found) == 1 and found != {"unknown"}:
        return found.pop(), ()
    why = "the groups disagree" if len(found) > 1 else "no group states it in an attribute config"
    return "unknown", (f"the equation is not known: {why}",)


def _constants(configs: list[dict[str, Any]], equation: str) -> tuple[dict[str, float], dict[str, Any]]:
    """(those that all samples share, those that differ as variables over sample)."""
    common, varying = {}, {}
    for name in (*CONSTANTS.get(equation, ()), "seed"):
        values = [config.get(f"sim.{name}") for config in configs]
        if not all(isinstance(value, float) and np.isfinite(value) for value in values):
            continue
        if name == "seed":
            varying[name] = (("sample",), np.array(values).astype(np.int64), {"long_name": "seed of the sample"})
        elif len(set(values)) == 1:
            common[name] = values[0]
        else:
            varying[name] = (("sample",), np.array(values), {"units": "1", "long_name": name})
    return common, varying


def _extents(
    probe: Probe, groups: list[str], space: tuple[int, ...], config: dict[str, Any]
) -> tuple[list[tuple[float, float]], tuple[str, ...]]:
    extents, notes = [], []
    for axis, n, keys in zip(SPACE, space, (("x_left", "x_right"), ("y_bottom", "y_top"))):
        ends = tuple(config.get(f"sim.{key}") for key in keys)
        stated = all(isinstance(end, float) and np.isfinite(end) for end in ends) and ends[0] < ends[1]
        first, last = (f"{group}/grid/{axis}" for group in (groups[0], groups[-1]))
        found, seen = cell_extents(probe, (first,), (n,), ends if stated else (0.0, 1.0))
        extents += found
        notes += seen
        if len(groups) > 1 and not np.array_equal(numbers(probe, first), numbers(probe, last), equal_nan=True):
            raise ValueError(
                f"{probe.path}: {first} and {last} differ: samples of one data set have one grid; split the file"
            )
    return extents, tuple(notes)


def _length(probe: Probe, name: str) -> int:
    return probe.arrays[name].shape[0] if name in probe.arrays and probe.arrays[name].shape else -1


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts s2 before s10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]{1,15})", name)]


def write(groups: list[xr.Dataset], path: Path) -> None:
    """A group a sample with `data`, its grid, and its settings, from which a reader tells the equation."""
    import h5py

    (dataset,) = groups
    grid = expect.trajectory(dataset, LAYOUT, (1, 2))
    fields = state_fields(dataset, grid)
    equation = str(dataset.attrs.get("equation"))
    _expect_names(tuple(fields), equation)
    points = [lossless(axis) for axis in grid.coordinates()]
    cells = cells_around(points, LAYOUT)
    if grid.centering != "cell" or not Grid(grid.shape, tuple(cells), "cell").same_points(grid):
        raise ValueError(f"layout {LAYOUT!r} holds values of cells; the data set has {words(grid)}")
    boundary = parse_json(dataset.attrs.get("boundary", "null"))
    if boundary and equation in WALLS and set(boundary.values()) != {WALLS[equation]}:
        raise ValueError(f"layout {LAYOUT!r} means {WALLS[equation]} for {equation}; the data set has {boundary}")
    expect.nothing_else(dataset, LAYOUT, tuple(fields))
    settings = _settings(dataset, equation)
    times = lossless(times_in(dataset, LAYOUT))
    names = _group_names(dataset)
    with replacing(path, size=sizes(fields)) as temporary, h5py.File(temporary, "w") as file:
        for sample, values in samples_of(list(fields.values())):
            group = file.create_group(names[sample])
            group.create_dataset("data", data=np.stack(values, axis=-1), compression="lzf")
            for axis, place in zip(SPACE, points):
                group[f"grid/{axis}"] = place
            group["grid/t"] = times
            group.attrs["config"] = _config(equation, settings, sample, cells)


def _expect_names(names: tuple[str, ...], equation: str) -> None:
    free = ("u",) if len(names) == 1 else tuple(f"u{i}" for i in range(len(names)))
    expected = STATES.get(equation, free if equation == "unknown" else None)
    if expected is None:
        known = ", ".join((*STATES, "unknown"))
        raise ValueError(f"layout {LAYOUT!r} holds {known}; the data set is of {equation!r}")
    if names != expected:
        raise ValueError(
            f"layout {LAYOUT!r} holds {', '.join(expected)} for {equation}; the data set evolves {', '.join(names)}"
        )


def _settings(dataset: xr.Dataset, equation: str) -> dict[str, list[float]]:
    """Each setting with its value for each sample."""
    samples, allowed = dataset.sizes["sample"], CONSTANTS.get(equation, ())
    values = {name: [value] * samples for name, value in parameters_of(dataset).items()}
    varying = [n for n, v in dataset.data_vars.items() if v.dims == ("sample",) and (n not in RECORDS or n == "seed")]
    values |= {str(name): np.asarray(dataset[name].values).tolist() for name in varying}
    strange = sorted(set(values) - {*allowed, "seed"})
    if strange:
        raise ValueError(
            f"layout {LAYOUT!r} states {', '.join(allowed) or 'no parameters'} for {equation}; it has no place for "
            f"{', '.join(strange)}"
        )
    missing = sorted(set(allowed[:2]) - set(values)) if equation != "shallow_water" else {"gravity"} - set(values)
    if missing:
        raise ValueError(f"layout {LAYOUT!r} needs {', '.join(missing)} to say that this is {equation}: add them")
    return values


def _group_names(dataset: xr.Dataset) -> list[str]:
    numbers = np.arange(dataset.sizes["sample"])
    if "sample" in dataset.coords and dataset["sample"].dtype.kind in "iu":
        named = np.asarray(dataset["sample"].values)
        # groups are read in the order of their numbers, which must be that of the samples
        numbers = named if len(named) and named.min() >= 0 and (np.diff(named) > 0).all() else numbers
    return [f"{number:04d}" for number in numbers]


def _config(equation: str, settings: dict[str, list[float]], sample: int, cells: list[tuple[float, float]]) -> str:
    lines = {name: values[sample] for name, values in settings.items()}
    for (low, high), keys in zip(cells, (("x_left", "x_right"), ("y_bottom", "y_top"))):
        lines |= dict(zip(keys, (low, high)))
    return f"name: {_NAMES.get(equation, 'unknown')}\nsim:\n" + "".join(f"  {k}: {v!r}\n" for k, v in lines.items())


READER = Reader(
    "pdebench-groups",
    "HDF5 with a group a sample: data (times, nx[, ny], channels), grid/x[, grid/y], grid/t",
    matches,
    read,
)
WRITERS = {"pdebench-groups": write}
