"""Attention in windows against loops in float64, torch's own attention, and bookkeeping identities."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from sciops.mixers import FullAttention, MultipoleAttention, WindowAttention
from sciops.mixers.windows.cpu.across_windows import small_attention, small_attention_gradient
from sciops.mixers.windows.tiling import Tiling


def attend(layer: WindowAttention, points: torch.Tensor) -> torch.Tensor:
    """Attention among the rows of points (n, channels), head by head."""
    x = F.layer_norm(points, (layer.channels,), layer.norm.weight, layer.norm.bias)
    q, k, v = (x @ w.t() for w in layer.qkv.weight.chunk(3))
    d = layer.channels // layer.heads
    heads = []
    for h in range(layer.heads):
        part = slice(h * d, (h + 1) * d)
        p = (q[:, part] @ k[:, part].t() / d**0.5).softmax(-1)
        heads.append(p @ v[:, part])
    return torch.cat(heads, -1) @ layer.out.weight.t() + layer.out.bias


def windowed(layer: WindowAttention, x: torch.Tensor) -> torch.Tensor:
    """Loops over batch and windows; only cells that exist take part; overlaps are averaged."""
    result, hits = torch.zeros_like(x), torch.zeros_like(x)
    sizes = x.shape[1:-1]
    starts = []
    for n in sizes:
        here = [0]
        while here[-1] + layer.window < n:
            here.append(here[-1] + layer.stride)
        starts.append(here)
    for b in range(x.shape[0]):
        for corner in itertools.product(*starts):
            window = (b, *(slice(s, s + layer.window) for s in corner))
            block = x[window]
            result[window] += attend(layer, block.reshape(-1, layer.channels)).reshape(block.shape)
            hits[window] += 1
    return result / hits


def random_(layer, seed: int = 0):
    """All parameters random, so that no term is hidden by its starting value."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) / max(p.shape[-1], 1) ** 0.5)
    return layer.double()


CASES = [
    ((8, 8), 2, 2),
    ((8, 8), 4, 4),
    ((7, 9), 2, 2),
    ((7, 9), 3, 3),
    ((10, 6), 4, 2),
    ((10, 7), 4, 3),
    ((9, 8), 3, 1),
    ((11, 5), 6, 6),  # more tokens than the kernel across windows takes, with masked keys
    ((12, 10), 6, 5),
    ((3, 9), 5, 4),  # one axis shorter than the window
    ((13,), 4, 4),
    ((13,), 5, 2),
    ((4, 5, 3), 2, 2),
    ((5, 3, 4), 3, 2),
]


@pytest.mark.parametrize("sizes, window, stride", CASES)
def test_equals_loops_over_windows(sizes, window, stride):
    layer = random_(WindowAttention(6, heads=3, window=window, stride=stride))
    x = torch.randn(2, *sizes, 6, dtype=torch.float64)
    assert (layer(x) - windowed(layer, x)).abs().max() < 1e-12


@pytest.mark.parametrize("sizes, window, stride", CASES)
def test_gradients_equal_those_of_the_loops(sizes, window, stride):
    layer = random_(WindowAttention(6, heads=3, window=window, stride=stride))
    x = torch.randn(2, *sizes, 6, dtype=torch.float64, requires_grad=True)
    g = torch.randn(2, *sizes, 6, dtype=torch.float64)
    variables = [x, *layer.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad(layer(x), variables, g), torch.autograd.grad(windowed(layer, x), variables, g)
    ):
        assert (ours - theirs).abs().max() < 1e-11


@pytest.mark.parametrize("sizes", [(4, 4), (5, 7), (9,), (2, 3, 4)])
@pytest.mark.parametrize("make", [FullAttention, lambda c, heads: WindowAttention(c, heads=heads, window=9)])
def test_one_window_equals_multihead_attention(sizes, make):
    torch.manual_seed(0)
    layer = random_(make(8, heads=2))
    theirs = torch.nn.MultiheadAttention(8, 2, bias=True, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(layer.qkv.weight)
        theirs.in_proj_bias.zero_()
        theirs.out_proj.weight.copy_(layer.out.weight)
        theirs.out_proj.bias.copy_(layer.out.bias)
    x = torch.randn(3, *sizes, 8, dtype=torch.float64)
    flat = layer.norm(x).reshape(3, -1, 8)
    expected = theirs(flat, flat, flat, need_weights=False)[0].reshape(x.shape)
    assert (layer(x) - expected).abs().max() < 1e-12


@pytest.mark.parametrize("sizes, window, stride", CASES)
@pytest.mark.parametrize("token_first", [False, True])
def test_cutting_and_joining_returns_every_cell(sizes, window, stride, token_first):
    """Cells carry their own position; with the identity in between they come home, also under overlap."""
    tiles = Tiling(sizes, window, stride)
    axes = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in sizes), indexing="ij")
    x = torch.stack([torch.stack(axes, -1), -torch.stack(axes, -1) - 1])
    cut = tiles.cut(x, token_first)
    assert (tiles.join(cut, token_first) - x).abs().max() < 1e-12
    windows = cut.movedim(0, 1) if token_first else cut
    for w in windows:
        real = w[(w != 0).any(-1)] if (w != 0).any() else w
        spread = real.max(0).values - real.min(0).values
        assert (spread < window).all()  # the cells of a window are neighbours


def test_every_cell_reaches_its_window_and_no_other():
    layer = random_(WindowAttention(4, heads=2, window=3))
    x = torch.randn(1, 8, 7, 4, dtype=torch.float64, requires_grad=True)
    for i, j in ((0, 0), (4, 5), (7, 6)):
        (g,) = torch.autograd.grad(layer(x)[0, i, j].square().sum(), x)
        seen = g[0].abs().sum(-1) > 0
        expected = torch.zeros(8, 7, dtype=torch.bool)
        expected[i // 3 * 3 : i // 3 * 3 + 3, j // 3 * 3 : j // 3 * 3 + 3] = True
        assert torch.equal(seen, expected)


@pytest.mark.parametrize("with_mask", [False, True])
def test_the_kernel_across_windows_equals_the_fused_one(with_mask):
    torch.manual_seed(0)
    heads, d, tokens, windows = 2, 3, 5, 4
    qkv = torch.randn(3, heads, d, tokens, windows, dtype=torch.float64, requires_grad=True)
    mask = None
    if with_mask:
        mask = torch.zeros(tokens, windows, dtype=torch.float64)
        mask[3:, 1] = -torch.inf
        mask[1:, 2] = -torch.inf
    q, k, v = qkv.permute(0, 4, 1, 3, 2)
    bias = None if mask is None else mask.t()[:, None, None, :]
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=bias).permute(1, 3, 2, 0)
    result, p = small_attention(qkv.detach(), mask)
    assert (result - expected).abs().max() < 1e-14
    g = torch.randn_like(expected)
    (theirs,) = torch.autograd.grad(expected, qkv, g)
    ours = small_attention_gradient(qkv.detach(), p, g, torch.empty_like(qkv))
    assert (ours - theirs).abs().max() < 1e-14


def test_large_scores_do_not_overflow():
    qkv = 100 * torch.randn(3, 1, 4, 4, 6)
    result, _ = small_attention(qkv, None)
    # softmax weights are a partition of unity: results stay inside the hull of the values
    values = qkv[2]
    assert torch.isfinite(result).all()
    assert (result <= values.max(2, keepdim=True).values + 1e-3).all()
    assert (result >= values.min(2, keepdim=True).values - 1e-3).all()


@pytest.mark.parametrize("make", [WindowAttention, MultipoleAttention, FullAttention])
def test_autocast_stays_close_to_float32(make):
    torch.manual_seed(0)
    layer = make(8, heads=2)
    x = torch.randn(2, 9, 8, 8, requires_grad=True)
    expected = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = layer(x)
    assert (result - expected).norm() < 0.02 * expected.norm()
    result.float().sum().backward()
    assert torch.isfinite(x.grad).all()


def test_inference_then_training():
    layer = random_(WindowAttention(4, heads=2, window=3, stride=2))
    x = torch.randn(1, 10, 11, 4, dtype=torch.float64)
    with torch.inference_mode():
        expected = layer(x)
    x.requires_grad_()
    result = layer(x)
    result.sum().backward()
    assert torch.equal(result.detach(), expected.clone())


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="heads=3 do not divide channels=8"):
        WindowAttention(8, heads=3)
    with pytest.raises(ValueError, match="stride=3"):
        WindowAttention(8, window=2, stride=3)
    with pytest.raises(ValueError, match="8 channels"):
        WindowAttention(8)(torch.randn(1, 4, 4, 6))
    with pytest.raises(ValueError, match="pass axes=1"):
        MultipoleAttention(8)(torch.randn(1, 16, 8))
    for options in ({"aggregate": "mean"}, {"sampler": "max"}, {"rate": 1}, {"levels": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            MultipoleAttention(8, **options)


@pytest.mark.gpu
@pytest.mark.parametrize("make", [WindowAttention, MultipoleAttention, FullAttention])
def test_same_on_the_gpu(make):
    layer = random_(make(8, heads=2))
    x = torch.randn(2, 9, 12, 8, dtype=torch.float64)
    expected = layer(x)
    assert (layer.cuda()(x.cuda()).cpu() - expected).abs().max() < 1e-12
