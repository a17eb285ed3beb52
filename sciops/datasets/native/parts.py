"""The plan of a generation and its parts on the disk: one file per part, there only when whole, checked when read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sciops.files.digest import DAMAGED
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import hidden, replacing
from sciops.grids import Grid

_MANIFEST = "plan.json"
_NAMES = re.compile(r"part-\d{6,}\.(npz|json)|lock|data\.zarr|\..+\.tmp(\.\d+)?")  # of what the folder holds besides


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

    def place(self, index: int) -> dict[str, Any]:
        """What a part says of itself, and is compared with when it is read: the plan, its number and its samples."""
        return {"plan": self.digest, "part": index, "samples": list(self.bounds(index))}

    def check_place(self, index: int, said: Any) -> None:
        """Raises ValueError unless part `index` says that it is this one; those from before places were kept do not."""
        place = self.place(index)
        if not isinstance(said, dict) or said.get("part") is None:
            raise ValueError("it does not say which part it is")
        if said.get("plan") != place["plan"]:
            raise ValueError("it belongs to another configuration")
        if said != place:
            raise ValueError(f"it says that it is part {said['part']} with the samples {said.get('samples')}")


def write_part(plan: Plan, index: int, arrays: Mapping[str, np.ndarray]) -> None:
    """One uncompressed archive of the arrays with its checksums, the place of the part and the names of the arrays."""
    with replacing(plan.part(index), alone=False) as temporary, open(temporary, "wb") as file:
        about = {"place": plan.place(index), "arrays": list(arrays)}
        np.savez(file, about=np.array(json.dumps(about)), **arrays)


def claim(plan: Plan) -> bool:
    """Begins the folder of parts; False when that was done before, by whomever. Errors as `is_claimed`."""
    path, begun = plan.parts / _MANIFEST, False
    if not is_claimed(plan):
        prepared = hidden(path, "tmp")
        try:
            with replacing(prepared, alone=False) as temporary:
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
    try:
        with open(plan.part(index), "rb") as file, np.load(file, allow_pickle=False) as part:
            _check(plan, index, part)
            return {name: part[name] for name in names or part.files if name != "about"}
    except DAMAGED as error:
        raise removed(plan, index, error) from None


def removed(plan: Plan, index: int, error: Exception) -> OSError:
    """Removes a damaged part; the error to raise."""
    plan.part(index).unlink(missing_ok=True)
    return OSError(
        f"{plan.part(index)} was damaged ({error}) and is removed; run the same command again: it makes only that part "
        "again"
    )


def is_sound(plan: Plan, index: int) -> bool:
    """Whether the part is there, says that it is this part of the plan, and reads through without a wrong checksum."""
    try:
        with zipfile.ZipFile(plan.part(index)) as part:
            if part.testzip() is not None:
                return False
        with open(plan.part(index), "rb") as file, np.load(file, allow_pickle=False) as part:
            _check(plan, index, part)
        return True
    except DAMAGED:
        return False


def _check(plan: Plan, index: int, part: Any) -> None:
    """Raises ValueError unless the archive says that it is this part and holds every array that it names.

    A changed bit in the archive's list of members can end the list early.
    """
    about = parse_json(str(part["about"])) if "about" in part else {"place": None}
    plan.check_place(index, about["place"])
    gone = set(about["arrays"]) - set(part.files)
    if gone:
        raise ValueError(f"{min(gone)} is missing")


def read_manifest(plan: Plan) -> dict[str, Any] | None:
    """The identity of the plan that the folder of parts was begun with; None without a folder."""
    path = plan.parts / _MANIFEST
    try:
        return parse_json(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        raise ValueError(f"{path} is damaged; remove {plan.parts} and run the same command again") from None


def remove_parts(plan: Plan) -> None:
    """Removes the folder of parts, the plan last, so that a kill leaves either what says whose it is or nothing that
    is needed; what is not of a generation stays, and with it the folder."""
    with contextlib.suppress(OSError):  # another process may be at it
        for path in plan.parts.iterdir():
            if _NAMES.fullmatch(path.name):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        (plan.parts / _MANIFEST).unlink(missing_ok=True)
        plan.parts.rmdir()
