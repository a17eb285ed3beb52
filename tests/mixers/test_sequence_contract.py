"""What every mixer along a sequence promises: causality, padding that does not matter, prefill = steps = forward."""

from __future__ import annotations

import pytest
import torch

from sciops.mixers import MIXERS
from sciops.mixers.sequence import copied, selected

CHANNELS, LENGTH, LENGTHS = 8, 23, (23, 1, 14)

# name, options; a causal and a bidirectional mixer are made of each, but where options say which
CASES = [
    ("self_attention", {}),
    ("self_attention", dict(heads=2, window=5)),
    ("self_attention", dict(heads=2, window=40, positions="rope")),
    ("self_attention", dict(positions="rope")),
    ("self_attention", dict(positions="alibi")),
    ("self_attention", dict(positions="alibi", window=4)),
    ("sparse_attention", dict(window=4, block=3, causal=False)),
    ("sparse_attention", dict(heads=2, window=40, block=4, positions="rope", causal=False)),
    ("resolvent", {}),
    ("resolvent", dict(heads=2, gamma=0.05, positions="rope")),
    ("resolvent", dict(heads=2, gamma="learned", positions="alibi")),
    ("resolvent", dict(gamma=0.5, strict=True, causal=False)),
    ("resolvent", dict(bidirectional="fixed_point", tolerance=1e-14, causal=False)),
    ("resolvent", dict(gamma="learned", bidirectional="dense", positions="alibi", causal=False)),
    ("block_resolvent", dict(level=0, block=5, gamma="learned", positions="alibi")),
    ("block_resolvent", dict(level=1, block=4)),
    ("block_resolvent", dict(level=1, block=5, query="prev", summary="learned", gamma="learned", positions="alibi")),
    ("block_resolvent", dict(level=1, block=4, overlap=True, positions="rope", summary="learned")),
    ("block_resolvent", dict(level=1, block=3, combine="additive", overlap=True)),
    ("block_resolvent", dict(level=2, block=4, positions="alibi", gamma=0.05)),
    ("block_resolvent", dict(level=2, block=4, overlap=True, gamma="learned")),
    ("block_resolvent", dict(level=2, block=5, combine="additive", summary="learned")),
    ("block_resolvent", dict(level=1, bidirectional="fixed_point", tolerance=1e-14, causal=False)),
    ("block_resolvent", dict(level=2, bidirectional="dense", positions="alibi", gamma="learned", causal=False)),
    ("state_space", dict(state=6)),
    ("state_space", dict(state=2, heads=4, gate=False, dt_scale=0.5)),
    ("state_space", dict(state=4, hold="first")),
    ("polynomial", {}),
    ("polynomial", dict(degree=3, expansion=1, variant="coefficients", gate_heads=4, groups=2)),
    ("polynomial", dict(gate_heads=2, groups=2, gate="hardsigmoid", rope=True)),
    ("recurrence", {}),
    ("recurrence", dict(cache_efficient=True, merge="concatenate")),
    ("recurrence", dict(pattern="squares", heads=2)),
    ("recurrence", dict(pattern="squares", cache_efficient=True, coefficients="chacal", gamma=0.7)),
    ("recurrence", dict(pattern="dense")),
    ("recurrence", dict(pattern="dense", coefficients="chacal")),
    ("recurrence", dict(pattern="first_order")),
    ("recurrence", dict(pattern="order", order=3)),
    ("recurrence", dict(pattern=(1, 4, 9), heads=1)),
    ("linear_attention", {}),
    ("linear_attention", dict(features="identity", heads=2)),
    ("linear_attention", dict(decay=(0.9, 0.8, 0.7, 1.0))),
    ("linear_attention", dict(features="identity", decay=0.95)),
    ("mean_pool", {}),
    ("mean_pool", dict(hidden=5)),
]
BOTH = [(n, {**o, "causal": c}) for n, o in CASES for c in (([o["causal"]]) if "causal" in o else (True, False))]
CAUSAL = [case for case in BOTH if case[1]["causal"]]


def named(cases):
    return [pytest.param(*case, id="-".join([case[0], *(f"{k}={v}" for k, v in case[1].items())])) for case in cases]


def made(name, options, dtype=torch.float64):
    torch.manual_seed(0)
    mixer = MIXERS[name](CHANNELS, **options).double()
    with torch.no_grad():
        for parameter in mixer.parameters():  # nothing may hide behind an initial zero
            parameter.add_(0.1 * torch.randn_like(parameter))
    return mixer.to(dtype).eval()


def tokens(batch=3, n=LENGTH, dtype=torch.float64):
    return torch.randn(batch, n, CHANNELS, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(dtype)


def close(a, b, tolerance=1e-11):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name, options", named(BOTH))
def test_padding_does_not_matter(name, options):
    mixer, x, lengths = made(name, options), tokens(), torch.tensor(LENGTHS)
    mask = torch.arange(LENGTH) < lengths[:, None]
    y = mixer(torch.where(mask[..., None], x, 1e3), mask=mask)
    for i, length in enumerate(LENGTHS):
        close(y[i, :length], mixer(x[i : i + 1, :length])[0])
        assert not y[i, length:].any()


@pytest.mark.parametrize("name, options", named(BOTH))
@pytest.mark.parametrize("fill", [torch.nan, -torch.inf])
def test_padding_may_hold_anything(name, options, fill):
    """The logarithm of silence, or memory that nobody wrote."""
    mixer, x = made(name, options), tokens()
    mask = torch.arange(LENGTH) < torch.tensor(LENGTHS)[:, None]
    spoilt = torch.where(mask[..., None], x, fill).requires_grad_()
    y = mixer(spoilt, mask=mask)
    close(y, mixer(x, mask=mask))
    y.square().sum().backward()
    assert spoilt.grad.isfinite().all() and not spoilt.grad[~mask].any()
    assert all(p.grad is None or p.grad.isfinite().all() for p in mixer.parameters())
    if options["causal"] and options.get("block") != "auto":
        got, state = mixer.prefill(spoilt, mask=mask)
        close(got, y)
        close(mixer.step(x[:, 0], state)[0], mixer.step(x[:, 0], mixer.prefill(x, mask=mask)[1])[0])


@pytest.mark.parametrize("name, options", named(BOTH))
@pytest.mark.parametrize("batch, n", [(0, 5), (3, 1), (0, 0)])
def test_a_batch_may_be_empty(name, options, batch, n):
    mixer, x = made(name, options), tokens(batch, n).requires_grad_()
    y = mixer(x, mask=torch.ones(batch, n, dtype=torch.bool))
    assert y.shape == x.shape
    close(mixer(x), y)
    y.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in mixer.parameters())
    if options["causal"]:
        got, _ = mixer.prefill(x)
        close(got, y)


@pytest.mark.parametrize("name, options", named(CAUSAL))
def test_later_tokens_are_not_seen(name, options):
    mixer, x = made(name, options), tokens()
    changed = x.clone()
    changed[:, 12:] += 10.0
    close(mixer(x)[:, :12], mixer(changed)[:, :12], 1e-10)
    x.requires_grad_()
    for t in (0, 7, 16):
        (gradient,) = torch.autograd.grad(mixer(x)[:, t].sin().sum(), x)
        assert gradient[:, t + 1 :].abs().max() < 1e-12 < gradient[:, t].abs().max()


@pytest.mark.parametrize("name, options", named([case for case in BOTH if not case[1]["causal"]]))
def test_a_bidirectional_one_sees_both_sides(name, options):
    mixer, x = made(name, options), tokens().requires_grad_()
    (gradient,) = torch.autograd.grad(mixer(x)[:, 11].sin().sum(), x)
    assert gradient[:, 10].abs().max() > 1e-9 and gradient[:, 12].abs().max() > 1e-9


@pytest.mark.parametrize("name, options", named(CAUSAL))
@pytest.mark.parametrize("cuts", [(23,), (1, 22), (9, 4, 10), (16, 7)])
def test_stretches_go_on_where_the_last_ended(name, options, cuts):
    mixer, x = made(name, options), tokens()
    state, parts = None, []
    for part in x.split(cuts, dim=1):
        y, state = mixer.prefill(part, state)
        parts.append(y)
    close(torch.cat(parts, 1), mixer(x))


@pytest.mark.parametrize("name, options", named(CAUSAL))
@pytest.mark.parametrize("first", [0, 1, 13])
def test_steps_go_on_after_a_prefill(name, options, first):
    mixer, x = made(name, options), tokens()
    with torch.no_grad():
        expected = mixer(x)
        state, got = (None, []) if first == 0 else (mixer.prefill(x[:, :first])[1], [])
        for t in range(first, LENGTH):
            y, state = mixer.step(x[:, t], state)
            got.append(y)
    close(torch.stack(got, 1), expected[:, first:])


@pytest.mark.parametrize("name, options", named(CAUSAL))
def test_sequences_of_different_lengths_go_on_together(name, options):
    mixer, x, more = made(name, options), tokens(), tokens(n=9).flip(0)
    mask = torch.arange(LENGTH) < torch.tensor(LENGTHS)[:, None]
    with torch.no_grad():
        _, state = mixer.prefill(torch.where(mask[..., None], x, 1e3), mask=mask)
        stretch, state = mixer.prefill(more[:, :5], state)
        kept = copied(state)
        steps = []
        for t in range(5, 9):
            y, state = mixer.step(more[:, t], state)
            steps.append(y)
        got = torch.cat([stretch, torch.stack(steps, 1)], 1)
        for i, length in enumerate(LENGTHS):
            close(got[i], mixer(torch.cat([x[i, :length], more[i]])[None])[0, length:])
        rows = torch.tensor([2, 0])
        again, _ = mixer.step(more[rows, 5], selected(kept, rows))
        close(again, steps[0][rows])


@pytest.mark.parametrize("name, options", named(CAUSAL))
def test_gradients_through_steps_are_those_of_the_whole(name, options):
    mixer, x = made(name, options), tokens(batch=2, n=9)
    weights = torch.randn(2, 9, CHANNELS, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    whole = torch.autograd.grad((mixer(x) * weights).sum(), list(mixer.parameters()))
    y, state = mixer.prefill(x[:, :4])
    outputs = [y]
    for t in range(4, 9):
        y, state = mixer.step(x[:, t], state)
        outputs.append(y[:, None])
    stepped = torch.autograd.grad((torch.cat(outputs, 1) * weights).sum(), list(mixer.parameters()))
    for a, b in zip(whole, stepped):
        close(a, b, 1e-10)


@pytest.mark.parametrize("name, options", named(BOTH))
def test_half_precision_and_float32_follow_float64(name, options):
    exact = made(name, options)(tokens())
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 0.1)):
        y = made(name, options, dtype)(tokens(dtype=dtype))
        assert y.dtype == dtype
        assert ((y.double() - exact).norm() / exact.norm()) < tolerance


@torch.no_grad()
@pytest.mark.parametrize("name, options", named(CAUSAL))
@pytest.mark.parametrize("first", [True, False])
def test_a_state_goes_on_whether_autocast_is_on_or_not(name, options, first):
    mixer, x = made(name, options, torch.float32), tokens(dtype=torch.float32)
    expected = mixer(x)
    with torch.autocast("cpu", torch.bfloat16, enabled=first):
        _, state = mixer.prefill(x[:, :20])
    with torch.autocast("cpu", torch.bfloat16, enabled=not first):
        got = []
        for t in range(20, LENGTH):
            y, state = mixer.step(x[:, t], state)
            got.append(y.float())
    assert (torch.stack(got, 1) - expected[:, 20:]).norm() < 0.1 * expected[:, 20:].norm()


def test_errors_say_what_was_expected():
    mixer = MIXERS["self_attention"](8, causal=True)
    with pytest.raises(ValueError, match="tokens after padding"):
        mixer(tokens(1, 4, torch.float32), mask=torch.tensor([[True, False, True, True]]))
    with pytest.raises(ValueError, match=r"expected booleans \(batch, n\)"):
        mixer(tokens(1, 4, torch.float32), mask=torch.ones(1, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match="expected .*8 channels"):
        mixer(torch.zeros(1, 4, 7))
    with pytest.raises(ValueError, match="pass causal=True"):
        MIXERS["self_attention"](8).prefill(torch.zeros(1, 4, 8))
    for options in (dict(heads=3), dict(window=0), dict(positions="sine"), dict(positions="rope", heads=8)):
        with pytest.raises(ValueError):
            MIXERS["self_attention"](8, **options)
