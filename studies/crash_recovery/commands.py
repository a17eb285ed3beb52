"""The jobs of the study of killed processes: their commands, what they need, and what they leave behind."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets.native import content_hash
from sciops.files.json_files import read_jsonl
from sciops.files.whole_files import is_store

_PARTS = r"part-\d{6}\.(npz|json)"
_CELLS = r".+_[0-9a-f]{12}\.json"
_BEGUN = "run/config.json"
_EPOCHS = r"last\.safetensors"
# what a second run writes otherwise: when and how long it took, and how it was called
_OF_THE_RUN = ("environment.json",)
_OF_THE_TIME = re.compile(r"seconds|time|memory|bytes|^digest$")
_PICTURES = (".png", ".html")
_NEEDS = {"--workers": ("distributed", "cryptography"), ".zarr": ("zarr",), "gap_sentences": ("tokenizers",)}


@dataclass(frozen=True)
class Job:
    """Commands that are run at once in an empty folder, and resumed by the same commands.

    commands : words after `sciops`
    pieces : a pattern of the names of files, each a finished piece of work that must not be done again
    since : a pattern of files that shows that work, and the clock of moments in seconds, has begun
    before : commands that are run in the folder beforehand, one after another, unharmed
    files : name → content of files that are in the folder beforehand
    """

    commands: tuple[tuple[str, ...], ...]
    pieces: str
    since: str
    before: tuple[tuple[str, ...], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    def modules(self) -> set[str]:
        """What the commands import, besides what `sciops` itself does."""
        found = {"xarray", "h5netcdf", *(["zarr"] if any(".zarr" in word for word in self.commands[0]) else [])}
        for verb, name, *_ in (*self.before, *self.commands):
            found |= {"generate": {f"data_gen.{name}"}, "study": {f"studies.{name}"}}.get(verb, {"studies.train"})
            found |= set() if verb == "generate" else {"matplotlib.pyplot"}
        return found

    def missing(self) -> list[str]:
        """Modules that the job needs and that are not installed."""
        words = " ".join(" ".join(command) for command in self.commands)
        needed = {module for sign, modules in _NEEDS.items() if sign in words for module in modules}
        return sorted(module for module in needed if importlib.util.find_spec(module) is None)

    def finished(self, folder: Path) -> int:
        """Pieces of work that are on the disk."""
        files = [path for path in folder.rglob("*") if re.fullmatch(self.pieces, path.name)]
        return sum(_epochs(path) for path in files) if self.pieces == _EPOCHS else len(files)


def jobs(data: Path) -> dict[str, Job]:
    """Name → job; `data` is where the trainings put the file that they read."""
    heat = ("generate heat --samples 16 --resolutions 32 16 --chunk 2 --no-progress --validation 4 --test 4").split()
    heat += "--law gaussian --duration 0.2 --every 0.02 --output".split()

    def generate(output: str, *further: tuple[str, ...], since: str = "*") -> Job:
        return Job(tuple((*heat, output, *words) for words in further or ((),)), _PARTS, f"{output}.parts/{since}")

    def train(epochs: int, *words: str) -> tuple[str, ...]:
        model = "--width 8 --depth 2 --modes 4 --batch-size 32 --schedule constant".split()
        run = ("train", "--preset", "step", "--data", str(data), "--folder", "run", "--no-progress")
        return (*run, *model, "--epochs", str(epochs), *words)

    made = (*heat, str(data))
    lazy = ("--loader-workers", "1", "--memory-limit", "1")
    transforms = ("study", "program_transforms", "--models", "mixer none", "fno", "--output", "run", "--cells")
    return {
        "HDF5": generate("data.h5"),
        "HDF5, gzip": generate("data.h5", ("--compression", "4")),
        "Zarr": generate("data.zarr"),
        "Zarr, zstd": generate("data.zarr", ("--compression", "3")),
        "shards": generate("data.h5", ("--shard", "0/2"), ("--shard", "1/2")),
        "shards, Zarr": generate("data.zarr", ("--shard", "0/2"), ("--shard", "1/2")),
        "workers": generate("data.h5", ("--workers", "2"), since="part-*"),
        "workers, Zarr": generate("data.zarr", ("--workers", "2"), since="part-*"),
        "training": Job((train(4),), _EPOCHS, _BEGUN, before=(made,)),
        "training, loader workers": Job((train(2, *lazy),), _EPOCHS, _BEGUN, before=(made,)),
        "training, more epochs": Job((train(5),), _EPOCHS, _BEGUN, before=(made, train(2))),
        "study": Job(((*transforms, "grad", "jvp", "deepcopy", "pickle"),), _CELLS, _BEGUN),
        "study, workers": Job((_TOKENS,), _CELLS, _BEGUN),
        "study, fine-tuning": Job((_FINE_TUNING,), _CELLS, _BEGUN, files={"run/pairs.jsonl": _pairs()}),
    }


_TOKENS = (
    *"study token_mixing --output run --tasks copy recall --steps 6 6 6 --seeds 0 --depth 1 1 1 --width 8".split(),
    *"--heads 2 --batch 4 --samples 8 --lengths 256 512 --workers 2 --arms".split(),
    *("attention", "local attention", "first order"),
)
_FINE_TUNING = tuple(
    (
        "study gap_sentences --output run --sources numpy --symbols 270 --source-length 60 --target-length 12 "
        "--held-out 6 --few 4 --width 8 --depth 1 --state 4 --heads 2 --batch 4 --pretraining 4 --steps 2 --checks 2 "
        "--seeds 0 1 --lengths"
    ).split()
)


def _pairs() -> str:
    """Sixty short texts with summaries, one a line."""
    random = np.random.default_rng(0)
    lines = []
    for i in range(60):
        words = [[f"w{k}" for k in random.integers(40, size=5)] for _ in range(6)]
        text = " ".join(" ".join(sentence).capitalize() + "." for sentence in words)
        lines.append(json.dumps({"text": text, "summary": f"about w{i} and {i}", "group": f"g{i}"}))
    return "\n".join(lines)


def contents(folder: Path) -> dict[str, str]:
    """Path → digest of all that a job left in its folder: of the fields of native files, of tensors, and of what JSON
    files say besides times. Of pictures only that they are there."""
    found = {}
    for path in _outputs(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() and not is_store(path):
            found[f"{name}/"] = ""
        elif not path.is_file() and not is_store(path):
            found[name] = "no file"  # a socket, or a link to nothing
        elif path.suffix in (".h5", ".zarr"):
            found[name] = content_hash(path)
        elif path.suffix == ".safetensors":
            found[name] = _hash(_tensors(path))
        elif path.suffix in (".json", ".jsonl") and path.name not in _OF_THE_RUN:
            read = read_jsonl(path) if path.suffix == ".jsonl" else json.loads(path.read_text())
            found[name] = _hash([json.dumps(timeless(read), sort_keys=True).encode()])
        else:
            found[name] = "" if path.suffix in _PICTURES or path.name in _OF_THE_RUN else _hash([path.read_bytes()])
    return found


def _outputs(folder: Path) -> Iterator[Path]:
    """Files, whole stores and empty folders."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink() and not is_store(path) and any(path.iterdir()):
            yield from _outputs(path)
        else:
            yield path


def timeless(value: Any) -> Any:
    """A value of a JSON file without what tells times and amounts of memory."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if not _OF_THE_TIME.search(k)}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def _tensors(path: Path) -> Iterator[bytes]:
    from safetensors import safe_open

    with safe_open(str(path), framework="np") as file:
        for name in sorted(file.keys()):
            values = np.ascontiguousarray(file.get_tensor(name))
            yield f"{name} {values.dtype.str} {values.shape}".encode()
            yield values.tobytes()


def _hash(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _epochs(checkpoint: Path) -> int:
    from sciops.training.checkpoints import load_checkpoint

    return load_checkpoint(checkpoint)[1]["epochs"]
