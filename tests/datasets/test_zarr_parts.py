"""Parts of a Zarr store: zarr's own bytes; shards of two settings, damaged or raced for, never come together."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("zarr")

from sciops.datasets.generation.writer import Plan, generate, pending, write_parts
from sciops.datasets.native import content_hash
from sciops.datasets.native.zarr import layout as zarr_layout
from sciops.datasets.native.zarr import parts as zarr_parts
from sciops.grids import Grid


def plan_in(folder: Path, name: str = "out.zarr", **changes) -> Plan:
    base = Plan(folder / name, 10, 3, {"tau": 3.0}, {"r9": Grid((9, 9))}, "program 1", dims={"w": ("time", "x", "y")})
    return replace(base, **changes)


def make(ranges) -> dict[str, np.ndarray]:
    numbers = np.concatenate([np.arange(start, stop) for start, stop in ranges])
    drawn = np.stack([np.random.default_rng(i).random((5, 9, 9)) for i in numbers])
    return {"r9/w": drawn, "r9/u": drawn[:, 0].astype("float32"), "r9/seed": numbers, "r9/odd": numbers % 2 == 1}


@pytest.mark.parametrize("first", [None, 1])
def test_shards_packed_in_two_ways_never_come_together(tmp_path: Path, first: int | None) -> None:
    plan = plan_in(tmp_path, compression=first)
    write_parts(plan, make, shard=(0, 2), progress=False)
    told = "compression is not set there and 4 here" if first is None else "compression is 1 there and 4 here"
    with pytest.raises(ValueError, match=told):
        generate(replace(plan, compression=4), make, progress=False)
    assert pending(plan, verify=True) == [1, 3]


@pytest.mark.parametrize("damage", ["receipt cut", "of another plan", "shard cut", "shard gone"])
def test_a_part_that_another_shard_finds_damaged_is_given_up(tmp_path: Path, damage: str) -> None:
    plan = plan_in(tmp_path)
    write_parts(plan, make, shard=(0, 2), progress=False)
    receipt, shard = plan.part(2), plan.parts / "data.zarr/r9/w/c.2.0.0.0"
    if damage == "receipt cut":
        receipt.write_bytes(receipt.read_bytes()[:-20])
    elif damage == "of another plan":
        receipt.write_text(receipt.read_text().replace(plan.digest, "0" * 64))
    elif damage == "shard cut":
        shard.write_bytes(shard.read_bytes()[:-8])
    else:
        shard.unlink()
    with pytest.raises(
        OSError, match=r"part-000002.json was damaged \(.*\) and is removed; run the same command again"
    ):
        generate(plan, make, shard=(1, 2), progress=False)
    assert pending(plan) == [2] and not plan.output.exists()


def moved(plan: Plan, source: int, target: int, *, receipt: bool) -> None:
    """Part `source` over part `target`: its shards, and with `receipt` what says that they are whole."""
    for file in (plan.parts / "data.zarr").rglob(f"c.{source}*"):
        shutil.copy(file, file.with_name(file.name.replace(f"c.{source}", f"c.{target}", 1)))
    if receipt:
        shutil.copy(plan.part(source), plan.part(target))


@pytest.mark.parametrize("receipt", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_a_part_in_the_place_of_another_is_made_again(tmp_path: Path, count: int, receipt: bool) -> None:
    plan = plan_in(tmp_path)
    write_parts(plan, make, shard=(0, count), progress=False)
    moved(plan, 0, 2, receipt=receipt)
    assert zarr_parts.is_sound(plan, 0) and not zarr_parts.is_sound(plan, 2)
    if count == 2:  # whoever assembles has neither made nor read that part
        with pytest.raises(OSError, match=r"part-000002.json was damaged .* is removed"):
            generate(plan, make, shard=(1, 2), progress=False)
        assert pending(plan) == [2]
    generate(plan, make, progress=False)
    assert content_hash(plan.output) == content_hash(generate(plan_in(tmp_path, "out.h5"), make, progress=False))


def test_any_bit_of_a_receipt_may_flip(tmp_path: Path) -> None:
    plan, rng = plan_in(tmp_path), np.random.default_rng(0)
    write_parts(plan, make, progress=False)
    content, wanted = plan.part(1).read_bytes(), json.loads(plan.part(1).read_text())
    for _ in range(200):
        flipped = bytearray(content)
        flipped[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        plan.part(1).write_bytes(flipped)
        assert not zarr_parts.is_sound(plan, 1) or json.loads(flipped) == wanted
    old = {"plan": plan.digest, "shards": wanted["shards"]}  # once receipts kept the plan alone
    plan.part(1).write_text(json.dumps(old))
    assert pending(plan, verify=True) == [1]


def test_a_store_of_the_quicker_of_two_stays(tmp_path: Path, monkeypatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "flock", lambda *arguments: None)  # locks that lock nothing, as of Lustre's localflock
    plan, both = plan_in(tmp_path), []
    write_parts(plan, make, progress=False)
    original = zarr_parts.groups_of

    def groups_of(plan, arrays):  # asked for when all shards have been looked at
        if not both:
            both.append(1)
            generate(plan, make, progress=False)
        return original(plan, arrays)

    monkeypatch.setattr(zarr_parts, "groups_of", groups_of)
    assert generate(plan, make, progress=False) == plan.output
    assert os.listdir(tmp_path) == ["out.zarr"]
    assert content_hash(plan.output) == content_hash(generate(plan_in(tmp_path, "out.h5"), make, progress=False))


@pytest.mark.parametrize("level", [None, 5])
@pytest.mark.parametrize(
    ("dims", "shape", "dtype"),
    [
        (("sample",), (11,), "int64"),
        (("sample", "x"), (11, 7), ">f8"),
        (("sample", "x", "y"), (11, 6, 5), "bool"),
        (("sample", "time", "x", "y"), (11, 7, 128, 160), "float64"),  # 7 times are cut in fours: the last is three
        (("x",), (9,), "float32"),
        ((), (), "float64"),
    ],
)
def test_files_are_made_as_zarr_makes_them(dims, shape, dtype, level) -> None:
    values = (np.random.default_rng(0).random(shape) * 9).astype(dtype)
    spec = zarr_layout.spec_of(dims, shape, values.dtype, {"units": "1"}, shard=4, level=level)
    array, held = zarr_layout._in_memory(spec)
    array[...] = values.astype(spec.dtype)
    theirs = {name: data.to_bytes() for name, data in held.items()}
    ours = {}
    for index in range(3 if dims[:1] == ("sample",) else 1):
        part = values[4 * index : 4 * index + 4] if dims[:1] == ("sample",) else values
        ours |= zarr_layout.array_files(spec, part, first=index)
        if dims[:1] == ("sample",):
            np.testing.assert_array_equal(zarr_layout.shard_values(spec, index, ours[spec.key(index)]), part)
    assert ours.keys() == theirs.keys()
    # in a shard zarr lays the chunks along a curve; everything else is the same bytes
    assert {name: len(data) for name, data in ours.items()} == {name: len(data) for name, data in theirs.items()}
    if len(shape) < 2:
        assert ours == theirs
