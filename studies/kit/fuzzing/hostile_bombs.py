"""Small files that ask for a machine's memory or time: every container, and every way that was found into one."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sciops.grids import Grid

__all__ = ["BOMBS", "makers_in"]

_BLOCK = 1 << 24


def _inflating(blocks: int, before: bytes = b"") -> tuple[bytes, int]:
    """(a zlib stream of `before` and 16 MB of zeros `blocks` times, its length unpacked), made without packing them."""
    packer = zlib.compressobj(9)
    head = packer.compress(before) + packer.flush(zlib.Z_FULL_FLUSH)
    body = packer.compress(bytes(_BLOCK)) + packer.flush(zlib.Z_FULL_FLUSH)  # such blocks do not refer to others
    return head + body * blocks + packer.flush(), len(before) + blocks * _BLOCK


def _gzip_chunk(path: Path, mark: Path) -> None:
    """A chunk of an HDF5 array, neither the first nor the last, that unpacks to 1.6 GB."""
    import h5py

    with h5py.File(path, "w") as file:
        file["x-coordinate"] = file["y-coordinate"] = np.linspace(0, 1, 1024, dtype=np.float32)
        file.create_dataset("nu", (8, 1024, 1024), np.float32, chunks=(1, 1024, 1024), compression="gzip")
        file["nu"][:2] = np.random.default_rng(0).integers(0, 2, (2, 1024, 1024))
        chunked = {"chunks": (1, 1, 1024, 1024), "compression": "gzip"}
        tensor = file.create_dataset("tensor", (8, 1, 1024, 1024), np.float32, **chunked)
        tensor[0], tensor[7] = 1, 1
        tensor.id.write_direct_chunk((3, 0, 0, 0), _inflating(100)[0])


def _nested_groups(path: Path, mark: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        group = file
        for _ in range(3000):
            group = group.create_group("g")


def _six_members(path: Path, mark: Path) -> None:
    """Arrays of an archive, each of them less than what one may unpack to."""
    names, places = [f"{i}.npy".encode() for i in range(6)], []
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({15 * _BLOCK},), }}".ljust(117) + "\n"
    stream, size = _inflating(15, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
    stream = stream[2:-4]  # zip has neither the head nor the sum of zlib
    about = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(stream), size, 5, 0)
    with open(path, "wb") as file:
        for name in names:
            places.append(file.tell())
            file.write(b"PK\x03\x04" + about + name + stream)
        start = file.tell()
        for name, place in zip(names, places):
            file.write(b"PK\x01\x02" + struct.pack("<H", 20) + about + struct.pack("<HHHII", 0, 0, 0, 0, place) + name)
        end = struct.pack("<HHHHIIH", 0, 0, len(names), len(names), file.tell() - start, start, 0)
        file.write(b"PK\x05\x06" + end)


def _packed_variables(path: Path, mark: Path) -> None:
    """MATLAB v5: three packed variables of 500 MB."""
    with open(path, "wb") as file:
        file.write(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM")
        for i in range(3):
            size = 30 * _BLOCK
            shape = struct.pack("<IIII", 6, 8, 9, 0) + struct.pack("<IIii", 5, 8, 1, size)
            content = shape + struct.pack("<HH4s", 1, 1, b"abc"[i : i + 1]) + struct.pack("<II", 2, size)
            stream, length = _inflating(30, struct.pack("<II", 14, len(content) + size) + content)
            file.write(struct.pack("<II", 15, len(stream)) + stream)


def _many_dimensions(path: Path, mark: Path) -> None:
    """NetCDF-3: one variable along 20,000 axes of length one."""
    count = struct.pack(">I", 20_000)
    dims = b"".join(struct.pack(">I4sII", 4, b"%04x" % i, 1, 0)[:12] for i in range(20_000))
    numbers = b"".join(struct.pack(">I", i) for i in range(20_000))
    variable = struct.pack(">I4s", 1, b"u") + count + numbers + struct.pack(">IIIII", 0, 0, 4, 4, 0)
    head = b"CDF\x01" + bytes(4) + struct.pack(">I", 10) + count + dims + bytes(8)
    path.write_bytes(head + struct.pack(">II", 11, 1) + variable)


def _store(path: Path, chunk: tuple[int, ...], shape: tuple[int, ...], content: bytes, codecs: list[str]) -> None:
    """A native Zarr store of one field in one file."""
    attributes = {"sciops_schema": 1, "equation": "darcy", "grid": json.dumps(Grid((4, 4)).to_dict())}
    _described(path, {"node_type": "group", "attributes": attributes})
    _described(path / "r4", {"node_type": "group", "attributes": {"layout": "native"}})
    dims = ["sample", "x", "y"]
    about = {"node_type": "array", "data_type": "float32", "fill_value": 0, "attributes": {}, "shape": list(shape)}
    about |= {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}}, "dimension_names": dims}
    about |= {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}}
    settings = {"bytes": {"endian": "little"}, "zstd": {"level": 3, "checksum": False}}
    about["codecs"] = [{"name": name, "configuration": settings[name]} for name in codecs]
    _described(path / "r4" / "u", about)
    (path / "r4" / "u" / "c.0.0.0").write_bytes(content)


def _described(folder: Path, about: dict[str, object]) -> None:
    folder.mkdir()
    (folder / "zarr.json").write_text(json.dumps({"zarr_format": 3, **about}))


def _large_chunk(path: Path, mark: Path) -> None:
    """A Zarr chunk of 3 GB that holds an array of 64 bytes."""
    _store(path, (1, 28_000, 28_000), (1, 4, 4), np.random.default_rng(0).bytes(90_000), ["bytes", "zstd"])


def _zstd_frame(path: Path, mark: Path) -> None:
    """A Zarr chunk of 64 bytes whose zstd frame unpacks to 1.6 GB: blocks that repeat one byte."""
    blocks = 12_500
    block = struct.pack("<I", 1 << 1 | (1 << 17) << 3)[:3] + b"\0"
    frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", (blocks + 1) << 17) + block * blocks
    _store(path, (1, 4, 4), (1, 4, 4), frame + bytes([block[0] | 1]) + block[1:], ["bytes", "zstd"])


def _planted_link(path: Path, mark: Path) -> None:
    """A Zarr store whose numbers are the bytes of another file of this machine."""
    _store(path, (1, 4, 4), (1, 4, 4), bytes(64), ["bytes"])
    (path / "r4" / "u" / "c.0.0.0").unlink()
    (path / "r4" / "u" / "c.0.0.0").symlink_to("/etc/passwd")


def _torch(path: Path, pickle: bytes, *, compressed: bool = False) -> None:
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, content in (("data.pkl", pickle), ("byteorder", b"little"), ("version", b"3\n")):
            archive.writestr(f"a/{name}", content)


def _torch_deflated_pickle(path: Path, mark: Path) -> None:
    _torch(path, b"\x80\x02](" + b"]" * (1 << 26) + b"e.", compressed=True)


def _torch_empty_lists(path: Path, mark: Path) -> None:
    _torch(path, b"\x80\x02](" + b"]" * 6_000_000 + b"e.")


def _torch_tuples_as_key(path: Path, mark: Path) -> None:
    """Sixty tuples of twice the one before: their hash takes 2^60 steps."""
    body = b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(60))
    _torch(path, b"\x80\x02}(" + b")" + body + b"Nu.")


def _torch_shared_lists(path: Path, mark: Path) -> None:
    """Lists of nine times the one before: few bytes, 10^13 names."""
    lists = [b"](" + (b"h" + bytes([max(i - 1, 0)])) * 9 * (i > 0) + b"K\x01e" + b"q" + bytes([i]) for i in range(14)]
    _torch(path, b"\x80\x02](" + b"".join(lists) + b"e.")


def _torch_by_length(path: Path, mark: Path) -> None:
    """A tensor of two thousand million numbers, of which none is in the file."""
    _torch(path, b"\x80\x02ctorch\nFloatTensor\n(J\xff\xff\xff\x7ftR.")


def _nested_description(path: Path, mark: Path) -> None:
    np.save(path.with_suffix(".npy"), np.zeros((2, 4, 4)))
    path.with_suffix(".npy").rename(path)
    path.with_name(path.name + ".json").write_text('{"arrays": ' + "[" * 100_000 + "]" * 100_000 + "}")


def makers_in(names: Mapping[str, Any], *, besides: Collection[str]) -> dict[str, Callable[[Path, Path], None]]:
    """The functions of a module whose names begin with an underscore, by their names in words, but for some."""
    own = {name: make for name, make in names.items() if getattr(make, "__module__", "") == names["__name__"]}
    return {name[1:].replace("_", " "): make for name, make in own.items() if name[0] == "_" and name not in besides}


BOMBS = makers_in(globals(), besides=("_inflating", "_store", "_described", "_torch"))
"""name → function (path, mark) that writes one file or store."""
