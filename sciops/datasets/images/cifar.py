"""CIFAR-10 and CIFAR-100 in their binary version; the python version is a pickle and is refused."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE
_LONGEST_NAMES = 1 << 16  # bytes


@dataclass(frozen=True)
class _Kind:
    """Label bytes before the pixels of a record (the last one is used), files of each part, the file of names."""

    labels: int
    classes: int
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str


_TEN = _Kind(1, 10, tuple(f"data_batch_{i}.bin" for i in range(1, 6)), ("test_batch.bin",), "batches.meta.txt")
_HUNDRED = _Kind(2, 100, ("train.bin",), ("test.bin",), "fine_label_names.txt")


def read_cifar(folder: str | os.PathLike) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{"train": (images, labels), "test": (images, labels)} of a folder of CIFAR-10 or CIFAR-100's binary version.

    A record is one label byte (CIFAR-100: coarse, fine; the fine one is taken) and 3·32·32 bytes, red, green, blue.

    images : (n, 3, 32, 32) uint8; labels : (n,) int64

    Raises FileNotFoundError for a missing file, and ValueError in one line for the pickled version, a size that is no
    whole number of records, and labels that are out of range.
    Source: https://www.cs.toronto.edu/~kriz/cifar.html
    """
    folder = Path(folder)
    kind = _kind_of(folder)
    return {part: _records(folder, getattr(kind, part), kind) for part in ("train", "test")}


def is_cifar(folder: Path) -> bool:
    """Whether files of either version lie in the folder."""
    return any((folder / name).is_file() for name in (*_TEN.train, *_HUNDRED.train, "data_batch_1", "train", "test"))


def class_names(folder: Path) -> tuple[str, ...]:
    """Names of the classes, from the text file beside the records; numbers where it is not there or does not fit."""
    kind = _kind_of(folder)
    path = folder / kind.names
    content = b""
    if path.is_file():
        with open(path, "rb") as file:
            content = file.read(_LONGEST_NAMES)
    lines = content.decode(errors="replace").split("\n")
    names = tuple(line.strip() for line in lines if line.strip())
    return names if len(names) == kind.classes else tuple(str(i) for i in range(kind.classes))


def _kind_of(folder: Path) -> _Kind:
    for kind in (_TEN, _HUNDRED):
        if (folder / kind.train[0]).is_file():
            return kind
    if any((folder / name).is_file() for name in ("data_batch_1", "train")):
        raise ValueError(
            f"{folder} holds CIFAR's python version, which is a pickle; get the binary version (*-binary.tar.gz)"
        )
    raise FileNotFoundError(f"{folder}: no data_batch_1.bin (CIFAR-10) and no train.bin (CIFAR-100) here")


def _records(folder: Path, names: tuple[str, ...], kind: _Kind) -> tuple[np.ndarray, np.ndarray]:
    length = kind.labels + _PIXELS
    parts = []
    for name in names:
        path = folder / name
        if not path.is_file():
            raise FileNotFoundError(f"{path}: missing; expected {', '.join((*kind.train, *kind.test))} in one folder")
        size = path.stat().st_size
        if size == 0 or size % length:
            raise ValueError(
                f"{path} has {size} bytes: expected a multiple of {length}, one record; get the file again"
            )
        records = np.fromfile(path, np.uint8).reshape(-1, length)
        wrong = np.flatnonzero(records[:, kind.labels - 1] >= kind.classes)
        if wrong.size:
            label = records[wrong[0], kind.labels - 1]
            raise ValueError(f"{path}: record {wrong[0]} has label {label}, expected 0 … {kind.classes - 1}")
        parts.append(records)
    records = np.concatenate(parts)
    images = np.ascontiguousarray(records[:, kind.labels :]).reshape(-1, 3, _SIDE, _SIDE)
    return images, records[:, kind.labels - 1].astype(np.int64)
