"""Sparse attention against a dense float64 softmax over the keys that a token may read."""

from __future__ import annotations

import pytest
import torch

from sciops.mixers import SelfAttention, SparseAttention
from sciops.mixers.sequence import sparse_attention
from sciops.mixers.sequence.self_attention import rotated

C = 8


def made(**options):
    torch.manual_seed(2)
    mixer = SparseAttention(C, **{"heads": 2, "window": 4, "block": 3} | options).double()
    with torch.no_grad():
        mixer.summary.add_(0.3 * torch.randn(C))
        mixer.qkv.weight.mul_(2.0)
    return mixer


def dense(mixer, x):
    """Of one sequence (n, C), token by token from the formula."""
    n, h, b = len(x), mixer.heads, mixer.block
    q, k, v = mixer.qkv(x).unflatten(-1, (3, h, -1)).unbind(1)
    means = torch.stack([x[s : s + b].mean(0) for s in range(0, n, b)])
    means = mixer.summary * means / (means.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    centres = torch.tensor([(s + min(s + b, n) - 1) / 2 for s in range(0, n, b)], dtype=torch.float64)
    _, gk, gv = mixer.qkv(means).unflatten(-1, (3, h, -1)).unbind(1)
    if mixer.positions == "rope":
        at = torch.arange(n)
        q, k, gk = rotated(q[None], at)[0], rotated(k[None], at)[0], rotated(gk[None], centres)[0]
    rows = []
    for i in range(n):
        near = slice(max(0, i - mixer.window + 1), i + mixer.window)
        keys, values = torch.cat([k[near], gk]), torch.cat([v[near], gv])
        weights = (torch.einsum("hd,jhd->hj", q[i], keys) / (C // h) ** 0.5).softmax(-1)
        rows.append(torch.einsum("hj,jhd->hd", weights, values).flatten())
    return mixer.out(torch.stack(rows))


@pytest.mark.parametrize("positions", ["none", "rope"])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("n", [1, 3, 4, 9, 12, 41])
def test_it_is_a_softmax_over_the_window_and_the_means(n, recompute, positions, monkeypatch):
    monkeypatch.setattr(
        sparse_attention, "_AT_ONCE", {"cpu": 600, "cuda": 600}
    )  # several pieces, of windows of either kind
    mixer = made(positions=positions, recompute=recompute)
    x = torch.randn(2, n, C, dtype=torch.float64, requires_grad=True)
    reference = torch.stack([dense(mixer, one) for one in x])
    y = mixer(x)
    assert (y - reference).abs().max() < 1e-12
    g = torch.randn_like(y)
    inputs = [x, *mixer.parameters()]
    for ours, theirs in zip(torch.autograd.grad(y, inputs, g), torch.autograd.grad(reference, inputs, g)):
        assert (ours - theirs).abs().max() < 1e-11


def test_padding_takes_no_part(monkeypatch):
    monkeypatch.setattr(sparse_attention, "_AT_ONCE", {"cpu": 600, "cuda": 600})
    mixer, lengths = made(positions="rope"), (23, 1, 14)
    x = torch.randn(3, 23, C, dtype=torch.float64)
    mask = torch.arange(23) < torch.tensor(lengths)[:, None]
    y = mixer(x.masked_fill(~mask.unsqueeze(-1), torch.nan), mask=mask)
    for row, length in enumerate(lengths):
        assert (y[row, :length] - dense(mixer, x[row, :length])).abs().max() < 1e-12


def test_a_distant_token_is_seen_through_its_mean_alone():
    mixer = made()
    x = torch.randn(1, 40, C, dtype=torch.float64)
    moved = x.clone()
    moved[0, 30], moved[0, 31] = x[0, 31], x[0, 30]  # in one block of 3: the mean stays
    assert (mixer(moved) - mixer(x))[0, :25].abs().max() < 1e-13
    moved[0, 31] += 1
    assert (mixer(moved) - mixer(x))[0, 0].abs().max() > 1e-5


def test_with_a_window_over_all_tokens_only_the_means_are_added():
    """Their keys and values are those of attention when every block is one token and the norm is undone."""
    mixer = made(window=64, block=64, heads=1)
    plain = SelfAttention(C, heads=1).double()
    plain.load_state_dict({k: v for k, v in mixer.state_dict().items() if k != "summary"})
    x = torch.randn(1, 20, C, dtype=torch.float64)
    mixer.qkv.register_forward_hook(lambda _, args, y: torch.full_like(y, -1e4) if args[0].shape[1] == 1 else y)
    x = x.abs()  # with positive queries the key −10⁴ of the mean has no weight
    with torch.no_grad():
        for one in (mixer, plain):
            one.qkv.weight[:C] = one.qkv.weight[:C].abs()
    assert (mixer(x) - plain(x)).abs().max() < 1e-12


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(causal=True), "causal=True: means of blocks"),
        (dict(window=0), "window=0, block=3"),
        (dict(positions="alibi"), "positions='alibi': expected"),
        (dict(heads=3), "heads=3 do not divide"),
    ],
)
def test_what_does_not_exist_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        made(**options)
