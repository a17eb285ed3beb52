"""State feedback is BPTT where Λ is the truth, truncation where it is 0, a sum where it is 1, else as written out."""

import pytest
import torch
from torch import nn

from sciops.models.sequences.cells import Layer, layers_of, step, unfolded
from sciops.training.gradients.scans.feedback import Feedback, hutchinson, least_squares
from sciops.training.gradients.scans.recurrent import highway_rnn
from sciops.training.gradients.scans.scan import Diagonal
from sciops.training.gradients.state_feedback import (
    MODES,
    make_feedback,
    state_feedback_recurrence,
    state_feedback_rnn,
    with_feedback,
)

CELLS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def of(kind):
    return [mode for mode in MODES if kind != "rnn" or "gate" not in mode]


ALL = [(kind, mode) for kind in CELLS for mode in of(kind)]


@pytest.fixture
def random():
    return torch.Generator().manual_seed(0)


def draw(random, *shape):
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def made(kind, random, features=4, width=5, depth=1, **options):
    rnn = CELLS[kind](features, width, depth, **options).double()
    with torch.no_grad():
        for p in rnn.parameters():
            p.copy_(0.6 * draw(random, *p.shape))
    return rnn


def gradients(loss, inputs):
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(inputs))])


def naive(layer: Layer, x, initial, truth, matrix_of, apart=False):
    """Parameter, input and initial-state gradients: a loop over time, the recurrence Λ written out, dense Jacobians.

    apart : of an LSTM, g of c has what comes through h of the same time before it is fed back
    """
    parameters = [p for p in layer[1:] if p is not None]
    states = [initial]
    for t in range(len(x)):
        states.append(step(layer, x[t], states[-1])[0].detach())
    outputs = [s[:, : layer.width].requires_grad_() for s in states[1:]]
    outside = torch.autograd.grad(((torch.stack(outputs) - truth) ** 2).sum(), outputs)
    pad = states[0].shape[1] - layer.width
    outside = [nn.functional.pad(e, (0, pad)) for e in outside]
    total, dx, d0, g = 0, [None] * len(x), None, torch.zeros_like(states[0])
    for t in reversed(range(len(x))):
        g = outside[t] + (torch.einsum("bij,bi->bj", matrix_of(t + 1), g) if t + 1 < len(x) else 0)
        own = slopes(layer, x, states)[t] * g[:, : layer.width] if apart else 0
        if apart:
            g = torch.cat([g[:, : layer.width], g[:, layer.width :] + own], 1)
        # the step's own derivative goes through h once more
        local = torch.cat([g[:, : layer.width], g[:, layer.width :] - own], 1) if apart else g
        xt, st = x[t].detach().requires_grad_(), states[t].detach().clone().requires_grad_()
        y = step(layer, xt, st)[0]
        found = torch.autograd.grad(y, [*parameters, xt, st], local)
        total = total + torch.cat([f.flatten() for f in found[:-2]])
        dx[t], d0 = found[-2], found[-1]
    return torch.cat([total, torch.stack(dx).flatten(), d0.flatten()])


def slopes(layer, x, states):
    """o (1 − tanh² c) of every step of an LSTM."""
    rows = []
    for t in range(len(x)):
        a = nn.functional.linear(x[t], layer.input_weight, layer.input_bias)
        a = a + nn.functional.linear(states[t][:, : layer.width], layer.weight, layer.bias)
        c = states[t + 1][:, layer.width :]
        rows.append((a[:, 3 * layer.width :].sigmoid() * (1 - c.tanh() ** 2)).detach())
    return rows


def jacobians(layer, x, previous):
    """(time, batch, n, n): ∂s_t/∂s_{t−1}, dense."""

    def one(i, s):
        return torch.autograd.functional.jacobian(lambda s: step(layer, i, s)[0], s)

    rows = [[one(x[t, b], previous[t, b]) for b in range(x.shape[1])] for t in range(len(x))]
    return torch.stack([torch.stack(r) for r in rows]).detach()


def through(rnn, x, truth, initial, **how):
    """The same gradients by `state_feedback_rnn`."""
    s = initial.clone().requires_grad_()
    x = x.clone().requires_grad_()
    state = tuple(p[None] for p in s.chunk(2, -1)) if isinstance(rnn, nn.LSTM) else s[None]
    y, _ = state_feedback_rnn(rnn, x, state, **how)
    return gradients(((y - truth) ** 2).sum(), [*rnn.parameters(), x, s])


@pytest.mark.parametrize("kind, mode", ALL)
def test_every_mode_is_its_recurrence_written_out(kind, mode, random):
    rnn = made(kind, random)
    (layer,) = layers_of(rnn)
    x, truth, initial = draw(random, 6, 3, 4), draw(random, 6, 3, 5), 0.5 * draw(random, 3, layer.state_size)
    states, previous, gates, _ = unfolded(layer, x, initial)
    true, n = jacobians(layer, x, previous), layer.state_size
    apart = kind == "lstm" and mode != "linspace"
    slope = torch.stack(slopes(layer, x, [initial, *states.detach()])) if apart else None
    if apart:  # the derivative of h with c of its own step as it is
        true[:, :, :5] -= slope[..., None] * true[:, :, 5:]
    # signs drawn once, as the estimate draws them
    signs = 2 * torch.randint(0, 2, (5, 3, n), generator=torch.Generator().manual_seed(5)).double() - 1
    outside = nn.functional.pad(2 * (states[..., :5] - truth), (0, n - 5)).detach()
    g, above, below = torch.zeros(3, n).double(), 0, 0
    for t in range(5, -1, -1):
        pulled = torch.einsum("bij,bi->bj", true[t + 1], g) if t < 5 else 0
        above, below, g = above + (pulled * g).sum(0), below + (g * g).sum(0), outside[t] + pulled
        if apart:
            g[:, 5:] += slope[t] * g[:, :5]
    lam = {
        "linspace": torch.linspace(0, 1, n, dtype=torch.float64),
        "zero": torch.zeros(n),
        "constant": torch.full((n,), 0.5),
        "gate": None if gates is None else gates[1:].mean((0, 1)),
        "least_squares": (above / below).clamp(0, 0.999),
        "hutchinson": (torch.einsum("tbij,tbi->tbj", true[1:], signs) * signs).mean((0, 1)).clamp(0, 0.999),
    }.get(mode)
    if mode == "gate_varying":
        expected = naive(layer, x, initial, truth, lambda t: torch.diag_embed(gates[t]).detach(), apart)
    else:
        lam = lam.double().detach()
        expected = naive(layer, x, initial, truth, lambda t: torch.diag(lam).expand(3, n, n), apart)
    options = {"generator": torch.Generator().manual_seed(5)} if mode == "hutchinson" else {}
    feedback = make_feedback(rnn, mode, **options)
    found = through(rnn, x, truth, initial, feedback=feedback)
    assert torch.allclose(found, expected, rtol=1e-11, atol=1e-11)
    if mode != "gate_varying":
        assert torch.allclose(feedback[0].value, lam, atol=1e-12)
    if kind == "lstm":  # and with the other way round c
        found = through(rnn, x, truth, initial, feedback="constant", through_output=not apart, level=0.7)
        matrix = 0.7 * torch.eye(n, dtype=x.dtype).expand(3, n, n)
        assert torch.allclose(
            found, naive(layer, x, initial, truth, lambda t: matrix, not apart), rtol=1e-11, atol=1e-11
        )


@pytest.mark.parametrize("through_output", [True, False])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_gates_as_feedback_are_highway_without_sweeps(kind, through_output, random):
    rnn = made(kind, random, depth=2)
    x = draw(random, 9, 3, 4)
    x2 = x.clone()
    how = {"through_output": through_output}
    y, last = state_feedback_rnn(rnn, x.requires_grad_(), feedback="gate_varying", **how)
    found = gradients(y.pow(3).sum() + sum(s.pow(2).sum() for s in last), [*rnn.parameters(), x])
    y, last = highway_rnn(rnn, x2.requires_grad_(), iterations=0, **how)
    expected = gradients(y.pow(3).sum() + sum(s.pow(2).sum() for s in last), [*rnn.parameters(), x2])
    assert torch.allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_released_feedback_of_an_lstm_leaves_the_half_of_c_idle(random):
    """What reaches the states from outside reaches h alone: Λ of c has nothing to act on."""
    rnn, x = made("lstm", random), draw(random, 9, 3, 4)
    half = torch.linspace(0, 1, 10, dtype=torch.float64) * (torch.arange(10) < 5)
    (as_released,) = make_feedback(rnn, "linspace")
    idle = Feedback(half.clone(), mode="least_squares", every=10, through_output=False, calls=torch.tensor(1))
    a, b = (gradients(state_feedback_rnn(rnn, x, feedback=[f])[0].pow(3).sum(), rnn.parameters())
            for f in (as_released, idle))  # fmt: skip
    assert torch.equal(idle.value, half) and torch.allclose(a, b, rtol=1e-12, atol=1e-13)
    whole = gradients(
        state_feedback_rnn(rnn, x, feedback="linspace", through_output=True)[0].pow(3).sum(), rnn.parameters()
    )
    assert not torch.allclose(a, whole, rtol=1e-2)


@pytest.mark.parametrize("kind", CELLS)
def test_the_reference_with_true_jacobians_is_bptt(kind, random):
    """What every other test of this file leans on."""
    rnn = made(kind, random)
    (layer,) = layers_of(rnn)
    x, truth, initial = draw(random, 6, 3, 4), draw(random, 6, 3, 5), 0.5 * draw(random, 3, layer.state_size)
    true = jacobians(layer, x, unfolded(layer, x, initial)[1])
    s, x2 = initial.clone().requires_grad_(), x.clone().requires_grad_()
    state = tuple(p[None] for p in s.chunk(2, -1)) if kind == "lstm" else s[None]
    exact = gradients(((rnn(x2, state)[0] - truth) ** 2).sum(), [*rnn.parameters(), x2, s])
    assert torch.allclose(naive(layer, x, initial, truth, lambda t: true[t]), exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind, mode", ALL)
@pytest.mark.parametrize("batch_first", [False, True])
def test_what_is_computed_does_not_change(kind, mode, batch_first, random):
    rnn = made(kind, random, depth=2, batch_first=batch_first)
    x = draw(random, 7, 3, 4)
    y, state = rnn(x)
    z, last = state_feedback_rnn(rnn, x, feedback=mode)
    assert torch.allclose(z, y, atol=1e-12, rtol=0)
    pairs = zip(state, last) if kind == "lstm" else [(state, last)]
    assert all(a.shape == b.shape and torch.allclose(a, b, atol=1e-12, rtol=0) for a, b in pairs)


@pytest.mark.parametrize("kind, mode", ALL)
def test_one_step_is_exact(kind, mode, random):
    rnn = made(kind, random, depth=3)
    x = draw(random, 1, 2, 4)
    exact = gradients(rnn(x)[0].pow(3).sum(), rnn.parameters())
    found = gradients(state_feedback_rnn(rnn, x, feedback=mode)[0].pow(3).sum(), rnn.parameters())
    assert torch.allclose(found, exact, rtol=1e-12, atol=1e-13)


def test_stacked_layers_are_exact_in_depth(random):
    """With no way through time the gradient is that of three cells on one another at every time."""
    rnn = made("gru", random, depth=3)
    x = draw(random, 5, 2, 4)
    states, z = [], x
    with torch.no_grad():
        for layer in layers_of(rnn):
            steps = unfolded(layer, z, torch.zeros(2, 5, dtype=z.dtype))
            states.append(steps.previous)
            z = steps.states
    z = x
    for layer, before in zip(layers_of(rnn), states):
        z = step(layer, z, before)[0]
    expected = gradients(z.pow(3).sum(), rnn.parameters())
    found = gradients(state_feedback_rnn(rnn, x, feedback="zero")[0].pow(3).sum(), rnn.parameters())
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("last_only", [False, True])
def test_linear_diagonal_recurrence_is_bptt(last_only, random):
    """Also for the coefficients themselves, some of them negative."""
    a = (2 * torch.rand(6, generator=random, dtype=torch.float64) - 1).requires_grad_()
    w, x = draw(random, 4, 6).requires_grad_(), draw(random, 40, 3, 4).requires_grad_()
    initial, truth = draw(random, 3, 6).requires_grad_(), draw(random, 40, 3, 6)

    def cell(x, s):
        return a * s + torch.tanh(x @ w)

    s, states = initial, []
    for t in range(40):
        s = cell(x[t], s)
        states.append(s)
    pick = slice(-1, None) if last_only else slice(None)
    exact = gradients(((torch.stack(states) - truth)[pick] ** 2).sum(), [a, w, x, initial])
    for kernel in ("loop", "fft", "associative"):
        y = state_feedback_recurrence(cell, x, initial, coefficient=Diagonal(a.detach()), kernel=kernel)
        found = gradients(((y - truth)[pick] ** 2).sum(), [a, w, x, initial])
        assert (found - exact).norm() <= 1e-12 * exact.norm()


@pytest.mark.parametrize("kind", CELLS)
def test_zero_is_a_loop_that_detaches_every_step(kind, random):
    rnn = made(kind, random)
    x = draw(random, 8, 3, 4)
    state, outputs = None, []
    for t in range(8):
        y, state = rnn(x[t : t + 1], state)
        state = tuple(s.detach() for s in state) if kind == "lstm" else state.detach()
        outputs.append(y)
    expected = gradients(torch.cat(outputs).pow(3).sum(), rnn.parameters())
    found = gradients(state_feedback_rnn(rnn, x, feedback="zero")[0].pow(3).sum(), rnn.parameters())
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_feedback_of_one_adds_up_what_comes_later(random):
    v = draw(random, 9, 2, 5).requires_grad_()
    e = draw(random, 9, 2, 5)
    for kernel in ("auto", "loop", "fft", "associative"):
        (found,) = torch.autograd.grad(with_feedback(v, Diagonal(e.new_ones(5)), kernel=kernel), v, e)
        assert torch.allclose(found, e.flip(0).cumsum(0).flip(0), atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("mode", ["linspace", "gate_varying", "least_squares"])
def test_sequences_of_different_length_are_each_their_own(kind, mode, random):
    if mode not in of(kind):
        return
    rnn = made(kind, random, depth=2)
    x, lengths = draw(random, 7, 3, 4), torch.tensor([4, 7, 1])
    lam = Feedback(torch.zeros(layers_of(rnn)[0].state_size, dtype=x.dtype), mode="constant", level=0.7)
    # an estimate is of the batch as a whole, so that only a given Λ tells sequences apart
    how = {"feedback": mode if mode != "least_squares" else [lam, lam]}
    ragged = x.clone()
    for b, n in enumerate(lengths):
        ragged[n:, b] = float("nan")
    y, last = state_feedback_rnn(rnn, ragged, lengths=lengths, **how)
    found = gradients(y.pow(3).sum() + sum(s.sum() for s in last), rnn.parameters())
    expected = 0
    for b, n in enumerate(lengths):
        alone, end = state_feedback_rnn(rnn, x[:n, b : b + 1], **how)
        assert torch.allclose(y[:n, b : b + 1], alone, atol=1e-12) and not y[n:, b].any()
        expected = expected + gradients(alone.pow(3).sum() + sum(s.sum() for s in end), rnn.parameters())
    assert torch.allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_estimates_are_the_diagonals_they_name(random):
    (layer,) = layers_of(made("gru", random))
    x, initial = draw(random, 6, 3, 4), torch.zeros(3, 5, dtype=torch.float64)
    previous = unfolded(layer, x, initial).previous
    true = jacobians(layer, x, previous)
    advance = lambda i, s: step(layer, i, s)[0]  # noqa: E731
    mean = torch.diagonal(true, dim1=-2, dim2=-1).mean((0, 1))
    guess = hutchinson(advance, x, previous.detach(), probes=3000, generator=random)
    assert torch.allclose(guess, mean, atol=0.02)  # four standard errors of 54 000 draws
    outside = draw(random, 6, 3, 5)
    lam = least_squares(advance, x, previous.detach(), outside)
    g, pairs = outside[-1], []
    for t in range(5, 0, -1):
        pulled = torch.einsum("bij,bi->bj", true[t], g)
        pairs.append((pulled, g))
        g = outside[t - 1] + pulled
    off = lambda lam: sum(((p - lam * g) ** 2).sum(0) for p, g in pairs)  # noqa: E731
    best = off(lam)
    assert (best <= off(lam + 1e-3)).all() and (best <= off(lam - 1e-3)).all()


def test_estimates_are_averaged_every_so_often(random):
    rnn = made("gru", random)
    (feedback,) = make_feedback(rnn, "hutchinson", every=3, momentum=0.5, generator=random)
    values = []
    for _ in range(7):
        y, _ = state_feedback_rnn(rnn, draw(random, 5, 2, 4), feedback=[feedback])
        values.append(feedback.value.clone())
    assert int(feedback.calls) == 7
    changed = [not torch.equal(a, b) for a, b in zip(values, values[1:])]
    assert changed == [False, False, True, False, False, True]


def test_nothing_happens_without_gradient(random):
    rnn = made("gru", random)
    (feedback,) = make_feedback(rnn, "gate")
    with torch.no_grad():
        y, _ = state_feedback_rnn(rnn, draw(random, 5, 2, 4), feedback=[feedback])
    assert not y.requires_grad and int(feedback.calls) == 0 and not feedback.value.any()


def test_the_scan_runs_once_and_both_uses_of_the_states_are_counted(random, monkeypatch):
    import sys

    rule = sys.modules["sciops.training.gradients.state_feedback"]
    calls, scan = [], rule.reverse_scan
    monkeypatch.setattr(rule, "reverse_scan", lambda *a, **k: calls.append(1) or scan(*a, **k))
    rnn = made("gru", random)
    x = draw(random, 5, 2, 4)
    y, _ = state_feedback_rnn(rnn, x, feedback="constant")
    twice = gradients(y.sum() + y.pow(3).sum(), rnn.parameters())
    assert len(calls) == 1
    parts = [state_feedback_rnn(rnn, x, feedback="constant")[0] for _ in "12"]
    split = gradients(parts[0].sum(), rnn.parameters()) + gradients(parts[1].pow(3).sum(), rnn.parameters())
    assert torch.allclose(twice, split, rtol=1e-11, atol=1e-12)


def test_refusals(random):
    x = draw(random, 5, 2, 4)
    with pytest.raises(ValueError, match="bidirectional=True: expected bidirectional=False"):
        state_feedback_rnn(nn.GRU(4, 5, bidirectional=True).double(), x)
    with pytest.raises(ValueError, match="dropout=0.5"):
        state_feedback_rnn(nn.GRU(4, 5, 2, dropout=0.5).double(), x)
    with pytest.raises(ValueError, match="Linear is not a recurrent layer"):
        state_feedback_rnn(nn.Linear(4, 5), x)
    with pytest.raises(ValueError, match="a vanilla RNN has none"):
        state_feedback_rnn(nn.RNN(4, 5).double(), x, feedback="gate")
    with pytest.raises(ValueError, match=r"Λ has shape \(5,\); a state of this layer has 10 numbers"):
        state_feedback_rnn(nn.LSTM(4, 5).double(), x, feedback=torch.zeros(5))
    with pytest.raises(ValueError, match="feedback='best': expected one of linspace"):
        state_feedback_rnn(nn.GRU(4, 5).double(), x, feedback="best")
    for name, value in (("every", 0), ("momentum", 0.0), ("bounds", (1.0, 0.0)), ("level", float("nan"))):
        with pytest.raises(ValueError, match=name):
            Feedback(torch.zeros(3), **{name: value})


@pytest.mark.gpu
@pytest.mark.parametrize("kind", CELLS)
def test_on_a_gpu(kind, random):
    rnn = made(kind, random)
    x = draw(random, 7, 3, 4)
    mode = of(kind)[-1]
    seed = {"generator": torch.Generator().manual_seed(1)} if mode == "hutchinson" else {}
    expected = gradients(state_feedback_rnn(rnn, x, feedback=mode, **seed)[0].pow(3).sum(), rnn.parameters())
    seed = {"generator": torch.Generator().manual_seed(1)} if mode == "hutchinson" else {}
    rnn = rnn.cuda()
    found = gradients(state_feedback_rnn(rnn, x.cuda(), feedback=mode, **seed)[0].pow(3).sum(), rnn.parameters())
    assert torch.allclose(found.cpu(), expected, rtol=1e-9, atol=1e-10)
