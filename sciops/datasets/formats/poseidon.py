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
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import at_resolution, build_dataset
from sciops.datasets.formats.containers.named_axes import axes_by_name, check_order, shape_by_name
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared.axes import check_size, is_real, stated_grid
from sciops.datasets.formats.shared.reader import Reader, Resolution
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


def matches(probe: Probe) -> bool:
    """Whether the file is HDF5 in one of the forms above, and holds nothing else."""
    return probe.kind == "hdf5" and _form(probe) is not None


def read(probe: Probe, resolution: Resolution = None) -> xr.Dataset:
    """The channels as variables over (sample, time, x, y), or a steady pair over (sample, x, y)."""
    form = _form(probe)
    if form in ("samples", "helmholtz"):  # an array a sample
        check_order(probe)
    check_size(probe, max((entry.shape for entry in probe.arrays.values()), key=len))
    if form == "samples":
        names = _in_order(_SAMPLE, probe)
        dataset = _flow(probe, names, probe.arrays[names[0]].shape)
    elif form == "helmholtz":
        dataset = _helmholtz(probe)
    elif form == "poisson":
        dataset = _pair(probe, "poisson", {"f": ("source", {}), "u": ("solution", {})})
    elif form == "airfoil":
        dataset = _pair(probe, "airfoil", {"a": ("solution", {1: 0}), "u": ("solution", {1: 1})})
    elif form == "scalar":
        dataset = _scalar(probe)
    else:
        dataset = _flow(probe, form, shape_by_name(probe.arrays[str(form)], _DIMS)[1:])
    return at_resolution(dataset, resolution)


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
    from sciops.datasets.formats.containers.lazy import H5Groups, lazy

    one = isinstance(key, str)
    names = channels_of(key if one else "velocity", shape[1])
    euler = names[:4] == _EULER
    equation = "compressible_euler" if euler else "navier_stokes_velocity" if names[:2] == ("u", "v") else "unknown"
    fields = {}
    for channel, name in enumerate(names):
        if one:
            array = _array(probe, key, {2: channel})
        else:
            dtype = np.dtype(probe.arrays[key[0]].dtype)
            array = H5Groups(probe.path, key, shape, dtype, pick={1: channel})
        stored = f"{key}[:, :, {channel}]" if one else f"sample_…[:, {channel}]"
        fields[name] = (
            ("sample", "time", *_SPACE),
            lazy(array),
            {"units": "1", "long_name": name, "stored_as": stored},
        )
    natural = natural_grid(equation, shape[2:])
    state = tuple(name for name in names if name != "gravity")
    return _built(probe, fields, equation, natural, state=state)


def _scalar(probe: Probe) -> xr.Dataset:
    from sciops.datasets.formats.containers.lazy import lazy

    shape = shape_by_name(probe.arrays["solution"], _DIMS)
    pick = {2: 0} if len(shape) == 5 else {}
    about = {"units": "1", "long_name": "solution", "stored_as": "solution"}
    fields = {"u": (("sample", "time", *_SPACE), lazy(_array(probe, "solution", pick)), about)}
    if "c" in probe.arrays:
        about = {"units": "1", "long_name": "speed of sound", "stored_as": "c"}
        fields["c"] = (("sample", *_SPACE), lazy(_array(probe, "c")), about)
    equation = "wave" if "c" in probe.arrays else "unknown"
    return _built(probe, fields, equation, natural_grid(equation, shape[-2:]), state=("u",))


def _pair(probe: Probe, equation: str, parts: dict[str, tuple[str, dict[int, int]]]) -> xr.Dataset:
    from sciops.datasets.formats.containers.lazy import lazy

    words = {"f": "source", "u": "density" if equation == "airfoil" else "solution", "a": "shape of the airfoil"}
    fields = {
        name: (
            ("sample", *_SPACE),
            lazy(_array(probe, key, pick)),
            {"units": "1", "long_name": words[name], "stored_as": key},
        )
        for name, (key, pick) in parts.items()
    }
    u = _array(probe, *parts["u"])
    natural = natural_grid(equation, u.shape[1:], _looked(u) if equation == "poisson" else None)
    return _built(probe, fields, equation, natural)


def _array(probe: Probe, key: str, pick: Mapping[int, int] = MappingProxyType({})) -> Any:
    """An array with its axes by name; `pick` counts them in that order."""
    from sciops.datasets.formats.containers.lazy import H5Array

    axes = axes_by_name(probe.arrays[key], _DIMS)
    return H5Array(probe.path, key, axes, pick={axes[axis]: index for axis, index in pick.items()})


def _helmholtz(probe: Probe) -> xr.Dataset:
    from sciops.datasets.formats.containers.lazy import H5Groups, lazy

    groups = [name.rsplit("/", 1)[0] for name in _in_order(_HELMHOLTZ, probe) if name.endswith("/u")]
    arrays = {}
    for name in ("a", "u", "bc"):
        entry = probe.arrays[f"{groups[0]}/{name}"]
        pick = {0: 0} if entry.shape == (1,) else None
        keys = [f"{group}/{name}" for group in groups]
        arrays[name] = H5Groups(probe.path, keys, entry.shape, np.dtype(entry.dtype), pick=pick)
    words = {"a": "coefficient", "u": "solution", "bc": "value on the wall"}
    fields = {
        name: (
            ("sample", *_SPACE) if name != "bc" else ("sample",),
            lazy(array),
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


READER = Reader(
    "poseidon",
    "HDF5 with velocity, data or solution (samples, times, channels, n, n), or sample_0 …, or Sample_0/{a, u, bc}",
    matches,
    read,
    named=True,
)
