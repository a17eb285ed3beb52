"""Zarr stores open for reading: their descriptions are checked before a byte of their numbers is believed."""

from __future__ import annotations

import math
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets.conventions import SPACE
from sciops.datasets.native.schema import check_schema, finest_first
from sciops.datasets.native.store import Stored
from sciops.files.budget import Spending, current_budget, over_budget
from sciops.files.messages import shown
from sciops.files.untrusted import read_json

_MOST_JSON = 1 << 24  # bytes of a zarr.json: more is no description
_MOST_RATIO = 40_000  # compression beyond what zstd reaches on constant numbers
_FILLED = 100  # times the bytes stored that all arrays of a group may state together, besides the budget
_KINDS = {f"{kind}{8 * n}": f"<{kind[0]}{n}" for kind in ("int", "uint", "float") for n in (1, 2, 4, 8)}
_CODECS = (["bytes"], ["bytes", "crc32c"], ["bytes", "zstd"], ["bytes", "zstd", "crc32c"])
_GROUP = re.compile(r"r[0-9]+(x[0-9]+)*")
NOT_NATIVE = (
    "a Zarr store, but no native one (it lacks sciops_schema); open it with xarray.open_zarr and write it with "
    "sciops.datasets.write_native"
)
_REMEDY = "copy the store again, or remove it and generate it again"


def store_attributes(path: Path) -> dict[str, Any]:
    """Attributes of the root group.

    Raises FileNotFoundError, ValueError (no store of version 3, damaged description, a link out of the store) in one
    line with the remedy.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    _check_links(path)
    return _attributes(_described(path, "group"))


class ZarrStore:
    """A native Zarr store as a `Store`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._place = self.path.absolute()
        self.attrs = store_attributes(self.path)
        check_schema(path, self.attrs, NOT_NATIVE)
        self._held: tuple[int, dict[str, Any]] | None = None

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = {}
        for name in self.groups():
            axes = [self.path / name / axis for axis in SPACE if (self.path / name / axis).is_dir()]
            shapes[name] = tuple((_array(axis)[0].shape or (0,))[0] for axis in axes)
        return finest_first(self.path, shapes)

    def groups(self) -> list[str]:
        return sorted(entry.name for entry in os.scandir(self.path) if _GROUP.fullmatch(entry.name) and entry.is_dir())

    def arrays(self, group: str, *, strict: bool = False) -> tuple[dict[str, Any], dict[str, Stored]]:
        """As of any `Store`; every array's description is sound and every shard of it is there.

        Raises ValueError or OSError naming the array, in one line with the remedy.
        """
        folder = self.path / group
        attrs = _attributes(_described(folder, "group"))
        inside = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
        found = {key: _array(folder / key) for key in inside if (folder / key / "zarr.json").is_file()}
        arrays = {key: about for key, (about, _) in found.items()}
        stated = sum(math.prod(one.shape) * one.dtype.itemsize for one in arrays.values())
        budget = current_budget()
        if stated > budget.bytes + _FILLED * sum(stored for _, stored in found.values()):
            raise over_budget(folder, "bytes", stated, budget, "all that it states to hold")
        return attrs, arrays

    def read(self, key: str, index: tuple[Any, ...]) -> np.ndarray:
        try:
            return np.asarray(self._array(key).oindex[index])
        except (MemoryError, PermissionError, ImportError):
            raise
        except Exception as error:
            text = shown(str(error), 120) or type(error).__name__
            raise OSError(
                f"{self.path}: damaged, part of {key} cannot be read ({text}); "
                f"`sciops validate {self.path}` names the samples: copy the store again, or generate it again"
            ) from None

    def close(self) -> None:
        self._held = None

    def _array(self, key: str) -> Any:
        if self._held is None or self._held[0] != os.getpid():
            self._held = (os.getpid(), {})
        opened = self._held[1]
        if key not in opened:
            try:
                import zarr
            except ImportError:
                raise missing_zarr() from None
            from sciops.datasets.native.zarr.inflation import measured

            # a store of the file system and nothing else: in a path as text "::" and "://" open other places
            store = zarr.storage.LocalStore(self._place, read_only=True)
            opened[key] = measured(zarr.open_array(store, path=key, mode="r", zarr_format=3))
        return opened[key]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": None}


def missing_zarr() -> ImportError:
    """What is raised where a store is met and its library is not there."""
    return ImportError("a .zarr file needs zarr: pip install 'sciops[cluster]'")


def _check_links(store: Path) -> None:
    """Raises ValueError for a symbolic link inside the store, at any depth, that leads out of it.

    Folders count as objects of the budget; of files, which are shards, a large store has very many.
    """
    root, folders, spent = os.path.realpath(store), [os.fspath(store)], Spending(store, size=0)
    while folders:
        spent.take(objects=1)
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_symlink() and os.path.commonpath((root, target := os.path.realpath(entry.path))) != root:
                    name = shown(os.path.relpath(entry.path, store), 100)
                    raise ValueError(
                        f"{store} keeps {name} in another place ({shown(target, 200)}), which is not opened: copy the "
                        "store with what its links lead to (cp -rL)"
                    )


def _described(folder: Path, kind: str) -> dict[str, Any]:
    file = folder / "zarr.json"
    try:
        about = read_json(file, largest=_MOST_JSON)
        if not isinstance(about, dict) or about.get("zarr_format") != 3 or about.get("node_type") != kind:
            raise ValueError(f"not of a {kind} of Zarr version 3")
    except PermissionError:
        raise
    except (ValueError, OSError) as error:
        raise ValueError(f"{file} is not a description of a {kind} ({shown(str(error), 120)}); {_REMEDY}") from None
    return about


def _attributes(about: dict[str, Any]) -> dict[str, Any]:
    attrs = about.get("attributes", {})
    attrs = attrs if isinstance(attrs, dict) else {}
    numbers = {k for k, v in attrs.items() if isinstance(v, list) and v and all(type(n) in (int, float) for n in v)}
    return {
        key: np.asarray(value, dtype=np.int8)
        if key == "flag_values"
        else np.asarray(value)
        if key in numbers
        else value
        for key, value in attrs.items()
    }


def _array(folder: Path) -> tuple[Stored, int]:
    """(an array as its ``zarr.json`` describes it, the bytes of its files)."""
    about = _described(folder, "array")
    try:
        shape = _sizes(about["shape"], 0)
        dtype = np.dtype(_KINDS[about["data_type"]])
        dims = tuple(about["dimension_names"])
        file = _sizes(about["chunk_grid"]["configuration"]["chunk_shape"], 1)
        codecs, chunk = about["codecs"], file
        if codecs[0]["name"] == "sharding_indexed":
            chunk = _sizes(codecs[0]["configuration"]["chunk_shape"], 1)
            codecs = codecs[0]["configuration"]["codecs"] if len(codecs) == 1 else codecs
        names = [codec["name"] for codec in codecs]
        keys = about["chunk_key_encoding"]
        if (about["chunk_grid"]["name"], keys["name"], keys["configuration"]["separator"]) != (
            "regular",
            "default",
            ".",
        ):
            raise ValueError("other chunks or names of files")
        if len(dims) != len(shape) or not all(isinstance(dim, str) for dim in dims) or len(set(dims)) < len(dims):
            raise ValueError(f"dimension_names {dims} for shape {shape}")
        if not len(shape) == len(file) == len(chunk) or any(f % c for f, c in zip(file, chunk)):
            raise ValueError(f"chunks {chunk} in shards {file} for shape {shape}")
        if names not in _CODECS:
            raise ValueError(f"codecs {', '.join(map(str, names))}; expected {', '.join(_CODECS[-1])}")
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        text = f"no or unknown {error}" if isinstance(error, KeyError) else shown(str(error), 160)
        raise ValueError(f"{folder / 'zarr.json'} does not describe a native array ({text}); {_REMEDY}") from None
    stored = _check_files(folder, shape, file, chunk, dtype.itemsize)
    return Stored(dims, shape, dtype, _attributes(about)), stored


def _check_files(
    folder: Path, shape: tuple[int, ...], file: tuple[int, ...], chunk: tuple[int, ...], itemsize: int
) -> int:
    """The bytes of an array's files.

    Zarr reads a file that is not there as zeros, and makes room for any shape: neither is let through.
    """
    sizes = {e.name: e.stat().st_size for e in os.scandir(folder) if e.name[0] == "c" and e.is_file()}
    counts = [-(-n // f) for n, f in zip(shape, file)]
    expected, tail = math.prod(counts), ".0" * (len(shape) - 1)
    names = {f"c.{i}{tail}" for i in range(min(expected, len(sizes)))} if shape else {"c"}
    if expected > len(sizes) or any(n > 1 for n in counts[1:]) or (expected and not names <= sizes.keys()):
        raise OSError(f"{folder}: {len(sizes)} of {expected} files of shape {shape} are here; {_REMEDY}")
    size, largest = itemsize * math.prod(chunk), max(sizes.values(), default=0)
    if expected and size > _MOST_RATIO * largest:
        raise ValueError(f"{folder}: chunks of {size} bytes in files of {largest}; {_REMEDY}")
    index = 16 * math.prod(f // c for f, c in zip(file, chunk))
    total = sum(sizes.values())
    Spending(folder, size=total).take(bytes=max(size, index) * (expected > 0), what="a chunk")
    return total


def _sizes(values: Any, least: int) -> tuple[int, ...]:
    if (
        not isinstance(values, list)
        or len(values) > 8
        or not all(type(n) is int and least <= n < 2**53 for n in values)
    ):
        raise ValueError(f"lengths {str(values)[:60]}")
    return tuple(values)
