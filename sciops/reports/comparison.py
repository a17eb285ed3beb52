"""Trained runs side by side: options that differ, errors with their spread, size, time, and paired verdicts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation import FEWEST, Verdict, paired_verdict, spread
from sciops.reports.arms import Arm, arms_of, differing, mean_of, scores, why_not
from sciops.reports.page import write
from sciops.reports.parts import Code, Facts, Section, text_of
from sciops.reports.run_files import RunFiles, read_run
from sciops.reports.tables import Table, table_of


@dataclass(frozen=True)
class Comparison:
    """Runs side by side.

    answer : which has the smallest error, and whether that is more than chance
    tables : runs, options that differ, errors over seeds, verdicts
    runs : what was compared
    """

    answer: str
    tables: tuple[Table, ...]
    runs: tuple[RunFiles, ...]

    def lines(self) -> list[str]:
        """The answer and the tables as a terminal shows them."""
        found = [self.answer]
        for table in self.tables:
            found += ["", table.title, *table.lines(), *([table.note] if table.note else [])]
        return found

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes the comparison as one HTML page; returns its path."""
        sections = [Section(table.title, [Table(table.columns, table.rows, "", table.note)]) for table in self.tables]
        hashes = {f"SHA-256 of {name}": value for run in self.runs for name, value in run.data.items()}
        commands = "\n".join(run.command or f"# {run.path}: no command is recorded" for run in self.runs)
        sections.append(Section("Repeat them", [Code(commands, wrap=True), *([Facts(hashes)] if hashes else [])]))
        return write(path, f"{len(self.runs)} runs compared", self.answer, sections, subtitle="Comparison")


def compare(folders: Iterable[str | os.PathLike[str]], *, names: Sequence[str] | None = None) -> Comparison:
    """Compares trained runs by their configurations and test errors.

    Runs whose configurations differ in the seed alone are trainings of one model. Two models are compared by
    `sciops.evaluation.paired_verdict` where both were tested on the same fields and kept the error of every field.

    Parameters
    ----------
    folders : iterable of path
        Runs of ``sciops train``, two or more.
    names : sequence of str, optional
        A name a run, by default that of its folder; runs that are trainings of one model may have one name.

    Returns
    -------
    Comparison

    Raises
    ------
    OSError, ValueError
        In one line: fewer than two runs, one given twice, or a folder that is not that of a training.
    """
    runs = [read_run(folder) for folder in folders]
    places = [run.path.resolve() for run in runs]
    if len(runs) < 2:
        raise ValueError(f"{len(runs)} run to compare: pass two or more folders")
    for run, place in zip(runs, places):
        if places.count(place) > 1:
            raise ValueError(f"{run.path} is given twice: pass different runs")
        if run.results is not None and not run.is_training:
            kind = f"the study {run.study}" if run.study else "no training"
            raise ValueError(f"{run.path} is {kind}, expected a run of sciops train; sciops report makes a page of it")
    names = list(names) if names is not None else _names(runs)
    arms, repeated = arms_of(runs, names)
    verdicts = [row for score in _scores_of(runs) for row in _verdicts(score, arms)]
    tables = [_runs_table(runs, names, repeated), _differences(runs, names)]
    if any(len(arm.runs) > 1 for arm in arms):
        tables.append(_seeds_table(arms, _scores_of(runs)))
    if verdicts:
        tables.append(_verdict_table(verdicts))
    return Comparison(_answer(arms, _scores_of(runs), verdicts), tuple(t for t in tables if t.rows), tuple(runs))


def _scores_of(runs: Sequence[RunFiles]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in scores(run)))


def _names(runs: Sequence[RunFiles]) -> list[str]:
    """The names of the folders, or their whole paths where two have one name."""
    short = [run.name for run in runs]
    return short if len(set(short)) == len(short) else [str(run.path) for run in runs]


def _runs_table(runs: Sequence[RunFiles], names: Sequence[str], repeated: Mapping[Path, str]) -> Table:
    errors = _scores_of(runs)

    def error(name: str) -> tuple[str, Any]:
        return f"error at {name}", lambda row: text_of(row[name].mean) if name in row else None

    rows = [
        {"run": name, "path": run.path, "config": run.config, "results": run.results or {}, **scores(run)}
        for run, name in zip(runs, names)
    ]
    return table_of(
        rows,
        "run",
        ("model", lambda row: text_of(row["results"].get("model", row["config"].get("model")))),
        ("seed", lambda row: text_of(row["config"].get("seed"))),
        *map(error, errors),
        ("validation", lambda row: text_of(row["results"].get("validation"))),
        ("parameters", lambda row: _count(row["results"].get("parameters"))),
        ("epochs", lambda row: text_of(row["results"].get("epochs"))),
        ("seconds", lambda row: text_of(row["results"].get("seconds"))),
        ("state", lambda row: _state(row["results"], repeated.get(row["path"]))),
        title="Runs",
        note="Errors: relative L2, mean over the test samples.",
    )


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else text_of(value)


def _state(results: Mapping[str, Any], repeats: str | None) -> str:
    if repeats is not None:
        return f"repeats {repeats}"
    if not results:
        return "no results yet"
    return f"stopped: {text_of(results['stopped'])}" if results.get("stopped") else "finished"


def _differences(runs: Sequence[RunFiles], names: Sequence[str]) -> Table:
    columns = [(name, lambda option, run=run: text_of(run.config.get(option))) for run, name in zip(runs, names)]
    return table_of(differing(runs), ("option", str), *columns, title="Options that differ")


def _seeds_table(arms: Sequence[Arm], names: Sequence[str]) -> Table:
    def error(name: str) -> tuple[str, Any]:
        def of(arm: Arm) -> str | None:
            found = [scores(run)[name].mean for run in arm.runs if name in scores(run)]
            return f"{spread(found):.4g}" if found else None

        return f"error at {name}", of

    columns = [("seeds", lambda arm: str(len(arm.runs))), *map(error, names)]
    note = "Mean and standard deviation over the seeds."
    return table_of(arms, ("model", lambda arm: arm.name), *columns, title="Errors over seeds", note=note)


def _verdicts(score: str, arms: Sequence[Arm]) -> list[dict[str, Any]]:
    """The arm of the smallest error against every other, on one test grid."""
    tested = [arm for arm in arms if any(score in scores(run) for run in arm.runs)]
    if len(tested) < 2:
        return []
    best = min(tested, key=lambda arm: mean_of(arm, score))
    rows = []
    for other in tested:
        if other is not best:
            row = {"score": score, "first": best, "second": other, "verdict": None, "why": why_not(best, other, score)}
            if not row["why"]:
                pairs = list(zip(best.runs, other.runs))
                first, second = ([scores(pair[i])[score].of_samples for pair in pairs] for i in (0, 1))
                row["verdict"] = paired_verdict(np.array(first), np.array(second))
            rows.append(row)
    return rows


def _verdict_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    def of(function: Any) -> Any:
        return lambda row: None if row["verdict"] is None else function(row["verdict"])

    return table_of(
        rows,
        ("test grid", lambda row: row["score"]),
        ("first", lambda row: row["first"].name),
        ("second", lambda row: row["second"].name),
        ("first − second [95 %]", of(lambda v: f"{v.difference:+.3g} [{v.low:+.3g}, {v.high:+.3g}]")),
        ("first better in", of(lambda v: f"{v.win_rate:.0%}")),
        ("verdict", lambda row: row["why"] or _said(row)),
        ("seeds", of(lambda v: str(v.seeds))),
        ("samples", of(lambda v: str(v.samples))),
        title="Verdicts",
        note=f"Paired by test sample and seed; a verdict needs {FEWEST} seeds of each. Each verdict errs by itself, in "
        "one of twenty comparisons without a difference.",
    )


def _said(row: Mapping[str, Any]) -> str:
    verdict: Verdict = row["verdict"]
    return {"first": row["first"].name, "second": row["second"].name}.get(verdict.winner, verdict.winner)


def _answer(arms: Sequence[Arm], names: Sequence[str], verdicts: Sequence[Mapping[str, Any]]) -> str:
    if not names:
        return "None of these runs has test errors yet."
    score = names[0]
    tested = [arm for arm in arms if any(score in scores(run) for run in arm.runs)]
    if len(tested) == 1:
        return f"{tested[0].name} alone has a test error at {score}: {mean_of(tested[0], score):.4g}."
    best = min(tested, key=lambda arm: mean_of(arm, score))
    said = f"{best.name} has the smallest relative L2 error at {score}, {mean_of(best, score):.4g}"
    judged: dict[str, list[str]] = {}
    for row in verdicts:
        if row["score"] == score:
            other = f"{mean_of(row['second'], score):.4g} of {row['second'].name}"
            judged.setdefault(row["why"] or _judged(row["verdict"]), []).append(other)
    parts = [f"{', '.join(others)} ({why})" for why, others in judged.items()]
    return f"{said}, against {'; '.join(parts)}."


def _judged(verdict: Verdict) -> str:
    if verdict.winner == "first":
        return f"the difference is more than chance, over {verdict.seeds} seeds"
    if verdict.winner == "too few seeds":
        have = f"there {'is' if verdict.seeds == 1 else 'are'} {verdict.seeds}"
        return f"no verdict: that takes {FEWEST} seeds of each, {have}" if verdict.seeds < FEWEST else "no verdict"
    return verdict.winner
