"""Trains models × data sets and reports their test errors: results.json, results.csv, report.html and a figure.

    sciops benchmark --data darcy.h5 --models fno mano "fno width=16 modes=8" --seeds 5
    sciops benchmark --data darcy.h5 burgers/ --train epochs=40 augment=square --metric h1 my_module:my_error

A model is a name of `sciops train --model`, with its own options or those of `sciops train` after it as name=value.
Every cell (model, data set, seed) is a run of `sciops train` in a folder of its own, which `sciops report` and
`compare` take. A cell that fails is named, and the others are trained; where every cell failed, the exit status is 1.
The same command resumes, and trains only what is missing.

An own metric is a function of (prediction, target, grid) that returns one number a sample, an own figure a function of
(rows, path) that writes a picture to the path; rows are those of results.json. Both are given as module:function.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sciops import reports
from sciops.commands.benchmark_cells import cells_of, record_of, source_of
from sciops.evaluation import spread
from sciops.files.json_files import write_atomically, write_json
from sciops.files.messages import shown
from sciops.files.writable import writable_folder
from sciops.metrics import METRICS, imported
from sciops.plotting import figure, series
from sciops.reports import Table, table_of
from sciops.reports.training import metric_heading
from sciops.runs import RunFolder, file_hash


@dataclass(frozen=True)
class Config:
    """Which models are trained on which data, how often, and where the results go."""

    data: tuple[Path, ...] = ()  # files or folders of any layout that `sciops info` knows
    models: tuple[str, ...] = ("fno", "mano")  # names, each with options after it: "fno width=16 modes=8"
    seeds: int = 1  # trainings of every model on every data set; a verdict needs five
    train_preset: str = "quick"  # of sciops train: starting values of every training
    train: tuple[str, ...] = ()  # options of every training, as name=value: epochs=40 test_samples=100
    metric: tuple[str, ...] = ()  # further test errors: names in sciops.metrics.METRICS, or module:function
    figure: str = ""  # module:function that draws a figure of your own
    output: Path = Path("runs/benchmark")  # folder of everything


PRESETS = {"quick": Config()}


def run(config: Config) -> list[dict[str, Any]]:
    """Trains what is missing and writes the results; returns the rows of results.json, one a cell and test grid.

    Raises
    ------
    ValueError
        For an unknown option, metric or figure, before anything is trained.
    SystemExit
        With status 1, naming the cells, where all failed, after everything is written.
    """
    from tqdm.auto import tqdm

    draw_own = imported(config.figure, "figure") if config.figure else None
    digests = {name: source_of(name) for name in config.metric}
    cells = cells_of(config)
    folder = RunFolder(writable_folder(config.output))
    folder.describe(config, data=config.data, seeds=range(config.seeds))
    hashes = {path: file_hash(path) for path in config.data}
    records = []
    with tqdm(cells, unit="training", disable=None) as bar:
        for cell in bar:
            bar.set_postfix_str(f"{cell.model} on {cell.data}, seed {cell.seed}")
            records.append(record_of(cell, folder.path, hashes[cell.config.data], digests))
            tqdm.write(f"{_named(records[-1])}: {_outcome(records[-1])}")
    rows = [row for record in records for row in _rows(record)]
    failed = [record for record in records if "error" in record]
    folder.write_results({"rows": rows, "failed": [{"cell": _named(one), "error": one["error"]} for one in failed]})
    write_atomically(folder.path / "results.csv", _csv(rows).encode())
    for old in folder.figures.glob("*.png"):
        old.unlink()  # of other cells
    pictures = [draw_errors(rows, folder.figures / "benchmark.png")] if len(failed) < len(records) else []
    wrong = ""
    if draw_own is not None and pictures:
        pictures += [own := folder.figures / "own.png"]
        try:
            draw_own(rows, own)
        except Exception as error:  # of the user's own function: what was trained is kept and shown
            wrong = f"figure {config.figure!r}: {type(error).__name__} {shown(str(error), 200)}"
    summary = _summary(records, rows) | {"figures": [path.name for path in pictures]}
    write_json(folder.path / "report.json", summary)
    page = reports.report(folder.path)
    print("\n".join(_table(rows).lines()))
    for record in failed:
        print(f"failed: {_named(record)}: {record['error']}")
    print(f"results.json, results.csv and {page.name} in {folder.path}")
    if len(failed) == len(records):
        raise SystemExit(f"every cell failed: {'; '.join(map(_named, failed))}")
    if wrong:
        raise RuntimeError(wrong)
    return rows


def _rows(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A row a test grid, in single values: what results.json and results.csv hold."""
    start = {name: record[name] for name in ("model", "data", "seed")}
    if "error" in record:
        yield {**start, "error": record["error"]}
        return
    results = record["results"]
    for grid, kinds in results["test"].items():
        for kind, row in kinds.items():
            errors = {name: value for name, value in row.items() if not isinstance(value, list)}
            size = {name: results[name] for name in ("parameters", "epochs", "seconds")}
            yield {**start, "grid": grid, "kind": kind, **errors, **size, "run": record["run"]}


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _named(record: dict[str, Any]) -> str:
    return f"{record['model']} on {record['data']}, seed {record['seed']}"


def _outcome(record: dict[str, Any]) -> str:
    if "error" in record:
        return f"failed: {record['error']}"
    rows = list(_rows(record))
    errors = ", ".join(f"{float(row['relative_l2']):.4g} at {row['grid']}" for row in rows if row["kind"] == "model")
    return f"{errors} ({rows[0]['seconds']:.3g} s)"


def _groups(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """Rows by data set, test grid, kind and model, over the seeds; failed cells are left out."""
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if "error" not in row:
            found.setdefault((row["data"], row["grid"], row["kind"], row["model"]), []).append(row)
    return found


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    """A row a model, data set and test grid: errors as mean and deviation over the seeds."""
    metrics = [n for n in dict.fromkeys(name for row in rows for name in row) if n in METRICS or ":" in n]
    found = list(_groups(rows).items())
    several = any(len(of) > 1 for _, of in found)

    def metric(name: str) -> tuple[str, Callable[[Any], str]]:
        def of(one: Any) -> str:
            seeds = spread([float(row[name]) for row in one[1]])
            return format(seeds if several else seeds.mean, ".3g")

        return metric_heading(name), of

    return table_of(
        found,
        ("data", lambda one: one[0][0]),
        ("test grid", lambda one: one[0][1] + ("" if one[0][2] == "model" else f" {one[0][2]}")),
        ("model", lambda one: one[0][3]),
        *map(metric, metrics),
        ("parameters", lambda one: f"{one[1][0]['parameters']:,}"),
        ("training s", lambda one: f"{sum(row['seconds'] for row in one[1]) / len(one[1]):.3g}"),
        note="Means over the test samples" + (", then mean ± standard deviation over the seeds." if several else "."),
    )


def draw_errors(rows: Sequence[dict[str, Any]], path: Path) -> Path:
    """The error of every training, a panel a data set, a line a model."""
    groups = _groups(rows)
    panels = list(dict.fromkeys((data, grid) for data, grid, kind, _ in groups if kind == "model"))
    models = list(dict.fromkeys(model for *_, model in groups))
    caption = "Relative L2 error on the test samples: every training is a mark, one row a model. Smaller is better."
    height = 1.1 + 0.3 * len(models)
    with figure(path, 1, len(panels), width=3.6, height=height, sharey=True, caption=caption) as (_, axes):
        for axis, (data, grid) in zip(axes[0], panels):
            for place, (model, style) in enumerate(zip(models, series())):
                errors = [float(row["relative_l2"]) for row in groups.get((data, grid, "model", model), ())]
                axis.plot(errors, [place] * len(errors), **(style | {"linestyle": ""}))
            axis.set_title(f"{data}, {grid} points")
            axis.set_xlabel("relative L2 error")
            axis.set_yticks(range(len(models)), models)
            axis.set_ylim(len(models) - 0.5, -0.5)
            shown = [float(row["relative_l2"]) for key, of in groups.items() if key[:2] == (data, grid) for row in of]
            axis.set_xlim(0, 1.08 * max(filter(np.isfinite, shown), default=1.0))
    return path


def _summary(records: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the page says: report.json, which `sciops report` reads."""
    answers, tables = [], [replace(_table(rows), title="Test errors")]
    for data in dict.fromkeys(record["data"] for record in records):
        here = [one for one in records if one["data"] == data and "error" not in one and Path(one["run"]).is_dir()]
        if len(here) > 1:
            compared = reports.compare([one["run"] for one in here], names=[one["model"] for one in here])
            answers.append(f"On {data}: {compared.answer}")
            tables += [replace(one, title=f"{one.title}, {data}") for one in compared.tables if one.title == "Verdicts"]
        answers += [f"On {data}: {_outcome(one)} with {one['model']}." for one in here if len(here) == 1]
    failed = [record for record in records if "error" in record]
    if failed:
        answers.append(f"{len(failed)} of {len(records)} cells failed.")
        columns = (("cell", _named), ("error", lambda one: one["error"]))
        tables.append(table_of(failed, *columns, title="Cells that failed"))
    return {"title": "Benchmark", "answer": " ".join(answers), "blocks": [asdict(table) for table in tables]}
