"""A .npz archive that describes itself; the layout is said in `sciops.datasets.formats.described.description`."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops._untrusted import parse_json
from sciops._whole_files import replacing
from sciops.datasets.conventions import grid_of, parameters_of, state_of
from sciops.datasets.formats.containers.numpy_files import DESCRIPTION
from sciops.datasets.formats.described.description import DIMS
from sciops.datasets.formats.shared.hdf5_writing import sizes
from sciops.datasets.formats.shared.numpy_writing import write_npy

if TYPE_CHECKING:
    import xarray as xr

_SAID_ELSEWHERE = ("layout", "equation", "grid", "task", "state", "parameters", "boundary", "notes", "positions")


def write(groups: list[xr.Dataset], path: Path) -> None:
    """Every variable as an uncompressed array, and ``sciops.json`` with what they are."""
    (dataset,) = groups
    fields = {str(name): variable for name, variable in dataset.data_vars.items()}
    for name, field in fields.items():
        strange = [str(dim) for dim in field.dims if dim not in DIMS]
        if strange or field.dtype.kind not in "biufc" or "/" in name:
            raise ValueError(
                f"layout 'arrays' holds numbers over {', '.join(DIMS[:5])}; {name} is {field.dtype} over {field.dims}"
            )
    with replacing(path, size=sizes(fields)) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, field in fields.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                write_npy(file, [field])
        archive.writestr(DESCRIPTION, json.dumps(_description(dataset, fields)))


def _description(dataset: xr.Dataset, fields: dict[str, xr.DataArray]) -> dict[str, Any]:
    arrays = {}
    for name, field in fields.items():
        plain = {key: _plain(value) for key, value in field.attrs.items()}
        about = {key: value for key, value in plain.items() if isinstance(value, (str, int, float)) and key != "grid"}
        arrays[name] = {**about, "dims": [str(dim) for dim in field.dims]}
        if "grid" in field.attrs:
            arrays[name]["grid"] = grid_of(dataset, name).to_dict()
    content = {
        "arrays": arrays,
        "grid": grid_of(dataset, "").to_dict(),
        "equation": dataset.attrs.get("equation", "unknown"),
        "state": list(state_of(dataset)),
        "parameters": parameters_of(dataset),
        "boundary": parse_json(dataset.attrs.get("boundary", "{}")),
        "attrs": {
            key: _plain(value)
            for key, value in dataset.attrs.items()
            if key not in _SAID_ELSEWHERE and isinstance(_plain(value), (str, int, float))
        },
    }
    if "time" in dataset.coords:
        units = str(dataset["time"].attrs.get("units", "1"))
        content["times"] = {"values": [float(t) for t in dataset["time"].values], "units": units}
    return content


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and np.size(value) == 1 else value
