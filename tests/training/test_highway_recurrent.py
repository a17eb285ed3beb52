"""Highway-BP over time: exact at k = steps − 1 and not before, and sums over paths at every k, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from sciops.models import build_model
from sciops.training.gradients import backprop, highway, highway_rnn

STEPS, BATCH, INPUTS, HIDDEN = 8, 3, 4, 5


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(kind: type[nn.Module], *options, seed: int = 0, **more) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rnn = kind(INPUTS, HIDDEN, *options, **more).double()
        with torch.no_grad():  # gates away from their middle
            for p in rnn.parameters():
                p.mul_(2)
    return rnn


def relative(found, true) -> float:
    found, true = (torch.cat([g.flatten() for g in gradients]) for gradients in (found, true))
    return ((found - true).norm() / true.norm()).item()


def start(lstm: bool, *shape: int):
    parts = [draw(*shape, HIDDEN, seed=5 + i).requires_grad_() for i in range(1 + lstm)]
    return (tuple(parts) if lstm else parts[0]), parts


def loss(result, last_only: bool, lstm: bool) -> Tensor:
    outputs, state = result
    states = state if lstm else (state,)
    total = sum((draw(*s.shape, seed=8) * s).sum() for s in states)
    return total if last_only else total + (draw(*outputs.shape, seed=9) * outputs).sum()


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
@pytest.mark.parametrize("last_only", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("through_output", [True, False])
def test_exact_with_one_iteration_less_than_steps_and_not_before(kind, last_only, gamma, through_output):
    lstm = kind is nn.LSTM
    rnn, x = made(kind), draw(STEPS, BATCH, INPUTS, seed=1).requires_grad_()
    state, parts = start(lstm, 1, BATCH)
    leaves = [x, *parts, *rnn.parameters()]
    true = torch.autograd.grad(loss(rnn(x, state), last_only, lstm), leaves)
    errors = []
    for k in (STEPS - 1, STEPS - 2, 0):
        result = highway_rnn(rnn, x, state, iterations=k, gamma=gamma, through_output=through_output)
        torch.testing.assert_close(result, rnn(x, state), rtol=1e-12, atol=1e-12)
        errors.append(relative(torch.autograd.grad(loss(result, last_only, lstm), leaves), true))
    assert errors[0] < 1e-13 < 1e-9 < errors[1] < errors[2]


def paths(factors: list[tuple[Tensor, Tensor]], e: list[Tensor], k: int) -> list[Tensor]:
    """w_i = Σ over j ≥ i and all products of K or J from j down to i with at most k factors J, one at a time."""
    found = []
    for i in range(len(e)):
        total = torch.zeros_like(e[i])
        for j in range(i, len(e)):
            terms = {0: e[j]}  # the sum of the products by their number of factors J
            for t in range(j, i, -1):
                carry, rest = factors[t]
                new: dict[int, Tensor] = {}
                for count, row in terms.items():
                    new[count] = new.get(count, 0) + row @ carry
                    new[count + 1] = new.get(count + 1, 0) + row @ rest
                terms = {count: row for count, row in new.items() if count <= k}
            total = total + sum(terms.values())
        found.append(total)
    return found


@pytest.mark.parametrize("k", [0, 1, 2, 4])
@pytest.mark.parametrize("gamma", [0.0, 0.4])
@pytest.mark.parametrize("kind", [nn.GRUCell, nn.LSTMCell])
def test_the_sum_over_paths_with_at_most_k_factors(kind, gamma, k):
    """Against dense Jacobians of torch's cell, state (h) or (h, c), with K = z, or f on c and 0 on h."""
    lstm, steps = kind is nn.LSTMCell, 6
    cell, x = made(kind), draw(steps, 1, INPUTS, seed=1).requires_grad_()
    state, _ = start(lstm, 1)
    result = highway_rnn(cell, x, state, iterations=k, gamma=gamma, through_output=False)
    found = torch.autograd.grad(loss(result, False, lstm), [x, *cell.parameters()])

    def advance(u: Tensor, s: Tensor) -> Tensor:
        parts = (s[:, :HIDDEN], s[:, HIDDEN:]) if lstm else s
        new = cell(u, parts)
        return torch.cat(new, -1) if lstm else new

    states, factors, s = [], [], torch.cat(state if lstm else (state,), -1).detach()
    for u in x.detach():
        whole = torch.autograd.functional.jacobian(lambda p, u=u: advance(u, p)[0], s)[:, 0]
        gates = nn.functional.linear(u, cell.weight_ih, cell.bias_ih)
        gates = (gates + nn.functional.linear(s[:, :HIDDEN], cell.weight_hh, cell.bias_hh)).sigmoid()
        gate = gates[0, HIDDEN : 2 * HIDDEN].detach()  # z, or f, the second in both
        carry = (1 - gamma) * torch.diag(torch.cat([torch.zeros_like(gate), gate]) if lstm else gate)
        factors.append((carry, whole - carry))
        states.append(s)
        s = advance(u, s).detach()
    outputs = [torch.zeros(1, HIDDEN, dtype=x.dtype, requires_grad=True) for _ in range(steps)]
    last = [torch.zeros(1, HIDDEN, dtype=x.dtype, requires_grad=True) for _ in range(1 + lstm)]
    # the loss is linear in the states: its gradient is the same everywhere
    linear = loss((torch.stack(outputs), tuple(last) if lstm else last[0]), False, lstm)
    (*per_step,) = torch.autograd.grad(linear, [*outputs, *last])
    e = [torch.cat([g[0], torch.zeros_like(g[0])]) if lstm else g[0] for g in per_step[:steps]]
    e[-1] = e[-1] + torch.cat([g[0] for g in per_step[steps:]])
    w = paths(factors, e, k)
    local = torch.stack([(advance(u, s)[0] * g).sum() for u, s, g in zip(x, states, w)]).sum()
    expected = torch.autograd.grad(local, [x, *cell.parameters()])
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
@pytest.mark.parametrize("biased", [False, True])
def test_layers_are_exact_over_depth_and_batches_may_come_first(kind, biased):
    lstm = kind is nn.LSTM
    rnn = made(kind, 3, bias=biased, batch_first=True)
    x = draw(BATCH, STEPS, INPUTS, seed=1).requires_grad_()
    state, parts = start(lstm, 3, BATCH)
    leaves = [x, *parts, *rnn.parameters()]
    true = torch.autograd.grad(loss(rnn(x, state), False, lstm), leaves)
    found = torch.autograd.grad(loss(highway_rnn(rnn, x, state, iterations=STEPS - 1), False, lstm), leaves)
    assert relative(found, true) < 1e-13
    for result in (highway_rnn(rnn, x[0]), highway_rnn(rnn, x)):
        torch.testing.assert_close(result, rnn(x[0] if result[0].ndim == 2 else x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
@pytest.mark.parametrize("k", [0, 1, STEPS])
def test_a_padded_batch_is_its_sequences_one_by_one(kind, k):
    lstm, lengths = kind is nn.LSTM, (STEPS, 5, 1)
    rnn, x = made(kind, 2), draw(STEPS, BATCH, INPUTS, seed=1).requires_grad_()
    state, parts = start(lstm, 2, BATCH)
    leaves, weight = [x, *parts, *rnn.parameters()], draw(STEPS, BATCH, HIDDEN, seed=3)
    mask = torch.arange(STEPS)[:, None] < torch.tensor(lengths)
    outputs, last = highway_rnn(rnn, x, state, iterations=k, mask=mask)
    last = torch.stack(last) if lstm else last[None]
    total = (weight * outputs).sum() + last.square().sum()
    found = torch.autograd.grad(total, leaves)
    alone = 0
    for b, length in enumerate(lengths):
        first = tuple(s[:, b : b + 1] for s in parts) if lstm else parts[0][:, b : b + 1]
        y, s = highway_rnn(rnn, x[:length, b : b + 1], first, iterations=k)
        alone = alone + (weight[:length, b : b + 1] * y).sum() + sum(q.square().sum() for q in (s if lstm else [s]))
    assert outputs[1:, 2].abs().max() == 0
    for a, b in zip(found, torch.autograd.grad(alone, leaves)):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)


def test_one_step_and_gradients_that_nobody_asks_for():
    rnn = made(nn.GRU)
    x = draw(1, BATCH, INPUTS)
    true = torch.autograd.grad(rnn(x)[0].sum(), list(rnn.parameters()))
    for k in (0, 3):
        found = torch.autograd.grad(highway_rnn(rnn, x, iterations=k)[0].sum(), list(rnn.parameters()))
        assert relative(found, true) < 1e-13
    with torch.no_grad():
        assert not highway_rnn(rnn, x)[0].requires_grad
    with pytest.raises(RuntimeError, match="once_differentiable"):
        x.requires_grad_()
        (g,) = torch.autograd.grad(highway_rnn(rnn, x)[0].square().sum(), x, create_graph=True)
        g.sum().backward()


def test_under_autocast_it_computes_in_the_precision_of_the_weights():
    rnn = made(nn.GRU).float()
    x = draw(STEPS, BATCH, INPUTS).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs, _ = highway_rnn(rnn, x)
    torch.testing.assert_close(outputs, rnn(x)[0])


@dataclass(frozen=True)
class Readings:
    x: Tensor
    y: Tensor
    grid: None = None


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_a_recurrent_model_trains_by_the_rule(cell, gamma):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model("recurrent", in_channels=2, out_channels=1, width=6, depth=2, cell=cell).double()
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(2)
    batch = Readings(draw(3, 2, STEPS), draw(3, 1, STEPS, seed=1))

    def gradients(rule, **options):
        model.zero_grad()
        rule(model, lambda y, b: (y - b.y).square().mean(), batch, **options)
        return [p.grad for p in model.parameters() if p.grad is not None]

    true = gradients(backprop)
    errors = [relative(gradients(highway, iterations=k, gamma=gamma), true) for k in (STEPS - 1, STEPS - 2, 0)]
    assert errors[0] < 1e-13 < 1e-9 < errors[1] < errors[2]
    with pytest.raises(ValueError, match="gamma='hutchinson': over the steps of a Recurrent"):
        highway(model, lambda y, b: y.sum(), batch, gamma="hutchinson")


def test_refusals():
    x = draw(STEPS, BATCH, INPUTS)
    for rnn, options, match in (
        (made(nn.RNN), {}, "RNN: expected nn.GRU"),
        (made(nn.GRU, bidirectional=True), {}, "one direction"),
        (made(nn.LSTM, proj_size=2), {}, "no projection"),
        (made(nn.GRU), {"iterations": -1}, "iterations=-1"),
        (made(nn.GRU), {"iterations": 1.5}, "iterations=1.5"),
        (made(nn.GRU), {"gamma": 2.0}, "gamma=2.0"),
        (made(nn.GRU), {"mask": torch.zeros(STEPS, BATCH, dtype=torch.bool)}, "True from the first step"),
        (made(nn.GRU), {"mask": torch.ones(BATCH, STEPS, dtype=torch.bool)}, r"expected booleans \(8, 3\)"),
    ):
        with pytest.raises(ValueError, match=match):
            highway_rnn(rnn, x, **options)
    with pytest.raises(ValueError, match=r"expected \(layers, batch, hidden\)"):
        highway_rnn(made(nn.GRU), x, draw(2, BATCH, HIDDEN))
