"""Temporary files that nobody can foresee, plant or inherit: links are not followed, kills leave nothing for ever."""

import os
import re
import secrets
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import sciops
from sciops import datasets
from sciops.datasets import blocks
from sciops.datasets.native import write_native
from sciops.files.json_files import append_jsonl, write_json
from sciops.files.whole_files import hidden, remove_abandoned, replacing
from sciops.training.checkpoints import load_checkpoint, save_checkpoint

WRITERS = {
    "json": lambda path: write_json(path, {"new": 1}),
    "checkpoint": lambda path: save_checkpoint(path, {"a": torch.ones(2)}, {"epochs": 1}),
    "native": lambda path: write_native(path, _numbers(), overwrite=True),
    "arrays": lambda path: sciops.convert(_numbers(), path, "arrays", overwrite=True),
}


def _numbers():
    fields = {name: (("sample", "x"), np.arange(8, dtype="f4").reshape(2, 4), {}) for name in "au"}
    return datasets.build_dataset(fields, sciops.Grid(4), layout="native", equation="darcy")


@pytest.mark.parametrize("writer", WRITERS)
def test_a_planted_link_is_never_followed(tmp_path, monkeypatch, writer):
    victim, path = tmp_path / "victim", tmp_path / "there"
    victim.write_text("precious")
    path.write_text("old")
    monkeypatch.setattr(secrets, "token_hex", lambda bytes: "0" * 2 * bytes)  # a neighbour who guesses right
    for target in (victim, tmp_path / "nothing"):
        planted = hidden(path, "tmp")
        planted.symlink_to(target)
        with pytest.raises(FileExistsError, match="there cannot be written") as caught:
            WRITERS[writer](path)
        assert "\n" not in str(caught.value) and victim.read_text() == "precious" and path.read_text() == "old"
        planted.unlink(missing_ok=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["there", "victim"]


def test_what_is_put_in_the_place_of_the_temporary_file_is_never_published(tmp_path):
    (victim := tmp_path / "victim").write_text("precious")
    with pytest.raises(OSError, match="there cannot be written"), replacing(tmp_path / "there") as temporary:
        temporary.unlink()
        temporary.symlink_to(victim)
    assert victim.read_text() == "precious" and [p.name for p in tmp_path.iterdir()] == ["victim"]


def test_names_are_never_the_same_twice(tmp_path):
    names = {hidden(tmp_path / ("x" * 250), ending).name for ending in ("tmp", "old") for _ in range(50)}
    assert len(names) == 100 and all(len(name) <= 255 for name in names)
    assert all(re.search(rf"\.{os.getpid()}\.[0-9a-f]{{16}}\.(tmp|old)$", name) for name in names)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_the_mode_is_that_of_any_new_file(tmp_path, writer, umask):
    before = os.umask(umask)
    try:
        path = WRITERS[writer](tmp_path / "there")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


_STEPS = """
import os, signal, sys
from sciops.files.json_files import append_jsonl, write_json

def killed_at(path, step):
    child = os.fork()
    if child == 0:
        seen = []
        def dying(function):
            def call(*arguments, **options):
                seen.append(1)
                if len(seen) == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*arguments, **options)
            return call
        for name in ("open", "fsync", "replace", "close", "unlink"):
            setattr(os, name, dying(getattr(os, name)))
        write_json(path, {"new": 2})
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

path, step = sys.argv[1], 1
write_json(path, {"new": 1})
while not killed_at(path, step):
    left = len(os.listdir(os.path.dirname(path))) - 1
    with open(path) as file:
        print(left, file.read().split()[2])
    write_json(path, {"new": 1})
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)], os.listdir(os.path.dirname(path))
    step += 1
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_a_kill_at_any_step_leaves_a_whole_file_and_the_next_write_clears_up(tmp_path):
    done = subprocess.run([sys.executable, "-c", _STEPS, str(tmp_path / "a.json")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    steps = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert {content for _, content in steps} == {1, 2} and {left for left, _ in steps} == {0, 1} and len(steps) > 6


def test_a_large_field_goes_through_a_scratch_file_that_is_new(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 1)
    monkeypatch.setattr(secrets, "token_hex", lambda bytes: "0" * 2 * bytes)
    (victim := tmp_path / "victim").write_text("precious")
    hidden(tmp_path / "there", "scratch").symlink_to(victim)
    with pytest.raises(OSError):
        sciops.convert(_darcy(), tmp_path / "there", "neuralop")
    assert victim.read_text() == "precious" and not (tmp_path / "there").exists()


def _darcy():
    fields = {name: (("sample", "x", "y"), np.ones((2, 5, 5), "f4"), {}) for name in "au"}
    return datasets.build_dataset(fields, sciops.Grid((5, 5)), layout="native", equation="darcy")


def test_two_writers_of_one_file_do_not_take_each_others_away(tmp_path):
    path = tmp_path / "last.safetensors"
    with replacing(path) as theirs:
        theirs.write_bytes(b"half")
        save_checkpoint(path, {"a": torch.ones(2)}, {"epochs": 1})
        remove_abandoned(path)
        assert theirs.read_bytes() == b"half" and load_checkpoint(path)[1] == {"epochs": 1}
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert Path(path).read_bytes() == b"half"


def test_leftovers_of_earlier_versions_are_removed_too(tmp_path):
    """Their names were .NAME.PID.partial and .NAME.HOST.PID.tmp; those of processes that run stay."""
    path, gone = tmp_path / "config.json", subprocess.Popen(["true"])
    gone.wait()
    host = hidden(path, "tmp").name.split(".")[3]
    for pid in (gone.pid, os.getpid()):
        for name in (f".config.json.{pid}.partial", f".config.json.{host}.{pid}.tmp", f".other.{pid}.partial"):
            (tmp_path / name).touch()
    write_json(path, {})
    kept = {f".config.json.{os.getpid()}.partial", f".config.json.{host}.{os.getpid()}.tmp", "config.json"}
    assert {p.name for p in tmp_path.iterdir()} == kept | {f".other.{pid}.partial" for pid in (gone.pid, os.getpid())}


@pytest.mark.parametrize("plant", ["link", "link to nothing", "pipe"])
def test_a_log_is_written_through_no_link_and_into_no_pipe(tmp_path, plant):
    (victim := tmp_path / "victim").write_text("precious")
    log = tmp_path / "log.jsonl"
    os.mkfifo(log) if plant == "pipe" else log.symlink_to(victim if plant == "link" else tmp_path / "nothing")
    with pytest.raises(OSError, match="log.jsonl cannot be written") as caught:
        append_jsonl(log, {"epoch": 1})
    assert "\n" not in str(caught.value) and victim.read_text() == "precious" and not (tmp_path / "nothing").exists()
    log.unlink()
    append_jsonl(log, {"epoch": 1})
    append_jsonl(log, {"epoch": 2})
    assert log.read_text() == '{"epoch": 1}\n{"epoch": 2}\n'
