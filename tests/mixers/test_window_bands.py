"""Work in bands is the work on the whole: any size of band, any batch, kept or done again, differentiated twice."""

from __future__ import annotations

import pytest
import torch
from test_multipole_attention import reference
from test_window_attention import random_, windowed
from torch.func import functional_call

from sciops.mixers import FullAttention, MultipoleAttention, WindowAttention
from sciops.mixers.windows import window as window_module
from sciops.mixers.windows.cpu import sampling
from sciops.mixers.windows.groups import groups_of


@pytest.fixture
def cells(monkeypatch):
    """Sets how many cells a band has."""

    def set_(count: int) -> None:
        for module in (window_module, sampling):
            monkeypatch.setattr(module, "cells_in_cache", lambda: count)

    return set_


def gradients(layer, x, g):
    variables = [x, *layer.parameters()]
    y = layer(x)
    return [y, *torch.autograd.grad(y, variables, g)]


@pytest.mark.parametrize("count", [1, 30, 100])
@pytest.mark.parametrize(
    "batch, sizes, window",
    [(1, (12, 8), 2), (2, (12, 9), 3), (3, (9, 8), 4), (2, (11, 13), 4), (3, (13,), 2), (2, (5, 3, 4), 2)],
)
def test_any_band_gives_the_same(cells, count, batch, sizes, window):
    layer = random_(WindowAttention(6, heads=3, window=window))
    x = torch.randn(batch, *sizes, 6, dtype=torch.float64, requires_grad=True)
    g = torch.randn(x.shape, dtype=torch.float64)
    expected = windowed(layer, x)
    whole = [expected, *torch.autograd.grad(expected, [x, *layer.parameters()], g)]
    cells(count)
    for recompute in (False, True):
        layer.recompute = recompute
        for ours, theirs in zip(gradients(layer, x, g), whole):
            assert (ours - theirs).abs().max() < 1e-11


@pytest.mark.parametrize("count", [1, 40, 10**9])
@pytest.mark.parametrize(
    "sizes, options",
    [
        ((16, 16), {"window": 4, "aggregate": "learned_per_level"}),
        ((17, 12), {"window": 4}),
        ((10, 15), {"aggregate": "vcycle_damped"}),
        ((13, 10), {"rate": 3, "window": 3}),
        ((13, 10), {"window": 4, "stride": 2}),
    ],
)
def test_pyramids_in_bands_equal_the_definition(cells, count, sizes, options):
    layer = random_(MultipoleAttention(4, heads=2, **options))
    x = torch.randn(2, *sizes, 4, dtype=torch.float64, requires_grad=True)
    g = torch.randn(x.shape, dtype=torch.float64)
    expected = reference(layer, x)
    whole = [expected, *torch.autograd.grad(expected, [x, *layer.parameters()], g)]
    cells(count)
    for recompute in (False, True):
        layer.attention.recompute = recompute
        for ours, theirs in zip(gradients(layer, x, g), whole):
            assert (ours - theirs).abs().max() < 1e-11


@pytest.mark.parametrize("make", [WindowAttention, MultipoleAttention])
def test_channels_first_in_memory_and_cotangents_without_memory(cells, make):
    cells(40)
    layer = random_(make(6, heads=2, window=4))
    x = torch.randn(2, 6, 12, 9, dtype=torch.float64).movedim(1, -1).requires_grad_()
    one = torch.ones((), dtype=torch.float64).expand(x.shape)
    plain = x.detach().contiguous().requires_grad_()
    for ours, theirs in zip(gradients(layer, x, one), gradients(layer, plain, one.contiguous())):
        assert (ours - theirs).abs().max() < 1e-12


def test_bands_are_a_partition_within_their_limit():
    shapes = ((2, 85, 40), (2, 43, 20), (2, 22, 10), (2, 4, 4))
    for window, limit in ((2, 100), (4, 500), (8, 2048)):
        hits = [torch.zeros(*s, 1) for s in shapes]
        groups = groups_of(shapes, window, window, limit)
        for group in groups:
            assert len({band.tiling.tokens for band in group.bands}) == 1
            cells = [band.of(hits[band.field]).add_(1).numel() for band in group.bands]
            assert sum(cells) <= limit or len(cells) == 1
        assert all((h == 1).all() for h in hits)


@pytest.mark.parametrize("window", [2, 4, 6])
@pytest.mark.parametrize("recompute", [False, True])
def test_second_derivatives_for_windows_of_any_size(cells, window, recompute):
    cells(20)
    layer = random_(MultipoleAttention(2, heads=1, window=window, levels=2, recompute=recompute))
    names = [n for n, _ in layer.named_parameters()]
    x = torch.randn(1, 7, 8, 2, dtype=torch.float64, requires_grad=True)

    def call(x, *values):
        return functional_call(layer, dict(zip(names, values)), (x,))[:, ::3, ::3]

    assert torch.autograd.gradcheck(call, (x, *layer.parameters()), fast_mode=True)
    assert torch.autograd.gradgradcheck(call, (x, *layer.parameters()), fast_mode=True)


def saved_numbers(layer, x) -> int:
    """Numbers kept for the backward pass beyond input and weights."""
    held = {p.data_ptr() for p in [x, *layer.parameters()]}
    sizes: dict[int, int] = {}

    def pack(t):
        if t.data_ptr() not in held:
            sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes() // t.element_size()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = layer(x)
    assert torch.isfinite(y).all()
    return sum(sizes.values())


@pytest.mark.parametrize("window", [2, 4, 8])
def test_recomputing_keeps_the_pyramid_only(window):
    x = torch.randn(1, 64, 64, 16, requires_grad=True)
    layer = MultipoleAttention(16, heads=2, window=window)
    kept = saved_numbers(layer, x)
    layer.attention.recompute = True
    # the coarse levels themselves, and once more after attention, for U
    assert saved_numbers(layer, x) <= 2 / 3 * x.numel() < kept - x.numel()


def test_frozen_weights_get_no_gradient_and_half_precision_takes_another_path():
    layer = random_(MultipoleAttention(4, heads=2, window=4)).float()
    layer.attention.qkv.weight.requires_grad_(False)
    x = torch.randn(1, 12, 12, 4)
    layer(x).sum().backward()
    assert layer.attention.qkv.weight.grad is None and layer.down.grad.abs().sum() > 0
    expected = layer(x)
    assert (layer.bfloat16()(x.bfloat16()).float() - expected).norm() < 0.05 * expected.norm()


@pytest.mark.parametrize("window, shift", [(2, 0), (4, 0), (4, 2)])
def test_a_batch_may_be_empty(window, shift):
    layer, x = WindowAttention(6, heads=2, window=window, shift=shift), torch.randn(0, 8, 9, 6, requires_grad=True)
    y = layer(x)
    assert y.shape == x.shape
    y.sum().backward()
    assert x.grad.shape == x.shape and not any(p.grad.any() for p in layer.parameters())


@pytest.mark.parametrize("make", [FullAttention, WindowAttention])
def test_without_a_norm(make):
    layer = random_(make(4, heads=2, norm=False))
    x = torch.randn(1, 6, 7, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,), fast_mode=True)
    q, k, v = (x.flatten(1, 2) @ w.t() for w in layer.qkv.weight.chunk(3))
    q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in (q, k, v))
    y = (q @ k.mT / 2**0.5).softmax(-1) @ v
    expected = layer.out(y.transpose(1, 2).flatten(-2)).reshape(x.shape)
    if make is WindowAttention:  # 8 × 8 windows hold the whole grid
        assert (layer(x) - expected).abs().max() < 1e-12
    assert (FullAttention.forward(layer, x) - expected).abs().max() < 1e-12


@pytest.mark.gpu
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("window", [2, 4, 8])
def test_gradients_on_the_gpu(window, recompute):
    layer = random_(MultipoleAttention(8, heads=2, window=window, recompute=recompute))
    x = torch.randn(2, 19, 24, 8, dtype=torch.float64, requires_grad=True)
    g = torch.randn(x.shape, dtype=torch.float64)
    expected = gradients(layer, x, g)
    layer.cuda()
    for ours, theirs in zip(gradients(layer, x.detach().cuda().requires_grad_(), g.cuda()), expected):
        assert (ours.cpu() - theirs).abs().max() < 1e-10
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = layer.float()(x.detach().float().cuda())
    assert (y.double().cpu() - expected[0]).norm() < 0.05 * expected[0].norm()
