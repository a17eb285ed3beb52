"""`sciops info --json`: what a file is and holds as plain values, for other programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import SPLITS, grid_of, parameters_of, state_of
from sciops.files.budget import Budget, within_budget
from sciops.files.messages import plain_errors
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import bytes_on_disk, is_store

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["inventory"]


@within_budget
@plain_errors()
def inventory(path: str | os.PathLike, *, hashed: bool = False, budget: Budget | None = None) -> dict[str, Any]:
    """What a file is and holds, as dictionaries, lists, strings and numbers; no field is read.

    hashed : also ``sha256``, the file's `content_hash`, for which all of it is read
    budget : what each file may take, as in `open_dataset`

    returns : ``path``, ``bytes``, ``layout``, ``equation``, ``task`` ("steady" or "trajectory"), ``state``,
        ``parameters``, ``boundary``, ``samples``, ``splits`` (name → how many; empty where none is stored), ``times``
        (``count``, ``first``, ``last``, ``units``; None where there are none or the file does not say them),
        ``notes``, and ``grids``, finest first: each with ``shape``, ``centering``, ``extent`` and ``domain``, or all
        None where the file's positions make no grid, and ``variables``, name → ``dims``, ``shape``, ``dtype``,
        ``units``. Of a folder ``path`` and ``files``: one of these each, or ``path`` and ``error`` of a file that
        cannot be opened or is of an unknown layout

    Raises what `open_dataset` raises, and ValueError for a folder without a file.
    """
    path = Path(path)
    return _of_folder(path, hashed) if path.is_dir() and not is_store(path) else _of_file(path, hashed)


def _of_file(path: Path, hashed: bool) -> dict[str, Any]:
    from sciops.datasets.formats import opened_resolutions
    from sciops.datasets.native import content_hash

    with opened_resolutions(path) as datasets:
        found = {"path": str(path), "bytes": bytes_on_disk(path)}
        found |= {"sha256": content_hash(path)} if hashed else {}
        return found | _facts(datasets[0]) | {"grids": [_grid(dataset) for dataset in datasets]}


def _of_folder(folder: Path, hashed: bool) -> dict[str, Any]:
    from sciops.datasets.fields.split_sources import files_of

    paths = files_of(folder)
    if not paths:
        raise ValueError(f"{folder} holds no file: name a file, or a folder of data files")
    files = []
    for path in paths:
        try:
            files.append(_of_file(path, hashed))
        except (OSError, ValueError, ImportError) as error:
            files.append({"path": str(path), "error": str(error)})
    return {"path": str(folder), "files": files}


def _facts(dataset: xr.Dataset) -> dict[str, Any]:
    attrs = dataset.attrs
    split = np.asarray(dataset["split"].values) if "split" in dataset else np.empty(0)
    counts = {name: int((split == code).sum()) for code, name in enumerate(SPLITS)}
    times = None
    if "time" in dataset.coords and dataset.sizes["time"]:
        points = dataset["time"]
        first, last = (float(points.values[end]) for end in (0, -1))
        units = str(points.attrs.get("units", "1"))
        times = {"count": points.size, "first": _finite(first), "last": _finite(last), "units": units}
    return {
        "layout": str(attrs["layout"]),
        "equation": str(attrs["equation"]),
        "task": str(attrs.get("task", "trajectory" if state_of(dataset) else "steady")),
        "state": list(state_of(dataset)),
        "parameters": {name: _finite(value) for name, value in parameters_of(dataset).items()},
        "boundary": parse_json(attrs.get("boundary", "{}")),
        "samples": int(dataset.sizes.get("sample", 0)),
        "splits": {name: count for name, count in counts.items() if count},
        "times": times,
        "notes": parse_json(attrs.get("notes", "[]")),
    }


def _grid(dataset: xr.Dataset) -> dict[str, Any]:
    none = dict.fromkeys(("shape", "centering", "extent", "domain"))
    placed = none if "no_grid" in dataset.attrs else none | grid_of(dataset, "").to_dict()
    variables = {
        str(name): {
            "dims": list(map(str, variable.dims)),
            "shape": list(variable.shape),
            "dtype": str(variable.dtype),
            "units": str(variable.attrs.get("units", "1")),
        }
        for name, variable in dataset.data_vars.items()
    }
    return {**placed, "variables": variables}


def _finite(value: float) -> float | None:
    """JSON has no infinities."""
    return value if np.isfinite(value) else None
