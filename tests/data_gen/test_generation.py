"""What generators share: a time axis comes back by name, every grid sees one function, every check is one line."""

from __future__ import annotations

import functools
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from data_gen.kit.configuration import GenerationConfig, grids_of
from data_gen.kit.generation import Recipe, generate_samples, on_every_grid, program
from data_gen.kit.ranges import numbers_of
from sciops.datasets import open_dataset
from sciops.datasets.native import content_hash, read_native, write_native
from sciops.grids import Grid

TIMES = np.array([0.0, 0.1, 0.25, 0.7])


@dataclass(frozen=True)
class WaveConfig(GenerationConfig):
    speed: float = 2.0


SMALL = WaveConfig(samples=11, resolutions=(8, 16, 4), chunk=3, threads=1, progress=False)


def make(config: WaveConfig, ranges) -> dict[str, np.ndarray]:
    """u = A sin 2π(x − ct + p), with A and p of each sample its own."""
    return on_every_grid(config, grids_of(config, 1), functools.partial(exact, config, numbers_of(ranges)))


def exact(config: WaveConfig, numbers: np.ndarray, grid: Grid):
    drawn = np.array(
        [np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(i,))).random(2) for i in numbers]
    )
    (x,) = grid.coordinates()
    phase = x - config.speed * TIMES[:, None] + drawn[:, 1, None, None]
    u = drawn[:, 0, None, None] * np.sin(2 * np.pi * phase)
    return {"u": u}, {"amplitude": drawn[:, 0], "times": np.tile(TIMES, (len(drawn), 1)), "odd": numbers % 2 == 1}


def run(config: WaveConfig, **changes) -> Path:
    recipe = Recipe(
        equation="advection",
        grids=grids_of(config, 1),
        make=make,
        variables={"u": {"long_name": "density", "units": "1"}},
        solver=program("exact"),
        dims={"u": ("time", "x"), "times": ("time",)},
        coordinates={"time": (TIMES, {"units": "s", "long_name": "time"})},
        attrs={"task": "trajectory", "state": ["u"], "parameters": {"speed": config.speed}},
    )
    return generate_samples(config, replace(recipe, **changes))


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    return run(replace(SMALL, output=tmp_path_factory.mktemp("wave") / "wave.h5"))


def test_a_trajectory_is_what_was_made_under_its_names(written: Path) -> None:
    for n in (16, 8, 4):
        with open_dataset(written, n) as data:
            fields, numbers = exact(SMALL, np.arange(11), Grid((n,), centering="periodic"))
            assert data["u"].dims == ("sample", "time", "x") and data["times"].dims == ("sample", "time")
            np.testing.assert_array_equal(data["u"], fields["u"])
            np.testing.assert_array_equal(data["amplitude"], numbers["amplitude"])
            np.testing.assert_array_equal(data["times"], numbers["times"])
            assert data["odd"].dtype == bool and list(data["odd"].values) == [i % 2 == 1 for i in range(11)]
            np.testing.assert_array_equal(data["time"], TIMES)
            assert data["time"].attrs["units"] == "s" and data["u"].attrs["long_name"] == "density"
            assert json.loads(data.attrs["state"]) == ["u"] and data.attrs["task"] == "trajectory"
            assert json.loads(data.attrs["parameters"]) == {"speed": 2.0}


def test_nested_labels_are_the_fine_fields_at_the_coarse_points(written: Path, tmp_path: Path) -> None:
    path = run(replace(SMALL, labels="nested", output=tmp_path / "nested.h5"))
    with read_native(path, 16) as fine, read_native(path, 4) as coarse, read_native(written, 4) as solved:
        np.testing.assert_array_equal(coarse["u"], fine["u"][..., ::4])
        np.testing.assert_allclose(coarse["u"], solved["u"], atol=1e-14)


def test_plain_xarray_opens_a_trajectory_and_it_is_written_again_whole(written: Path, tmp_path: Path) -> None:
    with xr.open_dataset(written, group="r16") as plain, open_dataset(written) as ours:
        np.testing.assert_array_equal(plain["u"], ours["u"])
        np.testing.assert_array_equal(plain["time"], TIMES)
    groups = [open_dataset(written, n) for n in (4, 8, 16)]
    assert content_hash(write_native(tmp_path / "again.h5", groups)) == content_hash(written)
    for group in groups:
        group.close()


def test_a_window_of_a_long_trajectory_is_stored_apart(tmp_path: Path) -> None:
    u = np.random.default_rng(0).normal(size=(2, 50, 128, 65))  # 66.6 kB a time, 3.3 MB a sample
    grid = Grid((128, 65), centering="periodic")
    attrs = {"grid": json.dumps(grid.to_dict())}
    path = write_native(tmp_path / "long.h5", xr.Dataset({"u": (("sample", "time", "x", "y"), u)}, attrs=attrs))
    with h5py.File(path) as file:
        stored = file["r128x65/u"]
        assert stored.chunks == (1, 13, 128, 65) and stored.fletcher32
        assert 13 * 128 * 65 * 8 <= 2**20 < 16 * 128 * 65 * 8
    with read_native(path) as data:
        np.testing.assert_array_equal(data["u"][1, 20:25], u[1, 20:25])


def test_three_axes_come_back(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(4, 6, 6, 6))
    grids = {"r6x6x6": Grid((6, 6, 6), centering="cell")}
    config = replace(SMALL, samples=4, resolutions=(6,), output=tmp_path / "cube.h5")
    made = lambda config, ranges: {"r6x6x6/u": values[numbers_of(ranges)]}  # noqa: E731
    with open_dataset(run(config, grids=grids, make=made, dims={}, coordinates={}, attrs={}), 6) as data:
        assert data["u"].dims == ("sample", "x", "y", "z")
        np.testing.assert_array_equal(data["u"], values)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            lambda n: {"r16/u": np.zeros((n, 5, 16))},
            r"made r16/u of shape \(3, 5, 16\): expected \(samples, time 4, x 16\)",
        ),
        (lambda n: {"r16/u": np.zeros((n, 16))}, r"expected \(samples, time 4, x 16\)"),
        (lambda n: {"r8/u": np.zeros((n, 4, 16))}, r"expected \(samples, time 4, x 8\)"),
        (lambda n: {"r7/u": np.zeros((n, 4, 7))}, "made 'r7/u': expected a variable of r16/, r8/, r4/"),
        (lambda n: {"r16/u": np.zeros((n + 1, 4, 16))}, r"made r16/u of shape \(4, 4, 16\) for 3 samples"),
        (lambda n: {"r16/x": np.zeros((n, 16))}, "that name belongs to the file"),
        (lambda n: {"r16/u": np.zeros((n, 4, 16), complex)}, "of dtype complex128"),
        (lambda n: {}, "made nothing"),
    ],
)
def test_what_does_not_fit_the_recipe_is_told_and_claims_nothing(tmp_path: Path, wrong, told: str) -> None:
    config = replace(SMALL, output=tmp_path / "x.h5")
    with pytest.raises(ValueError, match=told):
        run(config, make=lambda config, ranges: wrong(sum(stop - start for start, stop in ranges)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"resolutions": (16, 6), "labels": "nested"}, "6 points are not nested in 16; 8 4 2 are, or take --labels"),
        ({"resolutions": (16, 16)}, "expected different sizes"),
        ({"labels": "guessed"}, "expected nested or solved"),
        ({"workers": 2, "scheduler": "tcp://x:1"}, "--workers 2 --scheduler tcp://x:1: take one of them"),
        ({"workers": -1}, "--workers -1: expected at least 0"),
        ({"threads": 0}, "--threads 0: expected at least 1"),
        ({"shard": "2/2"}, "--shard 2/2"),
        ({"validation": 0.6, "test": 0.5}, "none of 11 is left to train on"),
        ({"device": "tpu"}, "expected cpu or cuda"),
        ({"seed": -1}, "--seed -1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path: Path, changes: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        run(replace(SMALL, output=tmp_path / "x.h5", **changes))
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


def test_an_unfinished_file_goes_on_with_the_parts_it_was_begun_with(tmp_path: Path, written: Path) -> None:
    first = replace(SMALL, output=tmp_path / "x.h5", chunk=4, shard="0/2")
    assert run(first) == tmp_path / "x.h5.parts"
    path = run(replace(first, chunk=None, shard="0/1"))  # alone it would have been one part
    assert path == tmp_path / "x.h5" and content_hash(path) == content_hash(written)


def test_a_dry_run_foretells_the_file_and_writes_nothing(tmp_path: Path, capsys, written: Path) -> None:
    calls = []

    def counted(config, ranges):
        calls.append(ranges)
        return make(config, ranges)

    config = replace(SMALL, output=tmp_path / "deep/x.zarr", dry_run=True, workers=2, shard="0/2")
    path = run(config, make=counted)
    said = capsys.readouterr().out
    assert path == config.output and not list(tmp_path.iterdir())
    assert calls[0] == [(0, 1)] and all(ranges[0][1] <= SMALL.chunk for ranges in calls)
    assert f"{path}: 11 samples in 4 parts of 3\n" in said
    with read_native(written, 16) as a, read_native(written, 8) as b, read_native(written, 4) as c:
        names = ("u", "amplitude", "times", "odd")
        size = sum(group[name].values.nbytes for group in (a, b, c) for name in names)
    assert f"size        {size / 1000:.3g} kB, {size / 11000:.3g} kB a sample\n" in said and "in 4 processes" in said
    run(replace(config, output=tmp_path / "x.h5", workers=0, shard="0/1"))
    assert f"disk        {2 * size / 1000:.3g} kB while it is made" in capsys.readouterr().out


def test_a_dry_run_tells_of_parts_that_are_there_and_of_a_disk_that_is_too_small(tmp_path, capsys, monkeypatch) -> None:
    config = replace(SMALL, output=tmp_path / "x.h5")
    run(replace(config, shard="1/2"))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=5000))
    capsys.readouterr()
    run(replace(config, dry_run=True))
    said = capsys.readouterr().out
    assert "4 parts of 3, 2 of them are there" in said and "5 kB free there" in said
    assert "the disk is too small: name another --output" in said
    with pytest.raises(ValueError, match="another configuration: speed is 2.0 there and 3.0 here"):
        run(replace(config, dry_run=True, speed=3.0))
