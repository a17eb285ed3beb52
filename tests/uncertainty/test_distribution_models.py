"""Models of distributions by name: their files, their units, their draws and losses against naive references."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from sciops import Grid, build_model, load_model, save_model
from sciops.datasets import Normalizer
from sciops.models import DISTRIBUTIONS, Ensemble, Latent, Normalized, network_in
from sciops.models.distributions import FlowModel, QuantileModel, cells_of
from sciops.uncertainty import has_own_losses, law_of, training_losses, validation_errors

GRID = Grid((9,), centering="periodic")
OPTIONS = {"width": 6, "depth": 1, "modes": (3,), "grid": GRID}
OWN = {"quantized": {"points": 3}, "quantiles": {"levels": 3}, "flow": {"steps": 2}, "ensemble": {"members": 2}}


def made(kind: str, seed: int = 0, **options) -> nn.Module:
    torch.manual_seed(seed)
    name = f"{kind}:fno" if kind else "fno"
    return build_model(name, in_channels=2, out_channels=1, **OPTIONS, **OWN.get(kind, {}), **options).double().eval()


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)


X, Y = randn(4, 2, 9), randn(4, 1, 9, seed=1)


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_a_model_by_name_is_saved_and_loaded_with_its_wrapper(kind, tmp_path):
    model = Normalized(made(kind), Normalizer(2), Normalizer.fit(3 + 2 * Y)).eval()
    again = load_model(save_model(model, tmp_path / kind))
    assert again.config == model.config and model.config["options"]["model"]["name"] == kind
    assert torch.equal(again(X), model(X)) and model(X).shape == (4, 1, 9)
    first, second = (cells_of(one, X, samples=3, generator=seeded()) for one in (model, again))
    assert all(a is b is None or torch.equal(a, b) for a, b in zip(first, second))
    assert first.points.shape[:1] + first.points.shape[2:] == (4, 1, 9)
    torch.testing.assert_close(first.weights.sum(1), torch.ones(4, dtype=torch.float64))
    assert has_own_losses(model) and network_in(f"{kind}:neuralop:FNO") == "neuralop:FNO"
    assert str(model.model).startswith(type(model.model).__name__)


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_cells_are_in_the_units_of_the_fields(kind):
    inner, output = made(kind), Normalizer.fit(3 + 2 * Y)
    mean, std = output.mean.item(), output.std.item()
    plain = inner.cells(X, samples=3, generator=seeded())
    wrapped = cells_of(Normalized(inner, None, output), X, samples=3, generator=seeded())
    torch.testing.assert_close(wrapped.points, mean + std * plain.points)
    assert torch.equal(wrapped.weights, plain.weights)
    if plain.spread is not None:
        torch.testing.assert_close(wrapped.spread, std**2 * plain.spread)
    one, whole = (law_of(Normalized(inner, None, output), x, samples=3) for x in (X[1:2], X))
    if kind in ("quantized", "quantiles", "ensemble"):
        torch.testing.assert_close(one.points, whole.points[1:2])
        torch.testing.assert_close(whole.mean, Normalized(inner, None, output)(X))
    assert whole.grid == GRID and not whole.points.requires_grad


def test_what_vanishes_on_the_wall_does_so_in_every_point():
    grid = Grid((9,))
    options = {**OPTIONS, "grid": grid, "basis": "sine", "wall": "zero"}
    model = build_model("quantized:fno", points=2, **options).eval()
    cells = cells_of(Normalized(model, None, Normalizer.fit(3 + 2 * Y)), X[:, :1].float())
    assert not cells.points[..., [0, -1]].any() and not cells.spread[..., [0, -1]].any()
    assert cells.points[..., 1:-1].all()


def test_models_that_give_one_field_are_laws_of_one_point():
    model = made("")
    law = law_of(model, X.numpy())
    assert torch.equal(law.points[:, 0], model(X).detach()) and law.weights.tolist() == [[1.0]] * 4
    assert not has_own_losses(model)


def test_a_wrapper_that_would_pass_on_the_mean_is_refused():
    outer = Latent(made("quantized"), GRID)
    for call in (lambda: law_of(outer, X), lambda: has_own_losses(outer)):
        with pytest.raises(ValueError, match="Latent around a model 'quantized' gives its mean alone"):
            call()
    with pytest.raises(ValueError, match=r"x has shape \(4, 9\)"):
        law_of(made("quantized"), X[:, 0])
    with pytest.raises(ValueError, match="samples=0"):
        law_of(made("flow"), X, samples=0)


def test_the_draws_of_dropout():
    model = made("dropout", rate=0.4)
    plain = build_model("fno", in_channels=2, out_channels=1, **OPTIONS).double()
    plain.load_state_dict(model.model.state_dict())
    torch.testing.assert_close(model(X), plain(X))  # evaluation drops nothing
    drawn = model.cells(X, samples=64, generator=seeded()).points
    assert torch.equal(drawn, model.cells(X, samples=64, generator=seeded()).points) and (drawn.std(1) > 0).all()
    again = copy.deepcopy(model).cells(X, samples=64, generator=seeded()).points
    assert torch.equal(drawn, again)  # the copy drops its own channels
    assert not made("dropout", rate=0.0).cells(X, samples=2, generator=seeded()).points.diff(dim=1).any()
    with pytest.raises(ValueError, match="no hidden layer"):
        DISTRIBUTIONS["dropout"](lambda *_, **__: nn.Conv1d(1, 1, 1), "conv")
    with pytest.raises(ValueError, match="rate=1"):
        made("dropout", rate=1.0)


def test_quantiles_are_sorted_and_their_loss_is_least_at_the_quantiles():
    model = made("quantiles")
    law = law_of(model, X)
    assert (law.points.diff(dim=1) >= 0).all() and torch.allclose(law.weights, torch.full((4, 3), 1 / 3).double())
    q, naive = model.fields(X), torch.zeros(4, dtype=torch.float64)
    for i, tau in enumerate((1 / 6, 1 / 2, 5 / 6)):
        u = Y - q[:, i]
        naive += (torch.where(u > 0, tau * u, (tau - 1) * u) / 9).sum((1, 2)) / 3
    torch.testing.assert_close(training_losses(model, X, Y, GRID), naive)

    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.value = nn.Parameter(torch.tensor([0.5, 2.5, 4.5], dtype=torch.float64))

        def forward(self, x):
            return self.value.view(1, 3, 1).expand(len(x), 3, 1)

    best = QuantileModel(Constant(), 1, 1, levels=3)
    y = torch.arange(6.0, dtype=torch.float64).view(6, 1, 1)
    training_losses(best, y, y).sum().backward()
    assert best.model.value.grad.abs().max() < 1e-12  # one, three and five sixths lie below


def test_the_flow_follows_its_velocity():
    class Velocity(nn.Module):
        def forward(self, x):  # of z: x is (condition, z, t)
            return x[:, 1:2] * self.rate + x[:, :1]

    model, x = FlowModel(Velocity(), 1, 1, steps=5), randn(3, 1, 4)
    model.model.rate = 0.0  # dz/dt = x: Heun's method is exact
    noise = model.noise(x, seeded())
    torch.testing.assert_close(model.cells(x, samples=1, generator=seeded()).points[:, 0], noise + x)
    model.model.rate = 1.0
    grown = (1 + 0.2 + 0.02) ** 5
    torch.testing.assert_close(model.cells(0 * x, samples=1, generator=seeded()).points[:, 0], grown * noise)
    assert torch.equal(model(x), model(x))
    model.eval()
    drawn = torch.Generator().manual_seed(0)
    noise, t = model.noise(x, drawn), torch.rand(3, dtype=torch.float64, generator=drawn).view(3, 1, 1)
    y = randn(3, 1, 4, seed=2)
    naive = ((1 - t) * noise + t * y + x - (y - noise)).square().sum((1, 2))
    torch.testing.assert_close(training_losses(model, x, y), naive)


def test_an_ensemble_mixes_the_points_of_its_members():
    members = [Normalized(made("", seed), None, Normalizer.fit(3 + 2 * Y)) for seed in (0, 1)]
    points = Normalized(made("quantized", 2), None, Normalizer.fit(3 + 2 * Y))
    mixed = Ensemble([*members, points])
    assert mixed.in_channels == 2 and mixed.out_channels == 1
    cells = mixed.cells(X)
    assert cells.points.shape == (4, 5, 1, 9) and cells.spread is None
    assert torch.equal(cells.points[:, 0], members[0](X)) and torch.allclose(
        cells.weights[:, :2].sum(1), X.new_tensor(2 / 3)
    )
    torch.testing.assert_close(cells.weights[:, 2:], cells_of(points, X).weights / 3)
    torch.testing.assert_close(law_of(mixed, X).mean, mixed(X))
    assert Ensemble([points, points]).cells(X).spread is not None
    both = made("ensemble")
    losses = sum((Y - one(X)).square().sum((1, 2)) / 9 for one in both.models)
    torch.testing.assert_close(training_losses(both, X, Y, GRID), losses)
    first, second = (next(one.parameters()) for one in both.models)
    assert not torch.equal(first, second)
    with pytest.raises(ValueError, match="models is empty"):
        Ensemble([])
    with pytest.raises(TypeError, match="no .config"):
        Ensemble([nn.Conv1d(1, 1, 1)])


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_losses_in_the_units_of_the_normalised_output(kind):
    inner, output = made(kind), Normalizer.fit(3 + 2 * Y)
    wrapped = Normalized(inner, None, output).eval()
    torch.testing.assert_close(
        training_losses(wrapped, X, 3 + 2 * Y, GRID), training_losses(inner, X, output.encode(3 + 2 * Y), GRID)
    )
    errors = validation_errors(wrapped, X, 3 + 2 * Y, GRID)
    assert errors.shape == (4,) and torch.isfinite(errors).all()
    if kind != "quantized":
        with pytest.raises(ValueError, match="set out_channels|targets of shape"):
            training_losses(inner, X, Y.expand(4, 2, 9), GRID)
    else:
        with pytest.raises(ValueError, match="y has shape"):
            training_losses(inner, X, Y.expand(4, 2, 9), GRID)
    assert training_losses(inner, X[:0], Y[:0], GRID).shape == (0,)
