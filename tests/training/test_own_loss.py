"""A loss of one's own on batches by step: `fit` against a plain loop, resumed runs, callbacks."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sciops.datasets import Splits, TensorFields
from sciops.grids import Grid
from sciops.training import NonFiniteLoss, TrainConfig, fit, load_checkpoint
from sciops.training.schedule import rate_factor


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def batches(step):
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
    return {"x": x, "y": x.prod(1, keepdim=True)}


def squares(model, batch):
    return (model(batch["x"]) - batch["y"]).square().mean()


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def adam(model):
    groups = [{"params": model[0].parameters(), "lr": 1e-2}, {"params": model[2].parameters(), "lr": 3e-2}]
    return torch.optim.Adam(groups)


def config(**options):
    return TrainConfig(**{"steps": 11, "epochs": 3, "progress": False, "schedule": "cosine", "clip": 0.5, **options})


def test_it_is_a_plain_loop():
    plain, losses = network(), []
    optimizer = adam(plain)
    for step in range(11):
        for group, peak in zip(optimizer.param_groups, (1e-2, 3e-2)):
            group["lr"] = peak * rate_factor("cosine", step / 11)
        loss = squares(plain, batches(step))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    model, seen = network(), []
    run = fit(
        model,
        batches,
        config(),
        loss=squares,
        optimizer=adam(model),
        callbacks=[lambda run, record: seen.append(record) if "epoch" not in record else None],
    )
    assert torch.equal(weights(model), weights(plain))
    assert [float(record["loss"]) for record in seen] == losses
    assert [record["step"] for record in seen] == list(range(1, 12))
    assert [record["step"] for record in run.history] == [3, 7, 11] and run.complete
    assert run.history[1]["loss"] == pytest.approx(sum(losses[3:7]) / 4, rel=1e-14)
    # a loss without a graph has filled the gradients itself
    other = network()

    def filled(model, batch):
        loss = squares(model, batch)
        loss.backward()
        return loss.detach()

    fit(other, batches, config(), loss=filled, optimizer=adam(other))
    assert torch.equal(weights(other), weights(plain))


def test_a_stopped_run_ends_where_one_that_was_not_does(tmp_path):
    def trained(**options):
        model = network()
        run = fit(model, batches, config(**options), loss=squares, callbacks=[kept])
        return weights(model), [{k: v for k, v in record.items() if k != "seconds"} for record in run.history]

    def kept(run, record):
        if "epoch" in record:
            record["number"] = record["step"] / 7

    whole, history = trained()
    trained(folder=tmp_path, stop_after=1)
    again, resumed = trained(folder=tmp_path, resume=True)
    assert torch.equal(again, whole) and resumed == history
    assert load_checkpoint(tmp_path / "last.safetensors")[1]["history"][2]["number"] == 11 / 7
    with pytest.raises(ValueError, match="trained with steps=11, this config has 12"):
        trained(folder=tmp_path, resume=True, steps=12)

    def told(step):
        return batches(step)

    told.about = {"recordings": 3}
    with pytest.raises(ValueError, match="trained with recordings=None, this config has 3"):
        fit(network(), told, config(folder=tmp_path, resume=True), loss=squares)


def test_callbacks_choose_the_best_epoch_and_end_a_training():
    model, states = network(), []

    def validate(run, record):
        if "epoch" in record:
            states.append(weights(run.model))
            record["validation"] = abs(record["epoch"] - 2)

    run = fit(model, batches, config(), loss=squares, callbacks=[validate])
    assert (run.best_epoch, run.best) == (2, 0) and torch.equal(weights(model), states[1])
    for event, steps in (("step", 5), ("epoch", 7)):

        def enough(run, record, event=event):
            return record["step"] >= 5 and ("epoch" in record) == (event == "epoch")

        run = fit(network(), batches, config(), loss=squares, callbacks=[enough])
        assert run.steps == run.history[-1]["step"] == steps and not run.complete
        assert run.stopped == f"a callback ended the training after step {steps}"


def test_the_clock_stands_still_in_callbacks(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("sciops.training.loop.time", SimpleNamespace(perf_counter=lambda: now[0]))

    def loss(model, batch):
        now[0] += 1.0
        return squares(model, batch)

    def slow(run, record):
        now[0] += 100.0

    run = fit(network(), batches, config(), loss=loss, callbacks=[slow])
    assert run.seconds == 11.0 and [record["seconds"] for record in run.history] == [3.0, 7.0, 11.0]


def test_a_scheduler_of_torch_moves_constant_rates():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, 10)
    rates = []

    def after(run, record):
        if "epoch" not in record:
            rates.append(record["rate"])
            schedule.step()

    fit(model, batches, config(schedule="constant"), loss=squares, optimizer=optimizer, callbacks=[after])
    assert rates == pytest.approx([1 - 0.05 * step for step in range(11)], rel=1e-12)


def test_what_does_not_go_together_is_refused():
    for given, options, message in (
        (batches, {"steps": None}, "set the number of steps"),
        (batches, {"gradients": "highway"}, "gradients='highway' does nothing to a loss of your own"),
        (batches, {"precision": "float64"}, "float32 .* or bf16"),
        (batches, {"seconds": 1.0}, "set one of them"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(network(), given, config(**options), loss=squares)
    with pytest.raises(ValueError, match="parameters that are not trained ones of the model"):
        fit(network(), batches, config(), loss=squares, optimizer=adam(network()))
    with pytest.raises(TypeError, match="a function: step → batch"):
        fit(network(), [batches(0)], config(), loss=squares)
    with pytest.raises(NonFiniteLoss, match="loss is nan in epoch 2, step 4.*state after epoch 1"):
        fit(
            network(),
            lambda step: batches(step) | {"factor": 1.0 if step < 3 else math.nan},
            config(),
            loss=lambda model, batch: squares(model, batch) * batch["factor"],
        )


def test_steps_end_a_training_on_data_sets():
    x = torch.randn(10, 1, 6, generator=torch.Generator().manual_seed(0))
    data = Splits(TensorFields(x, 2 * x, Grid((6,))), None, None)

    def run(**options):
        torch.manual_seed(0)
        model = nn.Conv1d(1, 1, 3, padding=1)
        return fit(model, data, TrainConfig(batch_size=4, schedule="constant", progress=False, **options))

    some, more = run(steps=5, epochs=4), run(epochs=2)
    assert (some.steps, some.epochs, some.complete) == (5, 2, True)
    assert some.history[0]["loss"] == more.history[0]["loss"] and some.history[1]["loss"] != more.history[1]["loss"]
    assert run(steps=50, epochs=4).steps == 12
