"""The folder of a run: its configuration and environment, its results, and the papers to cite.

runs/name/
    config.json         the resolved configuration, every field
    environment.json    versions, platform, threads, git commit, command line, data, seeds, time
    log.jsonl           one record a line, as they come
    results.json        numbers
    figures/            pictures
    citations.bib       papers of the methods used

Every file but log.jsonl appears only when whole.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sciops import zoo
from sciops.arrays.short import html_table
from sciops.citations import CITATIONS, citations_of
from sciops.files.budget import Budget
from sciops.files.json_files import append_jsonl, plain, read_jsonl, write_atomically, write_json
from sciops.files.locks import Lock, occupy
from sciops.files.messages import shown
from sciops.files.writable import writable_folder

__all__ = [
    "CITATIONS",
    "TRAINED_BY",
    "RunFolder",
    "citations_of",
    "environment",
    "file_hash",
    "has_model",
    "is_run",
    "load_model",
    "plain",
    "read_jsonl",
    "write_json",
]

_PACKAGES = (
    "sciops",
    "torch",
    "numpy",
    "scipy",
    "neuraloperator",
    "safetensors",
    "h5py",
    "xarray",
    "numba",
)
TRAINED_BY = "studies.train."  # the module of the configuration that `sciops train` writes


def load_model(
    folder: str | Path,
    *,
    device: torch.device | str = "cpu",
    accept_edits: bool = False,
    budget: Budget | None = None,
) -> nn.Module:
    """The model that `save_model` wrote, or the model of a run, in evaluation mode.

    Parameters
    ----------
    folder : str or Path
        The folder of `save_model`, or that of a run, of ``sciops train`` or of `fit`: its best model, or the last one
        where nothing was validated. Also a file of these, such as ``last.safetensors``, and "zoo:NAME" for a model that
        comes with the package.
    device, accept_edits, budget
        As in `sciops.models.load_model`, which also says what is raised.

    Raises
    ------
    ValueError
        For a folder without a model: of a study, or of a training that was stopped before its first epoch was complete.
    """
    from sciops.models import persistence

    folder = zoo.resolved(folder)
    weights = persistence.weights_file(folder)
    if weights is not None and weights.name in persistence.CHECKPOINTS:
        from sciops.training.best_model import load_best_model

        return load_best_model(weights, budget=budget).to(device).eval()
    if weights is not None and weights.name == persistence.WEIGHTS:
        folder = weights.parent
    reason = _why_no_model(folder)
    if reason is not None:
        raise ValueError(f"{folder} holds no model: {reason}")
    return persistence.load_model(folder, device=device, accept_edits=accept_edits, budget=budget)


def is_run(path: str | os.PathLike) -> bool:
    """Whether a folder is that of a run or of a saved model, and not one of data."""
    path = Path(path)
    return path.is_dir() and ((path / "environment.json").is_file() or has_model(path))


def has_model(folder: Path) -> bool:
    """Whether the folder of a run holds a model that `load_model` can read."""
    from sciops.models import persistence

    return persistence.weights_file(folder) is not None


def _why_no_model(folder: Path) -> str | None:
    """What a folder of a run is, that has no model; None for any other folder."""
    from sciops.files.untrusted import in_one_line, read_json
    from sciops.models import persistence

    if (persistence.model_folder(folder) / persistence.WEIGHTS).exists() or not folder.is_dir():
        return None
    written = folder / "environment.json"
    kind = ""
    if written.is_file():
        with in_one_line(written):
            kind = str(read_json(written).get("config_class", ""))
    if kind.startswith(TRAINED_BY) or (not kind and (folder / "log.jsonl").is_file()):
        return "its training was stopped before the first epoch was complete; run the same sciops train again"
    if kind:
        return (
            f"it is of {kind.rpartition('.')[0]}; name the folder of a sciops train run, or one that save_model wrote"
        )
    return None


class RunFolder:
    """The folder of one run, made where it is not there yet.

    path : the folder; ``.figures`` inside it is made on first use

    From its first write until the object is deleted it holds a lock (``.lock`` inside the folder): no other process can
    write in the folder by a `RunFolder` or `fit`. Reading takes no lock.

    Raises OSError, naming the path, where no folder can be made or nothing written in it, and, naming the process, when
    it writes where another one is at work.

    >>> folder = RunFolder("runs/example")                                       # doctest: +SKIP
    >>> folder.describe(config, data="darcy.h5", seeds=[0], methods=["fno"])     # doctest: +SKIP
    >>> folder.log({"epoch": 1, "loss": 0.1}); folder.write_results({"relative_l2": 0.07})    # doctest: +SKIP
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = writable_folder(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._cited: list[str] = []
        self._lock: Lock | None = None

    def __repr__(self) -> str:
        return "\n".join([f"RunFolder {self.path}", *(f"  {name:20} {text}" for name, text in self._rows())])

    def _repr_html_(self) -> str:
        return html_table(f"RunFolder {self.path}", self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        """At most seven of the files and folders, by their names and sizes alone."""
        found = sorted(one for one in self.path.iterdir() if one.name[0] != ".") if self.path.is_dir() else []
        rows = []
        for one in found if len(found) <= 7 else found[:6]:
            size = f"{sum(1 for _ in one.iterdir())} files" if one.is_dir() else f"{one.stat().st_size:,} bytes"
            rows.append((shown(one.name, 40), size))
        return rows if len(found) <= 7 else [*rows, (f"and {len(found) - 6} more", "")]

    @property
    def figures(self) -> Path:
        folder = self.path / "figures"
        folder.mkdir(exist_ok=True)
        return folder

    def describe(
        self,
        config: Any,
        *,
        data: str | os.PathLike | Iterable[str | os.PathLike] | None = None,
        seeds: Sequence[int] = (),
        methods: Sequence[str] = (),
    ) -> None:
        """Writes config.json and environment.json, and citations.bib for `methods`.

        config : a dataclass or dict
        data : file, folder or several, whose SHA-256 (`file_hash`) is recorded beside the path; two generations of one
            configuration have the same
        methods : keys of `CITATIONS`
        """
        self._occupy()
        paths = [data] if isinstance(data, (str, os.PathLike)) else list(data or ())
        write_json(self.path / "config.json", config)
        record = environment() | {
            "config_class": f"{type(config).__module__}.{type(config).__qualname__}",
            "about": _first_line(config),
            "data": {str(path): file_hash(path) for path in paths},
            "seeds": list(seeds),
        }
        write_json(self.path / "environment.json", record)
        self.cite(*methods)

    def log(self, record: dict[str, Any]) -> None:
        """Adds one line to log.jsonl."""
        self._occupy()
        append_jsonl(self.path / "log.jsonl", record)

    def read_log(self) -> list[dict[str, Any]]:
        """The records of log.jsonl so far; empty where there is no log."""
        path = self.path / "log.jsonl"
        return read_jsonl(path) if path.exists() else []

    def write_results(self, results: Any) -> Path:
        """Writes results.json; returns its path."""
        self._occupy()
        return write_json(self.path / "results.json", results)

    def cite(self, *methods: str) -> Path:
        """Adds the papers of `methods` to citations.bib, each once; returns its path. ValueError for an unknown one."""
        self._occupy()
        self._cited += [method for method in methods if method not in self._cited]
        return write_atomically(self.path / "citations.bib", citations_of(*self._cited).encode())

    def _occupy(self) -> None:
        if self._lock is None:
            self._lock = occupy(self.path)
            weakref.finalize(self, self._lock.release)


def environment() -> dict[str, Any]:
    """The versions, platform, threads, git commit and command line of this process, for environment.json."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name if sys.argv else "", *sys.argv[1:]],
        "versions": versions,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "git": _git_commit(),
    }


def file_hash(path: str | os.PathLike) -> str:
    """SHA-256 of what a file holds (`sciops.datasets.content_hash`: the fields of a native file, whenever it was
    written, and the bytes of any other), or of the names and hashes of all files below a folder, in sorted order.

    Raises FileNotFoundError, and OSError for a damaged native file.
    """
    from sciops.datasets.native import content_hash
    from sciops.files.whole_files import is_store

    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    if path.is_file() or is_store(path):
        return content_hash(path)
    digest = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\0{file_hash(file)}\n".encode())
    return digest.hexdigest()


def _first_line(config: Any) -> str:
    """The first line of the documentation of the module that a configuration belongs to: what a study asks."""
    module = sys.modules.get(type(config).__module__) if is_dataclass(config) else None
    return ((getattr(module, "__doc__", None) or "").strip().splitlines() or [""])[0]


def _git_commit() -> dict[str, Any] | None:
    """{"commit", "changed"} of the checkout that sciops lies in; None where it is installed or git is missing."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    try:
        commit, status = (
            subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=10)
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit.stdout.strip(), "changed": bool(status.stdout.strip())}
