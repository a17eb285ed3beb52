"""Darcy data: what the file states about each sample is true, and no way of running changes a byte of it."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from warm import begin

from data_gen import darcy as generator
from data_gen.darcy import PRESETS, STATUS, DarcyConfig, run
from sciops.commands.command_line import command
from sciops.datasets import grid_of, open_dataset, validate
from sciops.datasets.native import content_hash, read_native, resolutions
from sciops.grids import Grid
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field, log_normal, two_phase

SMALL = DarcyConfig(samples=10, resolutions=(17, 9, 5), modes=12, seed=3, chunk=3, threads=1, progress=False)


def config(folder: Path, **changes) -> DarcyConfig:
    return replace(SMALL, output=folder / "darcy.h5", **changes)


@pytest.fixture(scope="module")
def nested(tmp_path_factory) -> Path:
    return run(config(tmp_path_factory.mktemp("nested")))


@pytest.fixture(scope="module")
def solved(tmp_path_factory) -> Path:
    return run(config(tmp_path_factory.mktemp("solved"), labels="solved", law="lognormal"))


def test_nested_labels_are_the_fine_solution_at_the_coarse_nodes(nested: Path) -> None:
    assert resolutions(nested) == ((17, 17), (9, 9), (5, 5))
    with read_native(nested) as fine, read_native(nested, 9) as half, read_native(nested, 5) as quarter:
        for name in "au":
            np.testing.assert_array_equal(half[name], fine[name][:, ::2, ::2])
            np.testing.assert_array_equal(quarter[name], fine[name][:, ::4, ::4])
        for name in ("seed", "residual", "iterations", "status", "split", "sample"):
            np.testing.assert_array_equal(half[name], fine[name])
        assert set(np.unique(fine["a"])) == {3.0, 12.0}
        assert quarter.attrs["solved_on"] == 17


def test_each_solve_has_the_residual_that_is_stored(nested: Path, solved: Path) -> None:
    for path, shapes in ((nested, [17]), (solved, [17, 9, 5])):
        for n in shapes:
            with read_native(path, n) as data:
                true = darcy.residual(data["a"].values, data["u"].values, Grid((n, n)))
                np.testing.assert_allclose(data["residual"], true, rtol=1e-6, atol=1e-15)
                assert (true <= 1e-8).all() and (data["iterations"] > 0).all()
                assert (data["status"] == STATUS.index("ok")).all()
                assert data["status"].attrs["flag_meanings"].split() == list(STATUS)


def test_a_sample_comes_back_from_its_seed_and_number_on_every_grid(nested: Path, solved: Path) -> None:
    law = {"tau": 3.0, "alpha": 2.0, "modes": 12}
    for n in (17, 9, 5):
        with read_native(nested, n) as phases, read_native(solved, n) as smooth:
            for row in (0, 4, 9):
                seed, number = int(phases["seed"][row]), int(phases["sample"][row])
                g = gaussian_random_field(Grid((n, n)), 1, seed=seed, first=number, **law)[0]
                np.testing.assert_array_equal(phases["a"][row], two_phase(g, 3.0, 12.0))
                np.testing.assert_allclose(smooth["a"][row], log_normal(g, 0.3), rtol=1e-13)


def test_splits_are_stored_as_ranges_and_by_sample(nested: Path, tmp_path: Path) -> None:
    with read_native(nested) as data:
        assert json.loads(data.attrs["splits"]) == {"train": [0, 8], "validation": [8, 9], "test": [9, 10]}
        np.testing.assert_array_equal(data["split"], [0] * 8 + [1, 2])
    with read_native(run(config(tmp_path, validation=0, test=3))) as data:
        assert json.loads(data.attrs["splits"]) == {"train": [0, 7], "validation": [7, 7], "test": [7, 10]}


def test_the_file_states_how_it_was_made(nested: Path) -> None:
    with read_native(nested) as data:
        made = json.loads(data.attrs["config"])
        assert (made["samples"], made["resolutions"], made["tau"], made["seed"]) == (10, [17, 9, 5], 3.0, 3)
        assert not {"output", "workers", "shard", "chunk"} & set(made)
        assert data.attrs["solver"].startswith("sciops.pde.darcy") and "torch" in json.loads(data.attrs["versions"])
        assert (data.attrs["equation"], data.attrs["coefficient"], data.attrs["forcing"]) == ("darcy", "values", 1.0)


@pytest.mark.parametrize("labels", ["nested", "solved"])
@pytest.mark.parametrize("change", [{"threads": 2}, {"chunk": 1}, {"chunk": 10}, {"threads": 3, "chunk": 4}])
def test_threads_and_parts_change_no_byte(
    tmp_path: Path, nested: Path, solved: Path, labels: str, change: dict
) -> None:
    pytest.importorskip("numba", reason="only the compiled solver gives the same bits in every batch")
    reference, law = (nested, "two_phase") if labels == "nested" else (solved, "lognormal")
    assert content_hash(run(config(tmp_path, labels=labels, law=law, **change))) == content_hash(reference)


def test_shards_change_no_byte(tmp_path: Path, nested: Path) -> None:
    whole = config(tmp_path)
    assert run(replace(whole, shard="1/2")) == tmp_path / "darcy.h5.parts"
    assert run(replace(whole, shard="0/2")) == whole.output
    assert content_hash(whole.output) == content_hash(nested)


def test_more_samples_begin_with_the_same_ones(tmp_path: Path, nested: Path) -> None:
    with read_native(run(config(tmp_path, samples=12))) as longer, read_native(nested) as shorter:
        for name in ("a", "u", "residual"):
            np.testing.assert_array_equal(longer[name][:9], shorter[name][:9])


def test_float32_is_the_float64_file_rounded(tmp_path: Path, nested: Path) -> None:
    with read_native(run(config(tmp_path, dtype="float32")), 5) as single, read_native(nested, 5) as double:
        assert single["u"].dtype == np.float32
        np.testing.assert_array_equal(single["u"], double["u"].values.astype(np.float32))
        np.testing.assert_array_equal(single["residual"], double["residual"])


@pytest.mark.slow
def test_kill_9_and_the_same_command_again_end_with_the_same_bytes(tmp_path: Path) -> None:
    options = ["--samples", "120", "--resolutions", "33", "17", "--chunk", "2", "--modes", "12", "--threads", "1"]
    (tmp_path / "data").mkdir()
    killed, whole = tmp_path / "data" / "killed.h5", tmp_path / "whole.h5"
    process = begin(["-m", "data_gen.darcy", *options, "--no-progress", "--output", str(killed)], killed.parent)
    parts, deadline = killed.with_name("killed.h5.parts"), time.monotonic() + 300
    while len(list(parts.glob("part-*.npz"))) < 4:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and not killed.exists()
    made = {path: path.stat().st_mtime_ns for path in parts.glob("part-*.npz")}
    assert 4 <= len(made) < 60
    again = DarcyConfig(samples=120, resolutions=(33, 17), chunk=2, modes=12, threads=1, progress=False, output=killed)
    saw = []
    original = generator.make

    def counted(config, ranges):
        saw.extend(ranges)
        return original(config, ranges)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generator, "make", counted)
        run(again)
    assert len(saw) == 60 - len(made)  # nothing that was there is made again
    assert content_hash(killed) == content_hash(run(replace(again, output=whole)))


def failing(samples: set[int]):
    """`solve` that fails on these samples of the first grid it sees (of a run with one part)."""

    def solve(a, grid, **options):
        solution = darcy.solve(a, grid, **options)
        for i in samples:
            if i < len(solution.status):  # not the trial on the smallest grid
                solution.status[i], solution.u[i] = "failed", np.nan
        return solution

    return solve


def test_failed_samples_are_named_and_kept_only_on_request(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(generator, "solve", failing({2, 7}))
    asked = config(tmp_path, chunk=10)
    with pytest.raises(
        darcy.SolverError, match="2 of 10 samples did not reach tol=1e-08 at 17 nodes: 2 7; --allow-fail"
    ):
        run(asked)
    assert not asked.output.exists() and (tmp_path / "darcy.h5.parts").is_dir()
    monkeypatch.setattr(generator, "solve", lambda *a, **k: pytest.fail("solved again"))
    with read_native(run(replace(asked, allow_failures=True)), 5) as data:
        np.testing.assert_array_equal(data["status"], [3 if i in (2, 7) else 0 for i in range(10)])
        np.testing.assert_array_equal(np.isnan(data["u"]).all(("x", "y")), data["status"] == 3)
        assert np.isfinite(data["u"]).all(("x", "y")).sum() == 8


def test_the_floor_of_float64_is_told_and_stored(tmp_path: Path, capsys) -> None:
    path = run(config(tmp_path, tol=1e-16))
    assert "10 of 10 samples stop at the floor of float64 above tol=1e-16 at 17 nodes: 0 1 2" in capsys.readouterr().out
    with read_native(path) as data:
        assert (data["status"] == STATUS.index("floor_limited")).all() and (data["residual"] < 1e-13).all()


def test_tensors_of_a_device_give_the_same_labels(tmp_path: Path, nested: Path) -> None:
    with read_native(run(config(tmp_path, device="cpu:0"))) as there, read_native(nested) as here:
        np.testing.assert_array_equal(there["a"], here["a"])
        np.testing.assert_allclose(there["u"], here["u"], rtol=0, atol=1e-8 * float(here["u"].max()))


@pytest.mark.gpu
def test_a_gpu_gives_the_same_labels(tmp_path: Path, nested: Path) -> None:
    with read_native(run(config(tmp_path, device="cuda"))) as there, read_native(nested) as here:
        np.testing.assert_array_equal(there["a"], here["a"])
        np.testing.assert_allclose(there["u"], here["u"], rtol=0, atol=1e-7 * float(here["u"].max()))
        assert (there["residual"] <= 1e-8).all()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--resolutions", "85", "44"],
            "44 nodes are not nested in 85; 43 29 22 15 13 8 7 5 4 3 are, or take --labels solved",
        ),
        (["--resolutions", "85", "85"], "--resolutions 85 85: expected different sizes"),
        (["--resolutions", "2"], "at least 3 nodes"),
        (["--shard", "4/4"], "--shard 4/4: expected i/n"),
        (["--validation", "40", "--test", "24"], "none of 64 is left to train on"),
        (["--test", "1.5"], "--test 1.5: expected a share"),
        (["--samples", "0"], "--samples 0: expected at least 1"),
        (["--low", "0"], "expected positive values"),
        (["--tau", "-1"], "tau=-1"),
        (["--preset", "fast"], "expected one of li2020, lognormal, flow_cell"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, capsys, options: list[str], told: str) -> None:
    base = [] if "--preset" in options else ["--preset", "quick"]
    with pytest.raises(SystemExit) as end:
        command(run, PRESETS, [*base, *options, "--no-progress", "--output", str(tmp_path / "x.h5")])
    error = capsys.readouterr().err.strip()
    assert end.value.code == 2 and told in error and "\n" not in error
    assert not (tmp_path / "x.h5").exists()


def test_a_forcing_that_nothing_would_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--forcing 3: the wells of five_spot are its source"):
        run(replace(SMALL, output=tmp_path / "d.h5", walls="five_spot", forcing=3.0))


def test_an_output_of_another_configuration_is_refused(tmp_path: Path, nested: Path) -> None:
    other = replace(SMALL, output=nested, high=6.0)
    with pytest.raises(ValueError, match="another configuration: high is 12.0 there and 6.0 here"):
        run(other)
    assert run(replace(SMALL, output=nested, threads=2, chunk=5)) == nested  # these change no field


def test_the_command_line_writes_the_quick_preset(tmp_path: Path, capsys) -> None:
    options = ["--samples", "6", "--resolutions", "43", "22", "--no-progress", "--output", str(tmp_path / "x.h5")]
    path = command(run, PRESETS, ["--preset", "quick", *options])
    assert resolutions(path) == ((43, 43), (22, 22)) and "6 samples at 43 22 nodes per axis" in capsys.readouterr().out
    with read_native(path) as data:  # −∇·(a∇u) = 1 with u = 0 on the wall: positive inside
        assert (
            (data["u"][:, 1:-1, 1:-1] > 0).all() and (data["u"][:, 0] == 0).all() and (data["u"][:, :, -1] == 0).all()
        )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--tau", "0"], "tau=0.0"),
        (["--alpha", "1"], "alpha=1.0 on 2 axes"),
        (["--modes", "1"], "modes=1"),
        (["--tol", "2"], "tol=2.0"),
        (["--forcing", "nan"], "= nan"),
        (["--forcing", "0"], "zero everywhere"),
        (["--low", "inf"], "expected positive values"),
        (["--law", "lognormal", "--scale", "0"], "scale=0.0"),
        (["--seed", str(2**63)], "and at most 9223372036854775807"),
        (["--compression", "10"], "--compression 10: expected at least 1 and at most 9"),
        (["--device", "mps"], "--device mps: expected cpu or cuda"),
        (["--output", "."], "is a folder: name the file"),
    ],
)
def test_a_wrong_number_costs_nothing_and_blocks_nothing(tmp_path, monkeypatch, capsys, options, told) -> None:
    monkeypatch.chdir(tmp_path)
    base = ["--preset", "quick", "--no-progress", "--samples", "2", "--resolutions", "9", "--output", "x.h5"]
    with pytest.raises(SystemExit) as end:
        command(run, PRESETS, [*base, *options])
    error = capsys.readouterr().err.strip()
    assert end.value.code == 2 and told in error and "\n" not in error, error
    assert not list(tmp_path.iterdir())


def test_every_shard_has_a_part_unless_the_parts_are_chosen(tmp_path: Path) -> None:
    four = replace(config(tmp_path), chunk=None)
    assert [run(replace(four, shard=f"{i}/4")).name for i in range(3)] == ["darcy.h5.parts"] * 3
    assert len(list((tmp_path / "darcy.h5.parts").glob("*.npz"))) == 3
    assert run(replace(four, shard="3/4")) == four.output


@pytest.mark.parametrize("preset", ["flow_cell", "five_spot", "anisotropic"])
def test_walls_wells_and_layers_are_in_the_file_and_solve_again(preset, tmp_path):
    """What the file says of its walls, sources and tensor is enough to solve it again."""
    setup = replace(
        PRESETS[preset], samples=4, resolutions=(33, 17), modes=24, output=tmp_path / "d.h5", progress=False
    )
    path = run(setup)
    assert [str(f) for f in validate(path) if f.severity == "error"] == []
    with open_dataset(path) as dataset:
        u = dataset["u"].values
        if preset == "flow_cell":
            assert np.array_equal(u[:, 0], np.ones_like(u[:, 0])) and not u[:, -1].any()
            assert u.min() >= 0 and u.max() <= 1 and dataset.attrs["forcing"] == 0
        if preset == "five_spot":
            weights = grid_of(dataset).weights()
            assert np.abs((u * weights).sum((1, 2))).max() < 1e-9 * np.abs(u).max()
            assert np.array_equal(dataset["f"].values[2], generator.wells(grid_of(dataset)))
            # one unit through: the quadrature of a bell cut at its middle
            assert abs((np.maximum(dataset["f"].values[0], 0) * weights).sum() - 1) < 1e-3
        if preset == "anisotropic":
            np.testing.assert_allclose(dataset["a_x"].values, 10 * dataset["a_y"].values, rtol=1e-15)
    # a file that lies about its walls is found out
    with h5py.File(path, "r+") as file:
        for group in ("r33", "r17"):
            file[group].attrs["walls"] = '{"boundary": {"x": "neumann"}}'
    assert [f for f in validate(path) if f.severity == "error"]
