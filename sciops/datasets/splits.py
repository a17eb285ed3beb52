"""Which samples train, which select, which test: as the file stores it, or as the caller states it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sciops.datasets.conventions import SPLITS, grid_of, split_indices
from sciops.datasets.torch_data import MEMORY_LIMIT, FieldDataset, TensorFields

HELD_OUT = 0.1

_ROLES = {
    "train": "train",
    "training": "train",
    "smooth1": "train",  # Li et al.: smooth1 trains, smooth2 tests
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
    "smooth2": "test",
}


@dataclass(frozen=True)
class Splits:
    """The three parts of a data set; None where there is no such part."""

    train: FieldDataset | TensorFields | None = None
    validation: FieldDataset | TensorFields | None = None
    test: FieldDataset | TensorFields | None = None


@dataclass(frozen=True)
class _Pool:
    path: Path
    samples: np.ndarray


@dataclass(frozen=True)
class _Sources:
    pools: dict[str, _Pool]
    resolution: int | tuple[int, ...] | None
    held_out: frozenset[str]  # the parts taken from the training samples unless the caller says otherwise


def load_splits(
    path: str | os.PathLike,
    resolution: int | tuple[int, ...] | None = None,
    *,
    train: Any = None,
    validation: Any = None,
    test: Any = None,
    equation: str = "darcy",
    inputs: tuple[str, ...] = ("a",),
    outputs: tuple[str, ...] = ("u",),
    dtype: torch.dtype = torch.float32,
    memory_limit: int = MEMORY_LIMIT,
) -> Splits:
    """Train, validation and test data of a file or of a folder of files.

    path : a file that stores its splits (native), a file that does not (any other layout), or a folder whose file
        names say train/training/smooth1, val/valid/validation, test/testing/smooth2 (darcy_train_16.pt,
        darcy_test_32.pt, …); what the files hold is read from their content
    resolution : points per axis. In a folder, files of exactly this grid come first, then finer ones that nest it;
        None means the grid of the training file with the fewest points
    train, validation, test : which samples of each part. None: all of it. A count: the first so many of the training
        samples, the last so many of the others. (start, stop): that range. A list or array: those numbers. Numbers
        count within the part when the file or folder has that part, otherwise within the training samples

    A part that neither file nor folder has is held out from the end of the training samples in file order: test
    takes the last tenth, validation the tenth before it (or the counts given; 0 for none). In a folder that has a
    test file at any resolution, no test samples are held out. Nothing is shuffled, so the same call always gives the
    same parts.

    Raises ValueError for parts that overlap, counts that do not fit, and folders without a file for `resolution`.

    >>> load_splits("data", resolution=16, validation=100).train    # doctest: +SKIP
    """
    path = Path(path)
    sources = _folder_sources(path, resolution, equation) if path.is_dir() else _file_sources(path, resolution)
    pools = sources.pools
    asked = {"train": train, "validation": validation, "test": test}
    chosen = {
        part: _Pool(pool.path, _choose(pool.samples, asked[part], part))
        for part, pool in pools.items()
        if part != "train"
    }
    if "train" in pools:
        pool = pools["train"]
        rest = pool.samples
        for part in ("test", "validation"):
            if part in pools:
                continue
            default = round(HELD_OUT * len(pool.samples)) if part in sources.held_out else 0
            held = _choose(rest, asked[part], part, within=pool.samples, default=default)
            rest = rest[~np.isin(rest, held)]
            chosen[part] = _Pool(pool.path, held)
        chosen["train"] = _Pool(pool.path, _choose(rest, train, "train", within=pool.samples))
    elif train is not None:
        raise ValueError(f"train={train!r}: {path} holds no training samples at resolution {resolution}")
    _check_disjoint(chosen)
    options = {"inputs": inputs, "outputs": outputs, "dtype": dtype, "memory_limit": memory_limit}
    return Splits(
        **{
            part: FieldDataset(pool.path, resolution=sources.resolution, samples=pool.samples, **options)
            for part, pool in chosen.items()
            if len(pool.samples)
        }
    )


def _file_sources(path: Path, resolution: Any) -> _Sources:
    from sciops.datasets.readers import open_dataset

    with open_dataset(path, resolution) as dataset:
        if "split" not in dataset:
            whole = _Pool(path, np.arange(dataset.sizes["sample"]))
            return _Sources({"train": whole}, resolution, frozenset({"validation", "test"}))
        pools = {part: _Pool(path, split_indices(dataset, part)) for part in SPLITS}
    # a file that states its splits is taken at its word: a part it leaves empty is held out only when asked for
    return _Sources({part: pool for part, pool in pools.items() if len(pool.samples)}, resolution, frozenset())


def _folder_sources(folder: Path, resolution: Any, equation: str) -> _Sources:
    from sciops.datasets.readers import find_reader, open_dataset

    found: list[tuple[str, tuple[int, ...], Path, int]] = []
    unnamed = []
    for path in sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")):
        if find_reader(path) is None:
            continue
        with open_dataset(path) as dataset:
            if dataset.attrs.get("equation") != equation:
                continue
            role = _role(path)
            if role is None:
                unnamed.append(path)
                continue
            found.append((role, grid_of(dataset).shape, path, dataset.sizes["sample"]))
    if not found and len(unnamed) == 1:
        return _file_sources(unnamed[0], resolution)
    if not found:
        names = ", ".join(path.name for path in unnamed) or "no file of a known layout"
        raise ValueError(
            f"{folder} holds {names} for equation {equation!r}: name one file, or let the file names say train and test"
        )
    if resolution is None:
        shapes = [shape for role, shape, *_ in found if role == "train"] or [shape for _, shape, *_ in found]
        resolution = min(shapes, key=np.prod)
    wanted = resolution if isinstance(resolution, tuple) else (int(resolution),) * len(found[0][1])
    pools: dict[str, _Pool] = {}
    for role, shape, path, samples in sorted(found, key=lambda entry: (entry[1] != wanted, np.prod(entry[1]))):
        if role in pools or not (shape == wanted or _nests(path, wanted)):
            continue
        rivals = [p.name for r, s, p, _ in found if (r, s) == (role, shape)]
        if len(rivals) > 1:
            raise ValueError(f"{folder} holds {len(rivals)} {role} files alike, {', '.join(rivals)}: name one of them")
        pools[role] = _Pool(path, np.arange(samples))
    if not pools:
        shapes = sorted({"×".join(map(str, shape)) for _, shape, *_ in found})
        raise ValueError(f"resolution={resolution}: {folder} holds {', '.join(shapes)} and no grid that nests it")
    roles = {role for role, *_ in found}
    return _Sources(pools, resolution, frozenset({"validation"} | ({"test"} - roles)))


def _role(path: Path) -> str | None:
    roles = {_ROLES[word] for word in re.split(r"[^a-z0-9]+", path.stem.lower()) if word in _ROLES}
    return roles.pop() if len(roles) == 1 else None


def _nests(path: Path, shape: tuple[int, ...]) -> bool:
    from sciops.datasets.readers import open_dataset

    try:
        open_dataset(path, shape).close()
    except ValueError:
        return False
    return True


def _choose(
    pool: np.ndarray, asked: Any, part: str, *, within: np.ndarray | None = None, default: int | None = None
) -> np.ndarray:
    """`asked` as sample numbers: counts are taken from `pool`, ranges and lists from `within`."""
    within = pool if within is None else within
    if asked is None:
        if default is None:
            return pool
        asked = default
    if isinstance(asked, (int, np.integer)):
        if not 0 <= asked <= len(pool):
            raise ValueError(f"{part}={asked}: there are {len(pool)} samples to take from")
        return pool[:asked] if part == "train" else pool[len(pool) - asked :]
    if isinstance(asked, tuple) and len(asked) == 2:
        start, stop = asked
        if not 0 <= start <= stop <= len(within):
            raise ValueError(f"{part}={asked}: expected 0 ≤ start ≤ stop ≤ {len(within)}")
        return within[start:stop]
    numbers = np.asarray(asked)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError(f"{part}={asked!r}: expected a count, (start, stop), or a list of sample numbers")
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(within):
        raise ValueError(f"{part} holds numbers outside 0 … {len(within) - 1}")
    return within[numbers]


def _check_disjoint(chosen: dict[str, _Pool]) -> None:
    parts = [(part, chosen[part]) for part in SPLITS if part in chosen]
    for i, (first, one) in enumerate(parts):
        for second, other in parts[i + 1 :]:
            shared = np.intersect1d(one.samples, other.samples) if one.path == other.path else np.empty(0)
            if shared.size:
                raise ValueError(
                    f"{first} and {second} share {shared.size} samples, the first is {int(shared[0])}: "
                    "state ranges that do not overlap"
                )
