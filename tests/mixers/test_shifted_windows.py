"""Shifted windows against dense masked attention, Swin's roll with its mask, relative bias in loops."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from test_window_attention import random_

from sciops.mixers import MultipoleAttention, WindowAttention
from sciops.mixers.windows import window as window_module
from sciops.mixers.windows.cpu import sampling

EXTRAS = [
    {},
    {"qkv_bias": True},
    {"relative": "table"},
    {"relative": "continuous", "relative_window": 7},
    {"cosine": True, "qkv_bias": True, "relative": "continuous"},
]


def heads_of(layer: WindowAttention, x: torch.Tensor):
    """(q, k, v) of points (n, channels), each (heads, n, d), and the scale of the scores."""
    if isinstance(layer.norm, torch.nn.LayerNorm):
        x = F.layer_norm(x, (layer.channels,), layer.norm.weight, layer.norm.bias)
    q, k, v = (x @ w.t() for w in layer.qkv.weight.chunk(3))
    if layer.qv_bias is not None:
        q, v = q + layer.qv_bias[0], v + layer.qv_bias[1]
    q, k, v = (z.view(len(x), layer.heads, -1).movedim(1, 0) for z in (q, k, v))
    if not layer.cosine:
        return q, k, v, q.shape[-1] ** -0.5
    q, k = (z / z.norm(dim=-1, keepdim=True) for z in (q, k))
    return q, k, v, layer.log_scale.clamp(max=math.log(100)).exp()


def offset_bias(layer: WindowAttention, offset: tuple[int, ...]) -> torch.Tensor:
    """What the heads add for one offset."""
    if layer.relative is None:
        return torch.zeros(layer.heads, dtype=torch.float64)
    w, part = layer.window, layer.relative
    if hasattr(part, "table"):
        row = 0
        for o in offset:
            row = row * (2 * w - 1) + o + w - 1
        return part.table[row]
    scaled = [math.copysign(math.log2(1 + 8 * abs(o) / max(part.reference - 1, 1)) / math.log2(8), o) for o in offset]
    hidden = torch.relu(part.hidden(torch.tensor(scaled, dtype=torch.float64)))
    return 16 * torch.sigmoid(part.to_heads(hidden))


def dense(layer: WindowAttention, x: torch.Tensor) -> torch.Tensor:
    """Attention among all cells, with −∞ for pairs that are in different windows."""
    sizes, s, w = x.shape[1:-1], layer.shift, layer.window
    cells = list(itertools.product(*(range(n) for n in sizes)))
    moves = [w - s if s and n > w else 0 for n in sizes]
    window = [tuple((i + m) // w if n > w else 0 for i, m, n in zip(c, moves, sizes)) for c in cells]
    n = len(cells)
    added = torch.full((layer.heads, n, n), -math.inf, dtype=x.dtype)
    for t, u in itertools.product(range(n), range(n)):
        if window[t] == window[u]:
            added[:, t, u] = offset_bias(layer, tuple(a - b for a, b in zip(cells[t], cells[u])))
    results = []
    for sample in x:
        q, k, v, scale = heads_of(layer, sample.reshape(n, -1))
        p = (q @ k.mT * scale + added).softmax(-1)
        results.append(layer.out((p @ v).movedim(0, 1).reshape(n, -1)).view(sample.shape))
    return torch.stack(results)


def rolled(layer: WindowAttention, x: torch.Tensor) -> torch.Tensor:
    """Swin's way in two dimensions: pad, roll, cut, mask regions (and what is padded), attend, roll back, crop."""
    s, w = layer.shift, layer.window
    b, height, width, channels = x.shape
    y = F.pad(layer.norm(x), (0, 0, 0, -width % w, 0, -height % w))
    h_all, w_all = y.shape[1:3]
    region = torch.zeros(h_all, w_all)
    for i, rows in enumerate((slice(0, -w), slice(-w, -s), slice(-s, None))):
        for j, columns in enumerate((slice(0, -w), slice(-w, -s), slice(-s, None))):
            region[rows, columns] = 3 * i + j
    exists = torch.zeros(h_all, w_all)
    exists[:height, :width] = 1

    def cut(z: torch.Tensor) -> torch.Tensor:
        z = z.view(-1, h_all // w, w, w_all // w, w, z.shape[-1])
        return z.transpose(2, 3).reshape(-1, w * w, z.shape[-1])

    region, exists = cut(region[None, ..., None])[..., 0], cut(exists.roll((-s, -s), (0, 1))[None, ..., None])[..., 0]
    allowed = (region[:, :, None] == region[:, None]) & (exists[:, None] > 0)
    allowed |= torch.eye(w * w, dtype=torch.bool)  # rows of padded cells must not be empty
    z = cut(y.roll((-s, -s), (1, 2)))
    q, k, v = layer.qkv(z).unflatten(-1, (3, layer.heads, -1)).permute(2, 0, 3, 1, 4)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    p = scores.masked_fill(~allowed.repeat(b, 1, 1)[:, None], -math.inf).softmax(-1)
    z = layer.out((p @ v).transpose(1, 2).reshape(z.shape))
    z = z.view(b, h_all // w, w_all // w, w, w, channels).transpose(2, 3).reshape(b, h_all, w_all, channels)
    return z.roll((s, s), (1, 2))[:, :height, :width]


@pytest.mark.parametrize("extra", EXTRAS, ids=str)
@pytest.mark.parametrize(
    "sizes, window, shift",
    [((8, 8), 4, 2), ((7, 5), 3, 1), ((9, 6), 4, 3), ((3, 9), 4, 2), ((3, 2), 4, 2), ((6, 7), 4, 0)],
)
def test_equals_dense_masked_attention(sizes, window, shift, extra):
    layer = random_(WindowAttention(6, heads=3, window=window, shift=shift, **extra))
    x = torch.randn(2, *sizes, 6, dtype=torch.float64, requires_grad=True)
    g = torch.randn(x.shape, dtype=torch.float64)
    ours, expected = layer(x), dense(layer, x)
    assert (ours - expected).abs().max() < 1e-12
    variables = [x, *layer.parameters()]
    for a, b in zip(torch.autograd.grad(ours, variables, g), torch.autograd.grad(expected, variables, g)):
        assert (a - b).abs().max() < 1e-10


@pytest.mark.parametrize("sizes, axes", [((13,), 1), ((4, 5, 3), 3)])
def test_one_and_three_axes(sizes, axes):
    for extra in ({}, {"relative": "table"}, {"relative": "continuous"}):
        layer = random_(WindowAttention(4, heads=2, window=3, shift=1, axes=axes, **extra))
        x = torch.randn(1, *sizes, 4, dtype=torch.float64)
        assert (layer(x) - dense(layer, x)).abs().max() < 1e-12


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("sizes, window, shift", [((8, 12), 4, 2), ((9, 14), 4, 1), ((7, 10), 3, 2), ((17, 31), 5, 2)])
def test_equals_the_cyclic_shift_with_its_mask(sizes, window, shift, norm):
    layer = random_(WindowAttention(6, heads=3, window=window, shift=shift, norm=norm))
    if norm:
        torch.nn.init.zeros_(layer.norm.bias)
    x = torch.randn(2, *sizes, 6, dtype=torch.float64)
    assert (layer(x) - rolled(layer, x)).abs().max() < 1e-12


@pytest.mark.parametrize("count", [1, 40, 100, 10**9])
@pytest.mark.parametrize(
    "batch, sizes, window, shift", [(3, (9, 14), 3, 1), (2, (12, 5), 4, 3), (5, (8, 8), 2, 1), (2, (19,), 4, 2)]
)
def test_any_band_gives_the_same(monkeypatch, count, batch, sizes, window, shift):
    layer = random_(WindowAttention(6, heads=3, window=window, shift=shift))
    x = torch.randn(batch, *sizes, 6, dtype=torch.float64, requires_grad=True)
    variables, g = [x, *layer.parameters()], torch.randn(x.shape, dtype=torch.float64)
    expected = dense(layer, x)
    whole = torch.autograd.grad(expected, variables, g)
    for module in (window_module, sampling):
        monkeypatch.setattr(module, "cells_in_cache", lambda: count)
    for recompute in (False, True):
        layer.recompute = recompute
        y = layer(x)
        assert (y - expected).abs().max() < 1e-12
        for a, b in zip(torch.autograd.grad(y, variables, g), whole):
            assert (a - b).abs().max() < 1e-11


@pytest.mark.parametrize("extra", EXTRAS[1:], ids=str)
def test_recomputing_changes_no_gradient(extra):
    layer = random_(WindowAttention(6, heads=3, window=4, shift=2, **extra))
    x = torch.randn(2, 9, 7, 6, dtype=torch.float64, requires_grad=True)
    variables, g = [x, *layer.parameters()], torch.randn(x.shape, dtype=torch.float64)
    expected = torch.autograd.grad(layer(x), variables, g)
    layer.recompute = True
    for a, b in zip(torch.autograd.grad(layer(x), variables, g), expected):
        assert (a - b).abs().max() < 1e-13


def test_the_shift_lets_neighbours_across_a_border_meet_but_not_opposite_borders():
    x = torch.randn(1, 8, 8, 4, dtype=torch.float64, requires_grad=True)
    for shift, reach in ((0, slice(0, 4)), (2, slice(2, 6))):
        layer = random_(WindowAttention(4, heads=2, window=4, shift=shift))
        (g,) = torch.autograd.grad(layer(x)[0, 3, 3].square().sum(), x)
        expected = torch.zeros(8, 8, dtype=torch.bool)
        expected[reach, reach] = True
        assert torch.equal(g[0].abs().sum(-1) > 0, expected)
    (g,) = torch.autograd.grad(layer(x)[0, 0, 0].square().sum(), x)
    assert (g[0].abs().sum(-1) > 0).nonzero().max() == 1


@pytest.mark.parametrize("extra", EXTRAS, ids=str)
def test_a_pyramid_of_shifted_windows_is_the_merge_of_its_levels(extra):
    layer = random_(MultipoleAttention(6, heads=3, window=3, shift=1, **extra))
    x = torch.randn(2, 10, 7, 6, dtype=torch.float64)
    fields = [x]
    while max(fields[-1].shape[1:-1]) > 3:
        z = F.pad(fields[-1], (0, 0, 0, fields[-1].shape[2] % 2, 0, fields[-1].shape[1] % 2))
        fields.append(F.conv2d(z.movedim(-1, 1), layer.down, stride=2).movedim(1, -1))
    r = dense(layer.attention, fields[-1])
    for field in reversed(fields[:-1]):
        up = F.conv_transpose2d(r.movedim(-1, 1), layer.up, stride=2).movedim(1, -1)
        r = dense(layer.attention, field) + up[:, : field.shape[1], : field.shape[2]]
    assert (layer(x) - r).abs().max() < 1e-11


def test_second_derivatives_of_shifted_windows():
    layer = random_(WindowAttention(4, heads=2, window=3, shift=1))
    x = torch.randn(1, 5, 4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(layer, x, fast_mode=True)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="shift=4"):
        WindowAttention(8, window=4, shift=4)
    with pytest.raises(ValueError, match="windows overlap"):
        WindowAttention(8, window=4, stride=2, shift=1)
    with pytest.raises(ValueError, match="relative='bias'"):
        WindowAttention(8, relative="bias")
    with pytest.raises(ValueError, match="relative_window=3"):
        WindowAttention(8, relative="table", relative_window=3)
    with pytest.raises(ValueError, match="pass axes=1"):
        WindowAttention(8, relative="table")(torch.randn(1, 9, 8))
