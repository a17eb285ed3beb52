"""Numbers of unrolled steps that are drawn: on the mean the pushforward losses of all numbers, alike however run."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from warm import launch, undrawn

from sciops import Grid, build_model
from sciops.commands.command_line import command
from sciops.datasets import Splits, TrajectoryDataset, build_dataset, write_native
from sciops.files.json_files import read_jsonl
from sciops.metrics import relative_l2
from sciops.models import Stepper
from sciops.training import TrainConfig, fit
from studies.train import PRESETS, run

GRID = Grid((8,), centering="periodic")
CONFIG = TrainConfig(epochs=5, batch_size=6, precision="float64", progress=False, seed=3)


def data(samples: int = 6, **options) -> TrajectoryDataset:
    rng = np.random.default_rng(0)
    fields = {name: (("sample", "time", "x"), rng.standard_normal((samples, 9, 8)), {}) for name in ("u", "v")}
    dataset = build_dataset(fields, GRID, layout="native", equation="test", state=("u", "v"), times=np.arange(9.0))
    return TrajectoryDataset(dataset, **{"history": 2, "horizon": 3, "dtype": torch.float64, **options})


def stepper(**options) -> Stepper:
    torch.manual_seed(0)
    core = build_model("fno", in_channels=4, out_channels=2, width=4, depth=1, modes=(3,), grid=GRID).double()
    return Stepper.normalized(core, data(), **{"steps": 3, "gradient": "random", **options})


def gradients(model: nn.Module, loss: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters())))


def test_the_mean_over_the_draws_is_the_detached_gradient():
    windows, model = data().batch([0, 9, 20]), stepper().train()
    x, y = windows["x"], windows["y"]
    mean = [torch.zeros_like(p) for p in model.parameters()]
    for model.drawn in (1, 2, 3):
        assert model.target(y).shape[1] == 2 * model.frames == 2
        loss = (model(x, GRID) - model.target(y)).square().sum()
        mean = [a + b / 3 for a, b in zip(mean, gradients(model, loss))]
    every = stepper(gradient="detached")
    expected = gradients(every, (every(x, GRID) - y).square().sum() / 3)
    for one, other in zip(mean, expected):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)
    assert torch.equal(model.eval()(x, GRID), every(x, GRID)) and model.frames == 3


def test_every_number_up_to_the_most_is_drawn_equally_often():
    model, random = stepper(steps=4), np.random.default_rng(0)
    drawn = [model.draw(random) for _ in range(4000)]
    np.testing.assert_allclose(np.bincount(drawn)[1:], 1000, atol=100)
    assert {model.draw(random, most=2) for _ in range(50)} == {1, 2}
    assert {model.draw(random, most=9) for _ in range(50)} == {1, 2, 3, 4}


class Remembering(nn.Module):
    """The steps that a stepper took in each call while training, seen from within."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.calls = model, []

    def forward(self, x: torch.Tensor, grid: Grid) -> torch.Tensor:
        if self.training:
            self.calls.append(torch.is_grad_enabled())
        return self.model(x, grid)


def took(model: Stepper) -> list[int]:
    """Steps taken by step of training: each ends with the one that has a gradient."""
    ends = np.flatnonzero(model.model.calls)
    return np.diff(ends, prepend=-1).tolist()


def test_fit_draws_at_most_the_number_of_the_epoch():
    model = stepper()
    model.model = Remembering(model.model)
    run = fit(model, Splits(data(), data(2)), replace(CONFIG, epochs=8))
    per_epoch = np.array(took(run.model)).reshape(8, 5)
    assert (per_epoch[0] == 1).all() and set(per_epoch[1]) == {1, 2} and set(per_epoch[2:].ravel()) == {1, 2, 3}
    windows = data(2).batch(slice(None))
    with torch.no_grad():
        error = relative_l2(run.model(windows["x"], GRID), windows["y"]).mean()  # all frames are validated
    assert run.best == pytest.approx(float(error), rel=1e-12)


def test_the_draws_are_those_of_the_step_however_the_training_is_cut(tmp_path):
    whole = fit(stepper(), Splits(data()), CONFIG).model.state_dict()
    pieces = fit(stepper(), Splits(data()), replace(CONFIG, accumulate=3)).model.state_dict()
    resumed = replace(CONFIG, folder=tmp_path, stop_after=2)
    fit(stepper(), Splits(data()), resumed)
    resumed = fit(stepper(), Splits(data()), replace(resumed, stop_after=None, resume=True)).model.state_dict()
    for name, value in whole.items():
        assert torch.equal(resumed[name], value), name
        torch.testing.assert_close(pieces[name], value, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@undrawn()
def test_processes_draw_alike(tmp_path):
    dataset = build_dataset(
        {"u": (("sample", "time", "x"), np.random.default_rng(0).standard_normal((9, 7, 8)), {})},
        GRID,
        layout="native",
        equation="test",
        state=("u",),
        times=np.arange(7.0),
    )
    path = write_native(tmp_path / "data.h5", dataset)
    flags = f"--preset step --data {path} --unroll 3 --through random --epochs 4 --batch-size 7 --width 4 --depth 1"
    flags += " --modes 3 --precision float64 --no-progress --device cpu --test-samples 1 --validation-samples 1"
    command(run, PRESETS, [*flags.split(), "--folder", str(tmp_path / "1")])
    launch("studies.train", [*flags.split(), "--folder", str(tmp_path / "2")], processes=2)
    one, two = (read_jsonl(tmp_path / name / "log.jsonl") for name in "12")
    for a, b in zip(one, two, strict=True):
        assert all(b[key] == pytest.approx(a[key], rel=1e-10) for key in ("loss", "validation", "gradient_norm"))


def test_state_feedback_refuses_drawn_steps():
    config = replace(CONFIG, epochs=1, gradients="state_feedback")
    with pytest.raises(ValueError, match="needs all frames of a Stepper"):
        fit(stepper(), Splits(data()), config)
