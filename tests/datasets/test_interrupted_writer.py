"""Folders that vanish, second processes and kills amid the clean-up: no success without the output, nothing left."""

import errno
import os
import re
import shutil
import time
from pathlib import Path

import pytest
from test_writer import make, plan_in, run

from sciops.datasets.generation.writer import generate
from sciops.datasets.native import parts


class Killed(BaseException):
    pass


@pytest.mark.parametrize("shard", [(0, 1), (0, 2)])
@pytest.mark.parametrize("gone", ["parent", "parts"])
def test_a_folder_that_is_removed_meanwhile_is_no_success(tmp_path: Path, gone: str, shard: tuple[int, int]) -> None:
    plan = plan_in(tmp_path / "new")

    def removing(ranges):
        if ranges[0][0] == 6:
            while not plan.part(0).exists():  # it is written in another thread
                time.sleep(0.001)
            os.rename(plan.output.parent if gone == "parent" else plan.parts, tmp_path / "elsewhere")
            shutil.rmtree(tmp_path / "elsewhere", ignore_errors=True)
        return make(ranges)

    with pytest.raises(FileNotFoundError, match="others were removed meanwhile: run the|cannot be written"):
        generate(plan, removing, shard=shard, progress=False)
    assert not plan.output.exists()
    generate(plan, make, shard=shard, progress=False)  # the same command completes it
    assert (shard == (0, 1)) == plan.output.exists() and run(plan) == plan.output


def test_an_output_that_is_removed_at_once_is_no_success(tmp_path: Path, monkeypatch) -> None:
    plan, replace = plan_in(tmp_path), os.replace

    def and_gone(source, target):
        replace(source, target)
        if Path(target) == plan.output:
            os.unlink(target)

    monkeypatch.setattr(os, "replace", and_gone)
    with pytest.raises(FileNotFoundError, match="out.h5 was removed as soon as it was written"):
        run(plan)


@pytest.mark.parametrize("name", ["out.h5", "out.zarr"])
def test_a_kill_amid_the_last_removal_is_completed_by_the_next_run(tmp_path: Path, monkeypatch, name: str) -> None:
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    for step in range(1, 100):
        plan = plan_in(tmp_path / str(step), output=tmp_path / str(step) / name, chunk=5, splits={})
        with monkeypatch.context() as patch:
            seen = []  # of what is removed once the output is there
            for function in ("unlink", "rmdir"):
                patch.setattr(os, function, _dying(getattr(os, function), plan.output, seen, step))
            try:
                run(plan)
            except Killed:
                pass
            else:
                break
        generate(plan, lambda ranges: pytest.fail("made again"), progress=False)
        assert os.listdir(plan.output.parent) == [name]
    assert 4 < step < 20


def _dying(function, output: Path, seen: list, step: int):
    def call(*arguments, **options):
        seen.extend([1] * output.exists())
        if len(seen) == step:
            raise Killed
        return function(*arguments, **options)

    return call


def test_parts_whose_plan_is_gone_are_removed_and_nothing_else(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    run(plan)
    plan.parts.mkdir()
    for file in ("part-000001.npz", "lock", ".part-000002.npz.0123.tmp", "thesis.txt"):
        (plan.parts / file).touch()
    assert run(plan) == plan.output
    assert [p.name for p in plan.parts.iterdir()] == ["thesis.txt"]


def test_a_second_process_at_one_output_is_one_line(tmp_path: Path) -> None:
    plan, refused = plan_in(tmp_path), []

    def meanwhile(ranges):
        if not refused:
            for shard in ((0, 1), (1, 2)):
                try:
                    ended = run(plan, shard=shard)
                except BlockingIOError as error:
                    ended = str(error)
                refused.append(ended)
        return make(ranges)

    assert generate(plan, meanwhile, progress=False) == plan.output
    assert re.fullmatch(rf".*out.h5 is being made by process {os.getpid()} of .*: wait until it .* --shard", refused[0])
    assert refused[1] == plan.parts  # a shard does its share, and leaves the output to whoever is last
    assert os.listdir(tmp_path) == ["out.h5"]


def test_a_disk_that_is_full_after_the_plan_has_its_name_leaves_no_hidden_file(tmp_path, monkeypatch):
    plan = plan_in(tmp_path)
    plan.parts.mkdir()

    def full(path):
        if path == plan.parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("sciops.files.whole_files.synchronize", full)
    with pytest.raises(OSError, match="no space left on the device for .*plan.json"):
        parts.claim(plan)
    assert list(plan.parts.iterdir()) == []


def test_a_folder_that_is_removed_before_its_name_is_safe_is_one_line(tmp_path: Path, monkeypatch) -> None:
    plan, replace = plan_in(tmp_path / "new"), os.replace

    def and_gone(source, target):
        replace(source, target)
        if Path(target) == plan.part(0):  # between the rename and the synchronization of its folder
            os.rename(plan.parts, tmp_path / "elsewhere")

    monkeypatch.setattr(os, "replace", and_gone)
    with pytest.raises(FileNotFoundError, match=re.escape(f"{plan.part(0)} cannot be written")):
        run(plan)
