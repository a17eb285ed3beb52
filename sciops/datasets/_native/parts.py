"""The plan of a generation and its parts on the disk: one file per part, there only when whole, checked when read."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sciops._untrusted import parse_json
from sciops._whole_files import replacing
from sciops.grids import Grid

_DAMAGED = (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, OSError)


@dataclass(frozen=True)
class Plan:
    """What one generation writes.

    output : the native file; a name that ends in .zarr makes it a Zarr store
    samples : how many
    chunk : samples per part
    config : all that the fields depend on, as plain JSON; stored in the output, compared with what is there already
    made_with : program and versions; parts of two programs are never mixed in one output
    grids : name of the group → its grid
    splits : "train", "validation", "test" → half-open range of samples
    variables : name without its group → attributes ("a" → {"long_name": …})
    dims : name → dimensions after ``sample`` ("u" → ("time", "x")); default as many spatial axes as the variable has
    coordinates : further coordinates of every group, name → (values, attributes), along a dimension of that name
    attrs, group_attrs : attributes of the root and of every group
    compression : level 1–9 of the output (gzip in HDF5, zstd in Zarr), or None
    """

    output: Path
    samples: int
    chunk: int
    config: Mapping[str, Any]
    grids: Mapping[str, Grid]
    made_with: str = ""
    splits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    coordinates: Mapping[str, tuple[Any, Mapping[str, Any]]] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    group_attrs: Mapping[str, Any] = field(default_factory=dict)
    compression: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "output", Path(self.output))
        object.__setattr__(self, "config", json.loads(json.dumps(self.config)))
        for name in ("samples", "chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: expected at least 1")

    @property
    def parts(self) -> Path:
        return self.output.with_name(self.output.name + ".parts")

    @property
    def chunks(self) -> int:
        return -(-self.samples // self.chunk)

    def bounds(self, index: int) -> tuple[int, int]:
        """Half-open range of the samples in part `index`."""
        return index * self.chunk, min((index + 1) * self.chunk, self.samples)

    @property
    def in_zarr(self) -> bool:
        """Whether the output is a Zarr store: its name says so."""
        return self.output.suffix == ".zarr"

    def part(self, index: int) -> Path:
        return self.parts / f"part-{index:06d}.{'json' if self.in_zarr else 'npz'}"

    @property
    def identity(self) -> dict[str, Any]:
        """What all parts of one folder share; shards of a store are packed when they are written."""
        packed = {"compression": self.compression} if self.in_zarr and self.compression is not None else {}
        counts = {"samples": self.samples, "chunk": self.chunk}
        return {**self.config, **packed, **counts, "made_with": self.made_with}

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()


def write_part(plan: Plan, index: int, arrays: Mapping[str, np.ndarray]) -> None:
    """One uncompressed archive of the arrays, with its checksums and the digest of the plan."""
    path = plan.part(index)
    with replacing(path, beside(path)) as temporary, open(temporary, "wb") as file:
        np.savez(file, plan=np.array(plan.digest), **arrays)


def beside(path: Path) -> Path:
    """A hidden name next to a part that no other process on any machine takes."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")


def claim(plan: Plan) -> bool:
    """Begins the folder of parts; False when that was done before, by whomever. Errors as `is_claimed`."""
    path, begun = plan.parts / "plan.json", False
    if not is_claimed(plan):
        prepared = beside(path)
        with replacing(prepared) as temporary:
            temporary.write_text(json.dumps(plan.identity, indent=1))
        try:
            os.link(prepared, path)  # unlike a rename it leaves what is there: two plans may begin at once
            begun = True
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            os.replace(prepared, path)
            begun = True
        finally:
            prepared.unlink(missing_ok=True)
        is_claimed(plan)
    return begun


def is_claimed(plan: Plan) -> bool:
    """Whether the folder of parts is there.

    Raises ValueError, naming what differs, when it is the folder of another plan.
    """
    found = read_manifest(plan)
    if found is None:
        return False
    difference = first_difference(found, plan.identity)
    if difference:
        raise ValueError(
            f"{plan.parts} holds parts of another configuration: {difference}; finish that one, remove the folder, "
            "or name another --output"
        )
    return True


def first_difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """ "samples is 64 there and 128 here", or an empty string."""
    for key in [*wanted, *found]:
        there, here = found.get(key, "not set"), wanted.get(key, "not set")
        if there != here:
            return f"{key} is {_short(there)} there and {_short(here)} here"
    return ""


def _short(value: Any) -> str:
    return " ".join(str(v) for v in value) if isinstance(value, list) else str(value)


def read_part(plan: Plan, index: int, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of a part; a damaged part is removed and OSError raised."""
    path = plan.part(index)
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as part:
            if str(part["plan"]) != plan.digest:
                raise ValueError("it belongs to another configuration")
            return {name: part[name] for name in names or part.files if name != "plan"}
    except _DAMAGED as error:
        path.unlink(missing_ok=True)
        raise OSError(
            f"{path} was damaged ({error}) and is removed; run the same command again: it makes only that part anew"
        ) from None


def is_sound(plan: Plan, index: int) -> bool:
    """Whether the part is there, belongs to the plan and reads through without a wrong checksum."""
    try:
        with zipfile.ZipFile(plan.part(index)) as part:
            if part.testzip() is not None:
                return False
        with open(plan.part(index), "rb") as file, np.load(file, allow_pickle=False) as part:
            return str(part["plan"]) == plan.digest
    except _DAMAGED:
        return False


def read_manifest(plan: Plan) -> dict[str, Any] | None:
    """The identity of the plan that the folder of parts was begun with; None without a folder."""
    path = plan.parts / "plan.json"
    try:
        return parse_json(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        raise ValueError(f"{path} is damaged; remove {plan.parts} and run the same command again") from None
