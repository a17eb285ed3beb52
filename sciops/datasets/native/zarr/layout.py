"""The Zarr v3 side of the native layout: what an array looks like, its shards as bytes.

Same groups, names and attributes as in HDF5. Every variable of the samples is cut along ``sample`` into shards (one
file each, ``c.3.0.0``), and each shard into chunks as HDF5 has them, each with a CRC-32C. Coordinates are one chunk.
"""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets.native.layout import chunks_of, plain_attribute, stored_form
from sciops.datasets.native.zarr.store import missing_zarr
from sciops.files.untrusted import parse_json


@dataclass(frozen=True)
class ZarrSpec:
    """One array of a store.

    dims, shape, dtype, attrs : what it is
    shard : samples per file; None for an array in one piece
    level : of zstd, or None
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    attrs: Mapping[str, Any]
    shard: int | None = None
    level: int | None = None

    def key(self, index: int) -> str:
        """The file, beside ``zarr.json``, of a shard; of the whole for an array in one piece."""
        return ".".join(["c", str(index), *("0" for _ in self.shape[1:])]) if self.shape else "c"


def json_attributes(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as Zarr keeps them: numbers, strings and lists of numbers; everything else is a JSON string."""
    plain = {key: plain_attribute(value) for key, value in attrs.items()}
    return {k: v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v for k, v in plain.items()}


def group_json(attrs: Mapping[str, Any], folder: Path) -> bytes:
    """The ``zarr.json`` of the group in `folder`, with copies of all below it, as ``zarr.consolidate_metadata`` makes
    them: xarray looks for these first, and a store far away is opened with one request."""
    below = {}
    for file in sorted(folder.rglob("zarr.json")):
        if file.parent != folder:
            about = parse_json(file.read_bytes())
            if about["node_type"] == "group":
                about["consolidated_metadata"] = _consolidated({})
            below[file.parent.relative_to(folder).as_posix()] = about
    about = {"zarr_format": 3, "node_type": "group", "attributes": json_attributes(attrs)}
    about["consolidated_metadata"] = _consolidated(below)
    return json.dumps(about, indent=1, ensure_ascii=False).encode()


def _consolidated(metadata: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "inline", "must_understand": False, "metadata": metadata}


def array_files(spec: ZarrSpec, values: np.ndarray | None = None, *, first: int = 0) -> dict[str, bytes]:
    """Name → bytes of the files of an array: ``zarr.json`` and, where values are given, the shard that holds them.

    first : number of the shard that `values` is; an array in one piece has shard 0
    """
    files = {name: data.to_bytes() for name, data in _in_memory(spec)[1].items()}
    if values is not None and values.size:
        files[spec.key(first)] = shard_bytes(spec, values)
    return files


def shard_bytes(spec: ZarrSpec, values: np.ndarray) -> bytes:
    """The bytes of one shard, or of an array in one piece, made from its numbers here: zarr takes ten times as long.

    A chunk is its numbers in C order, little-endian, packed by zstd where the array says so, and their CRC-32C. A shard
    of several is the chunks, then where each begins and how long it is (both 2⁶⁴ − 1 for those beyond the end of the
    array), and the CRC-32C of that (Zarr v3, codec sharding_indexed, index at the end).
    """
    crc32c, packed = _checksum(), _packing(spec.level)
    chunk, shard = _cuts(spec)
    values = np.asarray(values, dtype=spec.dtype)

    def sealed(data: Any) -> list[Any]:
        return [data, crc32c(data).to_bytes(4, "little")]

    def chunk_bytes(block: np.ndarray) -> list[Any]:
        if block.shape != chunk:
            block = np.pad(block, [(0, whole - n) for whole, n in zip(chunk, block.shape)])
        return sealed(packed(np.ascontiguousarray(block).reshape(-1).view(np.uint8)))

    if shard is None:
        return b"".join(chunk_bytes(values))
    index = np.full((*(n // c for n, c in zip(shard, chunk)), 2), 2**64 - 1, "<u8")
    pieces, at = [], 0
    for place in np.ndindex(*(-(-n // c) for n, c in zip(values.shape, chunk))):
        piece = chunk_bytes(values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(place, chunk))])
        length = sum(map(len, piece))
        index[place] = at, length
        pieces += piece
        at += length
    return b"".join([*pieces, *sealed(index.tobytes())])


def _checksum() -> Callable[[Any], int]:
    """CRC-32C from the package that this zarr has it from."""
    for module, name in (("google_crc32c", "value"), ("crc32c", "crc32c")):
        with contextlib.suppress(ImportError):
            import zarr  # noqa: F401

            return getattr(importlib.import_module(module), name)
    raise missing_zarr()


def _packing(level: int | None) -> Callable[[Any], Any]:
    if level is None:
        return lambda data: data
    from numcodecs.zstd import Zstd

    return Zstd(level=level).encode


def shard_values(spec: ZarrSpec, index: int, data: bytes) -> np.ndarray:
    """The numbers in the bytes of one shard. Raises what zarr raises for a damaged one."""
    from zarr.core.buffer import default_buffer_prototype

    array, held = _in_memory(spec)
    held[spec.key(index)] = default_buffer_prototype().buffer.from_bytes(data)
    values = array[index * spec.shard : min((index + 1) * spec.shard, spec.shape[0])]
    return values.astype(bool) if spec.attrs.get("dtype") == "bool" else values


def spec_of(
    dims: Sequence[str],
    shape: Sequence[int],
    dtype: np.dtype,
    attrs: Mapping[str, Any],
    *,
    shard: int | None = None,
    level: int | None = None,
) -> ZarrSpec:
    """How a variable is stored: in shards of so many samples when ``sample`` leads it, in one piece otherwise.

    Types as in HDF5 (`stored_form`).
    """
    dtype, attrs = stored_form("a variable", dtype, attrs)
    shard = shard if tuple(dims[:1]) == ("sample",) else None
    return ZarrSpec(tuple(dims), tuple(shape), dtype.newbyteorder("<"), attrs, shard, level)


def _cuts(spec: ZarrSpec) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Shapes of a chunk and of a shard; None where a file is one chunk."""
    shape = spec.shape
    if not shape:
        return (), None
    if spec.shard is None or len(shape) == 1:
        return (spec.shard or max(1, shape[0]), *(max(1, n) for n in shape[1:])), None
    chunks = tuple(max(1, n) for n in chunks_of(spec.dims, shape, spec.dtype.itemsize))
    return chunks, (spec.shard, *(max(1, -(-n // c)) * c for n, c in zip(shape[1:], chunks[1:])))


def _in_memory(spec: ZarrSpec) -> tuple[Any, dict[str, Any]]:
    try:
        import zarr
        from zarr.codecs import Crc32cCodec, ZstdCodec
        from zarr.storage import MemoryStore
    except ImportError:
        raise missing_zarr() from None
    held: dict[str, Any] = {}
    chunks, shards = _cuts(spec)
    packed = [] if spec.level is None else [ZstdCodec(level=spec.level)]
    array = zarr.create_array(
        MemoryStore(held),
        shape=spec.shape,
        dtype=spec.dtype,
        chunks=chunks,
        shards=shards,
        filters=None,
        compressors=[*packed, Crc32cCodec()],
        fill_value=0,
        chunk_key_encoding={"name": "default", "separator": "."},
        dimension_names=spec.dims,
        attributes=json_attributes(spec.attrs),
        zarr_format=3,
        config={"write_empty_chunks": True},  # a shard of zeros is a file like any other, so that none may be missing
    )
    return array, held
