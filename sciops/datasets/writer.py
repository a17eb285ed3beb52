"""A resumable, sharded writer of native files: parts of consecutive samples first, one whole file at the end.

``<output>.parts/`` holds the plan and one file per part; a part is there only when it is whole, and so is the output.
Part boundaries follow from the plan alone, never from workers, batches or shards: a generation that was killed goes on
with the parts it lacks and ends with the same bytes in its fields. Until the parts are removed, right after the output
has taken its name, they and the output lie on the disk together.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets._native_files import exclusive, replacing
from sciops.datasets._native_layout import (
    SCHEMA,
    coordinates_of,
    create_group,
    root_attributes,
    set_attributes,
    stored_bytes,
)
from sciops.datasets._native_parts import Plan, is_sound, read_manifest, read_part, write_manifest, write_part
from sciops.datasets.conventions import SPLIT_ATTRS, SPLITS
from sciops.datasets.native import now

__all__ = ["Plan", "assemble", "finished", "generate", "pending", "read_parts", "write_parts"]

Ranges = Sequence[tuple[int, int]]
Arrays = Mapping[str, np.ndarray]


def generate(
    plan: Plan,
    make: Callable[[Ranges], Arrays],
    *,
    variables: Mapping[str, Mapping[str, Any]] | None = None,
    attrs: Mapping[str, Any] | None = None,
    group_attrs: Mapping[str, Any] | None = None,
    check: Callable[[Plan], None] | None = None,
    shard: tuple[int, int] = (0, 1),
    batch: int = 1,
    compression: int | None = None,
    progress: bool = True,
) -> Path:
    """Makes the parts that are missing, and the output as soon as no part is.

    make : ranges of samples → {"r85/a": (samples, 85, 85), "r85/seed": (samples,), …}, the samples of all ranges one
        after another. A sample must not depend on the ranges it is asked for with
    variables : name without its group → attributes ("a" → {"long_name": …})
    attrs, group_attrs : attributes of the root and of every group
    check : called once before the output is made; what it raises keeps the parts and makes no output
    shard : (i, n): make the parts whose index leaves i when divided by n. Whoever finds all parts there assembles them
    batch : parts given to `make` at once, at most
    returns : the output, or the folder of parts while other shards are at work

    Says so and returns at once when the output is there already. Raises ValueError when the output or the parts were
    made from another plan, naming the first difference; OSError when the disk is full (finished parts are kept).
    """
    if finished(plan):
        print(f"{plan.output} is complete already: {plan.samples} samples of the same configuration")
        return plan.output
    write_parts(plan, make, shard=shard, batch=batch, progress=progress)
    with exclusive(plan.parts / "lock") as mine:
        if finished(plan):  # another shard was quicker
            return plan.output
        missing = pending(plan)
        if missing or not mine:
            where = f"{plan.chunks - len(missing)} of {plan.chunks} parts are in {plan.parts}"
            who = "the shard that finishes last writes" if missing else "another process is writing"
            print(f"shard {shard[0]}/{shard[1]} is done; {where}; {who} {plan.output}")
            return plan.parts
        if check is not None:
            check(plan)
        return assemble(
            plan, variables=variables, attrs=attrs, group_attrs=group_attrs, compression=compression, progress=progress
        )


def finished(plan: Plan) -> bool:
    """Whether the output is there; parts that a kill left behind it are removed.

    Raises ValueError, naming what differs, when a file of another configuration or kind, or a folder, has that name.
    """
    if not plan.output.exists():
        return False
    if plan.output.is_dir():
        raise ValueError(f"--output {plan.output} is a folder: name the file to write in it, {plan.output / 'data.h5'}")
    try:
        attrs, _ = root_attributes(plan.output)
        found = json.loads(attrs["config"])
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(
            f"--output {plan.output} is there and is no file of this generator ({error}); remove it or name another"
        ) from None
    difference = _first_difference(found, plan.config)
    if difference:
        raise ValueError(
            f"--output {plan.output} is there with another configuration: {difference}; remove it or name another"
        )
    if plan.parts.is_dir() and read_manifest(plan) == plan.identity:
        shutil.rmtree(plan.parts, ignore_errors=True)
    return True


def pending(plan: Plan, *, verify: bool = False) -> list[int]:
    """Indices of the parts that are not there; `verify` reads every part through and counts damaged ones too.

    Raises ValueError, naming what differs, when the folder holds the parts of another plan.
    """
    found = read_manifest(plan)
    if found is None:
        return list(range(plan.chunks))
    difference = _first_difference(found, plan.identity)
    if difference:
        raise ValueError(
            f"{plan.parts} holds parts of another configuration: {difference}; finish that one, remove the folder, "
            "or name another --output"
        )
    return [i for i in range(plan.chunks) if not (is_sound(plan, i) if verify else plan.part(i).is_file())]


def write_parts(
    plan: Plan,
    make: Callable[[Ranges], Arrays],
    *,
    shard: tuple[int, int] = (0, 1),
    batch: int = 1,
    progress: bool = True,
) -> None:
    """Makes every part of the shard that is missing or damaged; arguments and errors as in `generate`."""
    from tqdm.auto import tqdm

    i, n = shard
    if not 0 <= i < n:
        raise ValueError(f"shard={i}/{n}: expected i/n with 0 ≤ i < n, such as 0/4 … 3/4")
    own = list(range(i, plan.chunks, n))
    lacking = set(pending(plan, verify=True))
    todo = [index for index in own if index in lacking]
    size = {index: stop - start for index in own for start, stop in [plan.bounds(index)]}
    done = sum(size[index] for index in own if index not in lacking)
    with tqdm(total=sum(size.values()), initial=done, unit="sample", disable=not progress) as bar:
        for first in range(0, len(todo), max(1, batch)):
            indices = todo[first : first + max(1, batch)]
            made = make([plan.bounds(index) for index in indices])
            if read_manifest(plan) is None:  # not before: what `make` refuses must not claim the folder
                write_manifest(plan)
            start = 0
            for index in indices:
                stop = start + size[index]
                write_part(plan, index, {name: values[start:stop] for name, values in made.items()})
                start = stop
                bar.update(size[index])


def read_parts(plan: Plan, name: str) -> np.ndarray:
    """One variable ("r85/status") of all parts, samples in order."""
    return np.concatenate([read_part(plan, index, [name])[name] for index in range(plan.chunks)])


def assemble(
    plan: Plan,
    *,
    variables: Mapping[str, Mapping[str, Any]] | None = None,
    attrs: Mapping[str, Any] | None = None,
    group_attrs: Mapping[str, Any] | None = None,
    compression: int | None = None,
    progress: bool = True,
) -> Path:
    """The output from all its parts, which are removed afterwards; arguments as in `generate`.

    Raises OSError when a part is damaged: it is removed, and the same command makes it anew.
    """
    import h5netcdf
    from tqdm.auto import tqdm

    variables = variables or {}
    root = {"sciops_schema": SCHEMA, "layout": "native", "Conventions": "CF-1.11", **(attrs or {})}
    root |= {"config": json.dumps(plan.config), "solver": plan.made_with, "created": now()}
    root["splits"] = json.dumps({name: list(bounds) for name, bounds in plan.splits.items()})
    split = np.zeros(plan.samples, dtype=np.int8)
    for name, (start, stop) in plan.splits.items():
        split[start:stop] = SPLITS.index(name)
    first = read_part(plan, 0)
    size = stored_bytes([((plan.samples, *v.shape[1:]), v.dtype) for v in first.values()])
    with (
        replacing(plan.output, plan.parts / "assembling.h5", size=0 if compression is not None else size) as temporary,
        h5netcdf.File(temporary, "w") as file,
        tqdm(total=plan.samples, unit="sample", desc="assembling", disable=not progress) as bar,
    ):
        set_attributes(file, root)
        for group, grid in plan.grids.items():
            fixed = {"sample": (("sample",), np.arange(plan.samples), {"long_name": "number of the sample"})}
            fixed |= {axis: ((axis,), points, about) for axis, (_, points, about) in coordinates_of(grid).items()}
            spatial = list(coordinates_of(grid))
            specs = {name: (dims, values.dtype, about) for name, (dims, values, about) in fixed.items()}
            for key, values in first.items():
                if key.startswith(group + "/"):
                    name = key.removeprefix(group + "/")
                    specs[name] = (("sample", *spatial)[: values.ndim], values.dtype, variables.get(name, {}))
            fixed["split"] = (("sample",), split, SPLIT_ATTRS)
            specs["split"] = (("sample",), split.dtype, SPLIT_ATTRS)
            about = {"layout": "native", "grid": json.dumps(grid.to_dict()), **(group_attrs or {})}
            sizes = {"sample": plan.samples, **dict(zip(spatial, grid.shape))}
            create_group(file, group, sizes, specs, attrs=about, compression=compression)
            for name, (_, values, _) in fixed.items():
                file[group].variables[name][:] = values
        for index in range(plan.chunks):
            start, stop = plan.bounds(index)
            for key, values in read_part(plan, index).items():
                group, name = key.split("/")
                file[group].variables[name][start:stop] = values
            bar.update(stop - start)
    shutil.rmtree(plan.parts, ignore_errors=True)
    return plan.output


def _first_difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """ "samples is 64 there and 128 here", or an empty string."""
    for key in [*wanted, *found]:
        there, here = found.get(key, "not set"), wanted.get(key, "not set")
        if there != here:
            return f"{key} is {_short(there)} there and {_short(here)} here"
    return ""


def _short(value: Any) -> str:
    return " ".join(str(v) for v in value) if isinstance(value, list) else str(value)
