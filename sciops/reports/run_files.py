"""What the folder of a run holds, read with bounds: nothing in it is executed or unpickled."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sciops.files.json_files import read_jsonl
from sciops.files.messages import shown
from sciops.files.untrusted import check_regular, read_json, read_text, refusing

MARKS = ("results.json", "environment.json", "log.jsonl")
PICTURES = (".png", ".jpg", ".jpeg", ".gif")
MOST_PICTURES = 60
_VERBS = ("train", "study", "demo", "benchmark", "generate")  # of the command that make runs


@dataclass(frozen=True)
class RunFiles:
    """The files of a run or of a study, as far as there are any.

    path : the folder
    config, environment : config.json and environment.json
    results : results.json; None where the run has not finished
    history : the records of log.jsonl
    summary : report.json, what a study says of itself: {"answer": text, "blocks": what it printed}
    text : report.md
    bibliography : citations.bib
    figures : the pictures in figures/, by name
    """

    path: Path
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    results: Any
    history: list[Mapping[str, Any]]
    summary: Mapping[str, Any]
    text: str
    bibliography: str
    figures: list[Path] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The last part of the folder's name."""
        return self.path.name or self.path.resolve().name

    @property
    def is_training(self) -> bool:
        """Whether the results are those of ``sciops train``."""
        return isinstance(self.results, Mapping) and isinstance(self.results.get("test"), Mapping)

    @property
    def study(self) -> str:
        """The name of the study that made it, such as "solver_speed"; empty where it was another program."""
        kind = str(self.environment.get("config_class", ""))
        return kind.split(".")[1] if kind.startswith("studies.") and kind.count(".") > 1 else ""

    @property
    def data(self) -> dict[str, str]:
        """Path → SHA-256 of the data."""
        return {str(path): str(value) for path, value in _mapping(self.environment.get("data")).items()}

    @property
    def command(self) -> str:
        """The command line that made it; empty where none is recorded."""
        words = self.environment.get("command")
        if not isinstance(words, list) or not words or not str(words[0]):
            return ""
        words = [str(word) for word in words]
        start = ["python", words[0]] if words[0].endswith(".py") else words[:1]
        if words[0] == "__main__.py":  # of a package that was run by its name
            by_verb = len(words) > 1 and words[1] in _VERBS
            start = ["python", "-m", "sciops" if by_verb or not self.study else f"studies.{self.study}"]
        return shlex.join([*start, *words[1:]])


def read_run(path: str | os.PathLike[str]) -> RunFiles:
    """Reads the folder of a run, of ``sciops train``, ``fit`` or a study.

    Raises
    ------
    OSError, ValueError
        In one line: there is no such folder, it is not that of a run, or a file in it is damaged.
    """
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(f"{path}: no such folder; pass the folder of a run, such as runs/train")
    if not folder.is_dir():
        raise NotADirectoryError(f"{path} is a file, expected the folder of a run, such as runs/train")
    if not any((folder / name).is_file() for name in MARKS):
        inside = sorted(one.parent for name in MARKS for one in folder.glob(f"*/{name}"))
        hint = f"; {inside[0]} inside it is one" if inside else ""
        raise ValueError(f"{path} is not the folder of a run: it holds none of {', '.join(MARKS)}{hint}")
    text, bibliography = folder / "report.md", folder / "citations.bib"
    return RunFiles(
        path=folder,
        config=_mapping(_json(folder / "config.json")),
        environment=_mapping(_json(folder / "environment.json")),
        results=_json(folder / "results.json"),
        history=_history(folder / "log.jsonl"),
        summary=_mapping(_json(folder / "report.json")),
        text=_text(text),
        bibliography=_text(bibliography),
        figures=sorted(_pictures(folder))[:MOST_PICTURES],
    )


def _pictures(folder: Path) -> list[Path]:
    figures = folder / "figures"
    return [one for one in figures.iterdir() if one.suffix.lower() in PICTURES] if figures.is_dir() else []


def _json(path: Path) -> Any:
    """The content of a JSON file, None where it is not there."""
    return _read(path, read_json, None)


def _history(path: Path) -> list[Mapping[str, Any]]:
    return [record for record in _read(path, read_jsonl, []) if isinstance(record, Mapping)]


def _text(path: Path) -> str:
    return _read(path, read_text, "")


def _read(path: Path, reader: Callable[[Path], Any], absent: Any) -> Any:
    if not path.exists():
        return absent
    check_regular(path)
    with refusing(f"{path} is damaged ({{error}}); delete it, and the command that made the folder writes it again"):
        return reader(path)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def described(files: RunFiles) -> str:
    """One line on a folder without results: how far the run has come, or the last epoch of a training of ``fit``."""
    last = files.history[-1] if files.history else {}
    if not files.environment:  # `fit` writes neither the environment nor results
        errors = "".join(f", {name} {last[name]:.4g}" for name in ("loss", "validation") if _is_number(last.get(name)))
        return shown(f"{files.name} holds a training of fit, epoch {last.get('epoch', '–')}{errors}.")
    asked = files.config.get("epochs")
    done = f" after epoch {last['epoch']}" + (f" of {asked}" if asked is not None else "") if "epoch" in last else ""
    return shown(f"{files.name} has no results yet: it was stopped or is running{done}; the same command resumes it.")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))
