"""Chunks of Zarr stores that state another length than theirs are not unpacked: zstd makes room for what it is told.

Imported where a store is read, since it needs zarr.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import zarr
from zarr.codecs import ShardingCodec, ZstdCodec
from zarr.core.array import AsyncArray

_MAGIC = b"\x28\xb5\x2f\xfd"


class MeasuredZstd(ZstdCodec):
    """zstd that unpacks to `length` bytes and nothing else."""

    length = 0

    @classmethod
    def like(cls, codec: ZstdCodec, length: int) -> MeasuredZstd:
        """The codec with its settings; `length` in bytes."""
        made = cls(level=codec.level, checksum=codec.checksum)
        object.__setattr__(made, "length", length)  # the class of zarr is frozen, and has no such field
        return made

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        stated = stated_length(chunk_bytes[:18].to_bytes())
        if stated != self.length:
            raise ValueError(f"a chunk that states {stated} bytes, {self.length} belong there")
        return await super()._decode_single(chunk_bytes, chunk_spec)


def stated_length(frame: bytes) -> int | None:
    """The bytes that a zstd frame says it unpacks to (RFC 8878, section 3.1.1.1), by its first 18; None without."""
    if frame[:4] != _MAGIC or len(frame) < 5:
        return None
    about = frame[4]
    alone = about >> 5 & 1
    start = 6 - alone + (0, 1, 2, 4)[about & 3]
    size = (alone, 2, 4, 8)[about >> 6]
    return int.from_bytes(frame[start : start + size], "little") + 256 * (size == 2) if size else None


def measured(array: Any) -> Any:
    """An opened ``zarr.Array`` whose chunks are measured before they are unpacked."""
    metadata = array.metadata
    codecs, chunk = metadata.codecs, metadata.chunk_grid.chunk_shape
    sharded = isinstance(codecs[0], ShardingCodec)
    inner, chunk = (codecs[0].codecs, codecs[0].chunk_shape) if sharded else (codecs, chunk)
    if not any(isinstance(codec, ZstdCodec) for codec in inner):  # the numbers as they are
        return array
    inner = _measured(inner, chunk, array.dtype.itemsize)
    codecs = (replace(codecs[0], codecs=inner), *codecs[1:]) if sharded else inner
    return zarr.Array(AsyncArray(replace(metadata, codecs=codecs), array.store_path))


def _measured(codecs: Iterable[Any], chunk: tuple[int, ...], itemsize: int) -> tuple[Any, ...]:
    length = math.prod(chunk) * itemsize
    return tuple(MeasuredZstd.like(codec, length) if isinstance(codec, ZstdCodec) else codec for codec in codecs)
