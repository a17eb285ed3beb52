"""Every function and command that opens files takes a budget, and keeps it for what is read later."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from budget_files import write_zeros

from sciops import cli
from sciops.commands.command_line import command
from sciops.datasets import (
    FieldDataset,
    check_well,
    content_hash,
    convert,
    describe,
    describe_arrays,
    inventory,
    load_splits,
    open_dataset,
    read_native,
    resolutions,
    validate,
)
from sciops.files.budget import Budget, current_budget, opening_within
from sciops.grids import Grid


@pytest.fixture
def packed(tmp_path):
    """An archive of 200,000 zeros, described, which unpacks to more than a hundred times its size."""
    path = write_zeros(tmp_path / "a.npz", {"u.npy": 0})
    np.savez_compressed(path, u=np.zeros((20, 100, 100), np.uint8))
    describe_arrays(path, {"a": {"dims": ("sample", "x", "y"), "array": "u"}}, grid=Grid((100, 100), 1.0, "periodic"))
    return path


_OPENS = {
    "open_dataset": open_dataset,
    "validate": lambda path, **budget: validate(path, solutions=0, **budget),
    "describe": describe,
    "inventory": inventory,
    "convert": lambda path, **budget: convert(path, path.with_suffix(".h5"), "native", **budget),
    "FieldDataset": lambda path, **budget: FieldDataset(path, outputs=("a",), **budget),
    "load_splits": lambda path, **budget: load_splits(path, outputs=("a",), **budget),
}


@pytest.mark.parametrize("opens", _OPENS)
def test_every_function_that_opens_files_takes_a_budget(opens, packed):
    with pytest.raises(ValueError, match=r"all that it unpacks to takes 2e\+05 bytes of memory, more than the 1e\+05"):
        _OPENS[opens](packed, budget=Budget(bytes=1e5))
    with opening_within(Budget(bytes=1e5)):
        _OPENS[opens](packed, budget=Budget(bytes=3e5))


def test_what_reads_later_keeps_the_budget_that_it_was_made_with(packed):
    data = FieldDataset(packed, outputs=("a",), memory_limit=0, budget=Budget(bytes=3e5))
    with opening_within(Budget(bytes=1e5)):
        assert data.lazy and data.batch([3])["x"].shape == (1, 1, 100, 100)


@pytest.mark.parametrize("verb", [["info"], ["info", "--json"], ["validate"], ["doctor"], ["convert"]])
def test_every_command_that_opens_files_takes_a_budget(verb, packed, capsys):
    words = [*verb, str(packed), *(["--layout", "native", str(packed) + ".h5"] if verb == ["convert"] else [])]
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--budget", "bytes=1e5"])
    said = "".join(capsys.readouterr())
    assert ended.value.code in (1, 2) and "more than the 1e+05 besides its own size" in said
    cli.main([*words, "--budget=bytes=3e5,seconds=20"])
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--budget", "memory=3"])
    assert ended.value.code == 2 and "budget 'memory=3': expected limits such as" in capsys.readouterr().err


def test_a_study_takes_a_budget(capsys):
    seen = []
    command(lambda config: seen.append(current_budget()), {"a": Grid((3,))}, ["--budget", "objects=7"])
    assert seen == [Budget(objects=7)]


def test_files_that_are_opened_without_a_reader_meet_the_guard(native):
    """`read_native` and `content_hash` too: what ends the HDF5 library ends it whoever opens the file."""
    with h5py.File(native, "r+") as file:
        file.create_group("/".join("g" * 101))
    for opens in (read_native, content_hash, resolutions, check_well):
        with pytest.raises(ValueError, match="groups nested more than 100 deep"):
            opens(native)
