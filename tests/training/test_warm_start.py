"""A training that begins with other weights: what is taken, what does not fit, and what the new run records."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch
from torch import nn

from sciops import Grid, build_model, save_model
from sciops.datasets import Splits, TensorFields
from sciops.models import Normalized, Stepper
from sciops.training import TrainConfig, fit, load_checkpoint, warm_start

QUIET = TrainConfig(epochs=1, batch_size=8, device="cpu", progress=False)
STILL = replace(QUIET, learning_rate=1e-12, weight_decay=0.0)


def fields(points: int = 8, channels: int = 1, size: float = 1.0) -> Splits:
    grid, random = Grid((points, points)), torch.Generator().manual_seed(points)
    x = torch.randn(12, channels, points, points, generator=random)
    y = size * x[:, :1].cumsum(-1)
    return Splits(TensorFields(x[:8], y[:8], grid), TensorFields(x[8:], y[8:], grid))


def network(channels: int = 1, width: int = 4) -> nn.Module:
    torch.manual_seed(channels)
    return build_model("fno", in_channels=channels, width=width, depth=1, modes=(2, 2), mlp_ratio=1.0)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source") / "a"
    return fit(network(), fields(), replace(QUIET, folder=folder))


def test_on_another_grid_the_new_run_begins_as_the_function_of_the_other(source, tmp_path):
    new = fields(11, size=3.0)  # other statistics too
    run = fit(network(), new, replace(STILL, folder=tmp_path, start_from=source.folder))
    x, grid = new.validation.batch([0, 1])["x"], new.validation.grid
    with torch.no_grad():
        torch.testing.assert_close(run.model(x, grid), source.model(x, grid))
    assert run.start.statistics == "source" and run.start.left == () and len(run.start.digest) == 64
    own = fit(network(), new, replace(STILL, start_from=source.folder, start_statistics="data"))
    assert own.start.statistics == "data" and own.start.digest == run.start.digest
    with torch.no_grad():
        assert float((own.model(x, grid) - source.model(x, grid)).abs().max()) > 0.1
    torch.testing.assert_close(own.model.output.std[0], new.train.batch(range(8))["y"].double().std(correction=0))


def test_the_checkpoint_keeps_what_it_began_with_and_a_resumed_run_does_not_need_the_source(source, tmp_path):
    other = shutil.copytree(source.folder, tmp_path / "other")
    config = replace(QUIET, epochs=2, folder=tmp_path / "run", start_from=other)
    first = fit(network(), fields(), replace(config, stop_after=1))
    shutil.rmtree(other)
    whole = fit(network(), fields(), replace(config, resume=True))
    assert whole.complete and whole.start == first.start
    state = load_checkpoint(tmp_path / "run" / "last.safetensors")[1]
    assert state["start"]["digest"] == first.start.digest and state["start"]["source"] == str(other)
    with pytest.raises(ValueError, match="trained with start_from='.*other', this config has None"):
        fit(network(), fields(), replace(config, resume=True, start_from=None))


def test_what_does_not_fit_is_named_and_starts_anew(source):
    with pytest.warns(UserWarning, match=r"1 do not fit and start anew: lift.0.weight \(8, 3\) there, \(8, 4\) here$"):
        run = fit(network(2), fields(channels=2), replace(STILL, start_from=source.folder))
    assert run.start.statistics == "data"
    fresh, trained = network(2).state_dict(), source.model.model.state_dict()
    for name, value in run.model.model.state_dict().items():
        torch.testing.assert_close(value, (fresh if name == "lift.0.weight" else trained)[name])


def test_every_form_of_a_model_gives_the_same_weights(source, tmp_path):
    save_model(source.model, tmp_path / "saved")
    files = [source.folder / "best.safetensors", source.folder / "last.safetensors"]
    forms = [source.folder, *files, tmp_path / "saved", tmp_path / "saved" / "model.safetensors"]
    starts = []
    for form in forms:
        model = Normalized(network(), *(type(source.model.input)(1) for _ in range(2)))
        starts.append(warm_start(model, form))
        for name, value in model.state_dict().items():
            assert torch.equal(value, source.model.state_dict()[name])
    assert len({start.digest for start in starts}) == 1


def test_statistics_of_increments_are_not_those_of_fields(tmp_path, source):
    def stepper(residual):
        inner = Normalized(network(), *(type(source.model.input)(1) for _ in range(2)))
        inner.output.std.fill_(7.0)
        return Stepper(inner, channels=1, residual=residual)

    save_model(stepper(True), tmp_path)
    assert warm_start(stepper(True), tmp_path).statistics == "source"
    assert warm_start(stepper(False), tmp_path).statistics == "data"
    assert warm_start(stepper(True), source.folder).statistics == "data"  # of a model that is no step
    assert warm_start(network(), source.folder).statistics is None


def test_a_model_without_a_description_can_be_trained_further(tmp_path):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = nn.Conv2d(1, 1, 3, padding=1)

        def forward(self, x):
            return self.model(x)

    first = fit(Own(), fields(), replace(QUIET, folder=tmp_path))
    again = fit(Own(), fields(), replace(STILL, start_from=tmp_path))
    torch.testing.assert_close(again.model.state_dict(), first.model.state_dict())


def test_a_loss_of_ones_own_begins_with_other_weights_too(source):
    def loss(model, x):
        return model(x).square().mean()

    config = replace(STILL, steps=1, start_from=source.folder)
    run = fit(network(), lambda step: torch.ones(2, 1, 8, 8), config, loss=loss)
    torch.testing.assert_close(run.model.state_dict(), dict(source.model.model.state_dict()))


def test_what_cannot_be_a_beginning_is_refused_in_one_line(source, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.safetensors").write_text("not a model")
    data = fields()
    for where, message in (
        (tmp_path / "nowhere", "nowhere: no run, model or checkpoint here"),
        (tmp_path / "empty", "holds no model: expected model.safetensors, best.safetensors, last.safetensors in it"),
        (tmp_path / "text.safetensors", "is damaged or no checkpoint"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            fit(network(), data, replace(QUIET, start_from=where))
    with pytest.raises(ValueError, match=r"another architecture: 0% of the model fit it, at first not lift.0.weight"):
        fit(network(width=6), data, replace(QUIET, start_from=source.folder))
    with pytest.raises(ValueError, match="start_statistics='data' is for .*: set start_from"):
        replace(QUIET, start_statistics="data")
    with pytest.raises(ValueError, match="start_statistics='mine': expected one of"):
        replace(QUIET, start_statistics="mine")
    with pytest.raises(ValueError, match="statistics='own': expected 'source' or 'data'"):
        warm_start(network(), source.folder, statistics="own")


def test_more_epochs_of_a_schedule_that_has_ended_are_another_run(source):
    config = replace(QUIET, folder=source.folder, resume=True, epochs=3)
    message = "schedule='onecycle' .*; to train further, start another run from this one: start_from='.*a' .--from"
    with pytest.raises(ValueError, match=message):
        fit(network(), fields(), config)
