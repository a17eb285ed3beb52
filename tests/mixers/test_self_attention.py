"""Attention along a sequence against the sum it is defined by."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sciops.mixers import SelfAttention, copied


def naive(mixer, x):
    """Token by token, pair by pair, in complex numbers for the turns."""
    heads, d = mixer.heads, mixer.channels // mixer.heads
    out = torch.zeros_like(x)
    for b in range(x.shape[0]):
        q, k, v = (mixer.qkv.weight @ x[b].T).T.reshape(-1, 3, heads, d).unbind(1)
        merged = torch.zeros(x.shape[1], heads, d, dtype=x.dtype)
        for h in range(heads):
            for i in range(x.shape[1]):
                scores, values = [], []
                for j in range(x.shape[1]):
                    if (mixer.causal and j > i) or (mixer.window is not None and abs(i - j) >= mixer.window):
                        continue
                    score = q[i, h] @ k[j, h]
                    if mixer.positions == "rope":
                        turn = 10_000.0 ** (-torch.arange(d // 2, dtype=torch.float64) / (d // 2))
                        zq, zk = (torch.complex(z[: d // 2], z[d // 2 :]) for z in (q[i, h], k[j, h]))
                        score = (zq * zk.conj() * torch.exp(1j * turn * (i - j))).sum().real
                    score = score / d**0.5
                    if mixer.positions == "alibi":
                        score = score - 2.0 ** (-8 * (h + 1) / heads) * abs(i - j)
                    scores.append(score)
                    values.append(v[j, h])
                merged[i, h] = torch.stack(scores).softmax(0) @ torch.stack(values)
        out[b] = merged.flatten(1) @ mixer.out.weight.T + mixer.out.bias
    return out


@pytest.mark.parametrize("positions", ["none", "rope", "alibi"])
@pytest.mark.parametrize("window", [None, 1, 3, 11, 30])
@pytest.mark.parametrize("causal", [True, False])
def test_it_is_the_sum_it_is_defined_by(positions, window, causal):
    torch.manual_seed(0)
    mixer = SelfAttention(8, heads=2, causal=causal, window=window, positions=positions).double()
    x = torch.randn(2, 12, 8, dtype=torch.float64)
    torch.testing.assert_close(mixer(x), naive(mixer, x), rtol=1e-12, atol=1e-12)


def test_a_windows_state_does_not_grow():
    mixer = SelfAttention(8, causal=True, window=5)
    with torch.no_grad():
        _, state = mixer.prefill(torch.randn(2, 40, 8))
        for _ in range(7):
            _, state = mixer.step(torch.randn(2, 8), state)
    assert state.keys.shape == state.values.shape == (2, 4, 4, 2)


@pytest.mark.parametrize("positions", ["none", "rope", "alibi"])
@pytest.mark.parametrize("cuts", [(3, 20), (1, 9, 13), (12, 11)])
def test_long_stretches_of_a_window_go_on_in_blocks(positions, cuts):
    mixer = SelfAttention(8, heads=2, causal=True, window=4, positions=positions).double()
    x, mask = torch.randn(2, 23, 8, dtype=torch.float64), torch.arange(cuts[0]) < torch.tensor([cuts[0], 1])[:, None]
    with torch.no_grad():
        whole = mixer(x[:1]), mixer(torch.cat([x[1:, :1], x[1:, cuts[0] :]], 1))
        state, parts = mixer.prefill(x[:, : cuts[0]], mask=mask)[1], []
        for part in x[:, cuts[0] :].split(cuts[1:], 1):
            y, state = mixer.prefill(part, state)
            parts.append(y)
    got = torch.cat(parts, 1)
    for i, expected in enumerate(whole):
        torch.testing.assert_close(got[i], expected[0, -got.shape[1] :], rtol=1e-12, atol=1e-12)


class _Largest(TorchDispatchMode):
    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.numbers = max(self.numbers, out.untyped_storage().nbytes() // out.element_size())
        return out


@torch.no_grad()
@pytest.mark.parametrize("window", [None, 8])
def test_no_table_of_pairs_is_made(window):
    """By the fused kernel, whole or in blocks, forward, under padding and in a first stretch."""
    n, x = 1024, torch.randn(2, 1024, 8)
    mask = torch.arange(n) < torch.tensor([[n], [n // 2]])
    causal, both = (SelfAttention(8, heads=2, causal=c, window=window) for c in (True, False))
    state = causal.prefill(x[:, :16])[1]
    calls = [
        lambda: causal(x, mask=mask),
        lambda: both(x, mask=mask),
        lambda: causal.prefill(x, mask=mask),
        lambda: causal.prefill(x[:, 16:], copied(state)),
    ]
    for call in calls if window else calls[:3]:
        with _Largest() as largest:
            call()
        assert largest.numbers <= 2 * n * (3 * 8 if window is None else 3 * window * 2)


def test_a_fields_rows_follow_each_other():
    mixer = SelfAttention(8).double()
    x = torch.randn(2, 4, 6, 8, dtype=torch.float64)
    torch.testing.assert_close(mixer(x), mixer(x.reshape(2, 24, 8)).reshape(x.shape), rtol=1e-12, atol=1e-12)
