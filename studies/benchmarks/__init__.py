"""Every speed study, one after another, and one table: target beside result.

    python -m studies.benchmarks
    python -m studies.benchmarks --preset quick --page docs/studies/benchmarks.md
    python -m studies.benchmarks --preset gpu

With the preset gpu, on a CUDA device, equality with the CPU is checked first, and the measurements carry no target.
Each study is a process of its own, whose output goes to log.txt in its folder. One that finished with the same
configuration is not run again (``--fresh`` runs all). Writes results.json, a figure, and with ``--page`` the page of
the docs. A study that fails, for instance because a result is not equal to its reference, lets the others run and then
makes the exit status 1.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sciops.commands.packages import own_environment
from sciops.files.digest import read_sealed, sealed
from sciops.files.json_files import write_atomically
from sciops.files.writable import writable_file
from sciops.plotting import PALETTE, figure
from sciops.runs import environment, plain, write_json
from studies.benchmarks.docs_page import page
from studies.kit.answers import met, sentence
from studies.kit.cells import code_digest, fingerprint
from studies.kit.study import finished, opened
from studies.kit.timing import print_targets

STUDIES = (
    "mixer_speed",
    "attention_cost",
    "solver_speed",
    "stepper_speed",
    "prompt_speed",
    "training_costs",
    "generation_speed",
    "analysis_speed",
    "accuracy_for_time",
)
ON_A_DEVICE = ("device_equality", "mixer_speed", "attention_cost", "solver_speed")  # equality with the CPU first


@dataclass(frozen=True)
class Config:
    studies: tuple[str, ...] = STUDIES  # modules of studies/ to run, in this order
    study_preset: str = "quick"  # the preset of each
    limit: float | None = None  # seconds after which a study is stopped and counts as failed; None: never
    fresh: bool = False  # runs again what is there already
    page: Path | None = None  # Markdown file to write from the results
    output: Path = Path("runs/benchmarks")  # folder for results.json, the figure, and a folder a study


PRESETS = {
    "quick": Config(),
    "full": Config(study_preset="full"),
    "gpu": Config(studies=ON_A_DEVICE, study_preset="gpu", limit=150.0, output=Path("runs/benchmarks_gpu")),
}


def run(config: Config) -> dict[str, Any]:
    """Runs, prints, writes results.json, figures/benchmarks.png and the page; returns what results.json holds.

    Raises SystemExit naming the studies that failed, after everything is written; ValueError for an unknown study or
    preset before anything runs.
    """
    from tqdm.auto import tqdm

    configs = {name: _config_of(name, config) for name in config.studies}
    if config.page is not None:
        writable_file(config.page)
    folder = opened(config)
    records: dict[str, Any] = {}
    with tqdm(configs.items(), unit="study", disable=None) as bar:
        for name, asked in bar:
            bar.set_postfix_str(name)
            records[name] = _finished(asked) if not config.fresh else None
            records[name] = records[name] or _run_study(name, asked, config)
            tqdm.write(f"{name}: {_summary(records[name])}")
    targets = [{"study": name, **row} for name, record in records.items() for row in record["targets"]]
    results = {
        "command": f"python -m studies.benchmarks --preset {config.study_preset}",
        "environment": _machine(),
        "studies": records,
        "targets": targets,
        "seconds": sum(record["seconds"] for record in records.values()),
    }
    picture = "benchmarks.png" if targets else ""
    finished(folder, results, _draw, _print, answer=answer, picture=picture)
    if config.page is not None:
        write_atomically(config.page, page(plain(results)).encode())
        print(f"wrote {config.page}")
    failed = [f"{name}: {record['error']}" for name, record in records.items() if record["error"]]
    if failed:
        raise SystemExit(f"failed: {'; '.join(failed)}")
    return results


def answer(results: Mapping[str, Any]) -> str:
    """How many targets are met, and which is missed by most."""
    missed = [row for row in results["targets"] if not row["met"]]
    worst = min(missed, key=margin, default=None)
    failed = [name for name, record in results["studies"].items() if record["error"]]
    return sentence(
        met(results["targets"]) or "no target was measured",
        f"missed by most: {worst['study']}, {worst['what']}: {worst['value']:.3g}, target {worst['target']}"
        if worst
        else "",
        f"failed: {', '.join(failed)}" if failed else "",
    )


def _print(results: Mapping[str, Any]) -> None:
    targets, records = results["targets"], results["studies"]
    width = max(map(len, records))
    print_targets({**row, "what": f"{row['study']:<{width}}  {row['what']}"} for row in targets)
    print(
        f"\n{sum(row['met'] for row in targets)} of {len(targets)} targets met, {results['seconds']:.0f} s of studies"
    )


def _config_of(name: str, config: Config) -> Any:
    """The configuration with which study `name` runs."""
    if importlib.util.find_spec(f"studies.{name}") is None:
        raise ValueError(f"--studies {name}: there is no studies/{name}; expected of {', '.join(STUDIES)}")
    presets = importlib.import_module(f"studies.{name}").PRESETS
    if config.study_preset not in presets:
        raise ValueError(f"{name} has no preset {config.study_preset!r}; expected one of {', '.join(presets)}")
    return replace(presets[config.study_preset], output=config.output / name)


def _finished(asked: Any) -> dict[str, Any] | None:
    """The record of a run that ended well with this configuration and code; None where there is none."""
    path = asked.output / "finished.json"
    if not path.exists():
        return None
    record = read_sealed(path)
    return record if record.pop("made_by", None) == _made_by(asked) else None


def _made_by(asked: Any) -> str:
    return fingerprint({"config": asked, "code": code_digest(type(asked).__module__)})


def _run_study(name: str, asked: Any, config: Config) -> dict[str, Any]:
    """{"seconds", "error", "targets", "results", "title", "environment"} of one study, run in a process of its own."""
    asked.output.mkdir(parents=True, exist_ok=True)
    for old in ("finished.json", "results.json"):  # what an earlier configuration left
        (asked.output / old).unlink(missing_ok=True)
    words = ["--preset", config.study_preset, "--output", str(asked.output)]
    log = asked.output / "log.txt"
    start = time.perf_counter()
    error = _process([sys.executable, "-m", f"studies.{name}", *words], log, config.limit)
    seconds = time.perf_counter() - start
    results = json.loads(_text(asked.output / "results.json") or "{}")
    if not error and "targets" not in results:
        error = "left no results.json with targets"
    title = (sys.modules[f"studies.{name}"].__doc__ or name).strip().splitlines()[0]
    record = {
        "title": title,
        "seconds": seconds,
        "error": error,
        # what a study that failed has measured is not to be held against anything
        "targets": [] if error else results.pop("targets"),
        "results": {} if error else results,
        "environment": json.loads(_text(asked.output / "environment.json") or "{}"),
    }
    if not error:
        write_json(asked.output / "finished.json", sealed({**record, "made_by": _made_by(asked)}))
    return record


def _process(words: list[str], log: Path, limit: float | None) -> str:
    """Runs it with its output in `log`; "" or why it failed, in one line."""
    with log.open("wb") as said:
        process = subprocess.Popen(
            words, stdout=said, stderr=subprocess.STDOUT, env=own_environment(), start_new_session=True
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return f"stopped after its limit of {limit:g} s; {log} holds what it said"
        finally:
            if process.poll() is None:  # with what it has begun itself
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if not status:
        return ""
    last = (_text(log).strip().splitlines() or ["no message"])[-1]
    return f"{last.removeprefix('error: ')} (status {status}, {log})"


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _summary(record: Mapping[str, Any]) -> str:
    if record["error"]:
        return f"FAILED, {record['error']}"
    met = sum(row["met"] for row in record["targets"])
    return f"{met} of {len(record['targets'])} targets met, {record['seconds']:.0f} s"


def _machine() -> dict[str, Any]:
    """The environment of this process, with the name of the CPU and the version of the solver compared with."""
    described = environment()
    try:
        described["versions"]["pyamg"] = importlib.metadata.version("pyamg")
    except importlib.metadata.PackageNotFoundError:
        pass
    names = re.findall(r"model name\s*:\s*(.+)", _text(Path("/proc/cpuinfo")))
    return {**described, "cpu": names[0] if names else platform.processor() or platform.machine()}


def margin(row: Mapping[str, Any]) -> float:
    """How far a target is met: value / bound of a lower one, bound / value of an upper one, the lesser of both.

    >>> margin({"target": "≥ 2", "value": 3.0}), margin({"target": "≤ 2", "value": 4.0})
    (1.5, 0.5)
    """
    margins = [
        row["value"] / float(bound) if sign == "≥" else float(bound) / max(row["value"], 1e-300)
        for sign, bound in re.findall(r"([≥≤])\s*([-+.\deE]+)", row["target"])
    ]
    return min(margins, default=float("nan"))


def _draw(results: Mapping[str, Any], path: Path) -> None:
    """How far each target is met, on a logarithmic axis; those without a bound are left out."""
    targets = results["targets"]
    if not targets:
        return
    rows = [(f"{row['study']}: {row['what']}", margin(row), row["met"]) for row in targets]
    rows = [row for row in rows if row[1] > 0]
    caption = "How far every target of the speed studies is met, as a factor."
    with figure(path, width=7.5, height=1.0 + 0.19 * max(len(rows), 4), caption=caption) as (_, axes):
        axis = axes[0, 0]
        for met, color, marker in ((True, PALETTE[0], "o"), (False, PALETTE[1], "X")):
            at = [i for i, row in enumerate(rows) if row[2] == met]
            values = [rows[i][1] for i in at]
            axis.hlines(at, 1, values, color=color, linewidth=1.5)
            label = f"{'met' if met else 'missed'} ({len(at)})"
            axis.plot(values, at, linestyle="none", marker=marker, color=color, label=label)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yticks(range(len(rows)), [row[0] for row in rows], fontsize=6.5)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlabel("result over target (target over result where less is better)")
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
