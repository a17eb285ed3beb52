"""Windows and sequences of tokens: every token asked once, what follows it, nothing where nothing is asked."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from sciops.datasets import TokenSequences, TokenWindows, open_tokens, write_tokens
from sciops.datasets.text.sequence_tasks import copy


@pytest.mark.parametrize(("count", "length", "stride"), [(100, 7, None), (99, 7, 7), (50, 8, 3), (9, 8, 1), (10, 1, 2)])
def test_windows_are_slices_of_the_text(count, length, stride):
    text = np.random.default_rng(0).integers(0, 200, count).astype(np.uint8)
    data = TokenWindows(text, length, stride=stride)
    step = stride or length
    starts = [s for s in range(0, count, step) if s + length + 1 <= count]
    assert len(data) == len(starts)
    every = data.batch(slice(None))
    for i, s in enumerate(starts):
        assert every["x"][i].tolist() == text[s : s + length].tolist()
        assert every["y"][i].tolist() == text[s + 1 : s + length + 1].tolist()
    assert torch.equal(data[-1]["x"], every["x"][-1]) and every["x"].dtype == torch.int64
    assert torch.equal(data.batch(np.array([len(data) - 1, 0]))["y"], every["y"][[-1, 0]])
    with pytest.raises(IndexError):
        data.batch([len(data)])


def test_a_mapped_file_gives_the_same_windows(tmp_path):
    text = np.arange(1000, dtype=np.uint16)
    path = write_tokens(tmp_path / "text", text)
    mapped = open_tokens(path)
    assert isinstance(mapped, np.memmap) and path.name == "text.npy"
    a, b = TokenWindows(mapped, 13, stride=5), TokenWindows(text, 13, stride=5)
    assert isinstance(a.tokens, np.memmap), "it is not read into memory"
    assert len(a) == len(b) and torch.equal(a.batch(slice(None))["y"], b.batch(slice(None))["y"])


def test_files_that_hold_no_tokens_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    np.save(tmp_path / "b.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "c.npy").write_bytes(b"text")
    for name in "abc":
        with pytest.raises(ValueError, match=f"{name}.npy"):
            open_tokens(tmp_path / f"{name}.npy")
    np.savez(tmp_path / "f.npz", np.arange(3))
    with pytest.raises(ValueError, match="f.npz is an archive of arrays: expected a .npy file"):
        open_tokens(tmp_path / "f.npz")
    with pytest.raises(FileNotFoundError, match="d.npy does not exist"):
        open_tokens(tmp_path / "d.npy")
    with pytest.raises(ValueError, match="expected whole numbers"):
        write_tokens(tmp_path / "e", np.zeros((2, 2), int))


def test_sequences_of_different_lengths():
    rows = [[5, 6, 7], [8, 9], [1, 2, 3, 4]]
    data = TokenSequences(rows)
    both = data.batch(slice(None))
    assert both["x"].tolist() == [[5, 6, 0], [8, 0, 0], [1, 2, 3]]
    assert both["y"].tolist() == [[6, 7, -100], [9, -100, -100], [2, 3, 4]]
    assert data.lengths.tolist() == [2, 1, 3]
    asked = TokenSequences(rows, [[-100, 1, -100], [0, 0], [-100] * 4])
    assert asked.batch([1, 0])["y"].tolist() == [[0, 0, -100, -100], [-100, 1, -100, -100]]
    task = copy(4, length=3, alphabet=5, seed=0)
    same = TokenSequences(task.tokens, task.targets)
    assert torch.equal(same.x, torch.from_numpy(task.tokens)) and torch.equal(same.y, torch.from_numpy(task.targets))


def test_errors_say_what_was_expected():
    for make, message in (
        (lambda: TokenWindows(np.arange(8), 8), "8 tokens: expected at least 9"),
        (lambda: TokenWindows(np.arange(8), 0), "length=0"),
        (lambda: TokenWindows(np.zeros(8), 2), "expected whole numbers"),
        (lambda: TokenSequences([[1]]), "2 tokens or more"),
        (lambda: TokenSequences([]), "at least one sequence"),
        (lambda: TokenSequences([[1, 2]], [[1]]), "expected as many as tokens"),
        (lambda: TokenSequences([[1.5, 2.0]]), "expected whole numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_headers_of_others_are_one_line_and_nothing_is_opened_that_is_not_a_file(tmp_path):
    path = tmp_path / "a.npy"

    def of(shape, descr="'<i8'", body=bytes(64)):
        header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body)

    for absurd in ((2**40,), (2**62,), (2**63, 2**63), (-1,), (0, 2**63), (1,) * 60, (8.0,), "x" * 9):
        of(absurd)
        with pytest.raises(ValueError, match="a.npy") as caught:
            open_tokens(path)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    for descr in ("'|O'", "[('a', '<i8')]", "'<i8,<i8'", "[" * 300 + "]" * 300, "'nothing'"):
        of((8,), descr)
        with pytest.raises(ValueError, match="a.npy") as caught:
            open_tokens(path)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(ValueError, match="pipe.npy is not a regular file"):
        open_tokens(tmp_path / "pipe.npy")
