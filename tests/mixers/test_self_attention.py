"""Attention along a sequence against the sum it is defined by."""

from __future__ import annotations

import pytest
import torch

from sciops.mixers import SelfAttention


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


def test_a_fields_rows_follow_each_other():
    mixer = SelfAttention(8).double()
    x = torch.randn(2, 4, 6, 8, dtype=torch.float64)
    torch.testing.assert_close(mixer(x), mixer(x.reshape(2, 24, 8)).reshape(x.shape), rtol=1e-12, atol=1e-12)
