"""Rules of a user's own: `register` adds, replaces and refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import LINE, Residual, hooked, reason, spine, twice
from stretching import jacobian
from torch import nn

from sciops import Grid
from sciops.lipschitz import RULES, UnboundedError, lipschitz_bound, log_lipschitz_penalty, register
from sciops.lipschitz.bounds.registry import RULES as registry


@pytest.fixture
def forgotten():
    """Takes back what a test declares."""
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)


def test_a_registered_residual(forgotten):
    assert RULES is registry

    @register(Residual)
    def rule(module, setting):
        return 1 + setting.of(nn.Sequential(*module)), "1 + inside"

    for model, true in [
        (Residual(twice()), 3.0),
        (nn.Sequential(Residual(twice()), nn.ReLU(), Residual(twice())), 9.0),
    ]:
        bound = lipschitz_bound(model, LINE)
        assert bound.value == pytest.approx(true, rel=1e-9)
        assert "1 + inside" in str(bound)
    assert "no rule for Bilinear" in reason(Residual(nn.Bilinear(1, 1, 1)))
    model = Residual(twice())
    hooked(model[0])
    assert "hook" in reason(model)
    # on nodes the rule counts every point alike, and the change of norm is counted for it
    assert lipschitz_bound(Residual(twice()), Grid((4,))).value == pytest.approx(3 * 2**0.5, rel=1e-9)


def test_a_registered_residual_around_layers_that_write(forgotten):
    """x + f(x) reads x after f has written to it, so that only `reused=False` allows such an f."""
    register(Residual, lambda module, setting: 1 + setting.of(nn.Sequential(*module)))
    model = nn.Sequential(twice(), Residual(nn.LeakyReLU(3.0, inplace=True)))
    x = -torch.ones(1, 4, 3)
    assert torch.allclose(model(x), 12 * x)  # (3 + 3)·2, more than (1 + 3)·2
    assert "in place" in reason(model)
    assert lipschitz_bound(nn.Sequential(twice(), Residual(nn.LeakyReLU(3.0))), LINE).value == pytest.approx(8.0)
    register(Residual, lambda module, setting: 2 * setting.of(nn.Sequential(*module), reused=False))
    assert lipschitz_bound(model, LINE).value == pytest.approx(12.0)


class Shift(nn.Module):
    """A mixer that moves the field by one point."""

    def forward(self, x, grid=None):
        return 2 * x.roll(1, 1)


class Half(nn.Module):
    def forward(self, x):
        return x.sin() / 2


def test_registered_mixers_and_activations(forgotten):
    model = spine(block="classic", coordinates="none")
    model.blocks[0].mixer, model.lift[1] = Shift(), Half()
    grid = Grid((6,), centering="periodic")
    assert "Shift" in reason(model, grid) and "Half" in reason(model, grid)
    register(Shift, lambda module, setting: 2.0)
    register(Half, lambda module, setting: 0.5)
    model = model.double()
    bound = lipschitz_bound(model, grid)
    rows = {row.name: row.value for row in bound.blocks}
    skip = float(torch.linalg.matrix_norm(model.blocks[0].skip.weight.detach(), 2))
    assert rows["block 0"] == pytest.approx(2 + skip, rel=1e-9)
    x = torch.randn(1, 1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert float(np.linalg.norm(jacobian(model, x, grid)[0].numpy(), 2)) <= bound.value
    penalty = log_lipschitz_penalty(model, grid)
    penalty.backward()
    assert model.blocks[0].skip.weight.grad.abs().sum() > 0


def test_rules_that_refuse_or_are_wrong(forgotten):
    def never(module, setting):
        raise UnboundedError("never")

    register(Shift, never)
    assert reason(Shift()) == "never"
    register(Shift, lambda module, setting: -1.0)
    with pytest.raises(ValueError, match="rule for Shift returned -1.0"):
        lipschitz_bound(Shift(), LINE)
    with pytest.raises(TypeError, match="expected a class"):
        register(Shift(), never)
    register(nn.Linear, lambda module, setting: 7.0)
    assert lipschitz_bound(twice(), LINE).value == pytest.approx(7.0)


def test_a_forward_that_was_replaced_on_the_class(forgotten, monkeypatch):
    register(Shift, lambda module, setting: 2.0)
    monkeypatch.setattr(Shift, "forward", lambda self, x, grid=None: 9 * x)
    assert "Shift.forward was replaced" in reason(Shift())


class Spectral(nn.Module):
    """A layer written by hand, whose weights multiply the modes of a real field."""

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(0.5j * torch.ones(channels, 1))

    def forward(self, x):
        return torch.fft.irfft(self.weight * torch.fft.rfft(x), x.shape[-1])


def test_the_layers_before_and_after_complex_weights_run_on_real_fields(forgotten):
    register(Spectral, lambda module, setting: module.weight.abs().max())
    model, grid = nn.Sequential(Spectral(3), nn.Conv1d(3, 2, 1, bias=False)), Grid((8,), centering="periodic")
    expected = 0.5 * torch.linalg.matrix_norm(model[1].weight[..., 0].double(), 2)
    assert lipschitz_bound(model, grid).value == pytest.approx(expected.item(), rel=1e-6)
    penalty = log_lipschitz_penalty(model, grid)
    assert penalty.dtype == torch.float32 and penalty.item() == pytest.approx(expected.log().item(), rel=1e-5)
