"""Li et al.'s Darcy files (arXiv:2010.08895), `piececonst_r421_N1024_smooth1.mat` and kin.

``coeff``, ``sol`` : (samples, R, R) single; ``Kcoeff``, ``Kcoeff_x``, ``Kcoeff_y`` : a smoothed coefficient and its
derivatives, passed on under these names (two users of the files say that _x and _y are swapped relative to the axes;
check before use). MATLAB v5, or v7.3, which is HDF5 with every array's axes reversed; here they are put right. R nodes
on [0, 1] with both walls on the grid, −∇·(a∇u) = 1, a ∈ {3, 12}. `smooth1` trains, `smooth2` tests.

The published solutions were interpolated from cells with splines, so that their wall rows are 1e-4, not 0, and they
solve the equation only roughly; `validate` reports how roughly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sciops.datasets.conventions import build_dataset
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.expectations import DERIVED, words
from sciops.datasets.formats.shared.matlab_writing import Stored, matlab_writers
from sciops.datasets.formats.shared.reader import Reader
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_FIELDS = {"coeff": "a", "sol": "u"}
_WORDS = {"a": "coefficient", "u": "solution"}
_DIMS = ("sample", "x", "y")


def matches(probe: Probe) -> bool:
    """Whether the file is MATLAB (v5, or v7.3 which is HDF5) with `coeff` and `sol` of one shape."""
    if probe.kind not in ("mat5", "hdf5") or not probe.stored("coeff", "sol"):
        return False
    shapes = {probe.arrays[name].shape for name in _FIELDS}
    return len(shapes) == 1 and len(shapes.pop()) == 3


def read(probe: Probe) -> xr.Dataset:
    """a = `coeff`, u = `sol` on nodes with both walls; axes of v7.3 files put back in order."""
    from sciops.datasets.formats.containers.lazy_arrays import matlab_array

    names = {**_FIELDS, **{name: name for name in DERIVED if name in probe.arrays}}
    shape = probe.arrays["coeff"].shape
    same = {stored: name for stored, name in names.items() if probe.arrays[stored].shape == shape}
    backwards = probe.kind == "hdf5" and (probe.matlab or _sample_axis_last(shape))
    axes = (2, 1, 0) if backwards else None
    fields = {
        name: (
            _DIMS,
            matlab_array(probe, stored, axes),
            {"units": "1", "long_name": _WORDS.get(name, f"smoothed coefficient, {name}"), "stored_as": stored},
        )
        for stored, name in same.items()
    }
    grid = Grid(tuple(reversed(shape[:-1])) if backwards else shape[1:])
    return build_dataset(
        fields, grid, layout="li2020", equation="darcy", coefficient="values", forcing=1.0, positions="known"
    )


def _sample_axis_last(shape: tuple[int, ...]) -> bool:
    """Whether a file without MATLAB's marks keeps its axis order: the odd one out of three axes counts samples."""
    return shape[0] == shape[1] != shape[2]


def _contents(dataset: xr.Dataset, layout: str) -> tuple[dict[str, Stored], dict[str, Any]]:
    grid = expect.coefficient_and_solution(dataset, layout)
    expect.phase_values(dataset, layout)
    expect.nodes(grid, layout)
    if grid != Grid(grid.shape):
        raise ValueError(
            f"layout {layout!r} holds nodes of the unit box, walls on the grid; the data set has {words(grid)}"
        )
    expect.unit_source(dataset, layout)
    expect.nothing_else(dataset, layout, ("a", "u", *DERIVED))
    names = {"coeff": "a", "sol": "u"} | {n: n for n in DERIVED if n in dataset}
    return {stored: Stored(dataset[name].transpose("sample", "x", "y")) for stored, name in names.items()}, {}


READER = Reader("li2020", "a MATLAB file (v5 or v7.3) with coeff and sol, both (samples, n, n)", matches, read)
WRITERS = matlab_writers("li2020", _contents)
