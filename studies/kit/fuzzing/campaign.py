"""Opens hostile and damaged files by the thousand, in processes that are watched, and counts what came of them."""

from __future__ import annotations

import queue
import shutil
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
from studies.kit.answers import listed, sentence
from studies.kit.fuzzing.odd_contents import damage
from studies.kit.fuzzing.opening import Worker
from studies.kit.study import finished, opened
from studies.kit.tables import print_table


@dataclass(frozen=True)
class Config:
    files: int = 20_000  # damaged files, spread evenly over the layouts
    layouts: tuple[str, ...] = ()
    """of `sciops.datasets.formats.samples.SAMPLES`, or native, native-steady, native-zarr; default all"""
    seconds: float = 3.0  # a file that takes longer is a hang; time spent in the queue for a processor does not count
    megabytes: float = 1024.0
    """a file that needs more memory is a finding, that of the process which looks at HDF5 files included"""
    computing: float = 10.0  # seconds of processor time; a file that takes more is a finding
    processes: int = 2  # files opened at a time
    seed: int = 0  # file i of a layout is damaged by seed (seed, layout, i)
    output: Path = Path("runs/fuzz_readers")  # folder for results.json, the figure and the files of findings


FINDINGS = ("silent", "crash", "death", "hang", "computing", "memory", "bad message", "two verdicts", "code ran")


@dataclass(frozen=True)
class Sound:
    """A file that is well, with those that belong beside it: path inside its folder → content; `reader` opens it."""

    main: str
    files: dict[str, bytes]
    reader: str


@dataclass(frozen=True)
class Subject:
    """What is opened: its name, files made to hurt, sound ones of some layouts, how these are damaged, and the module
    of the process that opens them."""

    name: str
    hostile: Mapping[str, Callable[[Path, Path], None]]
    sound: Callable[[Sequence[str], Path], dict[str, Sound]]
    damaged: Callable[[Mapping[str, Sound], str, int, int], dict[str, bytes]]
    worker: str


def run(config: Config, subject: Subject) -> dict[str, Any]:
    """Damages, opens, counts; writes results.json and a figure, prints the table, returns the results.

    Exits with status 1 when there was a finding.
    """
    from tqdm.auto import tqdm

    folder = opened(config, seeds=[config.seed])
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
                        write_files(kept / job.name, job.files)
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
    finished(folder, results, _draw, _print, answer=answer, picture=f"{subject.name}.png")
    if findings:
        sys.exit(1)
    return results


def answer(results: dict[str, Any]) -> str:
    """What became of the damaged files."""
    total: Counter[str] = sum((Counter(counts) for counts in results["outcomes"].values()), Counter())
    bad = listed(f"{total[kind]} {kind}" for kind in FINDINGS if total[kind])
    found = bad or "none crashed, hung, took too much or ran code"
    return sentence(
        f"of {results['files']} damaged files {total['opened']} opened and {total['refused']} were refused", found
    )


def damaged_files(sound: Mapping[str, Sound], layout: str, seed: int, i: int) -> dict[str, bytes]:
    """The files of damaged file number i of a layout; the same for the same layouts, seed and number."""
    names = list(sound)
    k = names.index(layout)
    other = sound[names[(k + 1 + i) % len(names)]]
    return damage(sound[layout].files, _seed(seed, layout, i), other.files[min(other.files)])


def _seed(seed: int, layout: str, i: int) -> int:
    """By the layout's name, so that a finding is reproduced whatever other layouts there are."""
    return (seed * 1_000_003 + zlib.crc32(layout.encode())) * 10_000_019 + i


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


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
            write_files(folder, files)
            yield Job(layout, folder.name, folder, folder / one.main, files, one.reader)


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


def _draw(results: dict[str, Any], path: Path) -> None:
    import numpy as np

    names = [name for name, counts in results["outcomes"].items() if counts]
    caption = "What became of the damaged files, by what they were before."
    with figure(path, width=5.5, height=0.6 + 0.22 * len(names), caption=caption) as (_, axes):
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
