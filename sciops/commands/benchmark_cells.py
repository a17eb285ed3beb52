"""The cells of a benchmark: which trainings it takes, how each is run and kept."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciops.commands.command_line import parse
from sciops.files.json_files import plain
from sciops.files.messages import shown
from sciops.metrics import METRICS, imported, metric_of
from sciops.models.registry import check_name

if TYPE_CHECKING:
    from sciops.commands.benchmark import Config


@dataclass(frozen=True)
class Cell:
    """One training: the model as it was named, the data set by its name, the seed, and the run's configuration."""

    model: str
    data: str
    seed: int
    config: Any


def cells_of(config: Config) -> list[Cell]:
    """Every model on every data set with every seed; all options are read before the first training."""
    train = importlib.import_module("studies.train")
    if not config.data or not config.models:
        raise ValueError("--data and --models: expected at least one of each; sciops generate darcy makes a data set")
    if config.seeds < 1:
        raise ValueError(f"--seeds {config.seeds}: expected at least 1")
    for path in config.data:
        if not path.exists():
            raise FileNotFoundError(f"--data {path}: no such file or folder")
    for names in (config.models, config.data):
        if len(set(names)) < len(names):
            raise ValueError(f"{next(str(n) for n in names if names.count(n) > 1)} is given twice: name each once")
    if config.train_preset not in train.PRESETS:
        raise ValueError(f"--train-preset {config.train_preset}: expected one of {', '.join(train.PRESETS)}")
    common = replace(train.PRESETS[config.train_preset], metrics=config.metric, progress=False)
    common = _with(common, config.train, "--train")
    short = [path.stem if path.is_file() else path.resolve().name for path in config.data]
    labels = short if len(set(short)) == len(short) else [str(path) for path in config.data]
    found = []
    for path, label in zip(config.data, labels):
        for words in config.models:
            model, *options = words.split() or [""]
            _check_model(model)
            own = _with(replace(common, model=model, data=path), options, f"--models {words!r}", of_model=True)
            found += [Cell(words, label, seed, replace(own, seed=seed)) for seed in range(config.seeds)]
    return found


def _check_model(name: str) -> None:
    try:
        check_name(name)
    except ValueError as error:
        if not Path(name).exists():
            raise
        raise ValueError(
            f"--models {name}: is a file or folder, but benchmark trains models anew, by their names; trained ones are "
            "put beside each other by sciops compare RUN RUN"
        ) from error


def _with(config: Any, words: Sequence[str], where: str, *, of_model: bool = False) -> Any:
    """The configuration with options given as name=value; several values of one are separated by commas.

    of_model : whether names that are no options of the training are options of the model
    """
    flags, further = [], []
    kinds = {field.name: str(field.type) for field in fields(config)}
    for word in words:
        name, equals, value = word.partition("=")
        name = name.removeprefix("--").replace("-", "_")
        if equals and name not in kinds and of_model:
            further.append(word)
            continue
        if not equals or name not in kinds:
            what = (
                "name=value, such as epochs=20"
                if not equals
                else "an option of sciops train; sciops train --help lists them"
            )
            raise ValueError(f"{where}: {word!r}: expected {what}")
        if name in ("data", "folder", "seed", "metrics"):
            raise ValueError(f"{where}: {name} is set by the benchmark itself: see --data, --output, --seeds, --metric")
        flag = f"--{name.replace('_', '-')}"
        if kinds[name] == "bool":
            flags.append(flag if value.lower() in ("true", "1", "yes") else f"--no-{flag[2:]}")
        else:
            flags += [flag, *(value.split(",") if kinds[name].startswith("tuple") else [value])]
    try:
        found = parse(type(config), flags, default=config)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return replace(found, options=(*found.options, *further))


def source_of(name: str) -> str:
    """What decides an own metric, for the fingerprint of a cell: the text of its function."""
    metric_of(name)
    if name in METRICS:
        return name
    function = imported(name, "metric")
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return name


def record_of(cell: Cell, folder: Path, data: str, digests: dict[str, str]) -> dict[str, Any]:
    """The record of a cell, read back where the same training is there; "error" where it failed."""
    kit = importlib.import_module("studies.kit.cells")
    asked = {name: value for name, value in plain(asdict(cell.config)).items() if name not in ("folder", "data")}
    made_by = {"training": asked, "data": data, "metrics": digests, "code": kit.code_digest("studies.train")}
    name = f"{cell.model}-{cell.data}-{cell.seed}"[:80]
    place = folder / "runs" / kit.cell_name(name, made_by)

    def make() -> dict[str, Any]:
        try:
            return _trained(replace(cell.config, folder=place))
        except Exception as error:  # whatever a model leads to must not end the others
            return {"error": shown(f"{type(error).__name__}: {error}", 300)}

    found = kit.kept(folder / "cells", name, made_by, make, unless=lambda record: "error" in record)
    return {**found, "model": cell.model, "data": cell.data, "seed": cell.seed, "run": str(place)}


def _trained(config: Any) -> dict[str, Any]:
    train = importlib.import_module("studies.train")
    with contextlib.redirect_stdout(io.StringIO()):
        results = train.run(config)
    if not results["test"]:
        raise ValueError("no test fields: pass --train test_samples=N to hold some out")
    return {"results": plain(results)}
