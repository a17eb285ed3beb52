"""Files made to hurt whoever loads a model, a checkpoint, a corpus, a tokenizer, an image or a recording."""

from __future__ import annotations

import gzip
import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from studies.fuzz_loaders.files import KINDS, makers
from studies.kit.fuzzing.hostile_files import Payload

__all__ = ["HOSTILE"]

_Maker = Callable[[Path, Path], None]


def _of(kind: str, content: Callable[[Path], bytes]) -> _Maker:
    """A file of the kind, beside a note of it."""

    def make(path: Path, mark: Path) -> None:
        (path.parent / "kind").write_text(kind)
        path.write_bytes(content(mark))

    return make


def _png(wide: int, high: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", wide, high, 8, 0, 0, 0, 0)
    packed = zlib.compress(bytes(high * (1 + wide) if high * wide < 1 << 27 else 1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def _tiff() -> bytes:
    """Entries that all name the same bytes."""
    count, body = 65_000, bytes(20_000)
    at = 8 + 2 + 12 * count + 4
    entries = b"".join(struct.pack("<HHII", 300 + i, 1, len(body), at) for i in range(count))
    return b"II*\0" + struct.pack("<IH", 8, count) + entries + bytes(4) + body


def _idx(sizes: tuple[int, ...]) -> bytes:
    return b"\0\0\x08" + bytes([len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes)


def _flac(samples: int) -> bytes:
    packed = (8000 << 44) | 7 << 41 | 15 << 36 | samples
    info = struct.pack(">HH", 4096, 4096) + bytes(6) + packed.to_bytes(8, "big") + bytes(16)
    return b"fLaC\x80" + len(info).to_bytes(3, "big") + info


def _tensors(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


def _many_tensors(key: str, count: int) -> bytes:
    one = '"%d":{"dtype":"U8","shape":[0],"' + key + '":[0,0]}'
    return _tensors(("{" + ",".join(one % i for i in range(count)) + "}").encode())


def _npy(value: object) -> bytes:
    import io

    held = io.BytesIO()
    np.save(held, np.array([value], dtype=object), allow_pickle=True)
    return held.getvalue()


def _described(kind: str, **changes: object) -> _Maker:
    """A model, or the best of a run, whose description asks for another one; its digest is right."""

    def make(path: Path, mark: Path) -> None:
        from safetensors import safe_open

        from sciops.training import save_checkpoint

        (path.parent / "kind").write_text("run")
        main = makers()["run"](path.parent)
        with safe_open(str(main), framework="pt") as file:
            state = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        state["model"] = {"name": kind, "options": {**state["model"]["options"], **changes}}
        save_checkpoint(main, tensors, state)

    return make


def _pipe(kind: str) -> _Maker:
    def make(path: Path, mark: Path) -> None:
        (path.parent / "kind").write_text(kind)
        os.mkfifo(path)

    return make


HOSTILE: dict[str, _Maker] = {
    "a narrow png": _of("image", lambda mark: _png(1, 3_000_000)),
    "a large png": _of("image", lambda mark: _png(30_000, 30_000)),
    "an absurd png": _of("image", lambda mark: _png(2**31 - 1, 2**31 - 1)),
    "a tiff of one place": _of("image", lambda mark: _tiff()),
    "a large idx": _of("idx", lambda mark: _idx((2**31, 2**31))),
    "an empty idx": _of("idx", lambda mark: _idx((0, 2**32 - 1, 2**32 - 1, 2**32 - 1))),
    "packed idx": _of("idx", lambda mark: gzip.compress(_idx((3000, 1000, 1000)) + bytes(1 << 26))),
    "a large flac": _of("flac", lambda mark: _flac(2**36 - 1)),
    "a wav of chunks": _of("wav", lambda mark: b"RIFF\xff\xff\xff\x7fWAVE" + b"junk\0\0\0\0" * 200_000),
    "many tensors": _of("checkpoint", lambda mark: _many_tensors("data_offsets", 110_000)),
    "escaped tensors": _of("checkpoint", lambda mark: _many_tensors("data\\u005foffsets", 300_000)),
    "deep header": _of("corpus", lambda mark: _tensors(b'{"a":' + b"[" * 100_000)),
    "a long header": _of("checkpoint", lambda mark: (1 << 62).to_bytes(8, "little") + b"{}"),
    "many tokens": _of(
        "byte", lambda mark: json.dumps({"model": {"vocab": {str(i): i for i in range(110_000)}}}).encode()
    ),
    "many lists": _of("byte", lambda mark: b"[" + b"[]," * 5_000_000 + b"0]"),
    "deep json": _of("byte", lambda mark: b"[" * 100_000),
    "pickled tokens": _of("tokens", lambda mark: _npy(Payload(str(mark)))),
    "absurd tokens": _of("tokens", lambda mark: b"\x93NUMPY\x01\x00v\0{'descr':'<i8','fortran_order':False,'shape':("),
    "36 GB": _described("fno", width=20_000),
    "a million layers": _described("fno", depth=10**6),
    "another library's layers": _described("neuralop:FNO", depth=10**6),
    "many nested wrappers": _described("normalized", model={"name": "normalized", "options": {}}),
    **{f"a pipe, {kind}": _pipe(kind) for kind in KINDS if kind not in ("cifar", "model", "run")},
}
"""name → function (path, mark) that writes one file and what belongs beside it; code that ran would leave `mark`."""
