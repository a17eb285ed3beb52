"""What a training found, in words and tables: from the results of ``sciops train`` and the history of ``fit``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from sciops.reports.parts import Facts, Part, Section, text_of
from sciops.reports.records import record_table
from sciops.reports.run_files import RunFiles
from sciops.reports.tables import Table, table_of

_OF_SAMPLES = "_of_samples"
_SHOWN = ("samples", "relative_l2", "standard_error", "relative_mse")
_HEADINGS = {"relative_l2": "relative L2", "relative_l1": "relative L1", "relative_mse": "relative MSE", "h1": "H1"}


@dataclass(frozen=True)
class TestError:
    """One row of the test errors of a training.

    grid : name of the test grid
    kind : "model", or what was made of it, such as "symmetrized"
    row : means by metric, "samples", "standard_error" over the samples
    of_samples : relative L2 error of every sample; empty where they are not independent
    """

    grid: str
    kind: str
    row: Mapping[str, Any]
    of_samples: tuple[float, ...]

    @property
    def name(self) -> str:
        """The grid, and the kind where it is not the model alone."""
        return self.grid if self.kind == "model" else f"{self.grid}, {self.kind}"

    @property
    def text(self) -> str:
        """The relative L2 error with its standard error over the samples."""
        error, standard = self.row.get("relative_l2"), self.row.get("standard_error")
        return text_of(error) + (f" ± {float(standard):.2g}" if isinstance(standard, (int, float)) else "")


def test_errors(results: Any) -> list[TestError]:
    """The test errors in the results of ``sciops train``, by test grid; what is not of that form is left out."""
    found = []
    for grid, kinds in _mapping(_mapping(results).get("test")).items():
        for kind, row in _mapping(kinds).items():
            if isinstance(row, Mapping):
                values = row.get(f"relative_l2{_OF_SAMPLES}")
                found.append(TestError(str(grid), str(kind), row, tuple(_numbers(values))))
    return found


def training_answer(files: RunFiles) -> str:
    """One sentence: which model reaches which error on which test fields."""
    results = _mapping(files.results)
    name = text_of(results.get("model", "The model"))
    errors = [error for error in test_errors(results) if error.kind == "model"]
    if errors:
        first, *others = errors
        said = (
            f"{name} reaches a relative L2 error of {first.text} on {text_of(first.row.get('samples'))} test samples "
        )
        said += f"at {first.grid} points" + "".join(f"; at {one.grid} points it is {one.text}" for one in others)
    elif isinstance(results.get("validation"), (int, float)):
        said = f"{name} reaches a validation error of {text_of(results['validation'])}; no test fields were held out"
    else:
        said = f"{name} was trained without validation and test fields"
    rollouts = {grid: _rollout(found) for grid, found in _mapping(results.get("evolution")).items()}
    said += "".join(f"; {text} over whole trajectories at {grid} points" for grid, text in rollouts.items() if text)
    epochs = results.get("epochs")
    more = [f"{epochs} epoch{'' if epochs == 1 else 's'}"] if isinstance(epochs, int) else []
    more += [f"{results['seconds']:.3g} s"] if isinstance(results.get("seconds"), (int, float)) else []
    more += [f"{results['parameters']:,} parameters"] if isinstance(results.get("parameters"), int) else []
    return said + (f" ({', '.join(more)})" if more else "") + "."


def _rollout(found: Any) -> str:
    """The error over whole test trajectories, of the model beside that of persistence."""
    whole = [_mapping(_mapping(found).get(name)).get("whole") for name in ("model", "persistence")]
    return f"{text_of(whole[0])} (persistence: {text_of(whole[1])})" if whole[0] is not None else ""


def training_title(files: RunFiles) -> str:
    """A title: the model and the data."""
    model = text_of(_mapping(files.results).get("model") or files.config.get("model") or "a model")
    data = files.config.get("data")
    equation = files.config.get("equation")
    what = PurePath(str(data)).name + (f" ({text_of(equation)})" if equation else "")
    return f"{model} trained on {what}" if data else f"Training of {model}"


def training_sections(files: RunFiles) -> Iterator[Section]:
    """The errors, the errors against time, and how the training went."""
    results, errors = _mapping(files.results), test_errors(files.results)
    if errors:
        yield Section("Errors", [error_table(errors)])
    for grid, found in _mapping(results.get("evolution")).items():
        if isinstance(found, Mapping):
            yield Section(f"Errors against time, {grid}", _evolution(found))
    names = ("model", "parameters", "epochs", "complete", "stopped", "best_epoch", "validation", "seconds")
    parts: list[Part] = [Facts({name.replace("_", " "): results[name] for name in names if name in results})]
    if parts and files.history:
        parts.append(record_table(files.history, "Epochs"))
    yield Section("Training", parts, folded=True)


def metric_heading(name: str) -> str:
    """The name of a metric in a table: "relative L2", and of a function of your own without its module."""
    return _HEADINGS.get(name, name.rpartition(":")[2].replace("_", " "))


def error_table(errors: list[TestError]) -> Table:
    """A row a test grid: the relative L2 error with its standard error, and every other metric of the run."""
    others = list(
        dict.fromkeys(k for one in errors for k in one.row if k not in _SHOWN and not k.endswith(_OF_SAMPLES))
    )
    names = [*(["relative_mse"] if any("relative_mse" in one.row for one in errors) else []), *others]
    return table_of(
        errors,
        ("test grid", lambda one: one.name),
        ("samples", lambda one: text_of(one.row.get("samples"))),
        ("relative L2", lambda one: one.text),
        *((metric_heading(name), lambda one, name=name: text_of(one.row.get(name))) for name in names),
        note="Means over the test samples; ± is the standard error over them, not the spread over seeds.",
    )


def _evolution(found: Mapping[str, Any]) -> list[Part]:
    """The errors at some of the times, for the model and for persistence."""
    times = list(_numbers(found.get("times")))
    shown = sorted({round(k * (len(times) - 1) / 5) for k in range(6)}) if times else []
    rows = []
    for name in ("model", "persistence"):
        row = _mapping(found.get(name))
        errors = row.get("relative_l2")
        if isinstance(errors, list) and len(errors) == len(times):
            at = {f"t = {times[k]:.4g}": text_of(errors[k]) for k in shown}
            until = row.get("correlation_time")
            until = "throughout" if until == "inf" else text_of(until)
            rows.append({"what": name, **at, "all times": row.get("whole"), "correlation above 0.8 until": until})
    note = f"Relative L2 error on {text_of(found.get('trajectories'))} test trajectories."
    return [record_table(rows, note=note)] if rows else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _numbers(values: Any) -> Iterator[float]:
    """Floats of a list as JSON gives it, in which "inf" and "nan" are text."""
    for value in values if isinstance(values, list) else ():
        if isinstance(value, (int, float)) or value in ("inf", "-inf", "nan"):
            yield float(value)
