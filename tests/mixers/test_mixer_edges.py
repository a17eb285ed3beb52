"""Every mixer in half precision, on an empty batch, and on tokens that are zero, all alike or very large."""

from __future__ import annotations

import copy

import pytest
import torch
from mixer_variants import ALL, CHANNELS, made

from sciops.grids import Grid
from sciops.mixers import LinearAttention, WindowAttention


def drawn(sizes, batch=2, seed=1):
    return torch.randn(batch, *sizes, CHANNELS, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name, options, sizes", ALL)
def test_half_precision_is_finite_and_close(name, options, sizes):
    mixer, x, grid = made(name, options), drawn(sizes), Grid(sizes)
    expected = mixer(x, grid=grid).detach()
    for dtype, tolerance in (torch.float16, 0.01), (torch.bfloat16, 0.08):
        half = copy.deepcopy(mixer).to(dtype)
        a, b = x.to(dtype).requires_grad_(), x.clone().requires_grad_()
        y = half(a, grid=grid)
        assert y.dtype == dtype
        with torch.autocast("cpu", dtype):
            z = mixer(b, grid=grid)
        for given, result in (a, y), (b, z):
            assert (result.float() - expected).norm() <= tolerance * expected.norm()
            assert torch.autograd.grad(result.float().square().sum(), given)[0].isfinite().all()


@pytest.mark.parametrize("name, options, sizes", ALL)
def test_gradients_are_finite(name, options, sizes):
    mixer, x, grid = made(name, options), drawn(sizes), Grid(sizes)
    for tokens in (0 * x, 0 * x + 1.7, 0 * x - 1000, 1000 * x, 1e4 * x, 1e-20 * x, torch.cat([0 * x[:1], x[1:]])):
        tokens.requires_grad_()
        mixer(tokens, grid=grid).sum().backward()
        for tensor in (tokens, *mixer.parameters()):
            assert tensor.grad is None or tensor.grad.isfinite().all()


@pytest.mark.parametrize("name, options, sizes", ALL)
def test_a_batch_may_be_empty(name, options, sizes):
    mixer, grid = made(name, options), Grid(sizes)
    x = torch.zeros(0, *sizes, CHANNELS, requires_grad=True)
    y = mixer(x, grid=grid)
    assert y.shape == x.shape
    y.sum().backward()
    assert x.grad.shape == x.shape
    assert not any(p.grad is not None and p.grad.any() for p in mixer.parameters())


@pytest.mark.parametrize("batch", [0, 1])
def test_empty_batches_in_other_memory_orders_and_transforms(batch):
    """In full, an axis that is long enough for an FFT, and recorded for a second derivative."""
    for name, options, sizes in [
        ("spectral", dict(modes=(3,)), (256,)),
        ("spectral", dict(modes=(3, 3), compat_shift=True), (9, 128)),
        ("multipole", dict(heads=2, window=2, levels=2), (6, 5)),
        ("window", dict(heads=2, window=4, shift=2), (9, 7)),
    ]:
        mixer = made(name, options)
        x = torch.zeros(batch, CHANNELS, *sizes).movedim(1, -1).requires_grad_()
        (g,) = torch.autograd.grad(mixer(x).square().sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.square().sum(), x)
        assert h.shape == g.shape == x.shape and h.isfinite().all()


def test_cosine_scores_of_zero_tokens_in_float16():
    """Cells outside of the grid, and cells of a constant field, have no direction: their scores are 0."""
    mixer = WindowAttention(8, window=4, cosine=True).half()
    x = torch.zeros(1, 9, 8, 8, dtype=torch.float16, requires_grad=True)
    y = mixer(x)
    assert torch.equal(y, mixer.out.bias.expand(y.shape))
    y.sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("std", [1.0, 100.0, 1000.0])
def test_linear_attention_of_large_tokens_is_the_mean_that_it_should_be(std):
    """Against the logarithms of the features, of which none is lost."""
    mixer = LinearAttention(8, heads=2).double()
    x = std * drawn((11,)).double()
    q, k, v = mixer.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
    log = lambda u: torch.where(u > 0, torch.log1p(u.clamp(min=0)), u)  # noqa: E731
    scores = (log(q)[:, :, :, None] + log(k)[:, :, None]).logsumexp(-1)
    expected = mixer.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    off = (mixer(x) - expected).abs().amax() / expected.abs().amax()
    assert off < 1e-12
