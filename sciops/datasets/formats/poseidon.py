"""Poseidon's files (arXiv:2405.19101), HDF5 named `.nc`, `NS-PwC.nc`, `Wave-Layer.nc`, `Helmholtz.h5` and kin.

* ``velocity`` (N, T, C, n, n)         navier_stokes_velocity: u, v[, tracer]
* ``data`` (N, T, C, n, n)             compressible_euler: density, u, v, pressure[, energy]
* ``solution`` (N, T, C, n, n)         by C: 1 u; 2 u, v; 4 … 6 density, u, v, pressure[, tracer[, gravity potential]]
* ``solution`` (N, T, n, n)            one scalar u; with ``c`` (N, n, n), the speed of sound, wave; of two times, the
                                       airfoil: shape a → density u
* ``source``, ``solution`` (N, n, n)   poisson: f → u
* ``sample_{i}`` (T, 2, n, n)          navier_stokes_velocity, one array a sample
* ``Sample_{i}/{a, u, bc}``            helmholtz: coefficient a, u, and bc, its value on the wall, one number a sample

No file states times, positions or splits: the authors count steps, test on the last samples of a file and validate on
those before them, as many as their code has for its name. The pages of the data sets say more: uniform times up to 1 on
the unit square, up to 2 in CE-RM, 5 in GCE-RT, 0.0002 in ACE. Incompressible flow is taken as one period of the unit
square and compressible flow as its cells; for u = 0 or bc on the wall the values next to it tell nodes from cells;
otherwise nodes from wall to wall are assumed. The shear layer's file alone has its two axes exchanged, in its authors'
words; the numbers do not say so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import build_dataset, grid_of, parameters_of, state_of
from sciops.datasets.formats.containers.named_axes import axes_by_name, check_order, shape_by_name
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import check_size, is_real, stated_grid
from sciops.datasets.formats.shared.expectations import FLOATS, leave_out, words
from sciops.datasets.formats.shared.hdf5_writing import blocks_of, samples_of, sizes, state_grid, write_blocks
from sciops.datasets.formats.shared.reader import Reader
from sciops.files.whole_files import replacing
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_SAMPLE = re.compile(r"sample_(\d{1,9})", re.ASCII)
_HELMHOLTZ = re.compile(r"Sample_(\d{1,9})/(a|u|bc)", re.ASCII)
_EULER = ("density", "u", "v", "pressure")
_MORE = {"data": ("energy",), "solution": ("tracer", "gravity")}  # channels that follow those of Euler's equations
_MOST_CHANNELS = 8
_SPACE = ("x", "y")
_DIMS = ("sample", "time", "channel", *_SPACE)  # where a file names its axes, these may come in any order
_UNTIMED = "the file states no times, only the order of the states; where the page of its data set does, assign them"
LAYOUT = "poseidon"
_STEADY = {"poisson": ("f", "u"), "airfoil": ("a", "u"), "helmholtz": ("a", "u", "bc")}
_EVOLVING = {
    "navier_stokes_velocity": "velocity",
    "compressible_euler": "data",
    "wave": "solution",
    "unknown": "solution",
}


def matches(probe: Probe) -> bool:
    """Whether the file is HDF5 in one of the forms above, and holds nothing else."""
    return probe.kind == "hdf5" and _form(probe) is not None


def read(probe: Probe) -> xr.Dataset:
    """The channels as variables over (sample, time, x, y), or a steady pair over (sample, x, y)."""
    form = _form(probe)
    if form in ("samples", "helmholtz"):  # an array a sample
        check_order(probe)
    check_size(probe, max((entry.shape for entry in probe.arrays.values()), key=len))
    if form == "samples":
        names = _in_order(_SAMPLE, probe)
        return _flow(probe, names, probe.arrays[names[0]].shape)
    if form == "helmholtz":
        return _helmholtz(probe)
    if form == "poisson":
        return _pair(probe, "poisson", {"f": ("source", {}), "u": ("solution", {})})
    if form == "airfoil":
        return _pair(probe, "airfoil", {"a": ("solution", {1: 0}), "u": ("solution", {1: 1})})
    if form == "scalar":
        return _scalar(probe)
    return _flow(probe, form, shape_by_name(probe.arrays[str(form)], _DIMS)[1:])


def channels_of(key: str, count: int) -> tuple[str, ...]:
    """What the channels of an array are, by its name and their number; "channel0" … where the authors do not say."""
    if key in ("velocity", "solution") and count == 2:
        return ("u", "v")
    if key == "velocity" and count == 3:
        return ("u", "v", "tracer")
    if key in _MORE and 4 <= count <= 4 + len(_MORE[key]):
        return _EULER + _MORE[key][: count - 4]
    return ("u",) if count == 1 else tuple(f"channel{i}" for i in range(count))


def natural_grid(equation: str, shape: tuple[int, ...], u: Any = None, value: Any = 0.0) -> tuple[Grid, str]:
    """(grid, how sure it is): the files state none. u : (samples, *shape) that is `value` on the wall, or None."""
    from sciops.datasets.formats.shared.walls import zero_walls

    if equation == "navier_stokes_velocity":
        return Grid(shape, centering="periodic"), "assumed: one unit period"
    if equation == "compressible_euler":
        return Grid(shape, centering="cell"), "assumed: cells of the unit square"
    if u is not None:
        seen = zero_walls(u, value)
        if seen != "unknown":
            return Grid(shape, centering=seen), f"seen: values next to the wall are those of {seen}s"
    return Grid(shape), "assumed: nodes from wall to wall"


def _form(probe: Probe) -> str | None:
    """Which form the file has: the name of its array of channels, or a word for the others."""
    arrays = probe.arrays
    if not arrays or not all(is_real(entry.dtype, "f") or name.endswith("/bc") for name, entry in arrays.items()):
        return None
    shapes = {name: shape_by_name(entry, _DIMS) for name, entry in arrays.items()}
    if all(_SAMPLE.fullmatch(name) for name in shapes):
        shape = next(iter(shapes.values()))
        same = len(set(shapes.values())) == 1 and len({entry.dtype for entry in arrays.values()}) == 1
        return "samples" if same and len(shape) == 4 and shape[1] == 2 and _square(shape) else None
    if all(_HELMHOLTZ.fullmatch(name) for name in shapes):
        return "helmholtz" if _is_helmholtz(shapes) else None
    if set(shapes) == {"source", "solution"}:
        a, u = shapes["source"], shapes["solution"]
        return "poisson" if a == u and len(u) == 3 and _square(u) else None
    if set(shapes) in ({"velocity"}, {"data"}, {"solution"}):
        (key,) = shapes
        shape = shapes[key]
        if len(shape) == 5 and shape[2] <= _MOST_CHANNELS and _square(shape):
            return key
    if set(shapes) in ({"solution"}, {"solution", "c"}):
        shape = shapes["solution"]
        shape = (*shape[:2], *shape[3:]) if len(shape) == 5 and shape[2] == 1 else shape
        fits = "c" not in shapes or shapes["c"] == (*shape[:1], *shape[2:])
        if len(shape) == 4 and _square(shape) and fits:
            return "airfoil" if shape[1] == 2 and "c" not in shapes else "scalar"
    return None


def _is_helmholtz(shapes: dict[str, tuple[int, ...]]) -> bool:
    groups = {name.rsplit("/", 1)[0] for name in shapes}
    fields = {shape for name, shape in shapes.items() if not name.endswith("/bc")}
    values = {shape for name, shape in shapes.items() if name.endswith("/bc")}
    whole = len(shapes) == 3 * len(groups) and len(fields) == 1 and values in ({()}, {(1,)})
    return whole and len(next(iter(fields))) == 2 and _square(next(iter(fields)))


def _square(shape: tuple[int, ...]) -> bool:
    return min(shape) >= 1 and shape[-1] == shape[-2] >= 2


def _in_order(pattern: re.Pattern, probe: Probe) -> list[str]:
    found = [match for match in map(pattern.fullmatch, probe.arrays) if match is not None]
    return [match.string for match in sorted(found, key=lambda match: int(match[1]))]


def _flow(probe: Probe, key: Any, shape: tuple[int, ...]) -> xr.Dataset:
    """Channels of one array, or of one array a sample; shape without the samples."""
    from sciops.datasets.formats.containers.hdf5_arrays import H5Groups

    one = isinstance(key, str)
    names = channels_of(key if one else "velocity", shape[1])
    euler = names[:4] == _EULER
    equation = "compressible_euler" if euler else "navier_stokes_velocity" if names[:2] == ("u", "v") else "unknown"
    fields = {}
    for channel, name in enumerate(names):
        if one:
            array = _array(probe, key, {2: channel})
        else:
            array = H5Groups(probe.path, key, probe.arrays, pick={1: channel})
        stored = f"{key}[:, :, {channel}]" if one else f"sample_…[:, {channel}]"
        fields[name] = (
            ("sample", "time", *_SPACE),
            array,
            {"units": "1", "long_name": name, "stored_as": stored},
        )
    natural = natural_grid(equation, shape[2:])
    state = tuple(name for name in names if name != "gravity")
    return _built(probe, fields, equation, natural, state=state)


def _scalar(probe: Probe) -> xr.Dataset:

    shape = shape_by_name(probe.arrays["solution"], _DIMS)
    pick = {2: 0} if len(shape) == 5 else {}
    about = {"units": "1", "long_name": "solution", "stored_as": "solution"}
    fields = {"u": (("sample", "time", *_SPACE), _array(probe, "solution", pick), about)}
    if "c" in probe.arrays:
        about = {"units": "1", "long_name": "speed of sound", "stored_as": "c"}
        fields["c"] = (("sample", *_SPACE), _array(probe, "c"), about)
    equation = "wave" if "c" in probe.arrays else "unknown"
    return _built(probe, fields, equation, natural_grid(equation, shape[-2:]), state=("u",))


def _pair(probe: Probe, equation: str, parts: dict[str, tuple[str, dict[int, int]]]) -> xr.Dataset:

    words = {"f": "source", "u": "density" if equation == "airfoil" else "solution", "a": "shape of the airfoil"}
    fields = {
        name: (
            ("sample", *_SPACE),
            _array(probe, key, pick),
            {"units": "1", "long_name": words[name], "stored_as": key},
        )
        for name, (key, pick) in parts.items()
    }
    u = _array(probe, *parts["u"])
    natural = natural_grid(equation, u.shape[1:], _looked(u) if equation == "poisson" else None)
    return _built(probe, fields, equation, natural)


def _array(probe: Probe, key: str, pick: Mapping[int, int] = MappingProxyType({})) -> Any:
    """An array with its axes by name; `pick` counts them in that order."""
    from sciops.datasets.formats.containers.hdf5_arrays import H5Array

    axes = axes_by_name(probe.arrays[key], _DIMS)
    return H5Array(probe.path, key, axes, pick={axes[axis]: index for axis, index in pick.items()})


def _helmholtz(probe: Probe) -> xr.Dataset:
    from sciops.datasets.formats.containers.hdf5_arrays import H5Groups

    groups = [name.rsplit("/", 1)[0] for name in _in_order(_HELMHOLTZ, probe) if name.endswith("/u")]
    arrays = {}
    for name in ("a", "u", "bc"):
        entry = probe.arrays[f"{groups[0]}/{name}"]
        pick = {0: 0} if entry.shape == (1,) else None
        keys = [f"{group}/{name}" for group in groups]
        arrays[name] = H5Groups(probe.path, keys, probe.arrays, pick=pick)
    words = {"a": "coefficient", "u": "solution", "bc": "value on the wall"}
    fields = {
        name: (
            ("sample", *_SPACE) if name != "bc" else ("sample",),
            array,
            {"units": "1", "long_name": words[name], "stored_as": name},
        )
        for name, array in arrays.items()
    }
    natural = natural_grid("helmholtz", arrays["u"].shape[1:], _looked(arrays["u"]), _looked(arrays["bc"]))
    return _built(probe, fields, "helmholtz", natural)


def _looked(array: Any) -> Any:
    """The first few samples."""
    from xarray.core import indexing

    return np.asarray(array[indexing.OuterIndexer((slice(0, 4), *(slice(None),) * (len(array.shape) - 1)))])


def _built(
    probe: Probe, fields: dict[str, Any], equation: str, natural: tuple[Grid, str], state: tuple[str, ...] = ()
) -> xr.Dataset:
    grid, _ = stated_grid(probe, (), lambda: (natural[0], ()))
    known = grid == natural[0] or grid.shape != natural[0].shape
    grid, positions = natural if known else (grid, "stored")
    return build_dataset(
        fields,
        grid,
        layout="poseidon",
        equation=equation,
        notes=(_UNTIMED,) if state else (),
        state=state,
        boundary=dict.fromkeys(_SPACE, "periodic") if grid.centering == "periodic" else None,
        positions=positions,
    )


def write(groups: list[xr.Dataset], path: Path) -> None:
    """The form of the layout that belongs to the equation; times have no place in any, and are refused."""
    (dataset,) = groups
    equation = expect.equation(dataset, LAYOUT, (*_STEADY, *_EVOLVING))
    if parameters_of(dataset):
        raise ValueError(f"layout {LAYOUT!r} has no place for the constants {', '.join(parameters_of(dataset))}")
    lost = [name for name in ("time", "times") if name in dataset.variables]
    if lost:
        raise ValueError(f"layout {LAYOUT!r} has no place for times: {leave_out(lost)}")
    grid = grid_of(dataset, "u")
    if grid.ndim != 2 or grid.shape[0] != grid.shape[1]:
        raise ValueError(f"layout {LAYOUT!r} holds n × n points; the data set has {words(grid)}")
    with_parts = _steady if equation in _STEADY else _evolving
    with_parts(dataset, equation, path)


def _evolving(dataset: xr.Dataset, equation: str, path: Path) -> None:
    import h5py

    grid = expect.trajectory(dataset, LAYOUT, (2,))
    names = [*state_of(dataset), *(["gravity"] if "gravity" in dataset else [])]
    carried = equation == "compressible_euler" and {"tracer", "gravity"} & set(names)
    key = "solution" if carried else _EVOLVING[equation]
    if equation == "wave" and "c" not in dataset:
        raise ValueError(f"layout {LAYOUT!r} holds a wave with its speed c (sample, x, y), which is not there")
    expect.nothing_else(dataset, LAYOUT, (*names, "c") if equation == "wave" else names)
    _expect_no_numbers(dataset, ())
    if channels_of(key, len(names)) != tuple(names):
        raise ValueError(
            f"layout {LAYOUT!r} holds {', '.join(channels_of(key, len(names)))} of {equation} in {len(names)} "
            f"channels; the data set has {', '.join(names)}"
        )
    fields = [dataset[name].transpose("sample", "time", "x", "y") for name in names]
    expect.one_type(fields, LAYOUT)
    flat = equation == "wave"
    shape = fields[0].shape if flat else (*fields[0].shape[:2], len(fields), *grid.shape)
    speed = {"c": _steady_field(dataset, "c")} if flat else {}
    size = sizes({**dict(zip(names, fields)), **speed})
    with replacing(path, size=size) as temporary, h5py.File(temporary, "w") as file:
        chunks = (1, 1, *shape[2:])
        target = file.create_dataset(key, shape, fields[0].dtype, chunks=chunks if min(shape) else None)
        for part, blocks in blocks_of(fields):
            target[part] = blocks[0] if flat else np.stack(blocks, 2)
        for name, field in speed.items():
            held = file.create_dataset(name, field.shape, field.dtype)
            write_blocks([held], [field])
        state_grid(file, grid, natural_grid(equation, grid.shape)[0])


def _steady(dataset: xr.Dataset, equation: str, path: Path) -> None:
    import h5py

    names = _STEADY[equation]
    if state_of(dataset) or not set(names) <= set(dataset.data_vars):
        raise ValueError(f"layout {LAYOUT!r} holds steady {', '.join(names)} of {equation}; the data set has others")
    expect.nothing_else(dataset, LAYOUT, names)
    _expect_no_numbers(dataset, names)
    first, u = (_steady_field(dataset, name) for name in names[:2])
    grid = grid_of(dataset, "u")
    bc = np.asarray(dataset["bc"].values) if equation == "helmholtz" else None
    looked = np.asarray(u[:4].values)
    if equation == "airfoil":
        natural = natural_grid(equation, grid.shape)[0]
    else:
        natural = natural_grid(equation, grid.shape, looked, 0.0 if bc is None else bc[:4])[0]
    with replacing(path, size=2 * sizes({"a": first, "u": u})) as temporary, h5py.File(temporary, "w") as file:
        targets = _targets(file, equation, first, u)
        for part, blocks in blocks_of([first, u]) if bc is None else ():
            for target, block in zip(targets, blocks):
                target(part, block)
        for i, (a, solution) in samples_of([first, u]) if bc is not None else ():
            group = file.create_group(f"Sample_{i}")
            group["a"], group["u"], group["bc"] = a, solution, bc[i]
        state_grid(file, grid, natural)


def _targets(file: Any, equation: str, a: xr.DataArray, u: xr.DataArray) -> list[Any]:
    """Where the two fields go, block by block."""
    if equation == "poisson":
        arrays = [file.create_dataset(k, f.shape, f.dtype) for k, f in (("source", a), ("solution", u))]
        return [array.__setitem__ for array in arrays]
    if equation == "airfoil":
        expect.one_type([a, u], LAYOUT)
        whole = file.create_dataset("solution", (len(u), 2, *u.shape[1:]), u.dtype)
        return [lambda part, block, i=i: whole.__setitem__((part[0], i, *part[1:]), block) for i in range(2)]
    return []


def _steady_field(dataset: xr.Dataset, name: str) -> xr.DataArray:
    field = dataset[name]
    if set(field.dims) != {"sample", "x", "y"} or str(field.dtype) not in FLOATS:
        raise ValueError(
            f"layout {LAYOUT!r} holds {name} as floats over (sample, x, y); here {field.dtype} {field.dims}"
        )
    return field.transpose("sample", "x", "y")


def _expect_no_numbers(dataset: xr.Dataset, held: tuple[str, ...]) -> None:
    expect.common_parameters(dataset.drop_vars([name for name in held if dataset[name].dims == ("sample",)]), LAYOUT)


READER = Reader(
    "poseidon",
    "HDF5 with velocity, data or solution (samples, times, channels, n, n), or sample_0 …, or Sample_0/{a, u, bc}",
    matches,
    read,
    named=True,
)
WRITERS = {"poseidon": write}
