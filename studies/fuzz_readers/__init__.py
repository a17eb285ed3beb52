"""Do the readers survive damaged and hostile files? Every file must open, or be refused in one line: no crash, no hang.

    python -m studies.fuzz_readers --preset quick
    python -m studies.fuzz_readers --preset full --files 100000 --processes 8

Sound tiny files of every layout, with what belongs beside them, are damaged at random: their bytes (bits flipped, ends
cut, blocks moved, numbers set to extremes), or what they say (other shapes, types, attributes, links, in a file of the
right format). They are opened in processes of their own, which are watched: a file that takes longer than three seconds
(twice), computes for more than ten, needs more than a gigabyte, ends the process, raises anything but an error of one
line that a terminal can show, or is opened in one way and refused in another is a finding. It is kept, its name holds
the seed and the number that made it, and the study ends with status 1. Files made to hurt (cyclic links, zip bombs,
pickles, pipes, …) come first.
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciops.plotting import figure
from sciops.runs import RunFolder
from studies.kit.choices import require_known
from studies.kit.fuzzing.hostile_files import HOSTILE
from studies.kit.fuzzing.odd_contents import damage
from studies.kit.fuzzing.worker import opened_in_every_way, waited
from studies.kit.tables import print_table


@dataclass(frozen=True)
class Config:
    files: int = 20_000
    """damaged files, spread evenly over the layouts"""
    layouts: tuple[str, ...] = ()
    """of `sciops.datasets.samples.SAMPLES`, or native, native-steady, native-zarr; default all"""
    seconds: float = 3.0
    """a file that takes longer is a hang; time spent in the queue for a processor does not count"""
    megabytes: float = 1024.0
    """a file that needs more memory is a finding, that of the process which looks at HDF5 files included"""
    computing: float = 10.0
    """seconds of processor time; a file that takes more is a finding"""
    processes: int = 2
    """files opened at a time"""
    seed: int = 0
    """file i of a layout is damaged by seed (seed, layout, i)"""
    output: Path = Path("runs/fuzz_readers")
    """folder for results.json, the figure and the files of findings"""


PRESETS = {
    "quick": Config(files=2_000),
    "long": Config(),
    "full": Config(files=200_000, processes=max(2, os.cpu_count() or 2)),
}

FINDINGS = ("silent", "crash", "death", "hang", "computing", "memory", "bad message", "two verdicts", "code ran")


@dataclass(frozen=True)
class Subject:
    """What is opened: its name, files made to hurt, sound ones of some layouts, how these are damaged, and the module
    of the process that opens them."""

    name: str
    hostile: Mapping[str, Callable[[Path, Path], None]]
    sound: Callable[[Sequence[str], Path], dict[str, Sound]]
    damaged: Callable[[Mapping[str, Sound], str, int, int], dict[str, bytes]]
    worker: str


def run(config: Config, subject: Subject | None = None) -> dict[str, Any]:
    """Damages, opens, counts; writes results.json and a figure, prints the table, returns the results.

    Exits with status 1 when there was a finding.
    """
    from tqdm.auto import tqdm

    subject = subject or Subject("fuzz_readers", HOSTILE, sound_files, damaged_files, "studies.kit.fuzzing.worker")

    folder = RunFolder(config.output)
    folder.describe(config, seeds=[config.seed])
    kept = folder.path / "findings"
    shutil.rmtree(kept, ignore_errors=True)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="sciops fuzz ü ") as scratch:
        sound = subject.sound(config.layouts, Path(scratch))
        counts: dict[str, Counter[str]] = {name: Counter() for name in ("hostile", *sound)}
        slowest, largest, hardest, findings = Counter(), Counter(), Counter(), []
        total = len(subject.hostile) + config.files // len(sound) * len(sound)
        with tqdm(total=total, unit="file", disable=None) as bar:
            for job, said in _opened(_jobs(config, sound, Path(scratch), subject), config, subject.worker):
                counts[job.layout][said["outcome"]] += 1
                slowest[job.layout] = max(slowest[job.layout], said["seconds"])
                largest[job.layout] = max(largest[job.layout], said["megabytes"])
                hardest[job.layout] = max(hardest[job.layout], said.get("computing", 0.0))
                if said["outcome"] in FINDINGS:
                    findings.append({"layout": job.layout, "name": job.name, **said})
                    if job.files is not None:
                        _write(kept / job.name, job.files)
                bar.update()
    results = {
        "files": sum(sum(c.values()) for c in counts.values()),
        "seconds": time.perf_counter() - began,
        "outcomes": {name: dict(c) for name, c in counts.items()},
        "slowest_seconds": dict(slowest),
        "largest_megabytes": dict(largest),
        "most_computing_seconds": dict(hardest),
        "findings": findings,
    }
    folder.write_results(results)
    _draw(results, folder.figures / f"{subject.name}.png")
    _print(results)
    print(f"\nresults.json and figures/{subject.name}.png in {folder.path}")
    if findings:
        sys.exit(1)
    return results


@dataclass(frozen=True)
class Sound:
    """A file that is well, with those that belong beside it: path inside its folder → content; `reader` opens it."""

    main: str
    files: dict[str, bytes]
    reader: str


def sound_files(layouts: Sequence[str], scratch: Path) -> dict[str, Sound]:
    """Layout → its tiny file, for all layouts by default; the native layout as HDF5 and as Zarr.

    Raises ValueError for a layout there is no sample of.
    """
    from sciops.datasets import open_dataset, write_native
    from sciops.datasets.samples import SAMPLES, write_sample

    def native(source: str, name: str) -> Callable[[Path], Path]:
        def write(folder: Path) -> Path:
            with open_dataset(write_sample(source, scratch / f"{source} {name}")) as dataset:
                groups = [dataset, *([open_dataset(scratch / f"{source} {name}", 16)] * (source == "li2020-burgers"))]
                return write_native(folder / name, groups, compression=4, overwrite=True)

        return write

    makers = {name: lambda folder, name=name: write_sample(name, folder / "a file ü") for name in SAMPLES}
    makers |= {"native": native("li2020-burgers", "native.h5"), "native-steady": native("pdebench-darcy", "native.h5")}
    if importlib.util.find_spec("zarr") is not None:
        makers |= {"native-zarr": native("pdebench-1d", "native.zarr")}
    require_known("--layouts", layouts, makers)
    found = {}
    for name in layouts or makers:
        folder = scratch / f"sound {name}"
        folder.mkdir()
        path = makers[name](folder)
        with open_dataset(path) as dataset:
            reader = str(dataset.attrs["layout"])
        files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
        found[name] = Sound(path.name, files, reader)
        shutil.rmtree(folder)
    return found


def damaged_files(sound: Mapping[str, Sound], layout: str, seed: int, i: int) -> dict[str, bytes]:
    """The files of damaged file number i of a layout; the same for the same layouts, seed and number."""
    names = list(sound)
    k = names.index(layout)
    other = sound[names[(k + 1 + i) % len(names)]]
    return damage(sound[layout].files, _seed(seed, layout, i), other.files[min(other.files)])


@dataclass(frozen=True)
class Job:
    layout: str
    name: str
    folder: Path
    path: Path
    files: dict[str, bytes] | None = None
    reader: str | None = None
    mark: Path | None = None


def _jobs(config: Config, sound: dict[str, Sound], scratch: Path, subject: Subject):
    """Hostile files, then damaged ones, layout after layout in turn; each is written when it is asked for."""
    for name, make in subject.hostile.items():
        folder = scratch / f"hostile-{name.replace(' ', '-')}"
        folder.mkdir()
        make(folder / "file", folder / "mark")
        yield Job("hostile", folder.name, folder, folder / "file", mark=folder / "mark")
    for i in range(config.files // len(sound)):
        for layout, one in sound.items():
            files = subject.damaged(sound, layout, config.seed, i)
            folder = scratch / f"{layout}-{config.seed}-{i}"
            _write(folder, files)
            yield Job(layout, folder.name, folder, folder / one.main, files, one.reader)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _seed(seed: int, layout: str, i: int) -> int:
    """By the layout's name, so that a finding is reproduced whatever other layouts there are."""
    return (seed * 1_000_003 + zlib.crc32(layout.encode())) * 10_000_019 + i


def _opened(jobs: Any, config: Config, module: str):
    """(job, what came of it), as the workers finish them."""
    lock, done = threading.Lock(), queue.Queue()
    ends = object()

    def work() -> None:
        worker = Worker(config.seconds, config.megabytes, module)
        try:
            while True:
                with lock:
                    job = next(jobs, None)
                if job is None:
                    return
                said = worker.attempt(job.path, job.reader)
                if said["outcome"] == "hang":  # a file that hangs does so again, a disk that was slow does not
                    said = worker.attempt(job.path, job.reader)
                if said["megabytes"] > config.megabytes:
                    said |= {"outcome": "memory", "detail": f"{said['megabytes']:.0f} MB"}
                if said.get("computing", 0.0) > config.computing:
                    said |= {"outcome": "computing", "detail": f"{said['computing']:.1f} s of processor time"}
                if job.mark is not None and job.mark.exists():
                    said |= {"outcome": "code ran"}
                shutil.rmtree(job.folder, ignore_errors=True)
                done.put((job, said))
        except BaseException as error:
            done.put(error)
        finally:
            worker.close()
            done.put(ends)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(config.processes)]
    for thread in threads:
        thread.start()
    running = len(threads)
    while running:
        item = done.get()
        if item is ends:
            running -= 1
        elif isinstance(item, BaseException):
            raise item
        else:
            yield item


class Worker:
    """A process that opens files; it is ended when a file takes too long, and begun anew when it has died.

    What a file takes is the time from question to answer without that which the process, and those it has started,
    stood in the queue for a processor, so that a busy machine makes no hangs, and one that computes, sleeps or waits
    for a pipe is one. Where the system does not count the queue, all time counts; and 50 times `seconds` are a hang
    whatever was counted.
    """

    def __init__(self, seconds: float, megabytes: float = 1024.0, module: str = "studies.kit.fuzzing.worker") -> None:
        self.seconds, self.megabytes, self.module, self.process = seconds, megabytes, module, None

    def attempt(self, path: Path, reader: str | None = None) -> dict[str, Any]:
        process = self._running()
        began, before = time.perf_counter(), waited(process.pid)
        queued = dict(before)
        # what is opened by all verbs is opened five times; the file itself is held to `seconds` by the worker's clock
        allowed = 0.5 + self.seconds * (5 if opened_in_every_way(path) else 1)
        process.stdin.write(json.dumps({"path": str(path), "layout": reader}) + "\n")
        process.stdin.flush()
        while True:
            said = self._answer(process, self.seconds / 10)
            wall = time.perf_counter() - began
            queued |= waited(process.pid)  # what has ended keeps the last that was seen of it
            took = wall - sum(seconds - before.get(number, 0.0) for number, seconds in queued.items())
            if said is not None:
                said["seconds"] = min(said["seconds"], took)
                if said["seconds"] > self.seconds:
                    said |= {"outcome": "hang", "detail": f"{said['seconds']:.1f} s"}
                return said
            ended = process.poll()
            if ended is not None or took > allowed or wall > 50 * self.seconds:
                self.close()
                outcome = "hang" if ended is None else "death"
                detail = f"no answer in {took:.1f} s" if ended is None else f"the process ended with status {ended}"
                return {"outcome": outcome, "detail": detail, "seconds": took, "megabytes": 0.0}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None

    def _running(self) -> subprocess.Popen:
        if self.process is None or self.process.poll() is not None:
            self.close()
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.module, str(4 * self.megabytes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "HDF5_USE_FILE_LOCKING": "FALSE"},
            )
            if self._answer(self.process, 300.0) is None:
                raise RuntimeError("the process that opens the files did not start: python -m " + self.module)
        return self.process

    @staticmethod
    def _answer(process: subprocess.Popen, seconds: float) -> dict[str, Any] | None:
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        line = process.stdout.readline() if ready else ""
        return json.loads(line) if line else None


def _print(results: dict[str, Any]) -> None:
    print(f"{results['files']} files in {results['seconds']:.0f} s")
    print_table(
        {name: {"opened": 0, "refused": 0, **counts} for name, counts in results["outcomes"].items() if counts},
        "layout=name; opened; refused",
        ("findings", lambda row: sum(row.get(kind, 0) for kind in FINDINGS)),
        ("slowest s", lambda row: f"{results['slowest_seconds'][row['name']]:.2f}"),
        ("memory MB", lambda row: f"{results['largest_megabytes'][row['name']]:.0f}"),
        ("computing s", lambda row: f"{results['most_computing_seconds'][row['name']]:.2f}"),
    )
    for finding in results["findings"][:20]:
        print(f"  {finding['outcome']}: {finding['name']}: {finding['detail']}")
    if not results["findings"]:
        print("no crash, no hang, no file that needs too much memory, no code that ran, one verdict on every file")


def _draw(results: dict[str, Any], path: Path) -> None:
    import numpy as np

    names = [name for name, counts in results["outcomes"].items() if counts]
    with figure(path, width=5.5, height=0.6 + 0.22 * len(names)) as (_, axes):
        axis, left = axes[0, 0], np.zeros(len(names))
        kinds = {"opened": ("opened",), "refused in one line": ("refused",), "findings": FINDINGS}
        for (label, outcomes), colour in zip(kinds.items(), ("#56B4E9", "#009E73", "#D55E00")):
            total = np.array([sum(results["outcomes"][name].values()) for name in names])
            share = np.array([sum(results["outcomes"][name].get(o, 0) for o in outcomes) for name in names]) / total
            axis.barh(names, share, left=left, label=label, color=colour)
            left += share
        axis.set_xlabel("share of the damaged files")
        axis.invert_yaxis()
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
