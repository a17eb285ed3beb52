"""The netCDF4 side of the native file: groups, dimensions, attributes and chunks as they are written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sciops.datasets.conventions import SPACE
from sciops.datasets.native.attributes import to_store
from sciops.grids import Grid

_CHUNK = 1 << 20
_NUMBERS = 1 << 15  # of positions or of samples in one chunk: few enough to be written part by part


def group_name(shape: int | Sequence[int]) -> str:
    """The name of a resolution's group: ``r85`` for 85×85, ``r64x96`` otherwise.

    >>> group_name((421, 421)), group_name((64, 96))
    ('r421', 'r64x96')
    """
    shape = (shape, shape) if isinstance(shape, (int, np.integer)) else tuple(shape)
    return f"r{shape[0]}" if len(shape) == 2 and shape[0] == shape[1] else "r" + "x".join(str(n) for n in shape)


def coordinates_of(grid: Grid) -> dict[str, tuple[str, np.ndarray, dict[str, Any]]]:
    """Coordinates as ``xarray.Dataset(coords=...)`` takes them: positions with `centering`, `extent` and `domain`."""
    return {
        name: (name, points, {"centering": grid.centering, "extent": np.array(extent), "domain": np.array(domain)})
        for name, points, extent, domain in zip(SPACE, grid.coordinates(), grid.extent, grid.domain)
    }


def create_group(
    file: Any,
    name: str,
    sizes: Mapping[str, int],
    variables: Mapping[str, tuple[tuple[str, ...], np.dtype, Mapping[str, Any]]],
    *,
    attrs: Mapping[str, Any],
    compression: int | None = None,
) -> Any:
    """A group of an open h5netcdf file with its dimensions and empty variables, to be filled by slices.

    variables : name → (dims, dtype, attributes). Fields with a leading sample axis are chunked by `chunks_of` and carry
        a checksum, as do positions, times and numbers of the samples, so that what is damaged fails to read instead of
        giving wrong numbers.
    compression : gzip level 1–9, or None
    """
    group = file.create_group(name)
    group.dimensions = dict(sizes)
    for key, (dims, dtype, attributes) in variables.items():
        dtype, attributes = stored_form(f"variable {key} of {name}", dtype, attributes)
        options: dict[str, Any] = {}
        shape = [sizes[dim] for dim in dims]
        if len(dims) == 1 and shape[0]:
            options = {"chunks": (min(shape[0], _NUMBERS),), "fletcher32": True}
        if len(dims) > 1 and dims[0] == "sample":
            options = {"chunks": chunks_of(dims, shape, dtype.itemsize), "fletcher32": True}
            if compression is not None:
                options |= {"compression": "gzip", "compression_opts": int(compression), "shuffle": True}
        variable = group.create_variable(key, tuple(dims), dtype, **options)
        set_attributes(variable, attributes)
    set_attributes(group, attrs)
    return group


def stored_form(what: str, dtype: Any, attrs: Mapping[str, Any]) -> tuple[np.dtype, dict[str, Any]]:
    """(type, attributes) with which a native file stores a variable, which messages call `what`.

    Booleans, which netCDF does not have, become int8 with an attribute that xarray reads back. Raises TypeError for
    anything but real numbers and booleans.
    """
    dtype, attrs = np.dtype(dtype), to_store(attrs)
    if dtype.kind == "b":
        return np.dtype(np.int8), {**attrs, "dtype": "bool"}
    if dtype.kind not in "iuf":
        raise TypeError(f"{what} has dtype {dtype}; a native file holds real numbers and booleans")
    return dtype, attrs


def chunks_of(dims: Sequence[str], shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """What is read at once of a field (sample, …): one sample; of a longer one than `_CHUNK` bytes, a few of its times.

    The axis after ``sample`` is split when it is none of x, y, z, into equal pieces of one entry at least, so that a
    window of a long trajectory costs what it holds.

    >>> chunks_of(("sample", "time", "x", "y"), (1000, 201, 128, 128), 4)
    (1, 16, 128, 128)
    """
    chunks = [1, *shape[1:]]
    if len(dims) > 1 and dims[1] not in SPACE and shape[1] > 0:
        most = max(1, _CHUNK // max(1, itemsize * math.prod(shape[2:])))
        chunks[1] = -(-shape[1] // -(-shape[1] // most))
    return tuple(chunks)


def stored_bytes(variables: Iterable[tuple[Sequence[str], tuple[int, ...], np.dtype]]) -> int:
    """An upper bound of the size of an uncompressed file with variables of these dimensions, shapes and types."""
    total = 1 << 20
    for dims, shape, dtype in variables:
        size = np.dtype(dtype).itemsize
        field = len(shape) > 1 and dims[0] == "sample"
        if (field or len(shape) == 1) and min(shape):
            chunk = chunks_of(dims, shape, size) if field else (min(shape[0], _NUMBERS),)
            count = math.prod(-(-n // c) for n, c in zip(shape, chunk))
            total += count * (math.prod(chunk) * size + 256)
        else:
            total += math.prod(shape) * size + 256
    return total


def set_attributes(target: Any, attrs: Mapping[str, Any]) -> None:
    """Writes strings and numbers as they are and everything else as JSON."""
    for key, value in attrs.items():
        target.attrs[key] = plain_attribute(value)


def plain_attribute(value: Any) -> Any:
    """A string, a number or an array of numbers; JSON for everything else."""
    if isinstance(value, bool):
        return np.int8(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, (int, float, np.number)) for v in value):
        return np.asarray(value)
    if not isinstance(value, (str, int, float, np.number, np.ndarray)):
        return json.dumps(value)
    return value
