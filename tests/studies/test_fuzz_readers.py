"""Damaged and hostile files: opened, or refused in one line, by a process that survives them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sciops.datasets.formats.samples import SAMPLES
from studies import fuzz_readers
from studies.kit.fuzzing import opening
from studies.kit.fuzzing import worker as opener
from studies.kit.fuzzing.campaign import write_files
from studies.kit.fuzzing.damage import damaged, lookup3, seals
from studies.kit.fuzzing.hostile_files import HOSTILE, Payload
from studies.kit.fuzzing.odd_contents import damage, rewritten
from studies.kit.fuzzing.opening import Worker

SECONDS = 20.0  # the study says two; a test machine may be busy


@pytest.fixture(scope="module")
def worker():
    worker = Worker(SECONDS)
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return fuzz_readers.sound_files((), tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_hurt_nobody(name, worker, tmp_path):
    path, mark = tmp_path / "file", tmp_path / "mark"
    HOSTILE[name](path, mark)
    said = worker.attempt(path)
    assert said["outcome"] in ("opened", "refused"), said
    assert said["megabytes"] < 1024 and not mark.exists()


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_files_open_or_are_refused_in_one_line(data, sound, worker, tmp_path_factory):
    layout = data.draw(st.sampled_from(sorted(sound)), label="layout")
    files = dict(sound[layout].files)
    name = data.draw(st.sampled_from(sorted(files)), label="file")
    content = bytearray(files[name])
    for _ in range(data.draw(st.integers(1, 4), label="injuries")):
        place = data.draw(st.integers(0, len(content) - 1), label="place")
        injury = data.draw(st.binary(min_size=0, max_size=16), label="bytes")
        content[place : place + len(injury)] = injury
    if data.draw(st.booleans(), label="cut"):
        del content[data.draw(st.integers(1, len(content)), label="length") :]
    folder = tmp_path_factory.mktemp("damaged")
    write_files(folder, files | {name: bytes(content)})
    said = worker.attempt(folder / sound[layout].main, sound[layout].reader)
    assert said["outcome"] in ("opened", "refused"), said


def test_files_that_say_something_else_open_or_are_refused_in_one_line(sound, worker, tmp_path):
    """Also: the damage reaches the readers. Of whole files with odd contents, some open and some do not."""
    said = []
    for layout in sorted(sound):
        for i in range(2):
            files = fuzz_readers.damaged_files(sound, layout, 1, i)
            assert (
                files == fuzz_readers.damaged_files(sound, layout, 1, i) and files.keys() == sound[layout].files.keys()
            )
            folder = tmp_path / f"{layout} {i}"
            write_files(folder, files)
            said.append(worker.attempt(folder / sound[layout].main, sound[layout].reader))
    outcomes = [one["outcome"] for one in said]
    assert set(outcomes) == {"opened", "refused"}, [one for one in said if one["outcome"] not in ("opened", "refused")]
    assert outcomes.count("opened") > len(sound) / 3 and outcomes.count("refused") > len(sound) / 3


def test_every_layout_is_fuzzed_and_its_sound_file_opens(sound, worker, tmp_path):
    assert set(SAMPLES) < set(sound) and {"native", "native-steady"} <= set(sound)
    for name in ("npy", "apebench", "native", *(["native-zarr"] if "native-zarr" in sound else [])):
        write_files(tmp_path / name, sound[name].files)
        said = worker.attempt(tmp_path / name / sound[name].main)
        assert (said["outcome"], said["detail"]) == ("opened", sound[name].reader)


def test_damage_is_a_function_of_its_seed_and_does_something():
    files = {"a": bytes(range(256)) * 8, "b": b'{"x": [1, 2, {"y": null}]}'}
    made = [damage(files, seed) for seed in range(80)]
    assert made == [damage(files, seed) for seed in range(80)]
    assert len({len(one["a"]) for one in made}) > 5 and len({one["b"] for one in made}) > 20
    assert all((one["a"] != files["a"]) + (one["b"] != files["b"]) <= 1 for one in made)


def test_checksums_of_hdf5_are_found_and_made_right_again(sound):
    """Two values of the hash are those of lookup3.c's own test driver; the blocks of a file are found by it."""
    assert lookup3(b"Four score and seven years ago") == 0x17770551 and lookup3(b"") == 0xDEADBEEF
    content = sound["native"].files["native.h5"]
    blocks = seals(content)
    assert len(blocks) >= content.count(b"OHDR") >= 5
    same = changed = 0
    for seed in range(60):
        hurt = damaged(content, np.random.default_rng(seed), sealed=blocks)
        inside = any(hurt[a:b] != content[a:b] for a, b in blocks) and len(hurt) == len(content)
        right = all(lookup3(hurt[a:b]) == int.from_bytes(hurt[b : b + 4], "little") for a, b in blocks)
        same, changed = same + (inside and right), changed + inside
    assert changed > 10 and same > 0.6 * changed


def test_odd_contents_are_files_of_the_same_format(sound):
    import h5py
    import scipy.io

    opens = {
        "pdebench-cfd": lambda content: h5py.File(io.BytesIO(content), "r").close(),
        "npz": lambda content: zipfile.ZipFile(io.BytesIO(content)).testzip(),
        "li2020": lambda content: scipy.io.whosmat(io.BytesIO(content)),
        "npy": lambda content: json.loads(content) if content[:1] in b"{[" else None,
    }
    for layout, check in opens.items():
        for name, content in sound[layout].files.items():
            made = [rewritten(content, np.random.default_rng(seed)) for seed in range(25)]
            assert len(set(made)) > 10, (layout, name)
            for one in made:
                check(one)


def test_the_watch_sees_hangs_deaths_and_code_that_runs(tmp_path, monkeypatch):
    """The instrument itself: a worker that opens a pipe hangs, one that is killed dies, a pickle makes its mark."""
    import pickle

    pickle.loads(pickle.dumps(Payload(str(tmp_path / "mark"))))
    assert (tmp_path / "mark").is_dir()
    _run_instead(
        "    os.kill(os.getpid(), 9) if 'die' in path else open(path).read()\n", tmp_path / "worker.py", monkeypatch
    )
    os.mkfifo(tmp_path / "pipe")
    worker = Worker(0.5)
    assert worker.attempt(tmp_path / "pipe")["outcome"] == "hang"
    assert worker.attempt(tmp_path / "die")["outcome"] == "death"
    worker.close()


def test_time_in_the_queue_for_a_processor_is_the_machines(tmp_path, monkeypatch):
    """A file that is answered after 1.5 s is a hang of half a second, unless the worker stood in the queue for them."""
    _run_instead(
        "    time.sleep(1.5)\n    print(json.dumps({'outcome': 'opened', 'detail': '', 'seconds': 0.0}), flush=True)\n",
        tmp_path / "worker.py",
        monkeypatch,
    )
    worker = Worker(0.2)
    assert worker.attempt(tmp_path / "file")["outcome"] == "hang"
    monkeypatch.setattr(opening, "waited", lambda process: {process: time.perf_counter()})
    assert worker.attempt(tmp_path / "file")["outcome"] == "opened"
    worker.close()


def test_the_worker_counts_its_own_work_and_reads_the_queue(tmp_path, monkeypatch):
    def work(path, layout):
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        return "worked"

    monkeypatch.setattr(opener, "_use", work)
    said = opener.attempt(tmp_path, None)
    assert said["outcome"] == "opened" and 0.28 < said["seconds"] < 3
    assert opener.waited("no such process") == {}
    child = subprocess.Popen(["sleep", "5"])
    assert {os.getpid(), child.pid} <= set(opener.waited()) or not os.path.exists("/proc/self/schedstat")
    child.kill()
    child.wait()


def test_the_worker_tells_messages_that_a_terminal_cannot_show(tmp_path, monkeypatch):
    for text in ("two\nlines", "red \x1b[31m", "back \u202e wards", "", "x" * 2000):

        def refuse(path, layout, text=text):
            raise ValueError(text)

        monkeypatch.setattr(opener, "_use", refuse)
        assert opener.attempt(tmp_path, None)["outcome"] == "bad message"
    assert opener.clean("−∇·(a∇u) = f, ‘ü’ 尺 é")


def test_the_study_counts_every_file_and_ends_badly_on_a_finding(tmp_path, monkeypatch, capsys):
    layout = next(iter(SAMPLES))
    monkeypatch.setattr(fuzz_readers, "HOSTILE", {"text": lambda path, mark: path.write_text("hello")})
    config = fuzz_readers.Config(files=6, layouts=(layout,), seconds=SECONDS, output=tmp_path / "run")
    results = fuzz_readers.run(config)
    assert results["files"] == 7 and sum(results["outcomes"][layout].values()) == 6
    assert (tmp_path / "run" / "figures" / "fuzz_readers.png").stat().st_size > 5000
    monkeypatch.setattr(
        Worker,
        "attempt",
        lambda self, path, reader: {"outcome": "crash", "detail": "KeyError", "seconds": 0.0, "megabytes": 0.0},
    )
    with pytest.raises(SystemExit):
        fuzz_readers.run(config)
    assert "crash" in capsys.readouterr().out
    kept = [path for path in (tmp_path / "run" / "findings").rglob("*") if path.is_file()]
    assert len(kept) == 6 and kept[0].stat().st_size > 0
    with pytest.raises(ValueError, match="--layouts nothing: expected some of pdebench"):
        fuzz_readers.run(fuzz_readers.Config(layouts=("nothing",), output=tmp_path / "run"))


def _run_instead(body, script, monkeypatch):
    """Workers run this, for every path they are told, instead of the study's own."""
    script.write_text(
        "import json, os, sys, time\nprint(json.dumps({'ready': 1}), flush=True)\n"
        f"for line in sys.stdin:\n    path = json.loads(line)['path']\n{body}"
    )
    started = opening.subprocess.Popen
    monkeypatch.setattr(
        opening.subprocess, "Popen", lambda words, **options: started([sys.executable, str(script)], **options)
    )


def test_a_file_that_is_opened_in_one_way_and_refused_in_another_is_seen(sound, tmp_path, monkeypatch):
    write_files(tmp_path, sound["npz"].files)
    path = tmp_path / sound["npz"].main
    assert opener._other_verdict(path) == ""
    monkeypatch.setattr("sciops.datasets.convert", lambda *arguments: 1 / 0)
    assert opener._other_verdict(path).startswith("convert ends with ZeroDivisionError")
    (tmp_path / "text").write_text("no array")
    monkeypatch.setattr("sciops.datasets.checks.validation.validate", lambda path, solutions: [])
    assert opener._other_verdict(tmp_path / "text").startswith("validate opens it, open_dataset says")


def test_what_the_process_that_looks_at_files_computes_is_counted():
    before = opener._computed()
    child = subprocess.Popen([sys.executable, "-c", "for _ in range(10**9): pass"])
    while opener._computed() - before < 0.2 and child.poll() is None:
        time.sleep(0.02)
    assert child.pid in opener._processes()
    child.kill()
    child.wait()
    assert opener._computed() - before >= 0.19
