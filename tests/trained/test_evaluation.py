"""`sciops evaluate`: the errors are those of the model, the bands add up, the solver is right, wrong words one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import sciops
from sciops import cli
from sciops.datasets import TrajectoryDataset, convert, write_native
from sciops.evaluation import rollout_errors
from sciops.metrics import h1, relative_l2
from sciops.models import save_model
from sciops.trained.evaluation import evaluate_on, summary, transform_of
from sciops.trained.prediction_file import write_predictions


def _refused(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in words])
    text = capsys.readouterr().err.strip()
    assert stop.value.code == 2 and text.startswith("error: ") and "\n" not in text, text
    return text


def test_the_test_part_of_the_trainings_data_beside_the_solver(darcy_run, darcy_file, capsys):
    cli.main(["evaluate", str(darcy_run), "--data", str(darcy_file), "--batch-size", "3"])
    said = capsys.readouterr().out
    folder = darcy_run / "evaluation" / "darcy"
    results = json.loads((folder / "results.json").read_text())
    with sciops.open_dataset(darcy_file) as data:
        part = data.isel(sample=slice(16, 20)).load()
    truth = part["u"].values.astype(np.float32)
    guess = sciops.predict(darcy_run, part)["u"].values
    own = relative_l2(guess, truth)
    np.testing.assert_allclose(results["relative_l2_of_samples"], own, rtol=1e-4)
    assert results["sample_numbers"] == [16, 17, 18, 19] and results["part"] == "test"
    assert results["worst"][0]["sample"] == 16 + int(own.argmax())
    trained = json.loads((darcy_run / "results.json").read_text())["test"]["17×17"]["model"]
    assert results["relative_l2"]["mean"] == pytest.approx(trained["relative_l2"], rel=1e-4)
    np.testing.assert_allclose(results["h1"]["mean"], h1(guess, truth, sciops.datasets.grid_of(part)).mean(), rtol=1e-4)
    bands = results["bands"]
    assert bands["transform"] == "even" and sum(bands["error_share"]) == pytest.approx(1)
    pooled = np.sqrt(np.dot(np.square(bands["error"]), bands["energy_share"]))
    weights = sciops.datasets.grid_of(part).weights()
    squared = [(weights * np.square(v)).sum() for v in (guess - truth, truth)]
    assert pooled == pytest.approx(np.sqrt(squared[0] / squared[1]), rel=1e-4)
    solver = results["native_solve"]
    assert solver["relative_l2"]["largest"] < 1e-6 and solver["samples"] == [16, 17, 18, 19]
    assert solver["model_on_the_same"]["mean"] == pytest.approx(results["relative_l2"]["mean"])
    assert (folder / "table.txt").read_text().strip() in said and "solver" in said and f"in {folder}" in said
    assert {path.name for path in (folder / "figures").iterdir()} == {"errors.png", "samples.png"}


def test_rollouts_by_step_beside_persistence(wave_run, wave_file):
    found = evaluate_on(wave_run, wave_file, samples=[5, 6, 7], batch_size=2)
    model = sciops.load_model(wave_run)
    expected = rollout_errors(model, TrajectoryDataset(wave_file, history=2, samples=[5, 6, 7]))
    np.testing.assert_allclose(found.by_step, expected.errors["relative_l2"], rtol=1e-4)
    np.testing.assert_allclose(found.relative_l2, expected.whole, rtol=1e-4)
    assert found.native is None and found.bands.transform == "periodic" and found.h1 is None
    u = TrajectoryDataset(wave_file, history=2, samples=[5, 6, 7]).trajectories()[:, :, 0].numpy()
    np.testing.assert_allclose(found.persistence[:, 2], relative_l2(u[:, 1], u[:, 4]), rtol=1e-4)
    assert evaluate_on(wave_run, wave_file, steps=3).by_step.shape == (4 if found.problem.part else 2, 3)


def test_other_layouts_grids_and_a_model_without_a_run(darcy_run, darcy_file, tmp_path):
    other = convert(darcy_file, tmp_path / "d.mat", "li2020")
    assert evaluate_on(darcy_run, other, solutions=0).problem.count == 20
    coarse = evaluate_on(darcy_run, darcy_file, resolution=9, solutions=2)
    assert coarse.problem.grid.shape == (9, 9) and coarse.problem.samples.tolist() == [16, 17, 18, 19]
    assert 1e-4 < coarse.native.relative_l2.max() < 0.2 and coarse.native.numbers.tolist() == [0, 3]
    alone = save_model(sciops.load_model(darcy_run), tmp_path / "alone")
    whole = evaluate_on(alone, darcy_file, solutions=0)
    assert whole.problem.count == 20 and whole.problem.part is None
    np.testing.assert_allclose(
        whole.relative_l2[[16, 17]], evaluate_on(darcy_run, darcy_file, samples=[16, 17]).relative_l2
    )


def test_what_is_not_finite_is_counted_and_leads_the_worst(darcy_run, darcy_file, tmp_path):
    with sciops.open_dataset(darcy_file) as data:
        wrong = data.load().copy(deep=True)
    wrong["a"].values[3, 2, 2] = np.nan
    found = evaluate_on(darcy_run, write_native(tmp_path / "nan.h5", wrong), solutions=0)
    assert summary(found.relative_l2)["not_finite"] == 1 and found.order[0] == 3
    assert summary(np.full(3, np.nan)) == {"samples": 0, "not_finite": 3}


def test_what_is_assumed_beyond_the_walls():
    x, y = sciops.Grid((9, 9)).meshgrid()
    sine = torch.from_numpy(np.sin(np.pi * x) * np.sin(np.pi * y))[None, None]
    assert transform_of(sciops.Grid((9, 9)), sine) == "odd"
    assert transform_of(sciops.Grid((9, 9)), sine + 1) == "even"
    assert transform_of(sciops.Grid((9, 9), centering="periodic"), sine) == "periodic"
    assert transform_of(sciops.Grid((9, 9), (0, 0.9), domain=(0, 1)), sine) == "hann"


def test_what_cannot_be_evaluated_is_said_in_one_line(darcy_run, darcy_file, wave_run, wave_file, tmp_path, capsys):
    bare = convert(darcy_file, tmp_path / "bare.h5", "native", without=["u"])
    assert "holds no u to compare with" in _refused(capsys, "evaluate", darcy_run, "--data", bare)
    fine = ("evaluate", darcy_run, "--data", darcy_file)
    assert "run of another kind" in _refused(capsys, *fine, "--output", wave_run)
    assert "solutions=-1" in _refused(capsys, *fine, "--solutions", "-1")
    assert "holds coefficient values already" in _refused(capsys, *fine, "--phases", "1", "2")
    assert "7 frames to compare with" in _refused(capsys, "evaluate", wave_run, "--data", wave_file, "--steps", "50")
    assert "no such file" in _refused(capsys, *fine[:3], tmp_path / "none.h5")
    assert "--data" in _refused(capsys, *fine[:2])
    assert "holds no model" in _refused(capsys, "evaluate", darcy_run / "evaluation" / "darcy", *fine[2:])


@pytest.mark.parametrize("task", ["trajectory", "final", "space-time"])
def test_every_task_is_evaluated_as_its_training_tested_it(task, wave_file, train_small, tmp_path):
    run = train_small(data=wave_file, folder=tmp_path / "run", task=task, batch_size=8)
    found = evaluate_on(run, wave_file)
    results = json.loads((run / "results.json").read_text())
    if task == "final":
        expected = results["test"]["32"]["model"]["relative_l2"]
    else:
        expected = results["evolution"]["32"]["model"]["whole"]
    assert found.relative_l2.mean() == pytest.approx(expected, rel=1e-4)
    written = write_predictions(run, wave_file, tmp_path / "p.h5", samples=found.problem.samples)
    assert written.relative_l2.shape == (2, 8 if task != "final" else 1)
    with sciops.open_dataset(wave_file) as data, sciops.open_dataset(tmp_path / "p.h5") as file:
        again = sciops.predict(run, data.isel(sample=found.problem.samples))["u"]
        np.testing.assert_allclose(file["u_predicted"], again, rtol=1e-4, atol=1e-6)
        assert again.dims == (("sample", "time", "x") if task != "final" else ("sample", "x"))
