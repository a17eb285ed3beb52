"""`sciops info RUN`: what was trained on what, with which error, and how it is used next."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from sciops.files.json_files import read_jsonl
from sciops.files.messages import plain_errors, shown
from sciops.files.untrusted import in_one_line, read_text
from sciops.grids import Grid
from sciops.models.persistence import read_config
from sciops.runs import TRAINED_BY, has_model
from sciops.trained.opening import innermost, name_in, read_record

_KINDS = {"training": "a run of sciops train", "fit": "a run of fit", "model": "a saved model"}


@plain_errors()
def describe_run(folder: Path) -> str:
    """Describes the folder of a run, of a saved model or of a study: model, data, errors, and the next command.

    Raises ValueError, naming the file, where one of its records is damaged.
    """
    facts = facts_of(folder)
    lines = [f"{folder}  ({_KINDS.get(facts['kind'], facts['kind'])})"]
    lines += [_line("model", _model(facts))] if facts["model"] else []
    lines += [_line("task", facts["task"])] if facts["task"] else []
    lines += [_line("trained on", _data(facts))] if facts["data"] and facts["kind"] == "training" else []
    lines += [_line("data", ", ".join(facts["data"]))] if facts["data"] and facts["kind"] != "training" else []
    for i, (grid, row) in enumerate(facts["errors"].items()):
        lines.append(_line("error" if i == 0 else "", f"{grid}: {_error(row)}"))
    lines += [_line("made", f"{facts['made']}")] if facts["made"] else []
    lines += [_line("state", facts["state"])] if facts["state"] else []
    if (folder / "table.txt").is_file():
        lines += ["", *read_text(folder / "table.txt").rstrip().split("\n"), ""]
    for i, command in enumerate(facts["next"]):
        lines.append(_line("next" if i == 0 else "", command))
    return "\n".join(shown(line, 400 + len(str(folder))) for line in lines)


def facts_of(folder: Path) -> dict[str, Any]:
    """The same as one JSON object.

    kind : "training", "fit", "model", or the module that wrote the run
    model, grid : name of the model and grid of its training, where the folder holds one
    task, data, errors : of a training: the data's paths, and per test grid the rows of results.json
    next : commands that work

    Raises ValueError, naming the folder, where one of its records is not what a run writes.
    """
    with in_one_line(folder, ValueError, OSError):
        return _facts(folder)


def _facts(folder: Path) -> dict[str, Any]:
    about = read_record(folder, "environment.json")
    kind = str(about.get("config_class", ""))
    if kind.startswith(TRAINED_BY):
        kind = "training"
    elif not kind:
        kind = "fit" if (folder / "log.jsonl").is_file() else "model"
    config = read_record(folder, "config.json") if kind == "training" else {}
    results = read_record(folder, "results.json") if kind == "training" else {}
    name, options = name_in(_description(folder)), innermost(_description(folder))[1]
    facts: dict[str, Any] = {
        "path": str(folder),
        "kind": kind.rpartition(".")[0] if "." in kind else kind,
        "model": name or str(config.get("model", "")),
        "grid": options.get("grid"),
        "parameters": results.get("parameters"),
        "task": _task(config, _description(folder)),
        "data": list(about.get("data") or {}),
        "errors": _errors(results),
        "validation": results.get("validation"),
        "best_epoch": results.get("best_epoch"),
        "seconds": results.get("seconds"),
        "made": _made(about, results),
    }
    facts["state"] = _state(folder, kind, config, results)
    facts["next"] = _next(folder, kind, facts, about)
    return facts


def _line(name: str, text: str) -> str:
    return f"{name:<13}{text}"


def _description(folder: Path) -> Any:
    """The saved model's description; None where the folder holds none, or a checkpoint alone."""
    for place in (folder / "model", folder):
        if (place / "model.safetensors").is_file() and (place / "config.json").is_file():
            return read_config(place)["model"]
    return None


def _task(config: dict[str, Any], description: Any) -> str:
    """The task of a training in words; "" where there is none."""
    task = str(config.get("task", ""))
    if task == "auto":
        task = "step" if isinstance(description, dict) and description.get("name") == "stepper" else "steady"
    names = {"steady": ("inputs",), "": ()}.get(task, ("state", "history", "inputs", "parameters", "forcings"))
    said = [(name, config.get(name)) for name in names]
    return ", ".join([task, *(f"{name} {_words(value)}" for name, value in said if value)])


def _words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _model(facts: dict[str, Any]) -> str:
    text = facts["model"]
    if facts["parameters"] is not None:
        text += f", {facts['parameters']:,} parameters"
    if facts["validation"] is not None:
        text += f", as of epoch {facts['best_epoch']} with validation {float(facts['validation']):.4g}"
    return text


def _data(facts: dict[str, Any]) -> str:
    text = ", ".join(facts["data"])
    if facts["grid"]:
        grid = Grid.from_dict(facts["grid"])
        text += f", {'×'.join(map(str, grid.shape))} {grid.centering} points"
    gone = [path for path in facts["data"] if not Path(path).exists()]
    return text + (" (not there any more)" if gone else "")


def _errors(results: dict[str, Any]) -> dict[str, Any]:
    """Per test grid the model's row, without the errors of the single samples; of rollouts that of all frames."""
    rows = {}
    for grid, kinds in (results.get("test") or {}).items():
        rows[grid] = {key: value for key, value in kinds["model"].items() if not key.endswith("_of_samples")}
        rollout = (results.get("evolution") or {}).get(grid)
        if rollout:
            rows[grid]["all_frames"], rows[grid]["persistence"] = (
                rollout["model"]["whole"],
                rollout["persistence"]["whole"],
            )
            rows[grid]["trajectories"] = rollout["trajectories"]
    return rows


def _error(row: dict[str, Any]) -> str:
    if "all_frames" in row:
        text = f"relative L2 {float(row['all_frames']):.4g} over all frames of {row['trajectories']} test trajectories"
        return f"{text} (persistence {float(row['persistence']):.4g})"
    text = f"relative L2 {float(row['relative_l2']):.4g}"
    text += "" if row.get("standard_error") is None else f" ± {float(row['standard_error']):.1g}"
    return f"{text} on {row['samples']} test samples"


def _made(about: dict[str, Any], results: dict[str, Any]) -> str:
    if not about:
        return ""
    text = f"{about.get('time', '')}, sciops {(about.get('versions') or {}).get('sciops', '')}"
    if results:
        text += f", {results.get('epochs')} epochs in {float(results.get('seconds', 0)):.4g} s"
    return text


def _state(folder: Path, kind: str, config: dict[str, Any], results: dict[str, Any]) -> str:
    if kind not in ("training", "fit") or results.get("complete"):
        return ""
    if results.get("stopped"):
        return f"stopped early: {results['stopped']}"
    log = folder / "log.jsonl"
    done = len(read_jsonl(log)) if log.is_file() else 0
    if kind == "fit":
        return f"{done} epochs are done"
    return f"stopped, or at work: {done} of {config.get('epochs', '?')} epochs are done"


def _command(about: dict[str, Any]) -> str:
    """The command that wrote the run, as it is typed; "" where it was none of ours."""
    program, *words = [str(word) for word in about.get("command") or ("",)]
    if program in ("sciops", "__main__.py") and words and not words[0].startswith("-"):
        return shlex.join(["sciops", *words])
    module = str(about.get("config_class", "")).rpartition(".")[0]
    return shlex.join(["python", "-m", module, *words]) if program == "__main__.py" and module else ""


def _next(folder: Path, kind: str, facts: dict[str, Any], about: dict[str, Any]) -> list[str]:
    run = shlex.quote(str(folder))
    again = _command(about)
    if not has_model(folder):
        return [f"{again}      makes it again"] if again else []
    commands = []
    data = facts["data"][0] if len(facts["data"]) == 1 and Path(facts["data"][0]).exists() else None
    if kind == "training" and data is not None:
        of = f"{run} --data {shlex.quote(data)}"
        commands.append(f"sciops evaluate {of}" + ("" if facts["errors"] else " --samples 0"))
        output = folder / "predictions.h5"
        replaced = " --overwrite" if output.exists() else ""
        commands.append(f"sciops predict {of} --output {shlex.quote(str(output))}{replaced}")
    if facts["state"].startswith("stopped, or") and again:
        commands.append(f"{again}      resumes the training")
    use = "predict" if kind == "training" else "load_model"
    arguments = f"{str(folder)!r}" + (", a" if use == "predict" else "")
    return [*commands, f"in Python: sciops.{use}({arguments})"]
