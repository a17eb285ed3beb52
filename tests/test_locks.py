"""Two runs in one folder: one line for the second, whatever ended the first."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import sciops
from sciops import datasets
from sciops.files.locks import Lock, exclusive, occupied, occupy
from sciops.runs import RunFolder
from sciops.training import TrainConfig, fit

fcntl = pytest.importorskip("fcntl")

_HOLDS = """
import sys, time
from pathlib import Path
from sciops.files.locks import Lock, occupy
path = Path(sys.argv[1])
lock = occupy(path) if path.is_dir() else Lock(path)
assert path.is_dir() or lock.take()
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def elsewhere():
    """Starts another process that holds a lock file, or the lock of a folder."""
    others = []

    def start(path: Path) -> subprocess.Popen:
        other = subprocess.Popen(
            [sys.executable, "-c", _HOLDS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        others.append(other)
        assert other.stdout.readline() == b"\n"
        return other

    yield start
    for other in others:
        other.kill()
        other.communicate()


def _fit(folder: Path):
    u = torch.ones(2, 1, 4)
    data = datasets.TensorFields(u, u, sciops.Grid(4, 1.0, "periodic"))
    model = sciops.build_model("fno", in_channels=1, out_channels=1, width=2, depth=1, modes=(2,))
    return fit(model, datasets.Splits(train=data), TrainConfig(folder=folder, epochs=1, progress=False, resume=True))


def test_a_lock_ends_with_its_process_and_names_it(tmp_path, elsewhere):
    path = tmp_path / "lock"
    other = elsewhere(path)
    with exclusive(path) as mine:
        assert not mine and f"process {other.pid} of " in Lock(path).holder()
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert path.exists()
    with exclusive(path) as mine:
        assert mine and f"process {os.getpid()} of " in Lock(path).holder()
        with exclusive(path) as twice:
            assert not twice
    assert not path.exists()


def test_a_folder_is_refused_to_a_second_process_and_may_be_read(tmp_path, elsewhere):
    other = elsewhere(tmp_path)
    used = rf"is in use by process {other.pid} of .*: wait until it ends, or name another folder$"
    (tmp_path / "log.jsonl").write_text(json.dumps({"epoch": 1}) + "\n")
    before = sorted(p.name for p in tmp_path.iterdir())
    assert RunFolder(tmp_path).read_log() == [{"epoch": 1}]
    for write in (
        lambda: RunFolder(tmp_path).describe({}),
        lambda: RunFolder(tmp_path).log({}),
        lambda: RunFolder(tmp_path).write_results({}),
        lambda: RunFolder(tmp_path).cite("fno"),
        lambda: _fit(tmp_path),
    ):
        with pytest.raises(BlockingIOError, match=used) as caught:
            write()
        assert "\n" not in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    other.kill()
    other.wait()
    assert RunFolder(tmp_path).write_results({}).exists() and _fit(tmp_path).complete
    assert not (tmp_path / ".lock").exists()


def test_a_study_may_train_in_its_own_folder(tmp_path, elsewhere):
    folder = RunFolder(tmp_path)
    folder.log({})
    assert _fit(tmp_path).complete and (tmp_path / ".lock").exists()
    with exclusive(tmp_path / ".lock") as mine:
        assert not mine
    folder.write_results({})
    del folder
    assert not (tmp_path / ".lock").exists()


def test_a_forked_process_neither_holds_nor_removes_it(tmp_path):
    with occupied(tmp_path):
        child = os.fork()
        if child == 0:
            Lock(tmp_path / ".lock").release()
            os._exit(0)
        os.waitpid(child, 0)
        with exclusive(tmp_path / ".lock") as mine:
            assert not mine
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("planted", ["link", "link to nothing", "folder"])
def test_what_lies_in_the_place_of_a_lock_is_left_alone(tmp_path, planted):
    (victim := tmp_path / "victim").write_text("precious")
    (folder := tmp_path / "run").mkdir()
    lock = folder / ".lock"
    lock.mkdir() if planted == "folder" else lock.symlink_to(victim if planted == "link" else tmp_path / "nothing")
    with pytest.raises(OSError, match=r"run/\.lock cannot be written") as caught:
        RunFolder(folder).log({})
    assert "\n" not in str(caught.value) and victim.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "victim"]


def test_without_locks_everybody_may(tmp_path, monkeypatch):
    def flock(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with occupied(tmp_path), occupied(tmp_path), exclusive(tmp_path / ".lock") as mine:
        assert mine
    assert not list(tmp_path.iterdir())


def test_who_waited_for_a_lock_that_is_removed_takes_a_new_one(tmp_path, monkeypatch):
    path, flock, first = tmp_path / "lock", fcntl.flock, []

    def late(descriptor, how):
        if not first:
            first.append(path.unlink())  # by its holder, between opening and locking
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with exclusive(path) as mine, exclusive(path) as also:
        assert mine and not also


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_workers_of_a_killed_run_are_waited_for(tmp_path):
    """They hold the lock of their parent until they notice that it is gone, and the run is resumed before that."""
    code = _HOLDS.replace("print(flush=True)", "os.fork() or (time.sleep(1.5), os._exit(0))\nprint(flush=True)")
    words = [sys.executable, "-c", f"import os{code}", str(tmp_path)]
    other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"\n"
    with pytest.raises(OSError, match=f"in use by process {other.pid}"):
        occupy(tmp_path)
    other.kill()
    other.wait()
    occupy(tmp_path).release()
    other.communicate()
