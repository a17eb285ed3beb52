"""From any known layout to another; what a layout cannot hold is refused, never bent to fit."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciops.datasets.conventions import parameters_of, split_indices, state_of
from sciops.datasets.fields.phases import with_phases
from sciops.datasets.formats.described.description import sidecar
from sciops.datasets.formats.opening import WRITERS
from sciops.datasets.formats.the_well import remark
from sciops.datasets.native.hdf5.store import samples_of
from sciops.datasets.order import in_order
from sciops.files.budget import Budget, within_budget
from sciops.files.whole_files import is_store, remove_abandoned
from sciops.files.writable import writable_file

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["WRITERS", "convert"]

_REMARKS: dict[str, Callable[[xr.Dataset], str | None]] = {"the-well": remark}
_COMPANIONS: dict[str, Callable[[Path], tuple[Path, ...]]] = {"apebench": lambda path: (sidecar(path),)}


@within_budget
def convert(
    source: str | os.PathLike | xr.Dataset,
    destination: str | os.PathLike,
    layout: str,
    *,
    resolution: int | tuple[int, ...] | None = None,
    split: str | None = None,
    dtype: str | None = None,
    phases: tuple[float, float] | None = None,
    without: Sequence[str] = (),
    overwrite: bool = False,
    told: Callable[[str], None] | None = None,
    budget: Budget | None = None,
) -> Path:
    """Writes the fields of a file or data set in another layout.

    Numbers and dtypes are kept bit for bit unless `dtype` is given. What a layout cannot hold is refused, or stored
    under an additional name that the layout's own readers ignore (``sciops_grid``). "neuralop" keeps an indicator as
    bool. Layouts other than native hold fields, positions, times and constants: seeds, residuals, stored splits and Li
    et al.'s smoothed coefficients are dropped.

    Parameters
    ----------
    source : str, path-like or xarray.Dataset
        A file of any known layout, or an opened data set.
    destination : str or path-like
        The file to write. It appears under its name only when complete; a symbolic link is followed and stays.
    layout : str
        A name in ``WRITERS``: "native" (HDF5, or Zarr v3 where the destination ends in .zarr), "neuralop", "li2020",
        "pdebench-1d", "the-well", "cno", "arrays", …; `sciops convert --help` lists all.
    resolution : int or tuple of int, optional
        The grid to take; default the finest, or for native to native all of them.
    split : str, optional
        "train", "validation" or "test": these samples only, for layouts that keep one file for each split.
    dtype : str, optional
        "float32" or "float64", to cast the fields; times, positions and constants keep their types.
    phases : (float, float), optional
        The low and the high value of a coefficient that is an indicator of two phases (`with_phases`).
    without : sequence of str
        Variables and constants to leave out, for layouts that cannot hold them; "time" for the times.
    overwrite : bool
        Whether an existing file, or native Zarr store, may be replaced.
    told : callable, optional
        Called with one line for each cast field, which says what the cast lost, and with what the layout's own readers
        do not accept; without it the latter is a warning.
    budget : Budget, optional
        What the source may take, as in `open_dataset`.

    Returns
    -------
    Path
        The destination.

    Raises
    ------
    ValueError
        For what the layout cannot hold (cells in a layout of nodes, an indicator where values are expected, walls that
        are not on the grid, a source other than 1, no sample), for a number beyond the range of `dtype`, and for a
        destination that is the source.
    FileExistsError
        When the destination exists, unless `overwrite`.
    OSError
        When the destination cannot be written; otherwise as in `open_dataset`.

    Notes
    -----
    Fields are copied in blocks of 64 MB, except to MATLAB v5, which is written from memory and holds at most 2 GB for
    each variable.
    """
    import xarray as xr

    from sciops.datasets.formats import open_dataset, opened_resolutions
    from sciops.datasets.formats.casting import Casting

    if layout not in WRITERS:
        raise ValueError(f"layout={layout!r}: expected one of {', '.join(WRITERS)}")
    casting = None if dtype is None else Casting(dtype)
    target = _place(source, destination, layout, overwrite)
    with contextlib.ExitStack() as opened:
        if isinstance(source, xr.Dataset):
            groups = [in_order(source)]
        elif layout == "native" and resolution is None:
            groups = opened.enter_context(opened_resolutions(source))
        else:
            groups = [opened.enter_context(open_dataset(source, resolution))]
        chosen = [_without(group, without, _name(source)) for group in groups] if without else groups
        chosen = chosen if phases is None else [with_phases(group, *phases) for group in chosen]
        chosen = chosen if split is None else [_part(group, split) for group in chosen]
        if not all(group.sizes.get("sample", 1) for group in chosen):
            raise ValueError(f"there is no {f'{split} ' if split else ''}sample to write in {_name(source)}")
        imaginary = [str(n) for group in chosen for n, v in group.data_vars.items() if v.dtype.kind == "c"]
        kept = f"layout {layout!r} holds" if casting is None else f"dtype={dtype!r} keeps"
        if imaginary and (layout != "arrays" or casting is not None):
            raise ValueError(
                f"{_name(source)} holds complex numbers in {imaginary[0]}, and {kept} real ones: "
                "describe it as two real fields, describe_arrays(path, {…: {…, 'real_imaginary': True}}, …)"
            )
        chosen = chosen if casting is None else [casting.apply(group) for group in chosen]
        with samples_of(None if isinstance(source, xr.Dataset) else source):
            WRITERS[layout](chosen, target)
        remarks = [line for line in map(_REMARKS.get(layout, lambda group: None), chosen) if line is not None]
    for line in casting.account() if casting is not None and told is not None else ():
        told(line)
    for line in remarks:
        told(line) if told is not None else warnings.warn(line, stacklevel=3)
    return Path(destination)


def _name(source: str | os.PathLike | xr.Dataset) -> str:
    """The path, or "the data set"."""
    return str(source) if isinstance(source, (str, os.PathLike)) else "the data set"


def _place(source: Any, destination: str | os.PathLike, layout: str, overwrite: bool) -> Path:
    """Where to write, links followed. Raises OSError or ValueError unless a file can and may be put there."""
    path = Path(destination)
    replaceable = layout == "native" and path.suffix == ".zarr" and is_store(path)
    companions = _COMPANIONS.get(layout, lambda path: ())(path)
    for there in (path, *companions):
        writable_file(destination if there == path else there, store=replaceable, probe=False)
        if there.exists() and not overwrite:
            raise FileExistsError(f"{there} is there already: remove it, or pass overwrite=True (--overwrite)")
    if isinstance(source, (str, os.PathLike)) and path.exists() and os.path.exists(source):
        if os.path.samefile(source, path):
            raise ValueError(f"{path} is the source itself, which would be lost: name another file to write")
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    writable_file(target, store=replaceable)
    remove_abandoned(target)
    return target


def _without(dataset: xr.Dataset, names: Sequence[str], source: str) -> xr.Dataset:
    constants, state = parameters_of(dataset), state_of(dataset)
    unknown = [name for name in names if name not in (*dataset.data_vars, *constants) and name != "time"]
    if unknown or ("time" in names and "time" not in dataset.coords):
        held = ", ".join(map(str, (*dataset.data_vars, *constants, *({"time"} & set(dataset.coords)))))
        raise ValueError(f"without={unknown[0] if unknown else 'time'!r}: {source} holds {held}")
    left = dataset.drop_vars([name for name in names if name in dataset.variables])
    kept = {"state": [name for name in state if name not in names]} if state else {}
    kept |= {"parameters": {n: v for n, v in constants.items() if n not in names}} if constants else {}
    return left.assign_attrs({key: json.dumps(value) for key, value in kept.items()})


def _part(dataset: xr.Dataset, split: str) -> xr.Dataset:
    samples = split_indices(dataset, split)
    if len(samples) and samples[-1] - samples[0] + 1 == len(samples):
        samples = slice(int(samples[0]), int(samples[-1]) + 1)  # read in runs, not one by one
    part = dataset.isel(sample=samples).copy()
    part.attrs = {key: value for key, value in dataset.attrs.items() if key != "splits"}
    return part
