"""info, validate and convert as a user types them: several files, wrong words, machine output, status."""

import json
import shutil

import h5py
import numpy as np
import pytest
from warm import python

from sciops import cli
from sciops.datasets import content_hash, convert, describe, inventory, validate, write_native, write_sample
from sciops.datasets.conventions import build_dataset
from sciops.grids import Grid
from sciops.pde import darcy


def _run(capsys, *words):
    """(status, what was printed, what was said of errors)"""
    status = 0
    try:
        cli.main([str(word) for word in words])
    except SystemExit as stop:
        status = stop.code
    out, err = capsys.readouterr()
    assert all(line.startswith("error: ") for line in err.splitlines()), err
    return status, out, err


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    grid = Grid((17, 17))
    a = np.exp(np.random.default_rng(0).standard_normal((6, 17, 17)))
    fields = {"a": (("sample", "x", "y"), a, {}), "u": (("sample", "x", "y"), darcy.solve(a, grid, tol=1e-10).u, {})}
    fields["split"] = (("sample",), np.array([0, 0, 0, 0, 1, 2], np.int8), {})
    options = {"layout": "native", "equation": "darcy", "coefficient": "values", "forcing": 1.0, "labels": "solved"}
    return write_native(tmp_path_factory.mktemp("solved") / "d.h5", build_dataset(fields, grid, **options))


def test_several_files_and_one_that_is_none(solved, tmp_path, capsys):
    other = convert(solved, tmp_path / "d.mat", "li2020")
    (tmp_path / "cut.h5").write_bytes(solved.read_bytes()[:4000])
    status, out, err = _run(capsys, "info", solved, other)
    assert status == 0 and "layout       native" in out and "layout       li2020" in out
    status, out, err = _run(capsys, "info", solved, tmp_path / "cut.h5", other)
    assert status == 2 and "layout       li2020" in out and "cut.h5" in err and len(err.splitlines()) == 1
    status, out, err = _run(capsys, "validate", solved, tmp_path / "cut.h5", other)
    assert status == 2 and out.startswith(f"{solved}: sound\n{other}: note: split: no split is stored")
    for verb in ("info", "validate"):
        status, out, err = _run(capsys, verb)
        assert status == 2 and f"sciops {verb} --help" in err


def test_status_says_whether_there_is_an_error(solved, tmp_path, capsys):
    wrong = shutil.copy(solved, tmp_path / "wrong.h5")
    with h5py.File(wrong, "a") as file:
        file["r17/a"][3, 4, 5] = -1.0
    status, out, err = _run(capsys, "validate", wrong, solved)
    assert status == 1 and f"{wrong}: error: a sample 3: is not positive" in out and f"{solved}: sound" in out
    assert _run(capsys, "validate", solved)[0] == 0
    assert _run(capsys, "validate", tmp_path / "none.h5")[0] == 2


def test_one_changed_number_is_found_by_the_hash(solved, tmp_path, capsys):
    changed = shutil.copy(solved, tmp_path / "changed.h5")
    with h5py.File(changed, "a") as file:  # through the library, which writes the checksum anew
        file["r17/u"][5, 8, 8] = np.nextafter(file["r17/u"][5, 8, 8], 1)
    known = content_hash(solved)
    assert f"sha256       {known}" in _run(capsys, "info", solved, "--hash")[1]
    assert _run(capsys, "validate", changed)[0] == 0  # one unit in the last place is beyond any other check
    assert _run(capsys, "validate", solved, "--hash", known.upper())[0] == 0
    assert _run(capsys, "validate", solved, "--hash", known[:12])[0] == 0
    status, out, err = _run(capsys, "validate", changed, "--hash", known)
    assert status == 1 and f"holds other numbers than it did: its hash is {content_hash(changed)}" in out
    for words in (("--hash", "abc"), ("--hash", "g" * 64), (solved, "--hash", known)):
        status, out, err = _run(capsys, "validate", solved, *words)
        assert status == 2 and ("hexadecimal" in err or "that one alone" in err), err
    status, out, err = _run(capsys, "validate", tmp_path, "--hash", known)
    assert status == 2 and "of one file" in err


def test_damage_is_named_by_sample_with_a_hash_too(solved, tmp_path):
    flipped = tmp_path / "flipped.h5"
    raw = bytearray(solved.read_bytes())
    with h5py.File(solved) as file:
        place = file["r17/u"].id.get_chunk_info(2).byte_offset
    raw[place + 11] ^= 4
    flipped.write_bytes(raw)
    errors = [f for f in validate(flipped, expected_hash=content_hash(solved)) if f.severity == "error"]
    assert [f.sample for f in errors] == [2] and "checksum" in errors[0].message


def test_more_samples_are_solved_again_when_asked(solved, tmp_path, capsys):
    wrong = shutil.copy(solved, tmp_path / "wrong.h5")
    with h5py.File(wrong, "a") as file:
        file["r17/u"][2] *= 1.001
    assert _run(capsys, "validate", wrong, "--solutions", "2")[0] == 0  # the first and the last
    status, out, err = _run(capsys, "validate", wrong, "--solutions", "6")
    assert status == 1 and "u sample 2: does not solve" in out
    assert _run(capsys, "validate", wrong, "--solutions", "-1")[0] == 2


def test_machine_output(solved, tmp_path, capsys):
    smoke = write_sample("pdearena-ks", tmp_path / "ks.h5")
    status, out, err = _run(capsys, "info", solved, smoke, "--json", "--hash")
    one, other = map(json.loads, out.splitlines())
    assert status == 0 and one["sha256"] == content_hash(solved) and one["bytes"] == solved.stat().st_size
    assert one["splits"] == {"train": 4, "validation": 1, "test": 1} and one["samples"] == 6
    assert one["grids"] == [
        {
            **Grid((17, 17)).to_dict(),
            "variables": {
                "a": {"dims": ["sample", "x", "y"], "shape": [6, 17, 17], "dtype": "float64", "units": "1"},
                "u": {"dims": ["sample", "x", "y"], "shape": [6, 17, 17], "dtype": "float64", "units": "1"},
                "split": {"dims": ["sample"], "shape": [6], "dtype": "int8", "units": "1"},
            },
        }
    ]
    assert (other["layout"], other["task"], other["state"]) == ("pdearena-ks", "trajectory", ["u"])
    assert other["times"]["units"] == "steps" and "length" in other["grids"][0]["variables"]
    status, out, err = _run(capsys, "validate", solved, smoke, "--json")
    one, other = map(json.loads, out.splitlines())
    assert one == {"path": str(solved), "findings": []}
    assert (
        {"severity", "field", "sample", "message", "remedy"} == set(other["findings"][0]) if other["findings"] else True
    )
    assert [set(finding) for finding in other["findings"]].count({"severity"}) == 0


def test_every_layout_has_an_inventory(tmp_path):
    from sciops.datasets import SAMPLES

    for layout in SAMPLES:
        found = inventory(write_sample(layout, tmp_path / layout))
        json.dumps(found, allow_nan=False)
        assert found["samples"] >= 1 and found["grids"][0]["variables"]
        assert layout.startswith(found["layout"]) or found["layout"] in ("arrays", "native", "apebench"), layout


def test_folders_of_files_stores_and_the_well(solved, tmp_path, capsys):
    convert(solved, tmp_path / "a.zarr", "native")
    (tmp_path / "data" / "train").mkdir(parents=True)
    shutil.copy(write_sample("the-well", tmp_path / "w.hdf5"), tmp_path / "data" / "train" / "w.hdf5")
    (tmp_path / "w.hdf5").rename(tmp_path / "README.txt")
    (tmp_path / "README.txt").write_text("hello")
    text = describe(tmp_path)
    assert "a.zarr" in text and "native: darcy, 6 samples, 17×17" in text and "data/train/w.hdf5" in text
    assert "README.txt                   unknown layout" in text
    assert {f.severity for f in validate(tmp_path)} <= {"note", "warning"}
    (tmp_path / "cut.h5").write_bytes(solved.read_bytes()[:5000])
    assert "cut.h5                       cannot be opened: " in describe(tmp_path)
    (error,) = [f for f in validate(tmp_path) if f.severity == "error"]
    assert error.field == "cut.h5" and error.message.startswith("cannot be read: ")
    files = {entry["path"].rsplit("/", 1)[1]: entry for entry in inventory(tmp_path)["files"]}
    assert "error" in files["cut.h5"] and files["a.zarr"]["layout"] == "native" and "error" in files["README.txt"]


def test_convert_says_what_rounding_loses_and_takes_any_grid(solved, tmp_path, capsys):
    status, out, err = _run(capsys, "convert", solved, tmp_path / "w.h5", "--layout", "the-well")
    assert status == 2 and "--dtype float32" in err
    words = ["--layout", "the-well", "--dtype", "float32"]
    status, out, err = _run(capsys, "convert", solved, tmp_path / "w.h5", *words)
    assert status == 0 and out.splitlines()[0].startswith("a: float64 to float32, rounded by at most ")
    assert out.splitlines()[-1] == f"wrote {tmp_path / 'w.h5'}"
    grid = Grid((9, 5))
    fields = {n: (("sample", "x", "y"), np.ones((2, 9, 5), "f4"), {}) for n in "au"}
    uneven = build_dataset(fields, grid, layout="native", equation="darcy", coefficient="values")
    write_native(tmp_path / "uneven.h5", uneven)
    status, out, err = _run(
        capsys, "convert", tmp_path / "uneven.h5", tmp_path / "s.pt", "--layout", "neuralop", "--resolution", "5", "3"
    )
    assert status == 0 and inventory(tmp_path / "s.pt")["grids"][0]["shape"] == [5, 3]
    status, out, err = _run(
        capsys, "convert", tmp_path / "s.pt", tmp_path / "t.pt", "--layout", "neuralop", "--dtype", "float16"
    )
    assert status == 2 and "float32" in err


def test_nan_in_positions_and_numbers_of_samples_is_found():
    grid = Grid(8, 1.0, "periodic")
    u = np.random.default_rng(0).standard_normal((3, 2, 8))
    fields = {"u": (("sample", "time", "x"), u, {}), "viscosity": (("sample",), np.array([0.1, np.nan, 0.2]), {})}
    dataset = build_dataset(fields, grid, layout="native", equation="unknown", times=[0, 1], state=("u",))
    found = [(f.field, f.sample) for f in validate(dataset) if f.severity == "error"]
    assert found == [("viscosity", 1)]
    x = dataset["x"].values.copy()
    x[3] = np.nan
    moved = dataset.assign_coords(x=("x", x, dataset["x"].attrs))
    assert "x" in [f.field for f in validate(moved) if f.severity == "error"]


def test_a_reader_that_stops_reading_is_no_failure(solved):
    code = """
        import os, sys
        from sciops.cli import main
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 1)
        main(["info", sys.argv[1]])
    """
    done = python(["-c", code, str(solved)], timeout=60)
    assert (done.returncode, done.stderr) == (1, "")


def test_doctor_counts_versions_and_reads_no_pipes(tmp_path):
    import os

    from sciops.doctor import _numbers, doctor

    assert _numbers("1.26") == _numbers("1.26.0") < _numbers("1.26.1") and _numbers("2.0.0rc1+cpu") == (2, 0, 0)
    text, well = doctor()
    for extra in ("fast", "cluster", "vision", "robust", "text", "speech", "track", "download"):
        assert f"[{extra}]" in text
    assert well and "None" not in text
    os.mkfifo(tmp_path / "pipe")
    text, well = doctor(tmp_path / "pipe")
    assert not well and "cannot be opened" in text
