"""Kills at a handful of moments, and the instrument itself: it sees what is wrong, repeated, left over, or refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from sciops.datasets.conventions import build_dataset
from sciops.datasets.native import write_native
from sciops.grids import Grid
from studies import crash_recovery as study
from studies.crash_recovery import worker
from studies.crash_recovery.commands import Job, contents, jobs
from studies.crash_recovery.differences import explain

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts processes in /proc")


def test_a_generation_that_is_killed_ends_as_one_that_was_not(tmp_path, monkeypatch, capsys):
    memory = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    chosen = [
        study.Moment(at=0.5, kind=study.OPERATION, after=True, alone=False, again=0.4),
        study.Moment(at=0.97, kind=study.OPERATION, after=False, alone=True, again=None),
    ]
    monkeypatch.setattr(study, "moments", lambda *_: iter(chosen))
    config = study.Config(moments=2, jobs=("HDF5",), scratch=memory, output=tmp_path)
    results = study.run(config)
    assert results["findings"] == [] and results["kills"] == 3, results["records"]
    records = results["records"]
    assert [record["outcome"] for record in records] == [study.WHOLE] * 2
    assert [record["attempts"] for record in records] == [3, 2]
    assert 0 < records[0]["kept"] < 8 and "data.h5.parts" in records[0]["state"]
    assert {"data.h5", "data.h5.parts"} <= set(records[1]["state"].split())  # killed while it removed the parts
    assert (tmp_path / "figures" / "crash_recovery.png").stat().st_size > 5000
    assert "nothing wrong, nothing lost, nothing left over" in capsys.readouterr().out
    monkeypatch.setattr(study.Trial, "kill", lambda *_: pytest.fail("killed again"))
    assert study.run(config)["records"] == records
    with pytest.raises(ValueError, match="--jobs nothing: expected some of HDF5, "):
        study.run(replace(config, jobs=("nothing",)))


class Said:
    """A server whose jobs write a file, print, and end as the answers say."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def ask(self, folder, **_):
        answer = {"statuses": [0], "killed": False, "full": False, "operations": 10, "seconds": 1.0, "processes": 0}
        answer |= {"group": 1, "said": "done", "traceback": False, "files": {"out.json": {"loss": 1}}, "replaced": []}
        answer |= self.answers.pop(0)
        for name, content in answer.pop("files").items():
            (Path(folder) / name).write_text(json.dumps(content))
        return answer


KILLED = {"statuses": [-9], "killed": True, "files": {}}
MADE = {"replaced": ["part-000000.npz", "part-000001.npz"]}
CASES = {
    study.WHOLE: (KILLED, MADE),
    study.EARLY: (MADE,),
    "wrong": (KILLED, {"files": {"out.json": {"loss": 2}}}),
    "repeated": (KILLED | {"files": {"part-000000.npz": 0}}, MADE),
    "left over": (KILLED, {"files": {"out.json": {"loss": 1}, ".lock": ""}}),
    "refused": (KILLED, {"statuses": [2], "said": "error: in use"}),
    "bad refusal": ({"full": True, "statuses": [1], "traceback": True},),
    "hang": ({"statuses": [None]},),
}


@pytest.mark.parametrize("outcome", CASES)
def test_the_study_sees(outcome, tmp_path):
    job = Job((("generate", "heat"),), r"part-\d{6}\.npz", "*")
    trial = study.Trial(job, Said(MADE, MADE, *CASES[outcome]), tmp_path / "job")
    record = trial.kill(study.Moment(at=0.5, kind=study.OPERATION, after=True, alone=False, again=None))
    assert record["outcome"] == outcome, record
    assert (outcome in study.FINDINGS) == (outcome not in (study.WHOLE, study.EARLY))


def test_a_missing_file_is_wrong_and_undisturbed_runs_that_differ_are_no_reference(tmp_path):
    assert study._differences({"a": "1"}, {}) == ("a is missing", "wrong")
    job = Job((("generate", "heat"),), r"part-\d{6}\.npz", "*")
    trial = study.Trial(job, Said(MADE, {"files": {"out.json": {"loss": 2}}}), tmp_path / "job")
    with pytest.raises(RuntimeError, match="two undisturbed runs differ: out.json differs"):
        trial.reference()


def test_a_finding_ends_the_study_with_status_1_and_is_tried_again(tmp_path, monkeypatch, capsys):
    class Server(Said):
        def __init__(self, jobs):
            super().__init__(MADE, MADE, KILLED, {"statuses": [2], "said": "error: in use"})

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(study, "Server", Server)
    config = study.Config(moments=1, jobs=("HDF5",), output=tmp_path)
    for _ in range(2):
        with pytest.raises(SystemExit) as end:
            study.run(config)
        assert end.value.code == 1 and "refused: [2]: error: in use" in capsys.readouterr().out
    assert not list((tmp_path / "moments").glob("*.json"))


def test_of_a_wrong_moment_both_folders_stay_and_the_record_says_what_differs(tmp_path, monkeypatch, capsys):
    class Server(Said):
        def __init__(self, jobs):
            wrong = {"files": {"out.json": {"loss": 1.0 + 2.0**-51, "seconds": 3}}}
            super().__init__(MADE, MADE, KILLED, wrong)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(study, "Server", Server)
    for _ in range(2):  # the second finding takes the place of the first
        with pytest.raises(SystemExit):
            study.run(study.Config(moments=1, jobs=("HDF5",), output=tmp_path))
        assert "out.json loss differs in 1 of 1 values, by at most 4.44e-16 (2 units in the last place)" in (
            capsys.readouterr().out
        )
    (finding,) = json.loads((tmp_path / "results.json").read_text())["findings"]
    (row,) = finding["differences"]
    assert row == {"file": "out.json", "variable": "loss", "values": 1, "of": 1, "absolute": 2.0**-51, "ulps": 2}
    stays = {p.relative_to(tmp_path / "wrong").as_posix(): p.read_text() for p in tmp_path.glob("wrong/*/*/out.json")}
    assert set(stays) == {"HDF5 0/killed/out.json", "HDF5 0/reference/out.json"}
    assert json.loads(stays["HDF5 0/reference/out.json"]) == {"loss": 1}


def test_differences_are_counted_in_values_and_units_in_the_last_place(tmp_path):
    grid = Grid((4, 4), centering="periodic")
    u = np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 4, 4)
    other = u.copy()
    other[0, 0, :3] = np.nextafter(u[0, 0, :3], np.float32(9))
    other[1, 1, 1] += 0.5
    for folder, fields, loss in ((tmp_path / "a", u, [1, 2.5]), (tmp_path / "b", other, [1, 2.25])):
        folder.mkdir()
        named = {"u": (("sample", "x", "y"), fields)}
        write_native(folder / "data.h5", build_dataset(named, grid, layout="native", equation="darcy"))
        zero = np.zeros(2) if folder.name == "a" else -np.zeros(2)
        save_file({"w": fields, "n": np.arange(3), "zero": zero}, folder / "m.safetensors")
        (folder / "log.jsonl").write_text("".join(json.dumps({"loss": x, "seconds": 1 / x}) + "\n" for x in loss))
    (tmp_path / "a" / "gone.json").write_text('{"text": "it"}')
    names = ["data.h5", "m.safetensors", "log.jsonl", "gone.json"]
    rows = {(row.pop("file"), row.pop("variable")): row for row in explain(tmp_path / "a", tmp_path / "b", names)}
    gap = abs(float(other[1, 1, 1]) - float(u[1, 1, 1]))
    ulps = int(other[1, 1, 1].view(np.uint32)) - int(u[1, 1, 1].view(np.uint32))  # of one sign
    assert rows == {
        ("data.h5", "r4/u"): {"values": 4, "of": 32, "absolute": gap, "ulps": ulps},
        ("m.safetensors", "w"): {"values": 4, "of": 32, "absolute": gap, "ulps": ulps},
        ("m.safetensors", "zero"): {"values": 2, "of": 2, "absolute": 0.0, "ulps": 1},
        ("log.jsonl", "loss"): {"values": 1, "of": 2, "absolute": 0.25, "ulps": 2**49},
        ("gone.json", "text"): {"what": "is missing"},
    }


def test_moments_are_the_same_again_and_cover_the_whole_of_a_job():
    many = list(study.moments(60, 0, "HDF5"))
    assert many == list(study.moments(60, 0, "HDF5")) != list(study.moments(60, 1, "HDF5"))
    for kind in (study.CLOCK, study.OPERATION, study.FULL):
        shares = [moment.at for moment in many if moment.kind == kind]
        assert len(shares) >= 10 and sorted(shares) == shares and 0 <= shares[0] < 0.1 and 0.9 <= shares[-1] < 1
    assert 15 == sum(moment.alone for moment in many) and 20 == sum(moment.again is not None for moment in many)


def test_a_disk_is_full_from_an_operation_on_for_all_that_need_room(tmp_path):
    (tmp_path / "old").touch()
    child = os.fork()
    if child == 0:
        worker.watch(str(tmp_path / "log"), 0, {"operation": 1, "full": True})
        (tmp_path / "a").mkdir()
        refused = []
        for need in ((tmp_path / "b").mkdir, lambda: os.rename(tmp_path / "old", tmp_path / "new")):
            try:
                need()
            except OSError as error:
                refused.append(error.errno)
        os.unlink(tmp_path / "old")
        os.rmdir(tmp_path / "a")
        os._exit(refused != [errno.ENOSPC] * 2)
    assert os.waitpid(child, 0)[1] == 0
    assert worker._read(tmp_path / "log")[2] == {worker._FULL} and [p.name for p in tmp_path.iterdir()] == ["log"]


def test_every_kind_of_operation_is_counted_and_no_other_process_is_touched(tmp_path):
    """In a child: `watch` replaces functions of `os`."""
    log = tmp_path / "log"
    child = os.fork()
    if child == 0:
        worker.watch(str(log), 0, None)
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "b").touch()
        os.replace(tmp_path / "a" / "b", tmp_path / "a" / "c")
        tempfile.mkstemp(dir=tmp_path)
        shutil.rmtree(tmp_path / "a")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    operations, replaced, marks, last = worker._read(log)
    names = [line.split("\t")[1] for line in log.read_text().splitlines()]
    assert names == ["mkdir", "open", "replace", "open", "unlink", "rmdir"]
    assert (operations, replaced, marks) == (6, ["c"], set()) and last > 0


def test_contents_are_those_of_the_numbers_and_not_of_the_times(tmp_path):
    for name, seconds in (("one", 1.0), ("two", 2.0)):
        folder = tmp_path / name
        (folder / "run").mkdir(parents=True)
        (folder / "run" / "log.jsonl").write_text(json.dumps({"loss": 1.0, "seconds": seconds}) + "\n")
        (folder / "run" / "figure.png").write_text(name)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") != {}
    (tmp_path / "two" / "data.h5.parts").mkdir()
    assert set(contents(tmp_path / "two")) - set(contents(tmp_path / "one")) == {"data.h5.parts/"}


def test_every_job_names_what_it_needs():
    found = jobs(Path("data.h5"))
    assert found["workers"].modules() == {"xarray", "h5netcdf", "data_gen.heat"}
    assert "studies.gap_sentences" in found["study, fine-tuning"].modules()
    assert all(set(job.missing()) <= {"distributed", "cryptography", "zarr", "tokenizers"} for job in found.values())
