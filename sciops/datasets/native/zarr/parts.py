"""Parts of a planned Zarr store: one shard of every variable each, in its final place at once, and a receipt.

``<output>.parts/data.zarr`` holds the shards, ``part-000003.json`` says which and with which checksums. The
descriptions (zarr.json) come last, then the folder takes its final name: nothing is copied.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets.native.content import groups_of, root_attributes_of
from sciops.datasets.native.files import now
from sciops.datasets.native.parts import Plan, removed
from sciops.datasets.native.zarr.files import write_file
from sciops.datasets.native.zarr.layout import ZarrSpec, array_files, group_json, shard_bytes, shard_values, spec_of
from sciops.files.digest import DAMAGED, is_whole, sealed
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import create_new, replacing, synchronize


def write_part(plan: Plan, index: int, arrays: Mapping[str, np.ndarray]) -> None:
    """One shard of every array, then the receipt. Raises OSError when the disk is full."""
    shards, files = {}, {}
    for name, spec in _specs(plan, arrays).items():
        data = shard_bytes(spec, arrays[name])
        files[_store(plan) / name / spec.key(index)] = data
        about = {"dtype": arrays[name].dtype.str, "shape": arrays[name].shape[1:]}
        shards[name] = {**about, "bytes": len(data), "crc32": zlib.crc32(data)}
    with replacing(plan.part(index), alone=False) as receipt:
        _write_together(files, receipt)
        receipt.write_text(json.dumps(sealed({"place": plan.place(index), "shards": shards}), indent=1))


def _write_together(files: Mapping[Path, bytes], receipt: Path) -> None:
    """Each file under its name when all are whole and on the disk, which does at once what it is asked for at once."""
    written = {file: receipt.with_name(f"{receipt.name}.{i}") for i, file in enumerate(files)}
    try:
        for file, temporary in written.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            create_new(temporary)
            temporary.write_bytes(files[file])
        with ThreadPoolExecutor(len(written)) as disk:
            list(disk.map(synchronize, written.values()))
        for file, temporary in written.items():
            os.replace(temporary, file)
    finally:
        for temporary in written.values():
            temporary.unlink(missing_ok=True)


def read_part(plan: Plan, index: int, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of a part; a damaged part loses its receipt and OSError is raised."""
    try:
        shards = _receipt(plan, index)
        specs = _specs(plan, _empty(plan, index, shards))
        return {name: shard_values(specs[name], index, _data(plan, index, name, shards)) for name in names or shards}
    except DAMAGED as error:
        raise removed(plan, index, error) from None


def is_sound(plan: Plan, index: int) -> bool:
    """Whether the receipt is this part's of the plan and every shard has the bytes that it states."""
    try:
        shards = _receipt(plan, index)
        return all(_data(plan, index, name, shards) is not None for name in shards)
    except DAMAGED:
        return False


def assemble(plan: Plan, *, seen: Container[int] = ()) -> None:
    """Coordinates and descriptions beside the shards, then the final name.

    seen : parts that this process has made or read through; of these the lengths alone are looked at again

    Raises OSError when a shard does not have the bytes that were written: its part is marked as damaged, and the same
    command makes it again.
    """
    store = _store(plan)
    for index in range(plan.chunks):
        _check_shards(plan, index, lengths_alone=index in seen)
    arrays = _empty(plan, 0, _receipt(plan, 0))
    specs = _specs(plan, arrays)
    for group in groups_of(plan, arrays):
        for name, (dims, dtype, about) in group.variables.items():
            values = group.fixed.get(name)
            if values is None:
                files = array_files(specs[f"{group.name}/{name}"])
            else:
                files = array_files(spec_of(dims, values.shape, dtype, about), values)
            for file, data in files.items():
                write_file(store / group.name / name / file, data, last=False)
        write_file(store / group.name / "zarr.json", group_json(group.attrs, store / group.name))
    write_file(store / "zarr.json", group_json({**root_attributes_of(plan), "created": now()}, store))
    for folder in (store, *(p for p in store.rglob("*") if p.is_dir())):
        synchronize(folder)
    os.rename(store, plan.output)  # fails where another process was quicker: what it has finished stays
    synchronize(plan.output.parent)


def _check_shards(plan: Plan, index: int, *, lengths_alone: bool) -> None:
    try:
        shards = _receipt(plan, index)
        for name, about in shards.items():
            file = _file(plan, index, name, about)
            if file.stat().st_size != about["bytes"]:
                raise ValueError(f"{file} has {file.stat().st_size} bytes, expected {about['bytes']}")
            if not lengths_alone:
                _data(plan, index, name, shards)
    except DAMAGED as error:
        raise removed(plan, index, error) from None


def _store(plan: Plan) -> Path:
    return plan.parts / "data.zarr"


def _specs(plan: Plan, arrays: Mapping[str, np.ndarray]) -> dict[str, ZarrSpec]:
    specs = {}
    for group in groups_of(plan, arrays):
        for name, (dims, dtype, about) in group.variables.items():
            if name not in group.fixed:
                shape = [group.sizes[dim] for dim in dims]
                spec = spec_of(dims, shape, dtype, about, shard=plan.chunk, level=plan.compression)
                specs[f"{group.name}/{name}"] = spec
    return specs


def _receipt(plan: Plan, index: int) -> dict[str, dict[str, Any]]:
    found = parse_json(plan.part(index).read_bytes())
    plan.check_place(index, found.get("place") if isinstance(found, dict) else None)
    if not is_whole(found):
        raise ValueError("its receipt changed since it was written")
    return found["shards"]


def _file(plan: Plan, index: int, name: str, about: Mapping[str, Any]) -> Path:
    return _store(plan) / name / ".".join(["c", str(index), *("0" for _ in about["shape"])])


def _data(plan: Plan, index: int, name: str, shards: Mapping[str, Mapping[str, Any]]) -> bytes:
    file = _file(plan, index, name, shards[name])
    data = file.read_bytes()
    if (len(data), zlib.crc32(data)) != (shards[name]["bytes"], shards[name]["crc32"]):
        raise ValueError(f"{file.name} of {name} has other bytes than were written")
    return data


def _empty(plan: Plan, index: int, shards: Mapping[str, Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Arrays of the part's shapes and types that take no memory."""
    start, stop = plan.bounds(index)
    return {
        name: np.broadcast_to(np.zeros((), about["dtype"]), (stop - start, *about["shape"]))
        for name, about in shards.items()
    }
