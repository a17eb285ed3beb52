"""`open_dataset`: any known layout, recognised by content, as one kind of xarray data set.

A layout is one module of this folder with a `READER` and its `WRITERS`, entered in `LAYOUTS`; the first that matches
reads the file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sciops.datasets.conventions import at_resolution, with_grid
from sciops.datasets.formats import (
    apebench,
    arrays,
    cno,
    jax_cfd,
    li2020,
    li2020_burgers,
    li2020_ns,
    native,
    neuralop,
    pdearena_ks,
    pdearena_ns,
    pdearena_swe,
    pdebench_1d,
    pdebench_cfd,
    pdebench_darcy,
    pdebench_groups,
    pdebench_ns,
    poseidon,
    the_well,
)
from sciops.datasets.formats.containers.named_axes import check_order
from sciops.datasets.formats.containers.sniff import Probe, probe
from sciops.datasets.formats.described.contents import KINDS
from sciops.datasets.formats.shared.reader import Reader, Resolution, Writer
from sciops.datasets.order import in_order
from sciops.files.budget import Budget, within_budget
from sciops.files.messages import plain_errors, reading, shown
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["READERS", "WRITERS", "Probe", "Reader", "find_reader", "open_dataset", "opened_resolutions", "probe"]

LAYOUTS = (
    native,
    arrays,  # what somebody has described goes before what a file looks like
    the_well,
    pdebench_darcy,
    pdebench_1d,
    pdebench_cfd,
    pdebench_groups,
    pdebench_ns,
    pdearena_ns,
    pdearena_ks,
    pdearena_swe,
    cno,
    poseidon,
    jax_cfd,
    li2020,
    li2020_ns,
    li2020_burgers,
    neuralop,
    apebench,
)
READERS: dict[str, Reader] = {layout.READER.name: layout.READER for layout in LAYOUTS}
WRITERS: dict[str, Writer] = {name: write for layout in LAYOUTS for name, write in layout.WRITERS.items()}

_TEXTS = ("task", "coefficient", "labels", "state", "parameters", "boundary", "walls")
_COMPLEX = ("arrays",)  # layouts whose fields may be complex


@within_budget
@plain_errors()
def open_dataset(
    path: str | os.PathLike,
    resolution: Resolution = None,
    *,
    layout: str | None = None,
    grid: Grid | None = None,
    budget: Budget | None = None,
) -> xr.Dataset:
    """Opens a file of any known layout as named fields over (sample, [time,] x, …) at their true positions.

    Parameters
    ----------
    path : str or path-like
        The file; its content decides the layout, never its name. Arrays of an unknown layout open after they have been
        described once (`describe_arrays`); the error proposes a description, made from the file's own coordinates
        where it has them. Complex arrays open as two real fields where the description says ``"real_imaginary": True``.
    resolution : int or tuple of int, optional
        Points per axis: the native group of this grid, or the nested nodes of a finer grid. Default: the finest grid.
    layout : str, optional
        A name in ``READERS``, to accept this layout only.
    grid : Grid, optional
        Where the points lie, for layouts that do not say; default: the reader's own rule.
    budget : Budget, optional
        Memory, objects and time that the file may take; default: a gigabyte besides its own size, 100,000 objects and
        10 s. It also holds for what is read later.

    Returns
    -------
    xarray.Dataset
        Lazy where the format allows (all but packed MATLAB v5 variables and compressed archives), with the attributes
        ``layout``, ``equation``, ``task`` ("steady": input ``a`` or ``f``, output ``u``; "trajectory": the fields that
        ``state`` names), ``grid``, ``parameters``, ``boundary``; for Darcy ``coefficient`` ("values", or "indicator"
        where the phase values are unknown). Close it, or use it as a context manager, to close the file.

    Raises
    ------
    FileNotFoundError, IsADirectoryError, OSError
        When the path is not a file that can be read.
    ValueError
        For an unknown layout, a damaged file, pickled objects and an unavailable resolution; each error is one line
        that says what to do.

    Examples
    --------
    >>> open_dataset("darcy_train_16.pt").attrs["coefficient"]    # doctest: +SKIP
    'indicator'
    """
    if layout is not None and layout not in READERS:
        raise ValueError(f"layout={layout!r}: expected one of {', '.join(READERS)}")
    found = probe(path)
    reader = _matching(found, layout)
    if reader is None:
        raise ValueError(_unknown(found, layout))
    if grid is None:
        return _read(reader, found, resolution)
    return at_resolution(with_grid(_read(reader, found, None), grid), resolution)


@contextlib.contextmanager
def opened_resolutions(path: str | os.PathLike) -> Iterator[list[xr.Dataset]]:
    """The data sets that a file stores, one for each resolution, finest first: of native files alone more than one.

    The file is opened once for all of them. Raises what `open_dataset` raises.
    """
    with contextlib.ExitStack() as stack:
        with plain_errors():
            found = probe(path)
            reader = _matching(found)
            if reader is None:
                raise ValueError(_unknown(found, None))
            with reading(f"{found.path} looks like {reader.name} but", "that layout", reader.expects):
                stored = (None,) if reader.resolutions is None else reader.resolutions(found)
            datasets = [stack.enter_context(_read(reader, found, resolution)) for resolution in stored]
        yield datasets


def find_reader(path: str | os.PathLike) -> Reader | None:
    """The reader of a file, or None for a file of an unknown layout or that cannot be read at all."""
    try:
        return _matching(probe(path))
    except (OSError, ValueError):
        return None


def _read(reader: Reader, found: Probe, resolution: Resolution) -> xr.Dataset:
    """The file through its reader, with the checks that all layouts share."""
    with reading(f"{found.path} looks like {reader.name} but", "that layout", reader.expects):
        if not reader.named:
            check_order(found)
        read_at = reader.read_at or (lambda found, resolution: at_resolution(reader.read(found), resolution))
        dataset = in_order(read_at(found, resolution))
        try:
            _check_attributes(reader, found, dataset)
            _check_variables(reader, found, dataset)
        except BaseException:
            dataset.close()
            raise
        return dataset


def _check_attributes(reader: Reader, found: Probe, dataset: xr.Dataset) -> None:
    """Raises ValueError where an attribute of every layout is missing, or one that is read as text is an array."""
    # coordinates that make no grid are opened as they are: "no_grid" says why
    grid = ("grid",) if "no_grid" not in dataset.attrs else ()
    missing = [name for name in ("layout", "equation", *grid) if not isinstance(dataset.attrs.get(name), str)]
    if missing:
        raise ValueError(
            f"{found.path} is a {reader.name} file that does not say its {', '.join(missing)}: write it again"
        )
    for name in _TEXTS:
        if isinstance(value := dataset.attrs.get(name), np.ndarray):  # compared with a text it would be no truth value
            raise ValueError(
                f"{found.path}: the attribute {name} is {shown(repr(value), 80)}; expected a text: write the file again"
            )


def _check_variables(reader: Reader, found: Probe, dataset: xr.Dataset) -> None:
    """Raises ValueError for variables without a number, or of another kind than real numbers of at most 8 bytes."""
    complex_fields = "c" if reader.name in _COMPLEX else ""
    for name, variable in dataset.variables.items():
        if 0 in variable.shape:
            sizes = ", ".join(f"{dim} {size}" for dim, size in variable.sizes.items())
            raise ValueError(f"{found.path} holds {name} without a number ({shown(sizes, 200)}): write the file again")
        if variable.dtype.kind not in "biuf" + complex_fields * (name not in dataset.coords):
            raise ValueError(
                f"{found.path} holds {name} of type {variable.dtype}; {reader.name} holds real numbers: describe "
                "the file with sciops.datasets.describe_arrays, complex arrays with 'real_imaginary': True"
                if variable.dtype.kind == "c"
                else f"{found.path} holds {name} of type {variable.dtype}; fields and positions are real numbers"
            )
        if variable.dtype.itemsize > (16 if variable.dtype.kind == "c" else 8):
            raise ValueError(
                f"{found.path} holds {name} in extended precision ({variable.dtype}), in which no model computes: "
                "save it as float64"
            )


def _unknown(found: Probe, layout: str | None) -> str:
    if found.kind in KINDS and found.arrays and layout in (None, "arrays"):
        return arrays.undescribed(found)
    if layout is not None:
        return f"{found.path} is {found.describe()}; layout {layout!r} is {READERS[layout].expects}"
    if not found.arrays and "(" in found.kind:  # what it is says what to do
        return f"{found.path} is {found.describe()}"
    return (
        f"{found.path} is {found.describe()}, which is not a known layout: write your arrays once with "
        "sciops.datasets.write_native (docs/how-to/use-my-own-data), or in one of these, of which "
        f"sciops.datasets.READERS[name].expects says what each holds: {', '.join(READERS)}"
    )


def _matching(found: Probe, layout: str | None = None) -> Reader | None:
    """The first reader that takes the file; where one is insisted on, that one or None."""
    if layout is not None:
        return READERS[layout] if READERS[layout].matches(found) else None
    return next((one for one in READERS.values() if (one.recognises or one.matches)(found)), None)
