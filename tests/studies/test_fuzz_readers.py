"""Damaged and hostile files: opened, or refused in one line, by a process that survives them."""

from __future__ import annotations

import os
import stat
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sciops.datasets.samples import SAMPLES, write_sample
from studies import fuzz_readers
from studies._hostile_files import HOSTILE, Payload, damaged

SECONDS = 20.0  # the study says two; a test machine may be busy


@pytest.fixture(scope="module")
def worker():
    worker = fuzz_readers.Worker(SECONDS)
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    paths = {name: write_sample(name, folder / name.replace(" ", "-")) for name in SAMPLES}
    return {name: path.read_bytes() for name, path in paths.items() if path.is_file()}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_hurt_nobody(name, worker, tmp_path):
    path, mark = tmp_path / "file", tmp_path / "mark"
    HOSTILE[name](path, mark)
    said = worker.attempt(path)
    assert said["outcome"] in ("opened", "refused"), said
    assert said["megabytes"] < 1024 and not mark.exists()


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_files_open_or_are_refused_in_one_line(data, sound, worker, tmp_path_factory):
    layout = data.draw(st.sampled_from(sorted(sound)), label="layout")
    content = bytearray(sound[layout])
    for _ in range(data.draw(st.integers(1, 4), label="injuries")):
        place = data.draw(st.integers(0, len(content) - 1), label="place")
        injury = data.draw(st.binary(min_size=0, max_size=16), label="bytes")
        content[place : place + len(injury)] = injury
    if data.draw(st.booleans(), label="cut"):
        del content[data.draw(st.integers(1, len(content)), label="length") :]
    path = tmp_path_factory.mktemp("damaged") / "file"
    path.write_bytes(content)
    said = worker.attempt(path)
    assert said["outcome"] in ("opened", "refused"), said


def test_damage_is_a_function_of_its_seed_and_does_something():
    content = bytes(range(256)) * 8
    made = [damaged(content, seed) for seed in range(50)]
    assert made == [damaged(content, seed) for seed in range(50)]
    assert sum(one != content for one in made) >= 48 and len({len(one) for one in made}) > 10


def test_the_watch_sees_hangs_deaths_and_code_that_runs(tmp_path, monkeypatch):
    """The instrument itself: a worker that opens a pipe hangs, one that is killed dies, a pickle makes its mark."""
    import pickle

    pickle.loads(pickle.dumps(Payload(str(tmp_path / "mark"))))
    assert (tmp_path / "mark").is_dir()
    script = tmp_path / "_fuzz_worker.py"
    script.write_text(
        "import json, os, sys\nprint(json.dumps({'ready': 1}), flush=True)\n"
        "for line in sys.stdin:\n"
        "    os.kill(os.getpid(), 9) if 'die' in line else open(line.rstrip('\\n')).read()\n"
    )
    started = fuzz_readers.subprocess.Popen
    monkeypatch.setattr(
        fuzz_readers.subprocess, "Popen", lambda words, **options: started([sys.executable, str(script)], **options)
    )
    os.mkfifo(tmp_path / "pipe")
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    worker = fuzz_readers.Worker(0.5)
    assert worker.attempt(tmp_path / "pipe")["outcome"] == "hang"
    assert worker.attempt(tmp_path / "die")["outcome"] == "death"
    worker.close()


def test_the_study_counts_every_file_and_ends_badly_on_a_finding(tmp_path, monkeypatch, capsys):
    layout = next(iter(SAMPLES))
    monkeypatch.setattr(fuzz_readers, "HOSTILE", {"text": lambda path, mark: path.write_text("hello")})
    config = fuzz_readers.Config(files=6, layouts=(layout,), seconds=SECONDS, output=tmp_path / "run")
    results = fuzz_readers.run(config)
    assert results["files"] == 7 and sum(results["outcomes"][layout].values()) == 6
    assert (tmp_path / "run" / "figures" / "fuzz_readers.png").stat().st_size > 5000
    monkeypatch.setattr(
        fuzz_readers.Worker,
        "attempt",
        lambda self, path: {"outcome": "crash", "detail": "KeyError", "seconds": 0.0, "megabytes": 0.0},
    )
    with pytest.raises(SystemExit):
        fuzz_readers.run(config)
    assert "crash" in capsys.readouterr().out
    kept = list((tmp_path / "run" / "findings").iterdir())
    assert len(kept) == 6 and kept[0].stat().st_size > 0
