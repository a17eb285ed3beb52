"""Does a process that is killed at any moment leave work that its command resumes, complete and with nothing left over?

    python -m studies.crash_recovery --preset quick
    python -m studies.crash_recovery --preset long --output runs/crash_recovery

Generations (HDF5, Zarr, compressed, by worker processes, by shards), trainings and studies run once undisturbed. Then
each is killed with SIGKILL, at moments spread over its time and over its file operations: right before or right after
the n-th fsync, rename, removal, … of one of its processes, which meets the moments of writing and cleaning up that a
clock seldom does. Most kills end all processes of the job at once, as a batch scheduler does; every fourth one process
alone, as a machine without memory does. At other moments the disk is full: from the n-th operation on, all that need
room fail. The same command is given again, killed once more in every third case, until it ends with status 0.

A moment is a finding when that takes more than one undisturbed run, when a full disk is answered by a traceback or with
temporary files that stay ("bad refusal"), when the fields, tensors, losses or results are not
those of the undisturbed run to the bit ("wrong"), when finished parts, epochs or cells were made again ("repeated"), or
when a file, folder, lock or process is left that the undisturbed run does not leave ("left over"). The study then ends
with status 1. It resumes where it was stopped: each moment is a record; findings are tried again. Of a wrong one, the
folders of the killed job and of the undisturbed reference stay in ``<output>/wrong/<job> <number>/``, and its record
says which variables differ, in how many values, and by how much.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.commands.packages import own_environment
from sciops.plotting import PALETTE
from studies.crash_recovery.commands import Job, contents, jobs
from studies.crash_recovery.differences import described, explain
from studies.kit.answers import listed, sentence
from studies.kit.cells import kept
from studies.kit.choices import require_known
from studies.kit.figures import panels
from studies.kit.study import finished, opened
from studies.kit.tables import print_table


@dataclass(frozen=True)
class Config:
    moments: int = 18  # of each job
    jobs: tuple[str, ...] = ()  # names, such as HDF5 or training; default all
    seed: int = 0  # of the moments
    scratch: Path | None = None
    """folder in which the jobs run; default the system's temporary folder. Memory (/dev/shm) is quickest"""
    output: Path = Path("runs/crash_recovery")  # folder for the records, results.json and the figure


PRESETS = {
    "quick": Config(moments=2, jobs=("HDF5", "Zarr, zstd", "shards", "workers", "training", "study")),
    "long": Config(),
    "full": Config(moments=100),
}

WHOLE, EARLY = "recovered", "ended before the kill"
FINDINGS = ("wrong", "repeated", "left over", "refused", "bad refusal", "hang")
CLOCK, OPERATION, FULL = "time", "file operation", "full disk"
_KINDS = (CLOCK, OPERATION, OPERATION, CLOCK, OPERATION, FULL)


@dataclass(frozen=True)
class Moment:
    """When a job is killed.

    at : share of its seconds, or of its file operations
    kind : "time" or "file operation" of a kill, or the operation from which on the disk is full
    after : right after the operation, else right before it
    alone : one process, else all of the job
    again : share of the operations at which the resumed run is killed too, or None
    """

    at: float
    kind: str
    after: bool
    alone: bool
    again: float | None


def run(config: Config) -> dict[str, Any]:
    """Runs, kills, resumes, compares; writes results.json and figures/crash_recovery.png, prints the table.

    Exits with status 1 when there was a finding. Raises ValueError for an unknown job, RuntimeError when two
    undisturbed runs of a job differ.
    """
    from tqdm.auto import tqdm

    folder = opened(config, seeds=[config.seed])
    began, records, skipped = time.perf_counter(), [], {}
    with tempfile.TemporaryDirectory(prefix="sciops-kills-", dir=config.scratch) as scratch:
        chosen = _chosen(config, Path(scratch) / "data" / "data.h5")
        (Path(scratch) / "data").mkdir()
        with (
            Server(chosen.values()) as server,
            tqdm(total=len(chosen) * config.moments, unit="kill", disable=None) as bar,
        ):
            for name, job in chosen.items():
                if missing := job.missing():
                    skipped[name] = f"needs {', '.join(missing)}"
                    continue
                trial = Trial(job, server, Path(scratch) / re.sub(r"\W+", "-", name))
                for number, moment in enumerate(moments(config.moments, config.seed, name)):
                    records.append({"job": name, **_record(folder.path / "moments", name, number, moment, trial)})
                    bar.update()
                trial.end()
    results = {
        "moments": len(records),
        "kills": sum(record["kills"] for record in records),
        "seconds": time.perf_counter() - began,
        "jobs": {name: _counts(records, name) for name in chosen if name not in skipped},
        "skipped": skipped,
        "findings": [record for record in records if record["outcome"] in FINDINGS],
        "records": records,
    }
    draw = _draw if records else lambda *_: None
    finished(folder, results, draw, _print, answer=answer, picture="crash_recovery.png")
    if results["findings"]:
        sys.exit(1)
    return results


def answer(results: dict[str, Any]) -> str:
    """How many kills there were, and what was not as in a run without them."""
    kinds = Counter(record["outcome"] for record in results["findings"])
    found = listed(f"{count} {outcome}" for outcome, count in kinds.items())
    lost = f"{len(results['findings'])} runs did not recover ({found})" if kinds else "every run recovered all its work"
    return sentence(f"{results['kills']} kills in jobs of {listed(results['jobs'])}: {lost}")


def moments(count: int, seed: int, job: str) -> Iterator[Moment]:
    """Moments of a job; those of a kind are spread evenly with a random offset."""
    random = np.random.default_rng([seed, *job.encode()])
    offsets = {kind: random.random() for kind in _KINDS}
    kinds = [_KINDS[i % len(_KINDS)] for i in range(count)]
    for i, kind in enumerate(kinds):
        yield Moment(
            at=(kinds[:i].count(kind) + offsets[kind]) / kinds.count(kind),
            kind=kind,
            after=bool(random.integers(2)),
            alone=i % 4 == 3,
            again=float(random.random()) if i % 3 == 2 else None,
        )


class Trial:
    """One job: its undisturbed run, and what becomes of it when it is killed."""

    def __init__(self, job: Job, server: Server, folder: Path) -> None:
        self.job, self.server, self.folder = job, server, folder
        self._reference: dict[str, Any] | None = None

    def reference(self) -> dict[str, Any]:
        """{"contents", "operations", "seconds", "pieces"} of an undisturbed run, whose contents a second one has too.

        Raises RuntimeError when one of them does not end well or they differ.
        """
        if self._reference is None:
            self._prepare()
            both, there = [], self.job.finished(self.folder / "start")
            for number in range(2):
                said = self._run(folder := self._fresh(f"reference-{number}"))
                if any(said["statuses"]):
                    raise RuntimeError(f"the undisturbed run ended with {said['statuses']}: {said['said']}")
                both.append({"contents": contents(self._seen(folder)), **said, "pieces": there + self._made(said)})
            if different := _differences(both[0]["contents"], both[1]["contents"]):
                rows = explain(*(self.folder / f"reference-{n}" for n in range(2)), self._files(*both))
                raise RuntimeError(
                    f"two undisturbed runs differ: {'; '.join([different[0], *map(described, rows[:3])])}"
                )
            self._reference = both[1]
        return self._reference

    def kill(self, moment: Moment) -> dict[str, Any]:
        """{"outcome", "detail", "kills", "attempts", "kept", "state"}, the last two of when it was first killed: the
        pieces of work that were there, and the names in its folder."""
        reference, folder, groups = self.reference(), self._fresh("killed"), []
        record = {"outcome": WHOLE, "detail": "", "kills": 0, "attempts": 0, "kept": 0, "state": ""}
        due = [self._due(moment), *([self._due_again(moment)] if moment.again is not None else [])]
        while True:
            before = self.job.finished(folder)
            said = self._run(folder, due.pop(0) if due else None, groups)
            record["attempts"] += 1
            groups.append(said["group"])
            if None in said["statuses"]:
                return record | {"outcome": "hang", "detail": said["said"]}
            record["kills"] += said["killed"] or said["full"]
            if (made := self._made(said)) > reference["pieces"] - before:
                return record | {"outcome": "repeated", "detail": f"{made} pieces after {before} were there"}
            if not any(said["statuses"]):
                break
            if not (said["killed"] or said["full"]):
                return record | {"outcome": "refused", "detail": f"{said['statuses']}: {said['said']}"}
            if not said["killed"] and (bad := _badly_refused(said, folder)):
                return record | {"outcome": "bad refusal", "detail": bad}
            if record["attempts"] == 1:
                record["kept"] = self.job.finished(folder)
                record["state"] = " ".join(sorted(p.name for p in folder.iterdir() if p.name not in ("said", "tmp")))
        found = {"contents": contents(self._seen(folder))}
        if different := _differences(reference["contents"], found["contents"]):
            record |= {"outcome": different[1], "detail": different[0]}
            if different[1] == "wrong":
                rows = explain(self.folder / "reference-1", folder, self._files(reference, found))
                record |= {"detail": "; ".join([different[0], *map(described, rows[:3])]), "differences": rows}
            return record
        if said["processes"]:
            return record | {"outcome": "left over", "detail": f"{said['processes']} processes"}
        return record | ({} if record["kills"] else {"outcome": EARLY})

    def keep(self, target: Path) -> None:
        """Copies the folders of the killed job and of the undisturbed reference to `target`, in place of older ones."""
        shutil.rmtree(target, ignore_errors=True)
        for source, name in (("killed", "killed"), ("reference-1", "reference")):
            shutil.copytree(self.folder / source, target / name, symlinks=True, ignore=_unfit_to_copy)

    def end(self) -> None:
        """Removes the folders."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _prepare(self) -> None:
        start = self.folder / "start"
        start.mkdir(parents=True)
        for name, content in self.job.files.items():
            (start / name).parent.mkdir(parents=True, exist_ok=True)
            (start / name).write_text(content)
        for words in self.job.before:
            said = self.server.ask(folder=str(start), commands=[words])
            if any(said["statuses"]):
                raise RuntimeError(f"sciops {' '.join(words)} ended with {said['statuses']}: {said['said']}")
        self._seen(start)

    def _fresh(self, name: str) -> Path:
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "start", folder)
        return folder

    def _run(self, folder: Path, kill: Mapping[str, Any] | None = None, earlier: Any = ()) -> dict[str, Any]:
        asked = {"kill": kill, "since": self.job.since, "earlier": list(earlier)}
        return self.server.ask(folder=str(folder), commands=self.job.commands, **asked)

    def _seen(self, folder: Path) -> Path:
        """The folder without what this study put there; what a job left among its temporary files stays.

        Not that of Python's own multiprocessing: a socket of a killed process, in a folder that does not say whose.
        """
        (folder / "said").unlink(missing_ok=True)
        for sockets in (folder / "tmp").glob("pymp-*"):
            shutil.rmtree(sockets, ignore_errors=True)
        if (folder / "tmp").is_dir() and not any((folder / "tmp").iterdir()):
            (folder / "tmp").rmdir()
        return folder

    @staticmethod
    def _files(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
        """The files of the reference that the other run lacks or has otherwise."""
        return [name for name, digest in wanted["contents"].items() if found["contents"].get(name) != digest]

    def _made(self, said: Mapping[str, Any]) -> int:
        return sum(bool(re.fullmatch(self.job.pieces, name)) for name in said["replaced"])

    def _due(self, moment: Moment) -> dict[str, Any]:
        if moment.kind == CLOCK:
            return {"seconds": moment.at * self.reference()["seconds"], "alone": moment.alone}
        number = int(moment.at * self.reference()["operations"])
        if moment.kind == FULL:
            return {"operation": number, "full": True}
        return {"operation": number, "after": moment.after, "alone": moment.alone}

    def _due_again(self, moment: Moment) -> dict[str, Any]:
        return {"operation": int(moment.again * self.reference()["operations"]), "after": moment.after, "alone": False}


def _unfit_to_copy(folder: str, names: list[str]) -> list[str]:
    """Sockets and pipes among the names, which cannot be copied."""
    paths = {name: Path(folder) / name for name in names}
    return [n for n, path in paths.items() if path.exists() and not (path.is_file() or path.is_dir())]


def _badly_refused(said: Mapping[str, Any], folder: Path) -> str:
    """What is wrong with the end of a command that met a full disk, or nothing."""
    temporary = [path.name for path in folder.rglob(".*.tmp*")]
    return "a traceback" if said["traceback"] else f"{temporary[0]} stays" if temporary else ""


class Server:
    """The process of `studies.crash_recovery.worker`, for the length of a block."""

    def __init__(self, served: Iterable[Job]) -> None:
        self._modules = sorted(set().union(*(job.modules() for job in served)))

    def __enter__(self) -> Server:
        words = [sys.executable, "-m", "studies.crash_recovery.worker", *self._modules]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own_environment()
        )
        self._answer()
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.kill()  # it holds nothing, and takes long to end by itself on a busy machine
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer of `studies.crash_recovery.worker.attempt`."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that starts the jobs has ended: python -m studies.crash_recovery.worker")
        return json.loads(line)


def _chosen(config: Config, data: Path) -> dict[str, Job]:
    known = jobs(data)
    require_known("--jobs", config.jobs, known)
    return {name: known[name] for name in config.jobs or known}


def _record(cells: Path, name: str, number: int, moment: Moment, trial: Trial) -> dict[str, Any]:
    made_by = {"moment": asdict(moment), "job": [trial.job.commands[0][:2], len(trial.job.commands)]}

    def measured() -> dict[str, Any]:
        record = trial.kill(moment)
        if record["outcome"] == "wrong":
            trial.keep(cells.parent / "wrong" / f"{name} {number}")
        return record

    found = kept(cells, f"{name} {number}", made_by, measured, unless=lambda record: record["outcome"] in FINDINGS)
    return {**asdict(moment), **{key: value for key, value in found.items() if key not in ("name", "spec")}}


def _differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> tuple[str, str] | None:
    """(what differs, kind of finding), the worst first, or None."""
    for name in wanted:
        if name not in found:
            return f"{name} is missing", "wrong"
        if wanted[name] != found[name]:
            return f"{name} differs", "wrong"
    more = sorted(set(found) - set(wanted))
    return (f"{', '.join(more[:3])} left", "left over") if more else None


def _counts(records: list[dict[str, Any]], name: str) -> dict[str, Any]:
    own = [record for record in records if record["job"] == name]
    outcomes = Counter(record["outcome"] for record in own)
    return {"moments": len(own), "kills": sum(record["kills"] for record in own), "outcomes": dict(outcomes)}


def _print(results: dict[str, Any]) -> None:
    print(f"\n{results['moments']} moments, {results['kills']} kills in {results['seconds']:.0f} s")
    found = ("findings", lambda row: sum(row["outcomes"].get(kind, 0) for kind in FINDINGS))
    whole = ("recovered", lambda row: row["outcomes"].get(WHOLE, 0))
    print_table(results["jobs"], "job=name; moments; kills", whole, found)
    for name, why in results["skipped"].items():
        print(f"{name:>26} skipped: {why}")
    for finding in results["findings"][:20]:
        when = f"{finding['at']:.1%} of its {finding['kind']}"
        print(f"  {finding['job']}, {when}: {finding['outcome']}: {finding['detail']}")
    if not results["findings"]:
        print("nothing wrong, nothing lost, nothing left over")


def _draw(results: dict[str, Any], path: Path) -> None:
    names = list(results["jobs"])
    colours = {WHOLE: PALETTE[0], EARLY: "#999999", "finding": PALETTE[1]}
    marks = {OPERATION: ("|", -0.24), CLOCK: ("o", 0.0), FULL: ("x", 0.24)}
    size = {"width": 5.8, "height": 0.9 + 0.3 * len(names)}
    caption = "When each job was killed, by what, and what its resumed run came to."
    with panels(path, 1, 1, caption=caption, **size) as (axis,):
        for record in results["records"]:
            marker, offset = marks[record["kind"]]
            colour = colours.get(record["outcome"], colours["finding"])
            place = names.index(record["job"]) + offset
            axis.plot(record["at"], place, marker, color=colour, markersize=3.5 + 2.5 * (marker == "|"))
        for kind, (marker, _) in marks.items():
            axis.plot([], [], marker, color="black", markersize=4.5, label=kind)
        for outcome, colour in colours.items():
            axis.plot([], [], "s", color=colour, label=outcome)
        axis.set_yticks(range(len(names)), names)
        axis.set(xlim=(-0.01, 1.01), ylim=(len(names) - 0.5, -0.5), xlabel="moment, as a share of the job")
        axis.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2)
