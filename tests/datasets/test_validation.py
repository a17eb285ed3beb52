"""`validate` is silent on what we generate, and names each fault that is put in."""

import json
import re

import h5py
import numpy as np
import pytest
import torch

from data_gen.darcy import DarcyConfig, run
from sciops.datasets import blocks, open_dataset, validate
from sciops.datasets.conventions import build_dataset
from sciops.grids import Grid
from sciops.pde import darcy


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Two grids, one solved and one nested, in single precision."""
    path = tmp_path_factory.mktemp("sound") / "data"
    return run(DarcyConfig(samples=20, resolutions=(33, 17), modes=16, dtype="float32", output=path, progress=False))


@pytest.fixture
def data(sound):
    with open_dataset(sound) as dataset:
        return dataset.load()


def _only(findings, severity="error"):
    picked = [finding for finding in findings if finding.severity == severity]
    assert len(picked) == 1, [str(finding) for finding in findings]
    return picked[0]


def test_generated_files_have_no_findings(sound, data):
    assert validate(sound) == []
    assert validate(data) == []


def _changed(data, name, sample, point, value):
    values = data[name].values.copy()
    values[(sample, *point)] = value
    return data.assign({name: (data[name].dims, values, data[name].attrs)})


@pytest.mark.parametrize(
    ("field", "sample", "point", "value", "message"),
    [
        ("u", 3, (4, 5), np.nan, "NaN"),
        ("a", 4, (4, 5), np.inf, "NaN or infinity"),
        ("a", 5, (0, 0), -1.0, "not positive .least value -1"),
        ("u", 6, (4, 5), -0.01, "damaged: a minimum"),
        ("u", 7, (0, 5), 0.004, "damaged: .* on a wall"),
    ],
)
def test_one_bad_number_is_found(data, field, sample, point, value, message):
    finding = _only(validate(_changed(data, field, sample, point, value), solutions=0))
    assert (finding.field, finding.sample) == (field, sample)
    assert re.search(message, finding.message) and finding.remedy


def test_wrong_labels_are_found_by_solving(data):
    other = data.assign(a=data["a"] * 1.01)
    assert "does not solve" in _only(validate(other)).message
    # a foreign file that claims 3/12 but was made with contrast 16
    truth = np.where(data["a"].values > 5, 16.0, 1.0)
    u = darcy.solve(truth, Grid((33, 33))).u
    fields = {"a": (("sample", "x", "y"), data["a"].values, {}), "u": (("sample", "x", "y"), u, {})}
    foreign = build_dataset(
        fields, Grid((33, 33)), layout="li2020", equation="darcy", coefficient="values", forcing=1.0
    )
    assert "fit_two_phase" in _only(validate(foreign), "warning").remedy


def test_records_and_positions(data):
    residual = data["residual"].values.copy()
    residual[2] = 1e-3
    finding = _only(validate(data.assign(residual=("sample", residual))))
    assert (finding.field, finding.sample) == ("residual", 2)
    shifted = data.assign_coords(x=("x", (np.arange(33) + 0.5) / 33, data["x"].attrs))
    finding = _only(validate(shifted))
    assert finding.field == "x" and "0.0151515" in finding.message


def test_splits_that_overlap_or_repeat(data):
    splits = json.loads(data.attrs["splits"])
    assert splits["test"] == [18, 20]
    overlapping = data.drop_vars("split").assign_attrs(splits=json.dumps({**splits, "test": [15, 20]}))
    found = validate(overlapping)
    assert "shares 1 samples with train" in found[0].message and found[0].sample == 15
    twin = data.copy(deep=True)
    for name in ("a", "u"):
        twin[name][19] = twin[name][0]
    finding = _only(validate(twin))
    assert finding.sample == 19 and "(test) is sample 0 (train) again" in finding.message
    bare = data.drop_vars("split")
    del bare.attrs["splits"]
    assert "no split" in _only(validate(bare), "note").message


def test_damaged_bytes_name_their_sample(sound, tmp_path):
    path = tmp_path / "damaged"
    path.write_bytes(sound.read_bytes())
    with h5py.File(path) as file:
        place = file["r33/u"].id.get_chunk_info(7).byte_offset
    with open(path, "r+b") as file:
        file.seek(place + 100)
        file.write(b"\x55\xaa")
    finding = _only(validate(path))
    assert finding.sample == 7 and finding.field == "r33/" and "checksum" in finding.message


def test_folders_find_samples_shared_between_files(tmp_path):
    y = torch.rand(6, 16, 16, generator=torch.Generator().manual_seed(0))
    torch.save({"x": y > 0.5, "y": y}, tmp_path / "train.pt")
    torch.save({"x": y[4:] > 0.5, "y": y[4:]}, tmp_path / "test.pt")
    twins = [f for f in validate(tmp_path) if "is sample" in f.message]
    assert [(f.field, f.sample, f.message) for f in twins] == [
        ("train.pt", 4, "is sample 0 of test.pt"),
        ("train.pt", 5, "is sample 1 of test.pt"),
    ]


def test_cell_file_with_node_coordinates(tmp_path):
    a = np.ones((2, 8, 8), np.float32)
    u = darcy.solve(a, Grid((8, 8), centering="cell")).u.astype(np.float32)
    with h5py.File(tmp_path / "x", "w") as file:
        file["nu"], file["tensor"] = a * [[[1.0]], [[2.0]]], u[:, None] / [[[[1.0]]], [[[2.0]]]]
        file["x-coordinate"] = np.linspace(0, 1, 8)
        file["y-coordinate"] = (np.arange(8) + 0.5) / 8
        file.attrs["beta"] = 1.0
    findings = validate(tmp_path / "x")
    assert [f.severity for f in findings if "x-coordinate runs from wall to wall" in f.message] == ["warning"]
    assert not [f for f in findings if f.severity == "error"]


def test_public_files(real_data):
    findings = validate(real_data / "darcy_train_16.pt")
    damaged = _only(findings)
    assert damaged.sample == 767 and "damaged" in damaged.message
    text = "\n".join(map(str, findings))
    assert "lies 0.07143 (1.15 spacings) beyond the last node" in text
    assert "is not zero on the wall" in text and "against the maximum principle" in text and "not their values" in text
    # the test fields have one of their own, on both grids
    for n in (16, 32):
        assert _only(validate(real_data / f"darcy_test_{n}.pt")).sample == 12


def test_fields_of_any_kind_and_samples_larger_than_a_block(monkeypatch):
    """Found in pieces of a few times: what is found in one piece, at any time of any sample."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((4, 7, 8, 8))
    u[1, 4:] = u[1, :1]
    u[1, :4] = u[1, :1]  # frozen
    u[2, 5, 3, 3] = np.nan
    u[3, -1] *= 1e6  # grown
    marks = (rng.random((4, 8, 8)) > 0.5).astype(np.int8)
    fields = {"u": (("sample", "time", "x", "y"), u, {}), "marks": (("sample", "x", "y"), marks, {})}
    options = {"layout": "native", "equation": "unknown", "state": ("u",), "times": np.arange(7)}
    dataset = build_dataset(fields, Grid((8, 8), 1.0, "periodic"), **options)
    whole = [(f.severity, f.field, f.sample, f.message) for f in validate(dataset)]
    assert [found[:3] for found in whole] == [
        ("error", "u", 2),
        ("warning", "u", 1),
        ("warning", "u", 3),
        ("note", "split", None),
    ]
    for size in (1, 8 * 64, 3 * 8 * 64):
        monkeypatch.setattr(blocks, "BLOCK", size)
        assert [(f.severity, f.field, f.sample, f.message) for f in validate(dataset)] == whole
