"""The resumable writer: kills, shards and batches change nothing; other plans and full disks are told in a line."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from warm import python

from sciops.datasets.generation import writer
from sciops.datasets.generation.writer import Plan, generate, pending, read_parts, write_parts
from sciops.datasets.native import content_hash, parts
from sciops.files import locks, whole_files
from sciops.grids import Grid

GRIDS = {"r9": Grid((9, 9)), "r4x5": Grid((4, 5))}
SPLITS = {"train": (0, 7), "validation": (7, 8), "test": (8, 10)}


def plan_in(folder: Path, **changes) -> Plan:
    base = Plan(
        folder / "out.h5",
        10,
        3,
        {"tau": 3.0, "sizes": [9, 4]},
        GRIDS,
        "program 1",
        SPLITS,
        variables={"a": {"units": "1"}},
        attrs={"equation": "darcy"},
    )
    return replace(base, **changes)


def make(ranges):
    """Fields whose every sample is a function of its number alone."""
    numbers = np.concatenate([np.arange(start, stop) for start, stop in ranges])
    made = {}
    for name, grid in GRIDS.items():
        for key in "au":
            made[f"{name}/{key}"] = np.stack(
                [np.random.default_rng([i, ord(key)]).normal(size=grid.shape) for i in numbers]
            )
        made[f"{name}/seed"] = numbers
    return made


def run(plan: Plan, **options) -> Path:
    return generate(plan, make, progress=False, **options)


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> str:
    return content_hash(run(plan_in(tmp_path_factory.mktemp("reference"))))


def test_the_output_holds_every_sample_in_its_place(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    assert run(plan) == plan.output
    expected = make([(0, 10)])
    with xr.open_datatree(plan.output) as tree:
        assert json.loads(tree.attrs["config"]) == {"tau": 3.0, "sizes": [9, 4]} and tree.attrs["solver"] == "program 1"
        assert {k: tuple(v) for k, v in json.loads(tree.attrs["splits"]).items()} == SPLITS
        for name in GRIDS:
            for key in ("a", "u", "seed"):
                np.testing.assert_array_equal(tree[name][key], expected[f"{name}/{key}"])
            np.testing.assert_array_equal(tree[name]["split"], [0] * 7 + [1] + [2] * 2)
            np.testing.assert_array_equal(tree[name]["sample"], np.arange(10))
            assert tree[name]["a"].attrs["units"] == "1"
    assert [p.name for p in tmp_path.iterdir()] == ["out.h5"]


_KILL = """
import os, pathlib, signal, sys
sys.path.insert(0, sys.argv[2])
from test_writer import content_hash, pending, plan_in, run

def killed_at(folder, point):
    # in a child: SIGKILL before the point-th step that makes something last; True when there was no such step
    child = os.fork()
    if child == 0:
        count = 0
        def counted(function):
            def step(*arguments, **options):
                nonlocal count
                count += 1
                if count == point:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*arguments, **options)
            return step
        os.fsync, os.replace, os.rmdir = counted(os.fsync), counted(os.replace), counted(os.rmdir)
        run(plan_in(folder))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

point = 1
while True:
    folder = pathlib.Path(sys.argv[1]) / str(point)
    folder.mkdir()
    if killed_at(folder, point):
        break
    there = plan_in(folder).output.exists()
    left = len(pending(plan_in(folder)))
    killed_at(folder, 2)     # and again, soon after the resume
    print(point, there, left, content_hash(run(plan_in(folder))), sorted(os.listdir(folder)), sep=";")
    point += 1
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_killed_at_any_step_it_ends_with_the_same_bytes(tmp_path: Path, reference: str) -> None:
    done = python(["-c", _KILL, str(tmp_path), str(Path(__file__).parent)], timeout=300)
    assert done.returncode == 0, done.stderr
    points = [line.split(";") for line in done.stdout.splitlines() if line[0].isdigit()]
    # 6 files of 3 steps each (plan, 4 parts, output), and the removal of the folder of parts
    assert len(points) == 19
    assert {(found, names) for *_, found, names in points} == {(reference, "['out.h5']")}
    # the output is there only after its own rename, and no finished part is made twice
    assert [there for _, there, *_ in points].index("True") == 17
    assert [int(left) for _, _, left, *_ in points[2:]] == [4] * 3 + [3] * 3 + [2] * 3 + [1] * 3 + [0] * 4 + [4]


@pytest.mark.parametrize("count", [2, 3, 7])
def test_shards_make_the_same_file_and_the_last_one_assembles(tmp_path: Path, reference: str, count: int) -> None:
    plan = plan_in(tmp_path)
    ends = [run(plan, shard=(i, count)) for i in reversed(range(count))]
    assert ends[:-1] == [plan.parts] * (count - 1) and ends[-1] == plan.output
    assert content_hash(plan.output) == reference
    assert run(plan, shard=(0, count)) == plan.output


@pytest.mark.parametrize("batch", [2, 3, 100])
def test_parts_made_together_are_parts_made_apart(tmp_path: Path, reference: str, batch: int) -> None:
    calls = []
    plan = plan_in(tmp_path)
    generate(plan, lambda ranges: calls.append(len(ranges)) or make(ranges), batch=batch, progress=False)
    assert max(calls) == min(batch, 4) and sum(calls) == 4
    assert content_hash(plan.output) == reference


def test_chunk_length_changes_no_field(tmp_path: Path, reference: str) -> None:
    assert content_hash(run(plan_in(tmp_path, chunk=10))) == reference


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "of another plan", "of another place", "before"])
def test_a_damaged_part_is_made_again(tmp_path: Path, reference: str, damage: str) -> None:
    plan = plan_in(tmp_path)
    write_parts(plan, make, progress=False)
    part = plan.part(1)
    whole = bytearray(part.read_bytes())
    if damage == "of another plan":
        other = plan_in(tmp_path, output=tmp_path / "other.h5", config={"tau": 4.0})
        write_parts(other, make, progress=False)
        whole = bytearray(other.part(1).read_bytes())
    elif damage == "of another place":
        whole = plan.part(2).read_bytes()
    elif damage == "before":  # parts once kept the plan alone
        arrays = parts.read_part(plan, 1)
        with open(part, "wb") as file:
            np.savez(file, plan=np.array(plan.digest), **arrays)
        whole = part.read_bytes()
    else:
        whole[len(whole) // 2] ^= 1
        whole = {"truncated": whole[:-40], "flipped": whole, "empty": whole[:0]}[damage]
    part.write_bytes(whole)
    assert pending(plan) == [] and pending(plan, verify=True) == [1]
    with pytest.raises(OSError, match=r"part-000001\.npz was damaged .* is removed; run the same command again"):
        writer.assemble(plan, progress=False)
    assert content_hash(run(plan)) == reference


@pytest.mark.parametrize("count", [1, 2])
def test_a_part_that_another_shard_put_in_the_wrong_place_is_no_sample_twice(tmp_path, reference, count) -> None:
    plan = plan_in(tmp_path)
    write_parts(plan, make, shard=(0, count), progress=False)
    shutil.copy(plan.part(0), plan.part(2))
    if count == 2:  # the other shard does not read parts that are not its own until it assembles
        with pytest.raises(OSError, match=r"part-000002.*says that it is part 0 with the samples \[0, 3\]"):
            run(plan, shard=(1, 2))
        assert pending(plan) == [2]
    assert content_hash(run(plan)) == reference


def test_any_bit_of_a_part_may_flip(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    write_parts(plan, make, progress=False)
    content, rng = plan.part(1).read_bytes(), np.random.default_rng(0)
    wanted = parts.read_part(plan, 1)
    # the middle is numbers, which the archive's checksums cover; at both ends lie its own tables
    for at in [*rng.integers(0, 400, 80), *(len(content) - rng.integers(1, 700, 120))]:
        flipped = bytearray(content)
        flipped[at] ^= 1 << int(rng.integers(8))
        plan.part(1).write_bytes(flipped)
        if parts.is_sound(plan, 1):
            found = parts.read_part(plan, 1)
            assert found.keys() == wanted.keys() and all(np.array_equal(found[k], wanted[k]) for k in wanted)


def test_a_finished_output_is_left_alone(tmp_path: Path, capsys) -> None:
    plan = plan_in(tmp_path)
    run(plan)
    written = plan.output.stat().st_mtime_ns
    generate(plan, lambda ranges: pytest.fail("made again"), progress=False)
    assert "is complete already: 10 samples" in capsys.readouterr().out and plan.output.stat().st_mtime_ns == written


@pytest.mark.parametrize("state", ["parts", "output"])
def test_another_configuration_is_refused_naming_the_difference(tmp_path: Path, state: str) -> None:
    plan = plan_in(tmp_path)
    write_parts(plan, make, shard=(0, 2) if state == "parts" else (0, 1), progress=False)
    if state == "output":
        run(plan)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    other = plan_in(tmp_path, config={"tau": 3.5, "sizes": [9, 4]})
    with pytest.raises(
        ValueError, match="another configuration: tau is 3.0 there and 3.5 here; .*name another"
    ) as caught:
        run(other)
    assert "\n" not in str(caught.value)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    if state == "parts":
        with pytest.raises(ValueError, match="made_with is program 1 there and program 2 here"):
            run(plan_in(tmp_path, made_with="program 2"))


def test_a_foreign_file_under_the_output_name_is_never_overwritten(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    plan.output.write_text("a thesis")
    with pytest.raises(ValueError, match="is not a file of this generator .*remove it or name another"):
        run(plan)
    assert plan.output.read_text() == "a thesis" and not plan.parts.exists()


@pytest.mark.parametrize("when", ["part", "output"])
def test_a_full_disk_is_one_line_and_keeps_the_finished_parts(
    tmp_path: Path, monkeypatch, reference: str, when
) -> None:
    plan = plan_in(tmp_path)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if when == "part":
        save = np.savez

        def savez(file, **arrays):
            if "000002" in file.name:
                file.write(b"half")
                raise full
            save(file, **arrays)

        monkeypatch.setattr(np, "savez", savez)
    else:
        original = whole_files.synchronize

        def synchronize(path):
            if "assembling" in path.name:
                raise full
            original(path)

        monkeypatch.setattr(whole_files, "synchronize", synchronize)
    with pytest.raises(OSError, match="no space left on the device for .*run the same command again") as caught:
        run(plan)
    assert "\n" not in str(caught.value)
    kept = ["part-000000.npz", "part-000001.npz", "part-000002.npz", "part-000003.npz"][: 2 if when == "part" else 4]
    assert sorted(p.name for p in plan.parts.iterdir() if p.name != "lock") == [*kept, "plan.json"]
    assert not plan.output.exists()
    monkeypatch.undo()
    assert content_hash(run(plan)) == reference


def test_where_the_disk_is_short_for_a_while_the_parts_come_first(tmp_path: Path, monkeypatch, reference: str) -> None:
    usage, begun = shutil.disk_usage, []

    def short_once(path):
        begun.extend(path.glob(".assembling*"))
        return usage(path)._replace(free=0) if len(begun) == 1 else usage(path)

    monkeypatch.setattr(shutil, "disk_usage", short_once)
    assert content_hash(run(plan_in(tmp_path))) == reference
    # begun with the first part of four, given up at the second, and made again from all of them at the end
    assert len(begun) > 3
    assert [p.name for p in tmp_path.iterdir()] == ["out.h5"]


def test_a_refused_check_keeps_the_parts_and_makes_no_output(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)

    def check(plan: Plan) -> None:
        np.testing.assert_array_equal(read_parts(plan, "r9/seed"), np.arange(10))
        raise RuntimeError("sample 4 is wrong")

    with pytest.raises(RuntimeError, match="sample 4"):
        run(plan, check=check)
    assert not plan.output.exists() and pending(plan) == []


def test_two_processes_never_assemble_both(tmp_path: Path, reference: str) -> None:
    plan = plan_in(tmp_path)
    write_parts(plan, make, progress=False)
    with locks.exclusive(plan.parts / "lock") as mine:
        assert mine
        assert run(plan, shard=(1, 2)) == plan.parts and not plan.output.exists()
    assert content_hash(run(plan, shard=(1, 2))) == reference


def test_two_plans_that_begin_at_once_never_come_together(tmp_path: Path, reference: str) -> None:
    plan, other = plan_in(tmp_path), plan_in(tmp_path, config={"tau": 3.5, "sizes": [9, 4]})

    def slowly(ranges):  # the first plan begins, and makes some parts, while the other makes its first
        write_parts(plan, make, shard=(1, 2), progress=False)
        return make(ranges)

    with pytest.raises(ValueError, match="another configuration: tau is 3.0 there and 3.5 here"):
        generate(other, slowly, progress=False)
    assert pending(plan, verify=True) == [0, 2] and sorted(os.listdir(plan.parts))[-1] == "plan.json"
    assert content_hash(run(plan)) == reference


def test_a_shard_reads_its_own_parts_through_and_no_others(tmp_path: Path, monkeypatch) -> None:
    plan, read = plan_in(tmp_path), []
    write_parts(plan, make, shard=(0, 2), progress=False)
    monkeypatch.setattr(parts, "is_sound", lambda plan, index: read.append(index) or True)
    write_parts(plan, make, shard=(1, 2), progress=False)
    assert read == []
    write_parts(plan, make, shard=(0, 2), progress=False)
    assert read == [0, 2]


def test_on_a_file_system_without_locks_the_quicker_of_two_finishes(tmp_path: Path, monkeypatch, reference) -> None:
    fcntl = pytest.importorskip("fcntl")

    def flock(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    plan = plan_in(tmp_path)
    run(plan, shard=(0, 2))
    both = []

    def check(plan: Plan) -> None:
        if not both:
            both.append(1)
            run(plan, shard=(0, 2), check=check)  # another process has the same thought, and is done before

    assert run(plan, shard=(1, 2), check=check) == plan.output
    assert content_hash(plan.output) == reference and os.listdir(tmp_path) == ["out.h5"]


def test_what_a_killed_assembly_of_this_machine_left_makes_room(tmp_path: Path, reference: str) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    plan = plan_in(tmp_path)
    write_parts(plan, make, progress=False)
    name = whole_files.hidden(plan.parts / "assembling", "tmp").name
    mine, other = (plan.parts / name.replace(str(os.getpid()), str(pid)) for pid in (gone.pid, os.getppid()))
    mine.touch()
    other.touch()

    def full(*arguments, **options):
        assert not mine.exists() and other.exists()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_files, "_ask_for_space", full)
        with pytest.raises(OSError, match="no space"):
            writer.assemble(plan, progress=False)
    assert content_hash(run(plan)) == reference


def test_the_lock_is_let_go_before_its_folder_is_removed(tmp_path: Path, monkeypatch) -> None:
    remove, removed = writer.remove_parts, []

    def remove_parts(plan):
        with locks.exclusive(plan.parts / "lock") as free:
            removed.append(free)
        remove(plan)

    monkeypatch.setattr(writer, "remove_parts", remove_parts)
    run(plan_in(tmp_path))
    assert removed == [True]


def test_shards_and_sizes_that_cannot_be(tmp_path: Path) -> None:
    for shard in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="expected i/n with 0 ≤ i < n"):
            run(plan_in(tmp_path), shard=shard)
    with pytest.raises(ValueError, match="samples=0: expected at least 1"):
        plan_in(tmp_path, samples=0)


@pytest.mark.parametrize("name", ["out.h5", "out.zarr"])
def test_a_shard_whose_parts_another_one_has_just_taken_away_does_not_make_them_again(tmp_path, monkeypatch, name):
    """The other one ends between this one's look at the output and its look at the parts."""
    plan, assembly = plan_in(tmp_path, output=tmp_path / name), writer.Assembly
    if plan.in_zarr:
        pytest.importorskip("zarr")
    write_parts(plan, make, shard=(0, 2), progress=False)

    def late(plan):
        monkeypatch.setattr(writer, "Assembly", assembly)
        assert run(plan, shard=(1, 2)) == plan.output and not plan.parts.exists()
        return assembly(plan)

    monkeypatch.setattr(writer, "Assembly", late)
    again = generate(plan, lambda ranges: pytest.fail("made again"), shard=(0, 2), progress=False)
    assert again == plan.output and [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("when", [-1e9, 1e9])
def test_parts_count_by_what_they_say_and_not_by_the_clock(tmp_path: Path, reference: str, when: float) -> None:
    """As after a clock that was set back or forth between two runs: no time of a file is compared."""
    plan, made = plan_in(tmp_path), []
    write_parts(plan, make, shard=(0, 2), progress=False)
    for path in plan.parts.iterdir():
        os.utime(path, (path.stat().st_mtime + when,) * 2)
    generate(plan, lambda ranges: made.extend(ranges) or make(ranges), progress=False)
    assert sorted(made) == [(3, 6), (9, 10)] and content_hash(plan.output) == reference
