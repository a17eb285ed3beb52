"""Which files of a path hold which part of a data set, and how many samples each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets.conventions import SPLIT_WORDS, SPLITS, grid_of, split_indices


@dataclass(frozen=True)
class Pool:
    """Files whose samples are numbered through, and those of these numbers that are meant."""

    paths: tuple[Path, ...]
    counts: tuple[int, ...]
    samples: np.ndarray

    def by_file(self) -> list[tuple[Path, np.ndarray]]:
        """(file, its own sample numbers), in the order of the files; within a file in the order of `samples`."""
        ends = np.cumsum(self.counts)
        owner = np.searchsorted(ends, self.samples, side="right")
        offsets = ends - np.array(self.counts)
        return [
            (path, self.samples[owner == i] - offsets[i]) for i, path in enumerate(self.paths) if (owner == i).any()
        ]


@dataclass(frozen=True)
class Sources:
    """Pools by part, the grid, and what the files are.

    held_out : the parts taken from the training samples unless the caller says otherwise
    """

    pools: dict[str, Pool]
    resolution: int | tuple[int, ...] | None
    held_out: frozenset[str]


@dataclass(frozen=True)
class _Found:
    role: str | None
    named: bool  # by its own name, not by the folder it lies in
    path: Path
    shape: tuple[int, ...]
    samples: int
    equation: str
    evolves: bool


def sources_of(
    path: Path, resolution: Any, equation: str | None, evolves: bool, files: Collection[str] | None = None
) -> Sources:
    """The sources of a file or folder that hold `equation` (None: the only one there) and evolve or do not.

    files : names of the files of a folder that are looked at; None for all
    """
    return _of_folder(path, resolution, equation, evolves, files) if is_folder(path) else _of_file(path, resolution)


def is_folder(path: Path) -> bool:
    """Whether `path` is a folder of files; a Zarr store, itself a folder, is one file."""
    from sciops.datasets.formats import find_reader

    return path.is_dir() and find_reader(path) is None


def only_evolving(path: Path, equation: str | None, files: Collection[str] | None = None) -> bool:
    """Whether the file, or every file of the folder that is of `equation`, holds trajectories."""
    looked = [_look(*entry) for entry in _candidates(path, files)] if is_folder(path) else [_look(path, None, True)]
    meant = [entry.evolves for entry in looked if entry is not None and equation in (None, entry.equation)]
    return bool(meant) and all(meant)


def _of_file(path: Path, resolution: Any) -> Sources:
    from sciops.datasets.formats import open_dataset

    with open_dataset(path, resolution) as dataset:
        paths, counts = (path,), (dataset.sizes["sample"],)
        if "split" not in dataset:
            whole = Pool(paths, counts, np.arange(counts[0]))
            return Sources({"train": whole}, resolution, frozenset({"validation", "test"}))
        pools = {part: Pool(paths, counts, split_indices(dataset, part)) for part in SPLITS}
    # a file that states its splits is taken at its word: a part it leaves empty is held out only when asked for
    return Sources({part: pool for part, pool in pools.items() if len(pool.samples)}, resolution, frozenset())


def _of_folder(
    folder: Path, resolution: Any, equation: str | None, evolves: bool, files: Collection[str] | None
) -> Sources:
    found = _of_one_kind(folder, [_look(*entry) for entry in _candidates(folder, files)], equation, evolves)
    unnamed = [entry.path for entry in found if entry.role is None]
    found = [entry for entry in found if entry.role is not None]
    if not found and len(unnamed) == 1:
        return _of_file(unnamed[0], resolution)
    if not found:
        names = ", ".join(path.name for path in unnamed)
        raise ValueError(f"{folder} holds {names}: name one file, or let the file names say train and test")
    if resolution is None:
        shapes = [entry.shape for entry in found if entry.role == "train"] or [entry.shape for entry in found]
        resolution = min(shapes, key=np.prod)
    wanted = resolution if isinstance(resolution, tuple) else (int(resolution),) * len(found[0].shape)
    pools: dict[str, Pool] = {}
    for entry in sorted(found, key=lambda entry: (entry.shape != wanted, np.prod(entry.shape))):
        if entry.role in pools or not (entry.shape == wanted or _nests(entry.path, wanted)):
            continue
        alike = [other for other in found if (other.role, other.shape) == (entry.role, entry.shape)]
        if len(alike) > 1 and any(other.named for other in alike):
            names = ", ".join(other.path.name for other in alike)
            raise ValueError(f"{folder} holds {len(alike)} {entry.role} files alike, {names}: name one of them")
        counts = tuple(other.samples for other in alike)
        pools[entry.role] = Pool(tuple(other.path for other in alike), counts, np.arange(sum(counts)))
    if not pools:
        shapes = sorted({"×".join(map(str, entry.shape)) for entry in found})
        raise ValueError(f"resolution={resolution}: {folder} holds {', '.join(shapes)} and no grid that nests it")
    return Sources(pools, resolution, frozenset({"validation"} | ({"test"} - {entry.role for entry in found})))


def _candidates(folder: Path, files: Collection[str] | None = None) -> Iterator[tuple[Path, str | None, bool]]:
    """(file, role, whether its name says so): files of the folder, and of train, valid, test in it or in its data/.

    Where these hold folders alone, the files of those folders. With names of `files`, those of the folder itself alone.
    """
    if files is not None:
        for path in sorted(folder / name for name in files):
            yield path, role_of(path.stem), True
        return
    for path in _files(folder):
        yield path, role_of(path.stem), True
    for parent in (folder, folder / "data"):
        for child in sorted(parent.iterdir()) if parent.is_dir() else ():
            if child.name.lower() in SPLIT_WORDS and is_folder(child):
                for path in _files(child) or _files_below(child):
                    yield path, SPLIT_WORDS[child.name.lower()], False


def files_of(folder: Path) -> list[Path]:
    """The files that `sources_of` looks at, of any content."""
    return [path for path, _, _ in _candidates(folder)]


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if not (p.name.startswith(".") or is_folder(p)))


def _files_below(folder: Path) -> list[Path]:
    """Those of folders in a folder without files, at any depth, as where each run has a folder of its own."""
    inside = sorted(p for p in folder.iterdir() if not p.name.startswith(".") and is_folder(p))
    return [path for one in inside for path in _files(one) or _files_below(one)]


def _look(path: Path, role: str | None, named: bool) -> _Found | None:
    from sciops.datasets.formats import find_reader, open_dataset

    if find_reader(path) is None:
        return None
    with open_dataset(path) as dataset:
        evolves = dataset.attrs.get("task") == "trajectory"
        equation = str(dataset.attrs.get("equation", ""))
        return _Found(role, named, path, grid_of(dataset).shape, dataset.sizes["sample"], equation, evolves)


def _of_one_kind(folder: Path, looked: list[_Found | None], equation: str | None, evolves: bool) -> list[_Found]:
    """Those of one equation, steady or not as asked, by files named for their part if there are any."""
    known = [entry for entry in looked if entry is not None]
    if not known:
        raise ValueError(f"{folder} holds no file of a known layout: `sciops info FILE` says what a file is")
    meant = [entry for entry in known if equation in (None, entry.equation)]
    if not meant:
        raise ValueError(f"{folder} holds {_equations(known)}, nothing for equation {equation!r}")
    found = [entry for entry in meant if entry.evolves == evolves]
    if not found and evolves:
        raise ValueError(
            f"{folder} holds {_equations(meant)}, steady: no trajectories; take them as fields, --task steady"
        )
    if not found:
        raise ValueError(
            f"{folder} holds {_equations(meant)}, trajectories: take windows of them, load_splits(…, windows={{}}) or "
            "--task step"
        )
    if len({entry.equation for entry in found}) > 1:
        raise ValueError(f"{folder} holds {_equations(found)}: say which by equation=, --equation")
    return found


def _equations(found: list[_Found]) -> str:
    return ", ".join(sorted({entry.equation or "data without an equation" for entry in found}))


def role_of(name: str) -> str | None:
    """The part that the stem of a file name says, "train" of darcy_train_16; None where it says none or two."""
    roles = {SPLIT_WORDS[word] for word in re.split(r"[^a-z0-9]+", name.lower()) if word in SPLIT_WORDS}
    return roles.pop() if len(roles) == 1 else None


def _nests(path: Path, shape: tuple[int, ...]) -> bool:
    from sciops.datasets.formats import open_dataset

    try:
        open_dataset(path, shape).close()
    except ValueError:
        return False
    return True
