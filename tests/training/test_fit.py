"""What the loop does to a model: a known minimum, units, grids, clipping, precision, bad losses, bad data."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sciops.datasets import Normalizer, Splits, TensorFields
from sciops.grids import Grid
from sciops.models import Normalized
from sciops.symmetry import Symmetry
from sciops.training import GRADIENTS, NonFiniteLoss, TrainConfig, evaluate, fit, load_checkpoint, predict

QUIET = TrainConfig(epochs=4, batch_size=8, progress=False)


def fields(n: int = 24, points: int = 8, seed: int = 0, units: float = 1.0) -> TensorFields:
    random = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 1, points, points, generator=random)
    y = units * (3 + 2 * x + x.roll(1, -1))
    return TensorFields(x, y, Grid((points, points)), symmetry=Symmetry.of_scalars())


def network(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GELU(), nn.Conv2d(8, 1, 1))


class Affine(nn.Module):
    """x ↦ p x + q, the model whose best fit is known."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, 1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x + self.bias


def test_an_affine_map_is_found():
    x = torch.rand(32, 1, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = Splits(train=TensorFields(x, 3 * x - 2, Grid((6, 6))))
    config = replace(
        QUIET, epochs=150, learning_rate=0.1, objective="mse", precision="float64", weight_decay=0.0, normalize=False
    )
    run = fit(Affine(), data, config)
    assert run.history[-1]["loss"] < 1e-8
    assert run.model.weight.item() == pytest.approx(3, abs=1e-3) and run.model.bias.item() == pytest.approx(
        -2, abs=1e-3
    )
    assert run.best is None and run.best_epoch == 150 and run.complete and run.parameters == 2


def test_units_of_the_target_do_not_change_what_is_learned():
    runs = [fit(network(), Splits(fields(units=u), fields(8, seed=1, units=u)), QUIET) for u in (1.0, 1024.0)]
    for a, b in zip(*(run.history for run in runs)):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)
        assert a["validation"] == pytest.approx(b["validation"], rel=1e-5)
    predictions = [predict(run.model, fields(4, seed=1)) for run in runs]
    torch.testing.assert_close(predictions[1] / 1024, predictions[0], rtol=1e-4, atol=1e-4)


def test_normalisers_hold_the_statistics_of_the_training_fields_alone():
    train, validation = fields(), fields(8, seed=1, units=100.0)
    model = fit(network(), Splits(train, validation), QUIET).model
    assert isinstance(model, Normalized)
    y = train.y.double()
    assert model.output.mean.item() == pytest.approx(y.mean().item(), rel=1e-12)
    assert model.output.std.item() == pytest.approx(y.std(correction=0).item(), rel=1e-12)
    assert model.input.mean.item() == pytest.approx(train.x.double().mean().item(), rel=1e-12)


def test_a_model_that_is_normalised_already_keeps_its_statistics():
    wrapped = Normalized(network(), Normalizer.fit(torch.tensor([[0.0], [2.0]])), None)
    run = fit(wrapped, Splits(fields()), QUIET)
    assert run.model is wrapped and run.model.input.mean.item() == 1


def test_validation_is_the_mean_relative_error_of_evaluate():
    validation = fields(11, seed=1)
    run = fit(network(), Splits(fields(), validation), replace(QUIET, keep="last"))
    errors = evaluate(run.model, validation, ("relative_l2", "relative_mse", "h1"), batch_size=3)
    assert run.history[-1]["validation"] == pytest.approx(errors["relative_l2"].mean(), rel=1e-6)
    np.testing.assert_allclose(errors["relative_mse"], errors["relative_l2"] ** 2, rtol=1e-5)
    assert errors["h1"].shape == (11,) and (errors["h1"] > 0).all()
    torch.testing.assert_close(predict(run.model, validation, batch_size=11), run.model(validation.x).detach())
    with pytest.raises(ValueError, match="metrics has 'rmse': expected some of relative_l2"):
        evaluate(run.model, validation, ("rmse",))


def test_the_best_epoch_is_kept_and_the_last_on_request(tmp_path):
    class Drifting(nn.Module):
        """Predicts its step count: best where the count meets the target, worse after."""

        def __init__(self) -> None:
            super().__init__()
            self.value = nn.Parameter(torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.value + 0 * x

    def drift(model, loss_fn, batch):
        next(model.parameters()).grad = -torch.ones(1)  # AdamW then moves by exactly the rate
        return loss_fn(model(batch.x, batch.grid), batch).detach()

    x = torch.zeros(4, 1, 2, 2)
    data = Splits(TensorFields(x, x + 3, Grid((2, 2))), TensorFields(x, x + 3, Grid((2, 2))))
    config = TrainConfig(
        epochs=5, batch_size=4, learning_rate=1.0, schedule="constant", clip=None, normalize=False, progress=False
    )
    GRADIENTS["drift"] = drift
    try:
        best = fit(Drifting(), data, replace(config, gradients="drift", folder=tmp_path))
        last = fit(Drifting(), data, replace(config, gradients="drift", keep="last"))
    finally:
        del GRADIENTS["drift"]
    assert best.best_epoch == 3 and best.best < 1e-6
    assert best.model.value.item() == pytest.approx(3, abs=1e-5)
    assert last.model.value.item() == pytest.approx(5, abs=1e-5)
    stored, state = load_checkpoint(tmp_path / "best.safetensors")
    assert state["epoch"] == 3 and torch.equal(stored["model/value"], best.model.value.detach())


def test_clipping_bounds_the_norm_and_the_log_has_it_before_clipping():
    seen = []

    class Watching(torch.optim.AdamW):
        def step(self, closure=None):
            grads = [p.grad for group in self.param_groups for p in group["params"]]
            seen.append(nn.utils.get_total_norm(grads).item())
            return super().step(closure)

    original, torch.optim.AdamW = torch.optim.AdamW, Watching
    try:
        free = fit(network(), Splits(fields()), replace(QUIET, epochs=1, clip=None))
        unclipped = list(seen)
        seen.clear()
        fit(network(), Splits(fields()), replace(QUIET, epochs=1, clip=unclipped[0] / 10))
    finally:
        torch.optim.AdamW = original
    assert free.history[0]["gradient_norm"] == pytest.approx(np.mean(unclipped), rel=1e-6)
    assert max(seen) == pytest.approx(unclipped[0] / 10, rel=1e-4)


def test_decay_acts_on_matrices_alone():
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrix, self.vector = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 0 * (self.matrix.sum() + self.vector.sum())

    config = replace(QUIET, epochs=1, batch_size=24, learning_rate=0.1, schedule="constant", weight_decay=0.5)
    model = Unused()
    fit(model, Splits(fields()), config)
    torch.testing.assert_close(model.matrix.detach(), torch.full((2, 2), 1 - 0.1 * 0.5))
    assert torch.equal(model.vector.detach(), torch.ones(2))


def test_several_grids_train_together_one_a_batch():
    seen = []

    class Looking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, x: torch.Tensor, grid: Grid) -> torch.Tensor:
            seen.append((tuple(x.shape[2:]), grid.shape))
            return self.inner(x)

    sets = [fields(16, 8), fields(12, 5, seed=3)]
    run = fit(Looking(), Splits(sets, [fields(4, 8, 7), fields(4, 5, 8)]), replace(QUIET, epochs=2))
    assert all(shape == grid for shape, grid in seen)
    assert {grid for _, grid in seen} == {(8, 8), (5, 5)}
    assert run.steps == 2 * (2 + 2)
    record = run.history[-1]
    assert record["validation"] == pytest.approx(sum(record["validation_by_grid"].values()) / 2, rel=1e-12)
    assert set(record["validation_by_grid"]) == {"8x8", "5x5"}
    both = torch.cat([s.y.double().flatten() for s in sets])
    assert run.model.output.mean.item() == pytest.approx(both.mean().item(), rel=1e-12)


def test_the_gradient_term_is_added_with_its_weight():
    data = Splits(fields(8))
    config = replace(QUIET, epochs=1, learning_rate=1e-12)

    def loss(**changes):
        return fit(network(), data, replace(config, **changes)).history[0]["loss"]

    plain, term = loss(), loss(objective="relative_gradient")
    assert loss(gradient_weight=0.3) == pytest.approx(plain + 0.3 * term, rel=1e-5)


def test_the_global_random_state_is_left_alone_and_dropout_follows_the_seed():
    model = nn.Sequential(network(), nn.Dropout(0.3))
    torch.manual_seed(5)
    expected = torch.rand(3)
    losses = []
    for ambient in (5, 6):
        torch.manual_seed(ambient)
        run = fit(nn.Sequential(network(), nn.Dropout(0.3)), Splits(fields()), QUIET)
        losses.append([record["loss"] for record in run.history])
        if ambient == 5:
            assert torch.equal(torch.rand(3), expected)
    assert losses[0] == losses[1]
    other = fit(model, Splits(fields()), replace(QUIET, seed=1))
    assert [r["loss"] for r in other.history] != losses[0]


@pytest.mark.parametrize("precision", ["bf16", "fp16", "float64"])
def test_precisions_reach_nearly_the_same_losses_with_parameters_in_full(precision):
    runs = [
        fit(network(), Splits(fields(), fields(8, seed=1)), replace(QUIET, precision=p)) for p in ("float32", precision)
    ]
    tolerance = {"bf16": 0.02, "fp16": 0.005, "float64": 1e-4}[precision]
    for a, b in zip(*(run.history for run in runs)):
        assert b["loss"] == pytest.approx(a["loss"], rel=tolerance)
        assert b["loss"] != a["loss"]
    kinds = {p.dtype for p in runs[1].model.parameters()}
    assert kinds == {torch.float64 if precision == "float64" else torch.float32}


def test_a_time_budget_ends_the_run_and_carries_the_schedule():
    run = fit(network(), Splits(fields(64)), replace(QUIET, epochs=100_000, seconds=0.5))
    assert run.complete and 0.5 <= run.seconds < 1.5 and run.epochs < 100_000
    assert run.history[-1]["rate"] < 0.05 * QUIET.learning_rate
    assert max(r["rate"] for r in run.history) > 0.9 * QUIET.learning_rate


class Exploding(nn.Module):
    """An affine map whose output becomes infinite on the forward pass number `at`."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.inner, self.at, self.calls = Affine(), at, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += self.training
        return self.inner(x) * (math.inf if self.calls == self.at else 1.0)


def test_a_loss_that_is_not_finite_stops_with_the_last_good_state(tmp_path):
    data = Splits(fields(), fields(8, seed=1))
    good = fit(Exploding(0), data, replace(QUIET, stop_after=2, keep="last"))
    model = Exploding(8)
    config = replace(QUIET, folder=tmp_path, keep="last")
    with pytest.raises(NonFiniteLoss) as caught:
        fit(model, data, config)
    message = str(caught.value)
    assert "\n" not in message
    assert "loss is inf in epoch 3, step 8" in message or "loss is nan in epoch 3, step 8" in message
    assert "learning rate" in message and "after epoch 2" in message and str(tmp_path / "last.safetensors") in message
    expected = good.model.state_dict()
    for name, value in model.state_dict().items():
        assert torch.equal(value, expected[f"model.{name}"])
    stored, state = load_checkpoint(tmp_path / "last.safetensors")
    assert state["epochs"] == 2 and torch.equal(stored["model/model.inner.weight"], model.inner.weight.detach())


def test_on_request_the_run_is_returned_instead():
    run = fit(Exploding(8), Splits(fields(), fields(8, seed=1)), replace(QUIET, on_nonfinite="stop"))
    assert not run.complete and run.epochs == 2 and run.steps == 6 and "epoch 3, step 8" in run.stopped
    assert all(p.isfinite().all() for p in run.model.parameters())


def test_a_gradient_that_is_not_finite_stops_before_it_reaches_the_parameters():
    class Root(nn.Module):
        """√(w²) at w = 0: a finite value with derivative 0/0."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + (self.weight**2).sqrt()

    model = Root()
    with pytest.raises(NonFiniteLoss, match="gradient norm is nan in epoch 1, step 1.*state after epoch 0"):
        fit(model, Splits(fields()), QUIET)
    assert model.weight.item() == 0


def test_bad_data_is_refused_in_one_line():
    holed = fields()
    holed.y[5, 0, 2, 2] = math.nan
    with pytest.raises(ValueError, match=r"training sample 5 of grid \(8, 8\).*not finite in 'y'"):
        fit(network(), Splits(holed), QUIET)
    waves = fields()
    waves.y = waves.y.to(torch.complex64)
    with pytest.raises(ValueError, match="y is complex64: expected real numbers; give the real and imaginary parts"):
        fit(network(), Splits(waves), replace(QUIET, normalize=False))
    with pytest.raises(ValueError, match="training split is empty"):
        fit(network(), Splits(None), QUIET)
    with pytest.raises(TypeError, match="expected .train and .validation"):
        fit(network(), [1, 2], QUIET)
    with pytest.raises(ValueError, match="the model returned .* set out_channels"):
        fit(nn.Conv2d(1, 2, 1), Splits(fields()), replace(QUIET, normalize=False))
    with pytest.raises(ValueError, match="no parameter to train"):
        fit(nn.Identity(), Splits(fields()), QUIET)
    short = Grid((8, 8), extent=(0, 0.9), domain=(0, 1))
    with pytest.raises(ValueError, match="augment='transpose'"):
        data = TensorFields(fields().x, fields().y, short, symmetry=Symmetry.of_scalars())
        fit(network(), Splits(data), replace(QUIET, augment="square"))


def test_augmentation_makes_a_symmetric_problem_of_one_sample():
    class Points(nn.Module):
        """A free value per point: it learns the mean target of every point."""

        def __init__(self) -> None:
            super().__init__()
            self.value = nn.Parameter(torch.zeros(3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.value + 0 * x

    y = torch.arange(9.0).view(1, 1, 3, 3) ** 2
    x, symmetry = torch.zeros(64, 1, 3, 3), Symmetry.of_scalars()
    data = Splits(TensorFields(x, y.expand(64, 1, 3, 3), Grid((3, 3)), symmetry=symmetry))
    config = replace(QUIET, epochs=200, learning_rate=0.5, objective="mse", augment="square", normalize=False)
    model = fit(Points(), data, config).model
    images = [torch.rot90(v, k, (-2, -1)) for v in (y, y.transpose(-1, -2)) for k in range(4)]
    torch.testing.assert_close(model.value.detach(), torch.stack(images).mean(0)[0, 0], rtol=0, atol=2.0)
    assert (y[0, 0] - torch.stack(images).mean(0)[0, 0]).abs().max() > 20


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
def test_a_cuda_device_gives_the_losses_of_the_cpu(precision, tmp_path):
    data = Splits(fields(), fields(8, seed=1))
    reference = fit(network(), data, replace(QUIET, device="cpu"))
    run = fit(network(), data, replace(QUIET, device="cuda:0", precision=precision, folder=tmp_path, stop_after=2))
    assert next(run.model.parameters()).device.type == "cuda"
    run = fit(network(), data, replace(QUIET, device="cuda:0", precision=precision, folder=tmp_path, resume=True))
    tolerance = {"float32": 1e-3, "bf16": 0.05, "fp16": 0.05}[precision]
    for a, b in zip(reference.history, run.history):
        assert b["loss"] == pytest.approx(a["loss"], rel=tolerance)
    assert evaluate(run.model, data.validation)["relative_l2"].mean() == pytest.approx(run.best, rel=tolerance)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("objective", ["relative_l2", "relative_mse", "h1", "nrmse", "relative_gradient"])
def test_a_zero_target_is_named_before_training(objective, precision):
    config, data = replace(QUIET, objective=objective, precision=precision), fields()
    data.y[5] = 0
    with pytest.raises(ValueError, match=rf"training sample 5 .* target that is zero.*objective='{objective}' divides"):
        fit(network(), Splits(data), config)
    if precision == "float64":
        data.y = data.y.double() * 1e-200  # whatever the units are
        with pytest.raises(ValueError, match="training sample 5"):
            fit(network(), Splits(data), config)
    held_out = fields(4, seed=1)
    held_out.y[2] = 0
    with pytest.raises(ValueError, match="validation sample 2 .* target that is zero, and the relative error of valid"):
        fit(network(), Splits(fields(), held_out), config)


def test_targets_that_an_objective_does_not_divide_by_are_trained_on():
    data = fields()
    data.y[5] = 0
    assert math.isfinite(fit(network(), Splits(data), replace(QUIET, objective="mse", epochs=1)).history[0]["loss"])
    constant = fields()
    constant.y[5] = 3.0
    fit(network(), Splits(constant), replace(QUIET, epochs=1))
    with pytest.raises(ValueError, match="training sample 5 .* zero or constant"):
        fit(network(), Splits(constant), replace(QUIET, gradient_weight=0.1))
    rest = [i for i in range(len(data)) if i != 5]
    fit(network(), Splits(data.subset(rest)), replace(QUIET, epochs=1))  # its exclusion by choice
    holed = fields(4, seed=1)
    holed.x[1] = math.nan
    with pytest.raises(ValueError, match=r"validation sample 1 .* not finite in 'x'.*load_splits\(validation=…\)"):
        fit(network(), Splits(fields(), holed), QUIET)


def test_data_sets_of_torch_are_refused_with_what_to_pass():
    torchs = torch.utils.data.TensorDataset(fields().x, fields().y)
    with pytest.raises(TypeError, match=r"data is TensorDataset; .*Splits\(train=TensorFields\(x, y, grid\)\)"):
        fit(network(), torchs, QUIET)
    with pytest.raises(TypeError, match=r"a data set is TensorDataset, which has no .batch.*TensorFields"):
        fit(network(), Splits(torchs), QUIET)
    with pytest.raises(TypeError, match="a data set is TensorDataset"):
        fit(network(), Splits(fields(), torchs), QUIET)


def test_fields_in_double_precision_are_cast_to_the_models_precision():
    double = TensorFields(fields().x.double(), fields().y.double(), fields().grid)
    config = replace(QUIET, epochs=2)
    one, other = (fit(network(), Splits(d, d), config) for d in (fields(), double))
    assert [r["loss"] for r in one.history] == pytest.approx([r["loss"] for r in other.history], rel=1e-5)
    errors = evaluate(other.model, double)["relative_l2"]
    np.testing.assert_allclose(errors, evaluate(other.model, fields())["relative_l2"], rtol=1e-4)
