"""Files made to hurt whoever opens them."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from studies.kit.fuzzing.hostile_bombs import BOMBS, makers_in

__all__ = ["HOSTILE", "Payload"]


class Payload:
    """An object whose unpickling makes the folder `mark`: whoever finds that folder knows that code has run."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (self.mark,)


def _hdf5(path: Path):
    import h5py

    return h5py.File(path, "w")


def _cyclic_links(path: Path, mark: Path) -> None:
    with _hdf5(path) as file:
        group = file.create_group("r16")
        group["again"] = file["/"]
        group["itself"] = group
        file.attrs["sciops_schema"] = "1"


def _soft_links(path: Path, mark: Path) -> None:
    import h5py

    with _hdf5(path) as file:
        file["tensor"], file["nu"] = h5py.SoftLink("/nu"), h5py.SoftLink("/tensor")
        file["solution"] = h5py.SoftLink("/nowhere")
        file["coeff"] = h5py.ExternalLink("/etc/hostname", "/")
        file["sol"] = h5py.ExternalLink(str(path), "/sol")


def _link_to_a_pipe(path: Path, mark: Path) -> None:
    """A link out of the file to a named pipe: whoever follows it waits for a writer."""
    import h5py

    os.mkfifo(f"{path}.pipe")
    with _hdf5(path) as file:
        file.create_dataset("tensor", data=np.zeros((2, 1, 4, 8), np.float32))
        file["nu"] = h5py.ExternalLink(f"{path}.pipe", "/nu")


def _virtual_pipe(path: Path, mark: Path) -> None:
    """A virtual array whose numbers are those of a named pipe."""
    import h5py

    os.mkfifo(f"{path}.pipe")
    layout = h5py.VirtualLayout((2, 4, 8), np.float32)
    layout[:] = h5py.VirtualSource(f"{path}.pipe", "nu", (2, 4, 8))
    with _hdf5(path) as file:
        file.create_dataset("tensor", data=np.zeros((2, 1, 4, 8), np.float32))
        file.create_virtual_dataset("nu", layout)


def _endless_heap(path: Path, mark: Path) -> None:
    """A heap of texts whose free space has no length: HDF5 walks on from it by nothing, for ever."""
    with _hdf5(path) as file:
        file.create_dataset("tensor", data=np.zeros((2, 1, 4, 8), np.float32))
        file.attrs["beta"] = "text"
    content = bytearray(path.read_bytes())
    heap = content.index(b"GCOL")
    length = int.from_bytes(content[heap + 8 : heap + 16], "little")
    content[heap + 16 : heap + length] = bytes(length - 16)
    path.write_bytes(content)


def _external_storage(path: Path, mark: Path) -> None:
    """A Darcy file whose numbers are the bytes of another file of this machine."""
    with _hdf5(path) as file:
        bytes_of = [("/etc/passwd", 0, 8 * 4 * 4)]
        file.create_dataset("tensor", (1, 1, 4, 8), np.float32, external=bytes_of)
        file.create_dataset("nu", (1, 4, 8), np.float32, external=bytes_of)


def _absurd_shapes(path: Path, mark: Path) -> None:
    with _hdf5(path) as file:
        file.create_dataset("tensor", (2**40, 1, 128, 128), np.float32, chunks=(1, 1, 128, 128))
        file.create_dataset("nu", (2**40, 128, 128), np.float32, chunks=(1, 128, 128))


def _absurd_native(path: Path, mark: Path) -> None:
    with _hdf5(path) as file:
        file.attrs["sciops_schema"] = "1"
        group = file.create_group("r999999999")
        for name in ("x", "y"):
            group.create_dataset(name, (2**36,), np.float64, chunks=(1024,))
        group.create_dataset("u", (2**36, 2**36), np.float64, chunks=(1, 1024))


def _many_groups(path: Path, mark: Path) -> None:
    with _hdf5(path) as file:
        group = file
        for _ in range(400):
            group = group.create_group("g")
        for i in range(3000):
            file.create_group(f"{i:04d}")


def _strange_types(path: Path, mark: Path) -> None:
    import h5py

    with _hdf5(path) as file:
        file.create_dataset("tensor", (2, 1, 3, 3), h5py.string_dtype())
        file.create_dataset("nu", (2, 3, 3), np.dtype([("re", "f4"), ("im", "f4")]))
        file.create_dataset("solution", data=h5py.Empty("f4"))
        file.create_dataset("sol", (2, 2), h5py.ref_dtype)
        file.attrs["grid_type"] = np.void(b"\x00" * 16)
        file.attrs["config"] = h5py.Empty("f4")


def _pickled_torch(path: Path, mark: Path) -> None:
    import torch

    torch.save({"x": torch.zeros(2, 4, 4), "y": Payload(str(mark))}, path)


def _pickled_torch_old(path: Path, mark: Path) -> None:
    import torch

    torch.save({"x": torch.zeros(2, 4, 4), "y": Payload(str(mark))}, path, _use_new_zipfile_serialization=False)


def _pickled_npy(path: Path, mark: Path) -> None:
    with open(path, "wb") as file:
        np.save(file, np.array([Payload(str(mark))], dtype=object), allow_pickle=True)


def _pickled_npz(path: Path, mark: Path) -> None:
    with open(path, "wb") as file:
        np.savez(file, a=np.array([Payload(str(mark))], dtype=object), u=np.zeros((2, 4, 4)))


def _bare_pickle(path: Path, mark: Path) -> None:
    path.write_bytes(pickle.dumps(Payload(str(mark))))


def _npy_of(shape: tuple[int, ...], descr: str = "<f8", body: bytes = b"") -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body


def _absurd_npy(path: Path, mark: Path) -> None:
    path.write_bytes(_npy_of((2**40, 2**20), body=bytes(64)))


def _zip_bomb(path: Path, mark: Path) -> None:
    """Small on the disk, a gigabyte unpacked."""
    block = bytes(1 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a.npy", "u.npy"):
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(_npy_of((2**26,)))
                for _ in range(1 << 9):
                    member.write(block)


def _zip_that_lies(path: Path, mark: Path) -> None:
    """The directory states a few bytes, the stream holds many more."""
    inside = io.BytesIO()
    with zipfile.ZipFile(inside, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", _npy_of((2**24,), body=bytes(2**27)))
    data = inside.getvalue().replace(struct.pack("<I", 128 + 2**27), struct.pack("<I", 200))
    path.write_bytes(data)


def _many_members(path: Path, mark: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(20_000):
            archive.writestr(f"{i}.npy", b"")


def _zip_outside(path: Path, mark: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../../outside.npy", _npy_of((4,), body=bytes(32)))
        archive.writestr("/etc/outside.npy", _npy_of((4,), body=bytes(32)))


def _mat_without_end(path: Path, mark: Path) -> None:
    """A variable of MATLAB v5 that claims four gigabytes, and one of no length at all."""
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    path.write_bytes(head + struct.pack("<II", 14, 2**32 - 8) + struct.pack("<II", 14, 0) * 64)


def _mat_nested(path: Path, mark: Path) -> None:
    """Compressed MATLAB data that unpack to zeros without end."""
    import zlib

    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    packed = zlib.compress(struct.pack("<II", 14, 2**31 - 8) + bytes(1 << 28))
    path.write_bytes(head + struct.pack("<II", 15, len(packed)) + packed)


def _deep_json(path: Path, mark: Path) -> None:
    path.write_text("[" * 100_000)


def _symlink_loop(path: Path, mark: Path) -> None:
    path.symlink_to(path.name)


def _pipe(path: Path, mark: Path) -> None:
    """A named pipe: whoever opens it for reading waits for a writer."""
    os.mkfifo(path)


HOSTILE = makers_in(globals(), besides=("_hdf5", "_npy_of")) | BOMBS
"""name → function (path, mark) that writes one file; code that ran would leave the folder `mark`."""
