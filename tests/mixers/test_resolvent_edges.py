"""Resolvents and recurrences at the rim: autocast, empty stretches and batches, caches, input that does not fit."""

from __future__ import annotations

import pytest
import torch

from sciops.mixers import MIXERS, BlockResolventAttention, StructuredRecurrence, copied
from sciops.mixers.recurrence import linked, structured
from sciops.mixers.recurrence.linked import linked_products
from sciops.mixers.recurrence.token_mixing import linked_solution
from sciops.mixers.resolvent.block_exact import exact
from sciops.mixers.resolvent.block_solve import Routes, structured_solve
from sciops.mixers.resolvent.dense import resolvent

CHANNELS = 8
CAUSAL = [
    ("resolvent", dict(gamma="learned", positions="alibi")),
    ("block_resolvent", dict(level=0, block=3)),
    ("block_resolvent", dict(level=1, block=3, overlap=True, summary="learned")),
    ("block_resolvent", dict(level=2, block=4, summary="learned")),
    ("recurrence", dict(pattern="powers")),
    ("recurrence", dict(pattern="dense")),
    ("recurrence", dict(pattern="order", order=3)),
    ("recurrence", dict(pattern="squares", cache_efficient=True)),
]
causal = pytest.mark.parametrize("name, options", [pytest.param(*c, id=f"{c[0]}-{c[1]}") for c in CAUSAL])


def made(name, options, **more):
    torch.manual_seed(0)
    return MIXERS[name](CHANNELS, **options, **more)


def drawn(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(a, b, tolerance=1e-11):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@causal
def test_decoding_takes_half_precision_under_autocast(name, options):
    """What a layer before gives under autocast is bfloat16, with parameters in float32."""
    mixer, x = made(name, options, causal=True), drawn(2, 12, CHANNELS, dtype=torch.bfloat16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        whole = mixer(x)
        first, state = mixer.prefill(x[:, :5])
        more, state = mixer.prefill(x[:, 5:11], state)
        last, state = mixer.step(x[:, 11], state)
    got = torch.cat([first, more, last[:, None]], 1)
    assert whole.dtype == got.dtype == torch.bfloat16
    close(got.float(), whole.float(), 0.03)


def solves():
    """name → (function, inputs that require gradients) of the solves that have a backward pass of their own."""
    n, d, m = 80, 3, 5
    A = drawn(1, 2, n, n).tril().masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf).softmax(-1)
    q, k, v = (drawn(1, 2, n, d, seed=s) for s in range(3))
    blocks = n // m
    tiles = A[..., :m, :m].unsqueeze(2).expand(1, 2, blocks, m, m) / 2
    far = drawn(1, 2, blocks, m, blocks, seed=4).softmax(-1) * torch.ones(blocks, blocks).tril(-1)[:, None] / 2
    weights = torch.full((1, 2, blocks, m), 1 / m, dtype=torch.float64)
    links = (torch.arange(n)[:, None] - torch.tensor([1, 2, 40])).clamp(min=-1)
    p = drawn(1, 2, n, 3, seed=5).softmax(-1) / 2

    def structured(tiles, far, v):
        return structured_solve(Routes(tiles, None, far, None, weights.float()), v, 0.9, "lower")

    return {
        "resolvent": (lambda A, v: resolvent(A, v, 0.9, "lower"), (A, v)),
        "exact": (lambda q, k, v: exact(q, k, v, 0.9, block=7), (q, k, v)),
        "structured": (structured, (tiles, far, v.unflatten(2, (blocks, m)))),
        "links": (lambda p, v: linked_solution(p[..., 0], p, links, v), (p, v)),
        "few links": (lambda p, v: linked_solution(p[..., 0], p, links[:40], v), (p[:, :, :40], v[:, :, :40])),
        "products": (lambda q, k: linked_products(q, k, links), (q, k)),
        "few products": (lambda q, k: linked_products(q, k, links[:9]), (q[:, :, :9], k[:, :, :9])),
    }


@pytest.mark.parametrize("name", solves())
def test_a_backward_pass_inside_autocast_is_in_full_precision(name):
    function, inputs = solves()[name]
    inputs = [z.detach().float().requires_grad_() for z in inputs]
    y = function(*inputs)
    of_y = torch.randn(y.shape, generator=torch.Generator().manual_seed(6))
    plain = torch.autograd.grad(y, inputs, of_y, retain_graph=True)
    with torch.autocast("cpu", torch.bfloat16):
        inside = torch.autograd.grad(y, inputs, of_y)
    for a, b in zip(inside, plain):
        assert torch.equal(a, b)


@pytest.mark.parametrize("shape", [(3, 20, CHANNELS), (3, 4, 5, CHANNELS)])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_outputs_under_autocast_are_in_half_precision(level, shape):
    """With blocks that belong to lengths of their own, and on tiles, where outputs are put into an order again."""
    mixer, x = made("block_resolvent", dict(level=level)), drawn(*shape, dtype=torch.float32)
    mask = None if len(shape) > 3 else torch.arange(20) < torch.tensor([[20], [9], [3]])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        y = mixer(x, mask=mask)
    assert y.dtype == torch.bfloat16
    with torch.no_grad():
        close(y.float(), mixer(x, mask=mask), 0.03)


@pytest.mark.parametrize("level, expected", [(0, [(5, 60)]), (1, [(1, 60), (2, 9), (2, 3)])])
def test_every_block_size_is_one_call_and_no_longer_than_its_sequences(level, expected, monkeypatch):
    x, mask = drawn(5, 60, CHANNELS), torch.arange(60) < torch.tensor([[60], [9], [3], [8], [0]])
    mixer, calls = made("block_resolvent", dict(level=level, causal=True)).double(), []
    plain = mixer._mixed
    monkeypatch.setattr(mixer, "_mixed", lambda x, *rest: calls.append(tuple(x.shape[:2])) or plain(x, *rest))
    y = mixer(x, mask=mask)
    assert calls == expected
    for i, length in enumerate(mask.sum(1).tolist()[:4]):
        close(y[i, :length], mixer(x[i : i + 1, :length])[0])
    assert not y[~mask].any()


@causal
def test_a_stretch_may_be_empty(name, options):
    mixer, x = made(name, options, causal=True).double(), drawn(2, 9, CHANNELS)
    whole, state, parts = mixer(x), None, []
    for stretch in x.split([0, 4, 0, 5], 1):
        y, state = mixer.prefill(stretch, state)
        parts.append(y)
    close(torch.cat(parts, 1), whole)
    _, state = mixer.prefill(x[:, :0])
    with torch.no_grad():
        for t in range(9):
            y, state = mixer.step(x[:, t], state)
            close(y, whole[:, t])


@causal
@pytest.mark.parametrize("direction", [True, False])
def test_a_batch_may_be_empty(name, options, direction):
    mixer, x = made(name, options, causal=direction).double(), drawn(0, 9, CHANNELS)
    assert mixer(x).shape == mixer(x, mask=torch.ones(0, 9, dtype=torch.bool)).shape == (0, 9, CHANNELS)
    if direction:
        _, state = mixer.prefill(x[:, :5])
        y, state = mixer.prefill(x[:, 5:8], state)
        assert y.shape == (0, 3, CHANNELS) and mixer.step(x[:, 8], state)[0].shape == (0, CHANNELS)


@pytest.mark.parametrize("coefficients", ["softmax", "chacal"])
def test_a_dense_recurrence_goes_on_without_a_loop_over_tokens(coefficients, monkeypatch):
    """From caches of different lengths, in one product: no column of links is gathered on its own."""
    mixer = made("recurrence", dict(pattern="dense", coefficients=coefficients, causal=True)).double()
    torch.nn.init.normal_(mixer.biases)
    x, more, lengths = drawn(3, 140, CHANNELS), drawn(3, 70, CHANNELS, seed=2), (140, 1, 90)
    mask = torch.arange(140) < torch.tensor(lengths)[:, None]
    _, state = mixer.prefill(torch.where(mask[..., None], x, 1e3), mask=mask)
    calls, gather = [], linked.gathered
    for module in (linked, structured):
        monkeypatch.setattr(module, "gathered", lambda *args: calls.append(args) or gather(*args))
    y, after = mixer.prefill(more, copied(state))
    assert not calls
    for i, length in enumerate(lengths):
        close(y[i], mixer(torch.cat([x[i, :length], more[i]])[None])[0, length:])
    with torch.no_grad():
        last, _ = mixer.step(more[:, 0], state)
    assert len(calls) == 2  # keys and outputs, once each
    close(last, y[:, 0])


def test_a_first_stretch_at_level_0_makes_no_matrix():
    mixer, x, sizes = made("block_resolvent", dict(level=0, block=8, causal=True)), torch.randn(1, 256, CHANNELS), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
        mixer.prefill(x)
    assert max(sizes) < 256 * 256


@causal
def test_tokens_that_do_not_fit_are_named(name, options):
    mixer, x = made(name, options, causal=True), drawn(3, 6, CHANNELS, dtype=torch.float32)
    _, state = mixer.prefill(x)
    with pytest.raises(ValueError, match=r"\(3, 6, 8\); expected one token of every sequence, \(batch, 8 channels\)"):
        mixer.step(x, state)
    with pytest.raises(ValueError, match="expected one token"):
        mixer.step(x)
    with pytest.raises(ValueError, match="expected one token"):
        mixer.step(x[:, 0, :4], state)
    with pytest.raises(ValueError, match=r"expected a segment \(batch, n, 8 channels\)"):
        mixer.prefill(x.reshape(3, 2, 3, CHANNELS), state)
    for call in (lambda: mixer.step(x[:2, 0], state), lambda: mixer.prefill(x[:2], state)):
        with pytest.raises(ValueError, match="x has 2 sequences, the state 3: .*`selected`"):
            call()


def test_options_of_the_wrong_kind_are_refused():
    for block in (2.5, None, "8"):
        with pytest.raises(ValueError, match="block=.*: expected a positive whole number of tokens or 'auto'"):
            BlockResolventAttention(8, block=block)
    for pattern in ((1.5, 2.5), 3, ("a",)):
        with pytest.raises(ValueError, match="pattern=.*: expected rising whole offsets"):
            StructuredRecurrence(8, pattern=pattern)
    with pytest.raises(ValueError, match="order=2.5: expected a whole number"):
        StructuredRecurrence(8, pattern="order", order=2.5)
    with pytest.raises(ValueError, match="block=8 for 512 tokens; the weights are the same"):
        BlockResolventAttention(8, causal=True).prefill(torch.zeros(1, 3, 8))
