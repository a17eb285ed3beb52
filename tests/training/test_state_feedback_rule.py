"""The rule state_feedback on recurrent models and on steppers: truncation, sums, and exact Fourier symbols."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sciops.grids import Grid
from sciops.models import Recurrent, Stepper, build_model
from sciops.models.sequences.through_time.scan import FourierDiagonal
from sciops.training import GRADIENTS
from sciops.training.gradients.fourier_feedback import field_feedback, fitted_symbol, flow_symbol
from sciops.training.gradients.state_feedback import state_feedback, state_feedback_recurrence

CELLS = ("rnn", "gru", "lstm")


@pytest.fixture
def random():
    return torch.Generator().manual_seed(0)


def draw(random, *shape):
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def gradients(loss, inputs):
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(inputs))])


def batch_of(x, y, grid=None):
    return SimpleNamespace(x=x, y=y, grid=grid)


def squared(prediction, batch):
    return ((prediction - batch.y) ** 2).sum()


def filled(model, rule, batch, **options):
    model.zero_grad()
    loss = rule(model, squared, batch, **options)
    return loss, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("kind", CELLS)
def test_rule_on_a_recurrent_model(kind, random):
    torch.manual_seed(0)
    model = Recurrent(2, 1, width=6, depth=2, cell=kind, norm="layer", mlp_ratio=1).double()
    batch = batch_of(draw(random, 3, 2, 9), draw(random, 3, 1, 9))
    exact_loss, exact = filled(model, GRADIENTS["backprop"], batch)
    loss, zero = filled(model, GRADIENTS["state_feedback"], batch, feedback="zero")
    with model.going_back("truncated", steps=1):
        _, truncated = filled(model, GRADIENTS["backprop"], batch)
    assert torch.allclose(loss, exact_loss, rtol=1e-12) and torch.allclose(zero, truncated, rtol=1e-10, atol=1e-11)
    assert (zero - exact).norm() > 1e-3 * exact.norm()
    filled(model, state_feedback, batch)
    n = model.feedback.shape[1]
    assert torch.allclose(model.state_dict()["feedback"], torch.linspace(0, 1, n, dtype=torch.float64).expand(2, n))
    _, again = filled(model, GRADIENTS["backprop"], batch)
    assert torch.equal(again, exact)  # the model's own way back is put back


@pytest.mark.parametrize("history", [1, 2])
def test_rule_on_a_stepper(history, random):
    torch.manual_seed(0)
    grid = Grid((16,), 1.0, "periodic")
    core = build_model("fno", in_channels=history, out_channels=1, width=6, depth=1, modes=(4,), grid=grid).double()
    core.to(torch.float64)
    for p in core.parameters():
        p.data = p.data.to(torch.complex128) if p.is_complex() else p.data
    model = Stepper(core, channels=1, history=history, steps=5)
    batch = batch_of(draw(random, 2, history, 16), draw(random, 2, 5, 16), grid)
    loss, _ = filled(model, GRADIENTS["backprop"], batch)
    fed, zero = filled(model, state_feedback, batch, feedback="zero")
    assert torch.allclose(fed, loss, rtol=1e-12) and model.gradient == "full"
    detached = Stepper(core, channels=1, history=history, steps=5, gradient="detached")
    assert torch.allclose(zero, filled(detached, GRADIENTS["backprop"], batch)[1], rtol=1e-11, atol=1e-11)
    # identity feedback written out: frame k gets the sum of the outside gradients of frames k, k+1, …
    x, steps = batch.x, []
    for _ in range(5):
        frame = model.step(x, grid)
        steps.append(frame)
        x = model.advance(x, frame.detach())
    outside = [2 * (frame.detach() - batch.y[:, k : k + 1]) for k, frame in enumerate(steps)]
    model.zero_grad()
    torch.autograd.backward(steps, [sum(outside[k:]) for k in range(5)])
    expected = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert torch.allclose(filled(model, state_feedback, batch)[1], expected, rtol=1e-11, atol=1e-11)
    one = Stepper(core, channels=1, history=history)
    short = batch_of(batch.x, batch.y[:, :1], grid)
    assert torch.equal(filled(one, state_feedback, short)[1], filled(one, GRADIENTS["backprop"], short)[1])


def test_linear_spectral_steps_are_bptt_with_their_symbol(random):
    grid, dt = Grid((32,), 3.0, "periodic"), 0.05
    symbol = flow_symbol(grid, dt=dt, velocity=1.3, diffusivity=0.02)
    gain = draw(random, 1).requires_grad_()
    x, initial = draw(random, 40, 2, 32), draw(random, 2, 32).requires_grad_()

    def cell(f, u):
        return torch.fft.irfft(symbol * torch.fft.rfft(u), n=32) + gain * f

    u, states = initial, []
    for t in range(40):
        u = cell(x[t], u)
        states.append(u)
    exact = gradients(torch.stack(states).pow(3).sum(), [gain, initial])
    y = state_feedback_recurrence(cell, x, initial, coefficient=FourierDiagonal(symbol, (-1,)))
    found = gradients(y.pow(3).sum(), [gain, initial])
    assert (found - exact).norm() <= 1e-12 * exact.norm()
    conjugate = state_feedback_recurrence(cell, x, initial, coefficient=FourierDiagonal(symbol.conj(), (-1,)))
    assert (gradients(conjugate.pow(3).sum(), [gain, initial]) - exact).norm() > 1e-2 * exact.norm()


class Flow(nn.Module):
    """One exact step of advection and diffusion plus a learnt source: linear, diagonal in the Fourier basis."""

    def __init__(self, symbol):
        super().__init__()
        self.symbol, self.source = symbol, nn.Parameter(torch.randn(1, 1, 16, 12, dtype=torch.float64))

    def forward(self, x):
        return torch.fft.irfftn(self.symbol * torch.fft.rfftn(x, dim=(-2, -1)), s=(16, 12), dim=(-2, -1)) + self.source


def test_spectral_feedback_of_a_linear_stepper_is_backprop_through_the_rollout(random):
    grid = Grid((16, 12), ((0.0, 2.0), (0.0, 1.0)), "periodic")
    how = dict(dt=0.1, velocity=(0.7, -0.3), diffusivity=0.01)
    model = Stepper(Flow(flow_symbol(grid, **how)), channels=1, steps=8, residual=False)
    batch = batch_of(draw(random, 3, 1, 16, 12), draw(random, 3, 8, 16, 12), grid)
    _, exact = filled(model, GRADIENTS["backprop"], batch)
    _, found = filled(model, state_feedback, batch, feedback="advection", **how)
    assert (found - exact).norm() <= 1e-12 * exact.norm()
    symbol = model.model.symbol
    for given in (symbol, torch.view_as_real(symbol).tolist()):
        _, found = filled(model, state_feedback, batch, feedback="symbol", symbol=given)
        assert (found - exact).norm() <= 1e-12 * exact.norm()
    _, still = filled(model, state_feedback, batch, feedback="identity")
    assert (still - exact).norm() > 0.1 * exact.norm()
    heat = Stepper(Flow(flow_symbol(grid, dt=0.1, diffusivity=0.01)), channels=1, steps=8, residual=False)
    _, exact = filled(heat, GRADIENTS["backprop"], batch)
    _, found = filled(heat, state_feedback, batch, feedback="heat", dt=0.1, diffusivity=0.01)
    assert (found - exact).norm() <= 1e-12 * exact.norm()
    with torch.no_grad():
        heat.model.source.zero_()  # the frames then tell the symbol
    _, exact = filled(heat, GRADIENTS["backprop"], batch)
    _, found = filled(heat, state_feedback, batch, feedback="least_squares")
    assert (found - exact).norm() <= 1e-10 * exact.norm()


def test_fitted_symbol_is_the_least_squares_one(random):
    before, after = draw(random, 5, 2, 3, 8), draw(random, 5, 2, 3, 8)
    found = fitted_symbol(before, 0.1 * after, (-1,))
    a, b = torch.fft.rfft(before), torch.fft.rfft(0.1 * after)
    for c in range(3):
        for k in range(5):
            lam = torch.linalg.lstsq(a[:, :, c, k].reshape(-1, 1), b[:, :, c, k].reshape(-1, 1)).solution[0, 0]
            assert torch.allclose(found[c, k], lam, atol=1e-12)
    assert torch.allclose(fitted_symbol(before, 5 * before, (-1,)).abs(), torch.ones(3, 5).double())
    assert not fitted_symbol(torch.zeros_like(before), after, (-1,)).any()
    for unit in (1e-25, 1e30):  # squares of float32 end at 1e-38 and 1e38
        other = fitted_symbol((unit * before).float(), (unit * 0.1 * after).float(), (-1,))
        torch.testing.assert_close(other.to(found.dtype), found, rtol=1e-4, atol=1e-5)


def test_flow_symbol_moves_a_wave():
    grid = Grid((16,), 2.0, "periodic")
    x = torch.from_numpy(grid.coordinates()[0])
    wave = lambda x: torch.sin(torch.pi * x) + 0.3 * torch.cos(2 * torch.pi * x)  # noqa: E731
    moved = torch.fft.irfft(flow_symbol(grid, dt=0.3, velocity=0.9) * torch.fft.rfft(wave(x)), n=16)
    assert torch.allclose(moved, wave(x - 0.27), atol=1e-12)


def test_refusals():
    grid = Grid((16,), 1.0, "periodic")
    fno = build_model("fno", width=4, depth=1, modes=(2,), grid=grid)
    batch = batch_of(torch.zeros(1, 1, 16), torch.zeros(1, 1, 16), grid)
    with pytest.raises(ValueError, match="one Stepper, or Recurrent models, and found neither.*highway"):
        state_feedback(fno, squared, batch)
    with pytest.raises(ValueError, match="needs all frames of a Stepper"):
        state_feedback(Stepper(fno, channels=1, steps=2, gradient="pushforward"), squared, batch)
    with pytest.raises(ValueError, match="dt is of feedback for a Stepper"):
        state_feedback(Recurrent(1, 1), squared, batch, dt=0.1)
    frames = torch.zeros(2, 1, 1, 16)
    for mode, options, text in (
        ("linspace", {}, "for a Stepper expected one of identity"),
        ("heat", {"dt": 0.1}, "needs 'diffusivity'"),
        ("identity", {"level": 1}, "takes no 'level'"),
    ):
        with pytest.raises(ValueError, match=text):
            field_feedback(mode, grid, frames, frames[0], **options)
    with pytest.raises(ValueError, match="the grid is 'node'"):
        field_feedback("least_squares", Grid((16,)), frames, frames[0])
