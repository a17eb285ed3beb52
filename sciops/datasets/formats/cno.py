"""The CNO benchmarks' HDF5 files (arXiv:2302.01178), `Darcy_64x64_IN.h5` and kin.

One group a sample with ``input`` and ``output`` (n, n); the least and largest values over the training samples as root
numbers, by which the authors' loaders scale to [0, 1]: what is stored are the values themselves, and they come back as
they are, the numbers as attributes ``training_min`` and ``training_max`` of the variables.

* ``sample_{i}``, ``min_u0`` …              darcy: a → u, f = 1, u = 0 on the wall; 256 + 128 + 128 samples
* ``Sample_{i}``, ``min_inp``, ``min_out`` … poisson: f → u; 1024 + 128 + 256 samples
* ``Sample_{i}``, ``min_u0`` …              allen_cahn: initial a → u; 256 + 128 + 128 samples
* ``Sample_{i}_t_{k}``                      wave: initial a → u at the k-th time
* ``Sample_{i}`` without numbers            cno: shear layer, transport or airfoil, which the file's name alone tells

The order of the samples is the split, which is stated here only where a file holds exactly as many as documented. The
positions are not in the files: for zero walls the values next to them tell nodes from cells; Allen–Cahn is taken as one
period of the unit square, the others at nodes from wall to wall, as the authors' own coordinates have it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import SPLIT_ATTRS, build_dataset, grid_of, state_of
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import check_size, is_real, number, numbers, stated_grid
from sciops.datasets.formats.shared.expectations import DERIVED, FLOATS, words
from sciops.datasets.formats.shared.hdf5_writing import blocks_of, samples_of, sizes, state_grid
from sciops.datasets.formats.shared.reader import Reader
from sciops.files.whole_files import replacing
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_NAME = re.compile(r"([Ss]ample)_(\d{1,9})(?:_t_(\d{1,9}))?/(input|output)", re.ASCII)
SPLITS_OF = {
    "darcy": (256, 128, 128),
    "poisson": (1024, 128, 256),
    "allen_cahn": (256, 128, 128),
}
RANGES = {"darcy": ("u0", "u"), "poisson": ("inp", "out"), "allen_cahn": ("u0", "u"), "wave": ("u0", "u")}
_WALLS = ("darcy", "poisson")
LAYOUT = "cno"
_EQUATIONS = (*RANGES, "cno")


def matches(probe: Probe) -> bool:
    """Whether the file is HDF5 with groups `sample_i` or `Sample_i[_t_k]` of `input` and `output`, all (n, m)."""
    if probe.kind != "hdf5" or not any(name.endswith("/input") for name in probe.arrays):
        return False
    pairs: dict[str, set[str]] = {}
    shapes, kinds = set(), set()
    for name, entry in probe.arrays.items():
        if "/" not in name:
            continue  # the ranges
        found = _NAME.fullmatch(name)
        if found is None or not is_real(entry.dtype, "f"):
            return False
        pairs.setdefault(name.rsplit("/", 1)[0], set()).add(found[4])
        shapes.add(entry.shape)
        kinds.add((found[1], found[3] is None, found[4], entry.dtype))
    whole = all(pair == {"input", "output"} for pair in pairs.values())
    shape = shapes.pop() if len(shapes) == 1 else ()
    return whole and len(kinds) == 2 and len(shape) == 2 and min(shape) >= 2


def read(probe: Probe) -> xr.Dataset:
    """Input and output over (sample, x, y), each sample read from its own group."""
    from sciops.datasets.formats.containers.hdf5_arrays import H5Groups

    groups, equation, notes = _groups(probe)
    shape = probe.arrays[f"{groups[0]}/input"].shape
    check_size(probe, shape)
    arrays = {
        kind: H5Groups(probe.path, [f"{group}/{kind}" for group in groups], probe.arrays)
        for kind in ("input", "output")
    }
    names = {"input": "f" if equation == "poisson" else "a", "output": "u"}
    words = {"a": "coefficient" if equation == "darcy" else "initial state", "f": "source", "u": "solution"}
    fields: dict[str, Any] = {}
    for kind, key in zip(("input", "output"), RANGES.get(equation, (None, None))):
        about = {"units": "1", "long_name": words[names[kind]], "stored_as": kind}
        for end in ("min", "max"):
            value = number(numbers(probe, f"{end}_{key}")) if key else None
            if value is not None:
                about[f"training_{end}"] = value
        fields[names[kind]] = (("sample", "x", "y"), arrays[kind], about)
    counts = SPLITS_OF.get(equation)
    if counts is not None and sum(counts) == len(groups):
        fields["split"] = (("sample",), np.repeat(np.arange(3, dtype=np.int8), counts), dict(SPLIT_ATTRS))
    grid, positions = _grid(probe, equation, shape, arrays["output"])
    extra = {"coefficient": "values", "forcing": 1.0} if equation == "darcy" else {}
    periodic = {"x": "periodic", "y": "periodic"} if grid.centering == "periodic" else None
    return build_dataset(
        fields,
        grid,
        layout="cno",
        equation=equation,
        notes=notes,
        boundary={"x": "wall", "y": "wall"} if equation in _WALLS else periodic,
        positions=positions,
        **extra,
    )


def _groups(probe: Probe) -> tuple[list[str], str, tuple[str, ...]]:
    """(groups of the samples in order, equation, notes)."""
    found = [match for match in map(_NAME.fullmatch, probe.arrays) if match is not None and match[4] == "input"]
    timed = sorted({int(match[3]) for match in found if match[3] is not None})
    kept = [match for match in found if not timed or int(match[3]) == timed[-1]]
    kept.sort(key=lambda match: int(match[2]))
    order = [int(match[2]) for match in kept]
    notes = []
    if len(timed) > 1:
        left = ", ".join(map(str, timed[:-1]))
        notes.append(f"outputs at the times number {left} are left out: one input goes with the last, {timed[-1]}")
    if order != list(range(len(order))):
        notes.append(f"the samples are numbered {order[0]} … {order[-1]} with gaps or from another start")
    if found[0][1] == "sample":
        equation = "darcy"
    elif timed:
        equation = "wave"
    elif probe.stored("min_inp"):
        equation = "poisson"
    else:
        equation = "allen_cahn" if probe.stored("min_u0") else "cno"
    return [match.string.rsplit("/", 1)[0] for match in kept], equation, tuple(notes)


def _grid(probe: Probe, equation: str, shape: tuple[int, ...], u: Any) -> tuple[Grid, str]:
    grid, _ = stated_grid(probe, (), lambda: (None, ()))
    if grid is not None and grid.shape == shape:
        return grid, "stored"
    return natural_grid(equation, shape, u)


def natural_grid(equation: str, shape: tuple[int, ...], u: Any) -> tuple[Grid, str]:
    """(grid, how sure it is) where the file states none; u : (samples, *shape), looked at for zero walls."""
    from sciops.datasets.formats.shared.walls import zero_walls
    from sciops.datasets.lazy import lazy

    if equation == "allen_cahn":
        return Grid(shape, centering="periodic"), "assumed: one unit period"
    if equation in _WALLS:
        import xarray as xr

        seen = zero_walls(xr.Variable(("sample", "x", "y"), u if isinstance(u, np.ndarray) else lazy(u)))
        if seen != "unknown":
            return Grid(shape, centering=seen), f"seen: values next to the zero wall are those of {seen}s"
    return Grid(shape), "assumed: nodes from wall to wall"


def write(groups: list[xr.Dataset], path: Path) -> None:
    """`input` and `output` of each sample, and their least and largest values over the training samples."""
    import h5py

    (dataset,) = groups
    equation = dataset.attrs.get("equation")
    if equation not in _EQUATIONS or state_of(dataset):
        raise ValueError(
            f"layout {LAYOUT!r} holds steady pairs of {', '.join(_EQUATIONS)}; the data set is of {equation!r}"
            + (" and evolves in time" if state_of(dataset) else "")
        )
    name = "f" if equation == "poisson" else "a"
    if not {name, "u"} <= set(dataset.data_vars):
        raise ValueError(f"layout {LAYOUT!r} needs {name} and u; the data set holds {', '.join(map(str, dataset))}")
    if equation == "darcy":
        expect.phase_values(dataset, LAYOUT)
        expect.zero_walls(dataset, LAYOUT)
        expect.unit_source(dataset, LAYOUT)
    grid = grid_of(dataset, "u")
    fields = [dataset[key] for key in (name, "u")]
    if grid.ndim != 2 or any(set(f.dims) != {"sample", "x", "y"} or str(f.dtype) not in FLOATS for f in fields):
        raise ValueError(f"layout {LAYOUT!r} holds floats over (sample, x, y); the data set has {words(grid)}")
    expect.nothing_else(dataset, LAYOUT, (name, "u", *DERIVED))
    expect.common_parameters(dataset, LAYOUT)
    fields = [field.transpose("sample", "x", "y") for field in fields]
    ranges = [_training_range(dataset, field) for field in fields] if equation in RANGES else []
    prefix, suffix = ("sample" if equation == "darcy" else "Sample"), "_t_5" if equation == "wave" else ""
    with replacing(path, size=2 * sizes(dict(enumerate(fields)))) as temporary, h5py.File(temporary, "w") as file:
        for i, (a, u) in samples_of(fields):
            group = file.create_group(f"{prefix}_{i}{suffix}")
            group["input"], group["output"] = a, u
        for key, (low, high) in zip(RANGES.get(equation, ()), ranges):
            file[f"min_{key}"], file[f"max_{key}"] = low, high
        state_grid(file, grid, natural_grid(equation, grid.shape, np.asarray(fields[1][:4].values))[0])


def _training_range(dataset: xr.Dataset, field: xr.DataArray) -> tuple[float, float]:
    """The numbers the file had, else those of the training samples, all where there is no split."""
    if {"training_min", "training_max"} <= set(field.attrs):
        return float(field.attrs["training_min"]), float(field.attrs["training_max"])
    kept = field.isel(sample=np.flatnonzero(dataset["split"].values == 0)) if "split" in dataset else field
    kept = kept if kept.sizes["sample"] else field
    ends = [(float(block.min()), float(block.max())) for _, (block,) in blocks_of([kept])]
    return min(low for low, _ in ends), max(high for _, high in ends)


READER = Reader("cno", "HDF5 with groups sample_0, sample_1, … of input and output (n, n)", matches, read)
WRITERS = {"cno": write}
