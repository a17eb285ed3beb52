"""`fit` trains models of distributions by their own losses: resumed runs end alike, points find both modes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sciops import Grid, build_model, load_model
from sciops.datasets import Splits, TensorFields
from sciops.models import Stepper
from sciops.training import TrainConfig, fit
from sciops.uncertainty import law_of

GRID = Grid((8,), centering="periodic")


def two_signs(count: int = 48, seed: int = 0) -> Splits:
    """y = 5 ± x, each sign with its own probability: 3/4 for +."""
    random = np.random.default_rng(seed)
    c = random.standard_normal((count, 2, 1))
    x = c[:, :1] * np.sin(2 * np.pi * GRID.coordinates()[0]) + c[:, 1:] * np.cos(2 * np.pi * GRID.coordinates()[0])
    sign = np.where(random.random((count, 1, 1)) < 0.75, 1.0, -1.0)
    fields = [torch.from_numpy(v).float() for v in (x, 5 + sign * x)]
    cut = count * 3 // 4
    return Splits(TensorFields(*(v[:cut] for v in fields), GRID), TensorFields(*(v[cut:] for v in fields), GRID))


def model(kind: str = "quantized", **options) -> nn.Module:
    torch.manual_seed(0)
    return build_model(f"{kind}:fno", width=8, depth=1, modes=(3,), grid=GRID, **options)


def config(**options) -> TrainConfig:
    return TrainConfig(**{"epochs": 4, "batch_size": 12, "learning_rate": 1e-2, "progress": False} | options)


def test_two_points_become_the_two_modes_with_their_weights():
    run = fit(model(points=2), two_signs(256), config(epochs=20, batch_size=32))
    test = two_signs(64, seed=1).train
    law = law_of(run.model, test.x).sorted()
    for point, sign in zip(law.points.unbind(1), (1, -1)):
        error = (point - (5 + sign * test.x)).norm() / test.x.norm()
        assert error < 0.2, sign
    assert abs(float(law.weights[:, 0].mean()) - 0.75) < 0.1
    mean = law.mean - 5
    assert float((mean - 0.5 * test.x).norm() / test.x.norm()) < 0.25  # neither mode
    torch.testing.assert_close(law.std.mean(), (0.75**0.5 * test.x.abs()).mean(), rtol=0.25, atol=0)
    assert run.best == pytest.approx(run.history[run.best_epoch - 1]["validation"]) and run.best < 0.05


def test_a_resumed_run_ends_bit_equal(tmp_path):
    data, how = two_signs(), {"points": 2, "schedule": "hard"}
    whole = fit(model(**how), data, config(folder=tmp_path / "whole"))
    part = {"folder": tmp_path / "part", "resume": True}
    fit(model(**how), data, config(stop_after=2, **part))
    resumed = fit(model(**how), data, config(**part))
    assert [r["loss"] for r in whole.history] == [r["loss"] for r in resumed.history]
    for a, b in zip(whole.model.state_dict().values(), resumed.model.state_dict().values()):
        assert torch.equal(a, b)
    assert int(whole.model.model.updates) == 12
    loaded = load_model(tmp_path / "whole")
    assert torch.equal(loaded(data.train.x), whole.model(data.train.x))


@pytest.mark.parametrize("kind", ["quantiles", "dropout", "flow", "ensemble"])
def test_the_other_kinds_train_too(kind):
    run = fit(model(kind), two_signs(), config(accumulate=2))
    first, last = run.history[0]["loss"], run.history[-1]["loss"]
    assert last < first and np.isfinite(run.best)


def test_micro_batches_add_up_to_the_same_step():
    data = two_signs(16)
    once, pieces = (fit(model(points=2), data, config(epochs=1, accumulate=n)) for n in (1, 2))
    assert once.history[0]["loss"] == pytest.approx(pieces.history[0]["loss"], rel=0.05)


def test_options_that_would_do_nothing_are_refused():
    data = two_signs(16)
    for options in (
        {"objective": "mse"},
        {"gradient_weight": 0.1},
        {"gradients": "highway", "gradient_options": {"iterations": 1}},
        {"diagnose_every": 2},
        {"strategy": "fsdp"},
    ):
        with pytest.raises(ValueError, match=next(iter(options))):
            fit(model(), data, config(**options))
    stepper = Stepper(model(), channels=1)
    with pytest.raises(ValueError, match="Stepper around a model 'quantized' gives its mean alone"):
        fit(stepper, data, config())


def test_only_the_weights_can_be_fitted_again_on_other_samples():
    run = fit(model(points=2), two_signs(), config())
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    for name, parameter in run.model.named_parameters():
        parameter.requires_grad_("weight_" in name)
    again = fit(run.model, Splits(two_signs(24, seed=2).train), config())
    after = again.model.state_dict()
    changed = {
        name for name, value in after.items() if value.is_floating_point() and not torch.equal(value, before[name])
    }
    assert changed and all("weight_" in name or name.split(".")[-1] in ("usage", "distortion") for name in changed)
