"""Tokens as torch data sets for next-token training: windows of a long text, and sequences of different lengths."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from sciops.datasets.text.sequence_tasks import NOT_ASKED
from sciops.files.untrusted import check_regular, refusing
from sciops.grids import Grid

__all__ = ["TokenSequences", "TokenWindows", "open_tokens", "write_tokens"]

_MAGIC = b"\x93NUMPY"


class _Tokens(Dataset):
    """len, d[i], d.batch(indices) → {"x": (batch, n), "y": (batch, n)} int64, and d.grid, as `fit` expects them."""

    lazy = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} sequences of {self.length} tokens)"

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {key: value[0] for key, value in self.batch([index]).items()}

    @property
    def grid(self) -> Grid:
        """n points: tokens have no place, but batches of one shape."""
        return Grid((self.length,), centering="cell")


class TokenWindows(_Tokens):
    """Window i: x = w_s … w_{s+n−1} and y = w_{s+1} … w_{s+n}, s = i·stride: every token with the one that follows it.

    tokens : (count,) whole numbers, in memory or mapped from a file (`open_tokens`), which is read as it is needed
    length : n
    stride : from one window to the next; n where None, so that every token is asked for once

    A last window that would not be whole is left out. Raises ValueError for a text shorter than one window.
    """

    def __init__(self, tokens: Any, length: int, *, stride: int | None = None) -> None:
        tokens = tokens if isinstance(tokens, np.ndarray) else np.asarray(tokens)
        _check_whole("tokens", tokens, 1)
        stride = length if stride is None else stride
        if length < 1 or stride < 1:
            raise ValueError(f"length={length}, stride={stride}: expected at least 1")
        if len(tokens) <= length:
            raise ValueError(f"{len(tokens)} tokens: expected at least {length + 1}, a window and what follows it")
        self.tokens, self.length, self.stride = tokens, length, stride

    def __len__(self) -> int:
        return (len(self.tokens) - self.length - 1) // self.stride + 1

    def batch(self, indices: Any) -> dict[str, Tensor]:
        if isinstance(indices, slice):
            indices = np.arange(*indices.indices(len(self)))
        indices = np.asarray(indices, dtype=np.int64)
        if indices.size and not (-len(self) <= indices.min() and indices.max() < len(self)):
            raise IndexError(f"window {int(indices.max())} of {len(self)}")
        at = (indices % len(self))[:, None] * self.stride + np.arange(self.length + 1)
        found = torch.from_numpy(self.tokens[at].astype(np.int64))
        return {"x": found[:, :-1], "y": found[:, 1:]}


class TokenSequences(_Tokens):
    """Sequences with a target at every token, of different lengths: padded by 0, with targets −100, "not asked".

    tokens : a list of (n_i,) sequences, or (samples, n)
    targets : as tokens, −100 where nothing is asked; None: the token that follows, and nothing at the last one
        (x and y of sequence i are then w_1 … w_{n−1} and w_2 … w_n, at least two tokens)

    A causal model needs no mask for them: what it says before padding does not depend on it.
    """

    def __init__(self, tokens: Sequence[Any], targets: Sequence[Any] | None = None) -> None:
        rows = [np.asarray(row) for row in tokens]
        least = 1 if targets is not None else 2
        if not rows or min(map(len, rows)) < least:
            raise ValueError(f"tokens: expected at least one sequence, and {least} tokens or more in each")
        answers = [row[1:] for row in rows] if targets is None else [np.asarray(row) for row in targets]
        rows = [row[:-1] for row in rows] if targets is None else rows
        if [len(row) for row in rows] != [len(row) for row in answers]:
            raise ValueError("targets: expected as many as tokens in every sequence, -100 where nothing is asked")
        for name, part in (("tokens", rows), ("targets", answers)):
            for row in part:
                _check_whole(name, row, 1)
        self.lengths = np.array([len(row) for row in rows])
        self.length = int(self.lengths.max())
        self.x = torch.zeros(len(rows), self.length, dtype=torch.int64)
        self.y = torch.full((len(rows), self.length), NOT_ASKED)
        for i, (row, answer) in enumerate(zip(rows, answers)):
            self.x[i, : len(row)] = torch.from_numpy(row.astype(np.int64))
            self.y[i, : len(row)] = torch.from_numpy(answer.astype(np.int64))

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, indices: Any) -> dict[str, Tensor]:
        if not isinstance(indices, slice):
            indices = torch.as_tensor(np.asarray(indices), dtype=torch.int64)
        return {"x": self.x[indices], "y": self.y[indices]}


def write_tokens(path: str | os.PathLike, tokens: np.ndarray) -> Path:
    """Tokens as a .npy file, which appears only when whole; returns its path."""
    import io

    from sciops.files.json_files import write_atomically

    tokens = np.asarray(tokens)
    _check_whole("tokens", tokens, 1)
    content = io.BytesIO()
    np.save(content, tokens, allow_pickle=False)
    path = Path(path)
    return write_atomically(path if path.suffix == ".npy" else path.with_name(path.name + ".npy"), content.getvalue())


def open_tokens(path: str | os.PathLike) -> np.ndarray:
    """The tokens of a .npy file, mapped: what is used of it is read, when it is used, and nothing is made of the rest.

    Raises FileNotFoundError, and ValueError for a file that holds no tokens.
    """
    path = check_regular(path, missing=" does not exist: expected a file of write_tokens")
    with open(path, "rb") as file:
        begins = file.read(len(_MAGIC))
    if begins[:4] == b"PK\x03\x04":
        raise ValueError(f"{path} is an archive of arrays: expected a .npy file of tokens, as write_tokens makes it")
    if begins != _MAGIC:
        raise ValueError(f"{path} is not a .npy file of tokens: it begins with {begins.hex(' ') or 'nothing'}")
    with refusing(f"{path} is not a .npy file of tokens ({{error}})"):
        tokens = np.load(path, mmap_mode="r", allow_pickle=False)
    _check_whole(str(path), tokens, 1)
    return tokens


def _check_whole(name: str, values: np.ndarray, ndim: int) -> None:
    if values.ndim != ndim or values.dtype.kind not in "iu":
        raise ValueError(
            f"{name} of {values.dtype} and shape {values.shape}: expected whole numbers, one after another"
        )
