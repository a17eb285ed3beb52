"""`fit` with weighted likelihoods: tokens, fields in bins, Gaussian fields in physical units, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from sciops import Grid, build_model
from sciops.datasets import Splits, TensorFields, TokenSequences
from sciops.models import LanguageModel, Normalized, load_model, save_model
from sciops.training import PRECISION_RECALL, Batch, TrainConfig, fit, predict, with_reference
from sciops.training.data import Samples
from sciops.training.objectives.precision_recall import Gaussian

QUIET = TrainConfig(objective="tailr", epochs=1, batch_size=4, schedule="constant", clip=None, progress=False)
GRID = Grid((8,), centering="periodic")
BINS = {"likelihood": "bins", "bins": 4, "low": -2.0, "high": 2.0}


def texts() -> Splits:
    random = np.random.default_rng(0)
    return Splits(TokenSequences([random.integers(0, 7, n) for n in (9, 4, 12, 6)]))


def language() -> LanguageModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LanguageModel(7, width=8, depth=1, mixer_options={"positions": "rope"})


def fields(scale: float = 1.0, samples: int = 8) -> Splits:
    random = np.random.default_rng(0)
    x, y = torch.from_numpy(random.standard_normal((2, samples, 1, 8))).float()
    data = TensorFields(x, 5 + scale * y, GRID)
    return Splits(data, data)


def operator(channels: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_model("fno", in_channels=1, out_channels=channels, width=4, depth=1, modes=(2,), grid=GRID)


@pytest.mark.parametrize("options", [{"gamma": 0.3}, {"gamma": 0.3, "least": 0.5}])
def test_one_step_on_tokens_is_that_of_a_plain_loop(options):
    data = texts()
    run = fit(language(), data, replace(QUIET, objective_options=options, precision="float64"))
    plain, batch = language().double(), data.train.batch(np.arange(4))
    loss = PRECISION_RECALL["tailr"](plain(batch["x"]), batch["y"], **options).mean()
    loss.backward()
    rows = [[p for p in plain.parameters() if (p.ndim >= 2) == wide] for wide in (True, False)]
    groups = [{"params": rows[0], "weight_decay": 1e-3}, {"params": rows[1], "weight_decay": 0.0}]
    torch.optim.AdamW(groups, lr=5e-3).step()
    assert run.history[0]["loss"] == pytest.approx(float(loss.detach()), rel=1e-12)
    for a, b in zip(run.model.parameters(), plain.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


class Constant(nn.Module):
    """Zeros, in the units of the model, whatever the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.value.view(1, -1, 1).expand(len(x), -1, x.shape[-1])


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_gaussian_fields_are_in_physical_units(scale):
    data = fields(scale)
    config = replace(QUIET, objective="nll", objective_options={"likelihood": "gaussian"}, learning_rate=1e-12)
    run = fit(Constant(2), data, config)
    y = data.train.y.double()
    expected = 0.5 + math.log(float(y.std(correction=0))) + 0.5 * math.log(2 * math.pi)
    assert run.history[-1]["validation"] == pytest.approx(expected, rel=1e-4), "N(mean, deviation) of the data"
    mean, log_sigma = Gaussian().moments(predict(run.model, data.validation))
    torch.testing.assert_close(mean.double(), torch.full_like(y, float(y.mean())), rtol=1e-6, atol=0)
    assert float(log_sigma.exp().mean()) == pytest.approx(float(y.std(correction=0)), rel=1e-5)


def test_fields_in_bins_are_learned_saved_and_resumed(tmp_path):
    data = fields()
    centred = Splits(*(TensorFields(d.x, d.x.roll(1, -1), GRID) for d in (data.train, data.validation)))
    config = replace(
        QUIET,
        objective="power",
        objective_options=BINS | {"exponent": -0.3},
        epochs=20,
        learning_rate=3e-2,
        checkpoint_every=20,
    )
    run = fit(operator(4), centred, replace(config, folder=tmp_path / "run"))
    assert isinstance(run.model, Normalized) and run.model.output is None, "logits are not normalised"
    assert run.history[-1]["validation"] < 0.8 < math.log(4) - 0.2 < run.history[0]["validation"]
    save_model(run.model, tmp_path / "model")
    x = centred.train.x
    assert torch.equal(load_model(tmp_path / "model")(x, GRID), run.model(x, GRID))
    with pytest.raises(ValueError, match="objective_options"):
        other = replace(config, objective_options=BINS | {"exponent": -0.4}, folder=tmp_path / "run", resume=True)
        fit(operator(4), centred, other)


def test_a_loss_with_a_fixed_model():
    data, fixed = texts(), language()
    batch = data.train.batch(np.arange(4))
    given = Batch(batch["x"], batch["y"], data.train.grid, 1.0)
    model, loss = language(), with_reference("lambda_pr", fixed, lam=1.0)
    assert torch.equal(loss(model, given), PRECISION_RECALL["nll"](model(given.x), given.y).mean()), "q = p̃ weighs 1"
    run = fit(model, lambda step: given, replace(TrainConfig(progress=False), epochs=1, steps=3), loss=loss)
    assert run.steps == 3 and np.isfinite(run.history[-1]["loss"])
    with pytest.raises(ValueError, match="objective 'tailr' takes no reference"):
        with_reference("tailr", fixed)


def test_what_does_not_fit_is_refused_in_one_line():
    gaussian = {"likelihood": "gaussian"}
    for options, message in (
        (dict(objective="mse", objective_options={"gamma": 0.1}), "objective_options: objective='mse' takes none"),
        (dict(objective_options=("gamma",)), "expected a dict of options by name"),
        (dict(objective_options={"gama": 1}), "has no option 'gama'; it takes gamma, least"),
        (dict(objective_options={"likelihood": "poisson"}), "likelihood='poisson': expected one of"),
        (dict(label_smoothing=0.1), "label_smoothing=0.1 would change the weights"),
        (dict(objective_options=gaussian, gradient_weight=1.0), "gradient_weight=1.0 is for models that return"),
        (dict(objective_options=gaussian, augment="flip"), "augment='flip' moves images"),
        (dict(objective="truncation", accumulate=2), "accumulate=2: objective='truncation' compares the samples"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            replace(QUIET, **options)
        assert "\n" not in str(error.value)
    config = replace(QUIET, objective_options=gaussian)
    with pytest.raises(ValueError, match=r"fitted on 2 channels"):
        fit(operator(1), fields(), config)
    with pytest.raises(ValueError, match=r"the likelihood needs \(4, 4, 8\): set out_channels=4"):
        fit(operator(2), fields(), replace(QUIET, objective_options=BINS))
    walled = Constant(2)
    walled.wall = "zero"
    with pytest.raises(ValueError, match="output is zero on the wall"):
        fit(walled, fields(), config)
    with pytest.raises(ValueError, match="2 processes share; train in one process"):
        Samples(texts(), replace(QUIET, objective="truncation"), SimpleNamespace(count=2))
    replace(QUIET, objective="truncation", objective_options={"threshold": 3.0}, accumulate=2)
