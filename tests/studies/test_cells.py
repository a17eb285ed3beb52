"""Cells are found again under what made them, and under nothing else."""

import os
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from sciops import Budget
from sciops.datasets import TensorFields
from sciops.files.budget import OverBudget, opening_within
from sciops.grids import Grid
from studies.kit import cells
from studies.kit.cells import cell_name, data_digest, fingerprint, kept, kept_arrays


@dataclass(frozen=True)
class Arm:
    rate: float = 1e-3
    options: tuple[int, ...] = (1, 2)


def test_anything_that_differs_is_another_fingerprint(monkeypatch):
    base = {"arm": Arm(), "seed": 0, "points": (8, 8), "note": None}
    same = {"points": [8, 8], "note": None, "seed": np.int64(0), "arm": {"options": [1, 2], "rate": 0.001}}
    assert fingerprint(base) == fingerprint(same)
    others = [
        base | {"arm": Arm(rate=1e-3 + 1e-15)},
        base | {"arm": Arm(options=(2, 1))},
        base | {"seed": 1},
        base | {"note": 0},
        base | {"more": None},
        {key: value for key, value in base.items() if key != "note"},
    ]
    found = {fingerprint(one) for one in [base, *others]}
    with monkeypatch.context() as patch:
        patch.setattr(cells, "_code_of", lambda name: "changed")
        found.add(fingerprint(base))
    assert len(found) == len(others) + 2 and all(len(one) == 12 for one in found)
    with pytest.raises(TypeError, match="no JSON form"):
        fingerprint({"loss": lambda x: x})


def test_records_are_made_once(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"accuracy": np.float64(0.5)}

    first = kept(tmp_path, "copy attention/2", {"steps": 3, "offsets": (1, 2)}, make)
    assert kept(tmp_path, "copy attention/2", {"offsets": [1, 2], "steps": 3}, make) == first
    assert len(made) == 1 and first["accuracy"] == 0.5 and first["spec"]["offsets"] == [1, 2]
    kept(tmp_path, "copy attention/2", {"steps": 4, "offsets": (1, 2)}, make)
    assert len(made) == 2 and len(list(tmp_path.iterdir())) == 2
    assert cell_name("a:b/c", {}) == f"a-b-c_{fingerprint({})}"


def test_a_failure_is_returned_and_made_again(tmp_path):
    made = iter(({"failed": "no"}, {"ok": 1}))
    found = [kept(tmp_path, "cell", {}, lambda: next(made), unless=lambda record: "failed" in record) for _ in range(3)]
    assert ["failed" in one for one in found] == [True, False, False] and found[1] == found[2]


def test_arrays_are_made_once(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"x": np.arange(3.0) + len(made)}

    for _ in range(2):
        assert kept_arrays(tmp_path / "data", "waves", {"viscosity": 0.01}, make)["x"][0] == 1.0
    assert kept_arrays(tmp_path / "data", "waves", {"viscosity": 0.01 + 1e-9}, make)["x"][0] == 2.0
    assert kept_arrays(None, "waves", {"viscosity": 0.01}, make)["x"][0] == 3.0


def test_no_changed_bit_gives_another_record_or_other_arrays(tmp_path):
    def never():
        pytest.fail("made again")

    random = np.random.default_rng(0)
    wanted = kept(tmp_path, "cell", {"rate": 0.1}, lambda: {"accuracy": 0.5, "rows": [1, 2, 3]})
    arrays = kept_arrays(tmp_path, "cell", {"rate": 0.1}, lambda: {"x": np.arange(3.0), "y": np.ones(2, int)})
    assert sorted(arrays) == ["x", "y"]
    for path in list(tmp_path.iterdir()):
        content, refused = path.read_bytes(), 0
        for at in random.integers(len(content), size=150):
            flipped = bytearray(content)
            flipped[at] ^= 1 << int(random.integers(8))
            path.write_bytes(flipped)
            try:
                if path.suffix == ".json":
                    assert kept(tmp_path, "cell", {"rate": 0.1}, never) == wanted
                else:
                    found = kept_arrays(tmp_path, "cell", {"rate": 0.1}, never)
                    assert found.keys() == arrays.keys() and all(np.array_equal(found[k], arrays[k]) for k in arrays)
            except ValueError as error:
                assert str(path) in str(error) and "\n" not in str(error)
                refused += 1
        assert refused > 60
        path.write_bytes(content)


def test_a_cell_of_before_there_was_a_digest_is_read(tmp_path):
    path = tmp_path / f"{cell_name('cell', {'rate': 0.1})}.json"
    path.write_text('{"name": "cell", "spec": {"rate": 0.1}, "record": {"accuracy": 0.5}}')
    assert kept(tmp_path, "cell", {"rate": 0.1}, dict) == {"name": "cell", "spec": {"rate": 0.1}, "accuracy": 0.5}
    np.savez(path.with_suffix(".npz"), x=np.arange(3))
    assert list(kept_arrays(tmp_path, "cell", {"rate": 0.1}, dict)) == ["x"]


def test_the_digest_is_that_of_the_fields():
    x, y = torch.arange(70.0).reshape(70, 1, 1), torch.ones(70, 1, 1)
    data = TensorFields(x, y, Grid((1,), 1.0, "periodic"))
    same = TensorFields(x.clone(), y.clone(), Grid((1,), 1.0, "periodic"))
    assert data_digest(data) == data_digest(same) and data_digest(data) != data_digest(data, None)
    changed = x.clone()
    changed[69] += 1e-5
    others = [
        TensorFields(changed, y, data.grid),
        TensorFields(y, x, data.grid),
        TensorFields(x, y, Grid((1,), 2.0, "periodic")),
        TensorFields(x.double(), y, data.grid),
        data.subset(range(69)),
    ]
    assert len({data_digest(one) for one in [data, *others]}) == 6


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path):
    path = tmp_path / f"{cell_name('cell', 1)}.npz"
    np.savez_compressed(path, x=np.zeros(300_000))
    assert path.stat().st_size < 5000
    with opening_within(Budget(bytes=1e6)), pytest.raises(OverBudget, match=r"\.npz: its arrays takes 2\.4e\+06 bytes"):
        kept_arrays(tmp_path, "cell", 1, dict)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ValueError, match="npz is not a regular file"):
        kept_arrays(tmp_path, "cell", 1, dict)


def test_a_change_of_the_code_is_other_code_and_one_of_its_documentation_is_not(tmp_path, monkeypatch):
    package = tmp_path / "measured"
    (package / "part").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)

    def digest(code, note=""):
        (package / "__init__.py").write_text(note)
        (package / "part" / "one.py").write_text(code)
        cells._code_of.cache_clear()
        return cells._code_of("measured")

    first = digest("def f(x):\n    return x + 1\n")
    assert (
        digest('"""A part."""\n\n\ndef f(x):\n    """x + 1."""\n    return (x +\n        1)  # one\n', "# a note")
        == first
    )
    assert digest("def f(x):\n    return x + 2\n") != first != digest("def f(x):\n    return x + 1\n", "a = 1")
    (package / "part" / "two.py").write_text("")
    assert digest("def f(x):\n    return x + 1\n") != first
    cells._code_of.cache_clear()


def test_a_cell_depends_on_the_code_of_its_own_study_alone(monkeypatch):
    monkeypatch.setattr(cells, "_code_of", lambda name: name)
    studies = (
        "",
        "studies.mixer_zoo",
        "studies.mixer_zoo.cells",
        "studies.language_model",
        "studies.kit.pool",
        "other",
    )
    shared, zoo, part, language, kit, other = map(cells.code_digest, studies)
    assert zoo == part and shared == kit == other and len({shared, zoo, language}) == 3
