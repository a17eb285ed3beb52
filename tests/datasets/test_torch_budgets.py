"""Small torch.save files that would take a machine's memory or time are refused in one line."""

from __future__ import annotations

import zipfile

import pytest
import torch

from sciops.datasets import (
    open_dataset,
)
from sciops.datasets.formats import probe
from sciops.datasets.formats.containers import torch_pickle
from sciops.files.budget import Budget, OverBudget, Spending, opening_within


def _pickled_as(path, pickle, **members):
    """A torch.save file whose pickle is this program."""
    torch.save({"x": torch.zeros(2)}, path)
    content = {}
    with zipfile.ZipFile(path) as archive:
        content = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", members.get("kind", zipfile.ZIP_STORED)) as archive:
        for name, data in content.items():
            archive.writestr(name, pickle if name.endswith("data.pkl") else data)
    return path


def _tuples_in_tuples(levels):
    """{t: None} of t = (t', t'), t' = (t'', t''), …, which are one tuple each: the hash of t takes 2^levels steps."""
    body = b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(levels))
    return b"\x80\x02}(" + b")" + body + b"Nu."


@pytest.mark.parametrize(
    ("pickle", "message"),
    [
        (_tuples_in_tuples(60), r"what it makes takes \S+ objects"),
        (b"\x80\x02})" + b"\x85" * 200 + b"Ns.", "tuples nested more than 100 deep"),
        (b"\x80\x02](" + b"]" * 40_000 + b"e.", "what it makes takes 501 objects"),
        (b"\x80\x02ctorch\nFloatTensor\n(J\xff\xff\xff\x7ftR.", r"holds a pickled object \(torch\.FloatTensor\)"),
        (b"\x80\x02cbuiltins\nbytearray\n(J\xff\xff\xff\x7ftR.", r"holds a pickled object \(builtins\.bytearray\)"),
        (
            b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch.storage\nUntypedStorage\nN(J\xff\xff\xff\x7ft}tR.",
            r"holds a pickled object \(torch\.storage\.UntypedStorage\)",
        ),
        (b"\x80\x02}(" + b"".join(b"J" + i.to_bytes(4, "little") + b"N" for i in range(10_001)) + b"u.", "10000 keys"),
        (b"\x80\x02](h\x07e.", "cannot be read"),
    ],
)
@pytest.mark.parametrize("old", [False, True])
def test_programs_of_torch_files_are_followed_before_they_are_run(pickle, message, old, tmp_path):
    path = _pickled_as(tmp_path / "a.pt", pickle)
    if old:
        torch.save({}, path, _use_new_zipfile_serialization=False)
        path.write_bytes(path.read_bytes().replace(b"\x80\x02}q\x00.", pickle, 1))
    with opening_within(Budget(objects=500)), pytest.raises(ValueError, match=message):
        open_dataset(path)


def test_what_torch_saves_passes(tmp_path):
    module = torch.nn.Linear(2, 3)
    shared, point = torch.ones(4), (1, 2)
    held = [module.state_dict(), module.weight, {"a": shared, "b": [shared, shared]}, {(point, point): point}]
    held += [
        shared.size(),
        torch.float32,
        b"bytes",
        bytearray(b"bytes"),
        {1, 2},
        1 + 2j,
        torch.eye(2).to_sparse(),
        -(10**20),
    ]
    for old in (True, False):
        torch.save(held, tmp_path / "a.pt", _use_new_zipfile_serialization=not old)
        torch_pickle.check_torch_file(tmp_path / "a.pt", Spending(tmp_path / "a.pt"))
        assert len(probe(tmp_path / "a.pt").tensors) == len(held)


def test_compressed_members_of_a_torch_file_are_not_unpacked(tmp_path):
    path = _pickled_as(tmp_path / "a.pt", b"\x80\x02](" + b"]" * (1 << 20) + b"e.", kind=zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=r"keeps a/data\.pkl compressed, which torch does not read"):
        open_dataset(path)


def test_lists_that_hold_one_list_many_times_count_it_each_time(tmp_path):
    one = torch.zeros(2)
    for _ in range(8):
        one = [one, 1] * 10
    torch.save({"x": one}, tmp_path / "a.pt")
    with pytest.raises(OverBudget, match="table of contents takes 1e5 objects|table of contents takes 1e.05 objects"):
        open_dataset(tmp_path / "a.pt")


def test_lists_of_tensors_that_share_numbers_are_put_together_within_the_budget(tmp_path):
    torch.save({"x": [torch.zeros(1).expand(1000, 1000)] * 4}, tmp_path / "a.pt")
    with opening_within(Budget(bytes=1e7)), pytest.raises(OverBudget, match=r"all its lists together takes 1\.6e\+07"):
        open_dataset(tmp_path / "a.pt")
