"""`sciops.predict`: the model's own numbers in every kind, and one line for what does not fit."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

import sciops
from sciops.datasets import TrajectoryDataset
from sciops.evaluation import rollout
from sciops.models import build_model


@pytest.fixture(scope="module")
def fields(darcy_file):
    with sciops.open_dataset(darcy_file) as dataset:
        return dataset.load()


def test_every_kind_gets_the_numbers_of_the_model(darcy_run, fields):
    model, grid = sciops.load_model(darcy_run), sciops.datasets.grid_of(fields)
    a = fields["a"].values
    with torch.no_grad():
        expected = model(torch.from_numpy(a)[:, None].float(), grid=grid)
    for batch_size in (None, 3):
        found = sciops.predict(darcy_run, torch.from_numpy(a)[:, None], grid, batch_size=batch_size)
        assert found.dtype == torch.float64 and not found.requires_grad
        torch.testing.assert_close(found.float(), expected, rtol=1e-5, atol=1e-6)
    plain = expected[:, 0].double().numpy()
    np.testing.assert_allclose(sciops.predict(model, a), plain, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sciops.predict(darcy_run / "best.safetensors", a[3]), plain[3], rtol=1e-5, atol=1e-6)
    labelled = sciops.predict(darcy_run, fields["a"].transpose("y", "sample", "x"))
    assert labelled.dims == ("sample", "x", "y") and labelled.name == "u"
    np.testing.assert_allclose(labelled.values, plain, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(labelled["x"], fields["x"])
    whole = sciops.predict(darcy_run, fields.assign_coords(sample=np.arange(100, 120)))
    assert list(whole.data_vars) == ["u"] and whole.attrs["equation"] == "darcy"
    np.testing.assert_array_equal(whole["sample"], np.arange(100, 120))
    np.testing.assert_allclose(whole["u"].values, plain, rtol=1e-5, atol=1e-6)


def test_no_samples_and_other_grids(darcy_run, fields):
    assert sciops.predict(darcy_run, np.empty((0, 17, 17))).shape == (0, 17, 17)
    fine = sciops.Grid((33, 33))
    a = np.ones((2, 33, 33), np.float32)
    by_rule, stated = sciops.predict(darcy_run, a), sciops.predict(darcy_run, a, fine)
    assert by_rule.dtype == np.float32 and np.array_equal(by_rule, stated)


def test_modes_of_the_modules_come_back():
    model = build_model("fno", width=4, depth=1, modes=(2, 2)).train()
    model.lift.eval()
    sciops.predict(model, torch.rand(3, 1, 8, 8))
    assert model.training and not model.lift.training and all(p.grad is None for p in model.parameters())


def test_rollouts_are_those_of_the_stepper(wave_run, wave_file):
    model, data = sciops.load_model(wave_run), TrajectoryDataset(wave_file, history=2)
    expected = rollout(model, data.initial(slice(None)), data.grid, steps=12)
    x0 = data.initial(slice(None))
    torch.testing.assert_close(sciops.predict(wave_run, x0, data.grid, steps=12), expected)
    with sciops.open_dataset(wave_file) as dataset:
        forecast = sciops.predict(wave_run, dataset, steps=12)
        short = sciops.predict(wave_run, dataset)
    assert forecast["u"].dims == ("sample", "time", "x") and short.sizes["time"] == 7
    np.testing.assert_allclose(forecast["time"], 0.02 * np.arange(2, 14))
    np.testing.assert_allclose(forecast["u"], expected[:, :, 0], rtol=1e-4, atol=1e-5)
    window = dataset["u"].isel(time=slice(0, 2))
    labelled = sciops.predict(wave_run, window, steps=3)
    assert labelled.dims == ("sample", "step", "x")
    np.testing.assert_allclose(labelled, expected[:, :3, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (np.ones((2, 3, 17, 17)), {}, r"x has shape \(2, 3, 17, 17\); .* expected \(batch, 1, \*grid\)"),
        (np.ones((2, 2, 1, 17, 17)), {}, r"a has shape \(2, 2, 1, 17, 17\); expected \(batch, 1"),
        (np.ones(17), {}, r"a has shape \(17,\); expected \(batch, 1, \*grid\) with 2 grid axes"),
        (np.ones((1, 17, 17)), {"grid": sciops.Grid((9, 9))}, r"the grid is \(9, 9\)"),
        (np.ones((1, 17, 17), complex), {}, "a is complex128"),
        (np.ones((1, 17, 17)), {"batch_size": 0}, "batch_size=0"),
        (np.ones((1, 17, 17)), {"steps": 0}, "steps=0"),
        (np.ma.masked_less(np.arange(289.0).reshape(1, 17, 17), 3), {}, "3 of 289 values are masked"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(darcy_run, given, options, said):
    with pytest.raises(ValueError, match=said) as error:
        sciops.predict(darcy_run, given, **options)
    assert "\n" not in str(error.value)


def test_labelled_arrays_elsewhere_are_refused(darcy_run, fields):
    with pytest.raises(ValueError, match="expected x, y, z for space"):
        sciops.predict(darcy_run, fields["a"].rename(x="lat", y="lon"))
    moved = fields["a"].drop_attrs().assign_coords(x=2 * fields["x"].values, y=fields["y"].values)
    moved["x"].attrs, moved["y"].attrs = {}, {}
    with pytest.raises(ValueError, match="pass grid="):
        sciops.predict(darcy_run, moved)


def test_models_that_are_none(tmp_path, darcy_run):
    with pytest.raises(FileNotFoundError, match="no such folder or file"):
        sciops.predict(tmp_path / "none", np.ones((1, 17, 17)))
    with pytest.raises(TypeError, match="model is int"):
        sciops.predict(3, np.ones((1, 17, 17)))
    with pytest.raises(ValueError, match="model.to"):
        sciops.predict(build_model("fno", width=4, depth=1, modes=(2, 2)), np.ones((1, 8, 8)), device="cpu")


def test_a_run_folder_is_its_best_model_else_its_last(darcy_run, tmp_path):
    run = shutil.copytree(darcy_run, tmp_path / "run")
    x = torch.rand(1, 1, 17, 17)
    whole = sciops.load_model(run)(x)
    shutil.rmtree(run / "model")
    assert torch.equal(sciops.load_model(run)(x), whole)
    last = sciops.load_model(run / "last.safetensors")(x)
    (run / "best.safetensors").unlink()
    assert torch.equal(sciops.load_model(run)(x), last)
    (run / "last.safetensors").unlink()
    with pytest.raises(ValueError, match="stopped before the first epoch"):
        sciops.load_model(run)
    study = tmp_path / "study"
    sciops.runs.RunFolder(study).describe({"samples": 3})
    with pytest.raises(ValueError, match="holds no model: it is of builtins"):
        sciops.load_model(study)
    with pytest.raises(FileNotFoundError):
        sciops.load_model(tmp_path / "nothing")
