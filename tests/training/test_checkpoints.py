"""One file, whole or absent, that gives back every bit and holds no pickle."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest
import safetensors.torch
import torch

from sciops.files.whole_files import hidden
from sciops.training import load_checkpoint, load_model_tensors, save_checkpoint
from sciops.training.checkpoints import _checksum, load_optimizer_tensors, model_tensors, optimizer_tensors


def tensors() -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    base = torch.randn(4, 6, generator=random)
    return {
        "model/a": base,
        "model/transposed": base.T,  # a view: shares memory and is not contiguous
        "model/complex": torch.randn(3, dtype=torch.complex64, generator=random),
        "model/complex double": torch.randn(2, 3, dtype=torch.complex128, generator=random).T,
        "model/conjugate": torch.randn(2, dtype=torch.complex64, generator=random).conj(),
        "model/complex number": torch.tensor(1 - 2j, dtype=torch.complex128),
        "model/double": torch.randn(2, 2, dtype=torch.float64, generator=random),
        "model/bf16": base.bfloat16(),
        "model/count": torch.tensor(7),
        "model/empty": torch.empty(0, 3),
    }


def test_a_checkpoint_gives_back_every_bit(tmp_path):
    state = {"epochs": 3, "loss": 0.1 + 0.2, "history": [{"epoch": 1}], "none": None}
    path = save_checkpoint(tmp_path / "last.safetensors", tensors(), state)
    back, read = load_checkpoint(path)
    assert read == state
    assert set(back) == set(tensors())
    for name, value in tensors().items():
        assert back[name].dtype == value.dtype and torch.equal(back[name], value), name


def test_a_file_from_before_with_complex_tensors_as_such_is_read(tmp_path):
    from safetensors.torch import save_file

    old = {"model/a": torch.randn(3, dtype=torch.complex64), "model/b": torch.ones(2, 2)}
    header = {"format": "sciops.checkpoint.1", "checksum": str(_checksum(old)), "state": json.dumps({"epochs": 3})}
    save_file(old, tmp_path / "last.safetensors", metadata=header)
    back, state = load_checkpoint(tmp_path / "last.safetensors")
    assert state == {"epochs": 3} and all(torch.equal(back[name], old[name]) for name in old)


def test_any_bit_may_flip_and_none_gives_other_content(tmp_path):
    state = {"epochs": 3, "steps": 12, "best": 0.25, "history": [{"epoch": 1, "loss": 0.5}], "config": {"rate": 1e-3}}
    path = save_checkpoint(tmp_path / "last.safetensors", tensors(), state)
    content, (wanted, _), random = path.read_bytes(), load_checkpoint(path), numpy.random.default_rng(0)
    text, refused = content.index(b"epochs") - 4, 0
    places = [*random.integers(len(content), size=150), *range(text, text + 100), *range(8)]
    for at in places:
        flipped = bytearray(content)
        flipped[at] ^= 1 << int(random.integers(8))
        path.write_bytes(flipped)
        try:
            found, read = load_checkpoint(path)
        except ValueError as error:
            assert "\n" not in str(error) and str(path) in str(error)
            refused += 1
        else:
            assert read == state and found.keys() == wanted.keys()
            assert all(found[k].dtype == wanted[k].dtype and torch.equal(found[k], wanted[k]) for k in wanted)
    assert refused > len(places) - 20


@pytest.mark.parametrize("edit", [("epochs", 2), ("steps", 7), ("best", 0.1)])
def test_an_edited_state_is_refused(tmp_path, edit):
    from safetensors.torch import load_file, save_file

    path = save_checkpoint(tmp_path / "last.safetensors", {"a": torch.zeros(2)}, {"epochs": 3, "steps": 9, "best": 0.2})
    with safetensors.safe_open(path, "pt") as file:
        header = file.metadata()
    header["state"] = json.dumps(json.loads(header["state"]) | dict([edit]))
    save_file(load_file(path), path, header)
    with pytest.raises(ValueError, match="is damaged: it changed since it was written; delete it to start anew"):
        load_checkpoint(path)
    save_file(load_file(path), path, header | {"format": "sciops.checkpoint.1"})  # nor as a file from before
    with pytest.raises(ValueError, match="is damaged"):
        load_checkpoint(path)
    save_file(load_file(path), path, header | {"format": "sciops.checkpoint.7"})
    with pytest.raises(ValueError, match=r"its format is sciops\.checkpoint\.7, expected sciops\.checkpoint\.2"):
        load_checkpoint(path)


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_who_may_read_it_is_what_the_umask_says(tmp_path, mask):
    before = os.umask(mask)
    try:
        path = save_checkpoint(tmp_path / "last.safetensors", {"a": torch.zeros(2)}, {})
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_no_byte_of_it_is_a_pickle_or_an_archive(tmp_path):
    path = save_checkpoint(tmp_path / "last.safetensors", tensors(), {})
    assert not zipfile.is_zipfile(path)
    with pytest.raises((pickle.UnpicklingError, ValueError, EOFError, KeyError, IndexError, AttributeError)):
        pickle.loads(path.read_bytes())


@pytest.mark.parametrize("damage", ["cut", "header", "flipped", "empty", "text"])
def test_a_damaged_file_is_one_line_that_names_it(tmp_path, damage):
    path = save_checkpoint(tmp_path / "last.safetensors", tensors(), {"epochs": 1})
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[-20] ^= 1
    broken = {
        "cut": content[:-5],
        "header": content[:20],
        "flipped": content,
        "empty": b"",
        "text": b"not a checkpoint at all, but long enough to look like one",
    }[damage]
    path.write_bytes(broken)
    with pytest.raises(ValueError, match=r"last\.safetensors.*delete it to start anew") as caught:
        load_checkpoint(path)
    assert "\n" not in str(caught.value)


def test_other_safetensors_and_absent_files_are_told_apart(tmp_path):
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="no checkpoint of sciops.training; load it with load_model"):
        load_checkpoint(tmp_path / "model.safetensors")
    with pytest.raises(FileNotFoundError, match="no checkpoint here"):
        load_checkpoint(tmp_path / "last.safetensors")


def test_a_failed_write_keeps_the_old_file_and_the_next_one_clears_left_overs(tmp_path):
    path = save_checkpoint(tmp_path / "last.safetensors", {"a": torch.zeros(2)}, {"epochs": 1})
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    mine = hidden(path, "tmp")
    left_over = mine.with_name(mine.name.replace(f".{os.getpid()}.", f".{gone.pid}."))
    left_over.write_bytes(b"half a file of a killed process")
    with pytest.raises((TypeError, ValueError)):
        save_checkpoint(path, {"a": torch.ones(2)}, {"epochs": float("nan")})
    assert load_checkpoint(path)[1] == {"epochs": 1}
    save_checkpoint(path, {"a": torch.ones(2)}, {"epochs": 2})
    assert [p.name for p in tmp_path.iterdir()] == ["last.safetensors"]


def test_a_full_disk_is_one_line_and_takes_no_more_of_it(tmp_path, monkeypatch):
    path = save_checkpoint(tmp_path / "last.safetensors", {"a": torch.zeros(2)}, {"epochs": 1})

    def half_written(tensors, file, metadata):
        Path(file).write_bytes(b"half")
        raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", half_written)
    with pytest.raises(OSError, match=r"last\.safetensors could not be written \(.*No space left.*\); what was there"):
        save_checkpoint(path, {"a": torch.ones(2)}, {"epochs": 2})
    assert [p.name for p in tmp_path.iterdir()] == ["last.safetensors"] and load_checkpoint(path)[1] == {"epochs": 1}


def test_another_model_is_refused_naming_the_tensor():
    small, wide = torch.nn.Linear(2, 3), torch.nn.Linear(2, 4)
    with pytest.raises(ValueError, match=r"'weight' is \(3, 2\) there and \(4, 2\) here"):
        load_model_tensors(wide, model_tensors(small), "x.safetensors")
    with pytest.raises(ValueError, match="x.safetensors has no 'bias'"):
        load_model_tensors(small, model_tensors(torch.nn.Linear(2, 3, bias=False)), "x.safetensors")
    with pytest.raises(ValueError, match="the model has no 'bias'"):
        load_model_tensors(torch.nn.Linear(2, 3, bias=False), model_tensors(small), "x.safetensors")


def test_an_optimizer_that_is_put_back_takes_the_same_steps(tmp_path):
    def steps(model, optimizer, count):
        for i in range(count):
            optimizer.zero_grad()
            x = torch.randn(5, 3, generator=torch.Generator().manual_seed(i))
            model(x).square().sum().backward()
            optimizer.step()

    def make():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        groups = [{"params": [p for p in model.parameters() if (p.ndim == 2) == m]} for m in (True, False)]
        optimizer = torch.optim.AdamW(groups, lr=0.1)
        return model, optimizer, {p: n for n, p in model.named_parameters()}

    model, optimizer, names = make()
    steps(model, optimizer, 3)
    path = save_checkpoint(tmp_path / "c", model_tensors(model) | optimizer_tensors(optimizer, names), {})
    steps(model, optimizer, 3)
    other, fresh, other_names = make()
    stored, _ = load_checkpoint(path)
    load_model_tensors(other, stored, path)
    load_optimizer_tensors(fresh, other_names, stored)
    steps(other, fresh, 3)
    for p, q in zip(model.parameters(), other.parameters()):
        assert torch.equal(p, q)
