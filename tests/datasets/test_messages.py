"""Messages about files: one line that a terminal shows as it is, whatever the file holds and is called."""

from __future__ import annotations

import shlex

import h5py
import numpy as np
import pytest

from sciops.datasets import build_dataset, describe, open_dataset, validate
from sciops.datasets.formats.samples import write_sample
from sciops.files.messages import LONGEST, plain_errors, shown
from sciops.grids import Grid


def test_what_moves_a_cursor_is_escaped_and_the_rest_stays():
    assert shown("−∇·(a∇u) = f, 尺寸 ü") == "−∇·(a∇u) = f, 尺寸 ü"
    assert shown("a\x1b[2Jb\x00c\u202ed\ud800") == "a\\x1b[2Jb\\x00c\\u202ed\\ud800"
    assert shown("  first \n  second\r\nthird") == "  first second third"
    long = shown("b" * 10_000_000 + "end", 100)
    assert len(long) <= 100 and long.endswith("end") and " … " in long


def test_errors_keep_their_kind_and_lose_their_lines():
    for kind in (ValueError, FileNotFoundError, PermissionError, OSError, ImportError):
        with pytest.raises(kind, match=r"^one two \\x07$") as caught, plain_errors():
            raise kind("one\ntwo \x07")
        assert type(caught.value) is kind
    with pytest.raises(ValueError, match="codec can't decode") as caught, plain_errors():
        b"\xff\n".decode()
    assert type(caught.value) in (ValueError, UnicodeDecodeError)
    with pytest.raises(KeyError), plain_errors():
        raise KeyError("left alone")


@pytest.mark.parametrize("name", ["a file with spaces", "größe 尺寸 🐍", "quote ' and \" in it", "tab\tand\nline"])
def test_files_of_any_name_are_opened_and_refused(tmp_path, name):
    path = write_sample("pdebench-1d", tmp_path / name)
    with open_dataset(path) as dataset:
        assert dataset["u"].shape[0] >= 8
    lines = describe(path).split("\n")
    assert "\n" in name or f"sciops train --data {shown(shlex.quote(str(path)))}" in "\n".join(lines)
    assert shown(str(path)).split("\\t")[0] in lines[0] and not any("\t" in line for line in lines)
    path.write_bytes(path.read_bytes()[:4000])
    with pytest.raises((ValueError, OSError)) as caught:
        open_dataset(path)
    assert "\n" not in str(caught.value) and "\t" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_a_thousand_arrays_and_long_names_make_short_messages(tmp_path):
    path = tmp_path / "many.h5"
    with h5py.File(path, "w") as file:
        for i in range(1000):
            file.create_dataset(f"a\x1b[31m{'n' * 300}{i}", data=np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="not a known layout") as caught:
        open_dataset(path)
    text = str(caught.value)
    assert len(text) <= LONGEST and "\x1b" not in text and "1000 arrays" in text


def test_what_attributes_say_stays_in_its_line(tmp_path):
    path = write_sample("the-well", tmp_path / "well.h5")
    with h5py.File(path, "a") as file:
        file.attrs["dataset_name"] = "name\x1b[2J\nand more" + "x" * 5000
        file["scalars"].attrs["field_names"] = ["y" * 5000]
    for finding in validate(path, solutions=0):
        assert len(str(finding)) <= LONGEST and "\n" not in str(finding) and "\x1b" not in str(finding)
    assert "\x1b" not in describe(path) and len(describe(path)) < 20_000


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (
            np.ones((2, 4)),
            r"field 'a' is not \(names of its dimensions, array\), such as fields={'a': \(\('sample', 'x'\)",
        ),
        ((np.ones((2, 4)), ("sample", "x")), "field 'a' is not .names"),
        ((("sample", "x"), np.ones((2, 4)), {}, {}), "field 'a' is not .names"),
        (
            (("sample", "x", "y"), np.ones((2, 4))),
            r"field 'a' has shape \(2, 4\) and 3 dimensions \('sample', 'x', 'y'\)",
        ),
        ((("sample", "x"), np.ones((2, 5))), r"field 'a' of shape \(2, 5\) has 5 along x, the grid 4"),
        (
            (("time", "x"), np.ones((2, 4))),
            r"field 'a' of shape \(2, 4\) has 2 along time, another field or the times 3",
        ),
        ((("sample", "x"), np.ones((3, 4))), r"field 'a' of shape \(3, 4\) has 3 along sample, another field .* 2"),
    ],
)
def test_fields_that_make_no_data_set_are_named(field, message):
    fields = {"u": ["sample x".split(), np.ones((2, 4))], "a": field}
    with pytest.raises(ValueError, match=message) as caught:
        build_dataset(fields, Grid(4), layout="native", equation="heat", times=[0, 1, 2])
    assert "\n" not in str(caught.value)
    fields["a"] = ("x", np.arange(4.0))
    dataset = build_dataset(fields, Grid(4), layout="native", equation="heat")
    assert dataset.a.dims == ("x",) and dataset.u.dims == ("sample", "x")
