"""Attention among slices against loops in float64, and what its slices promise on sets of points and finer grids."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from sciops.grids import Grid
from sciops.mixers import SliceAttention
from sciops.models import Operator, build_model, load_model, save_model


def random_(layer: SliceAttention, seed: int = 0) -> SliceAttention:
    """All parameters random, so that no term is hidden by its starting value."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in layer.named_parameters():
            fan = p[0].numel() if p.ndim > 1 else p.numel()
            p.copy_(torch.randn(p.shape, generator=generator) / fan**0.5)
            if name == "temperature":
                p.copy_(torch.linspace(-0.2, 6.0, p.numel()))  # beyond the clamp on both sides
    return layer.double()


def looped(layer: SliceAttention, x: torch.Tensor, grid: Grid | None = None) -> torch.Tensor:
    """Loops over samples, heads, points and slices."""
    d = layer.channels // layer.heads
    if layer.local:
        padded = F.pad(x, (0, 0, 1, 1, 1, 1))
        rows, columns = x.shape[1:3]
        both = layer.project.bias + sum(
            padded[:, i : i + rows, j : j + columns] @ layer.project.weight[:, :, i, j].t()
            for i in range(3)
            for j in range(3)
        )
    else:
        both = x @ layer.project.weight.t() + layer.project.bias
    both = both.reshape(x.shape[0], -1, 2 * layer.channels)
    q = torch.ones(both.shape[1], dtype=x.dtype)
    if layer.weighted:
        q = torch.from_numpy(grid.weights()).reshape(-1)
        q = q * len(q) / q.sum()
    a_q, a_k, a_v = layer.qkv.weight.chunk(3)
    samples = []
    for sample in both:
        heads = []
        for h in range(layer.heads):
            z = sample[:, h * d : (h + 1) * d]
            f = sample[:, layer.channels + h * d : layer.channels + (h + 1) * d]
            tau = min(max(layer.temperature[h].item(), 0.1), 5.0)
            w = torch.stack([((layer.slice.weight @ p + layer.slice.bias) / tau).softmax(0) for p in z])
            tokens = []
            for m in range(layer.slices):
                total, norm = torch.zeros(d, dtype=x.dtype), 1e-8 * len(w)
                for n in range(len(w)):
                    total, norm = total + q[n] * w[n, m] * f[n], norm + q[n] * w[n, m]
                tokens.append(total / norm)
            results = []
            for t in tokens:
                scores = torch.stack([(a_q @ t) @ (a_k @ s) / math.sqrt(d) for s in tokens]).softmax(0)
                results.append(sum(p * (a_v @ s) for p, s in zip(scores, tokens)))
            heads.append(torch.stack([sum(w[n, m] * results[m] for m in range(layer.slices)) for n in range(len(w))]))
        samples.append(torch.cat(heads, -1) @ layer.out.weight.t() + layer.out.bias)
    return torch.stack(samples).reshape(x.shape)


CASES = [
    ((13,), {}),
    ((4, 5), {}),
    ((3, 2, 4), {"slices": 1}),
    ((5, 3), {"weighted": True}),
    ((3, 4, 2), {"weighted": True}),
    ((4, 5), {"local": True}),
    ((6, 1), {"local": True, "slices": 7}),
    ((5, 4), {"local": True, "weighted": True}),
]


@pytest.mark.parametrize("sizes, options", CASES)
def test_equals_loops_over_points_and_slices(sizes, options):
    layer = random_(SliceAttention(6, **{"heads": 3, "slices": 4} | options))
    grid = Grid(sizes) if min(sizes) > 1 else None
    x = torch.randn(2, *sizes, 6, dtype=torch.float64, requires_grad=True)
    ours, theirs = layer(x, grid=grid), looped(layer, x, grid)
    assert (ours - theirs).abs().max() < 1e-12
    variables = [x, *(p for name, p in layer.named_parameters() if name != "temperature")]
    g = torch.randn_like(ours)
    for a, b in zip(torch.autograd.grad(ours, variables, g), torch.autograd.grad(theirs, variables, g)):
        assert (a - b).abs().max() < 1e-11


@pytest.mark.parametrize("options", [{}, {"weighted": True}, {"local": True}])
def test_differentiates_twice_by_input_and_weights(options):
    torch.manual_seed(0)
    layer = SliceAttention(4, heads=2, slices=3, **options).double()
    parameters = dict(layer.named_parameters())
    x = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)

    def function(x, *values):
        return torch.func.functional_call(layer, dict(zip(parameters, values)), (x, Grid((2, 3))))

    arguments = (x, *(p.detach().clone().requires_grad_() for p in parameters.values()))
    assert torch.autograd.gradcheck(function, arguments)
    # directions at random: the whole Jacobian of the gradient of a convolution would take most of the time
    assert torch.autograd.gradgradcheck(function, arguments, fast_mode=True)


def test_permuting_the_points_permutes_the_result():
    layer = random_(SliceAttention(6, heads=2, slices=5))
    x = torch.randn(2, 40, 6, dtype=torch.float64)
    order = torch.randperm(40)
    assert (layer(x)[:, order] - layer(x[:, order])).abs().max() < 1e-13
    # and the axes are only a way of writing the set down
    assert (layer(x.reshape(2, 5, 8, 6)).reshape(x.shape) - layer(x)).abs().max() < 1e-13


def test_the_local_variant_with_a_centre_tap_is_the_pointwise_one():
    layer, local = random_(SliceAttention(6, heads=2)), random_(SliceAttention(6, heads=2, local=True))
    state = {name: value for name, value in layer.state_dict().items() if not name.startswith("project")}
    local.load_state_dict(state, strict=False)
    with torch.no_grad():
        local.project.weight.zero_()
        local.project.weight[:, :, 1, 1] = layer.project.weight
        local.project.bias.copy_(layer.project.bias)
    x = torch.randn(2, 5, 7, 6, dtype=torch.float64)
    assert (layer(x) - local(x)).abs().max() < 1e-12


def smooth(grid: Grid) -> torch.Tensor:
    a, b = grid.meshgrid()
    channels = [np.exp(a) * np.cos(3 * b), a * b, np.sin(2 * a + b), 1 / (1 + b)]
    return torch.from_numpy(np.stack(channels, -1))[None]


def test_weighted_tokens_converge_with_the_quadrature_and_plain_ones_slower():
    """Trapezoid: second order in the spacing; the plain mean counts walls twice and stays first order."""
    orders = {}
    for weighted in (True, False):
        layer = random_(SliceAttention(4, heads=2, slices=3, weighted=weighted))
        grids = [Grid((n, n)) for n in (17, 33, 65, 129)]
        values = [layer(smooth(grid), grid=grid)[:, :: (g := 2**i), ::g] for i, grid in enumerate(grids)]
        changes = [(a - b).norm().item() for a, b in zip(values, values[1:])]
        orders[weighted] = math.log2(changes[1] / changes[2])
        if weighted:
            assert changes[1] < 2e-3 * values[-1].norm()
    assert orders[True] == pytest.approx(2.0, abs=0.1)
    assert orders[False] == pytest.approx(1.0, abs=0.15)


def test_equal_weights_are_the_plain_mean():
    layer = random_(SliceAttention(6, heads=2, slices=4))
    weighted = random_(SliceAttention(6, heads=2, slices=4, weighted=True))
    x = torch.randn(1, 6, 5, 6, dtype=torch.float64)
    grid = Grid((6, 5), extent=((0, 7.0), (0, 0.1)), centering="periodic")
    assert (weighted(x, grid=grid) - layer(x)).abs().max() < 1e-12


def test_slices_without_points_and_sharp_ones_stay_finite():
    layer = SliceAttention(4, heads=1, slices=6)
    with torch.no_grad():
        layer.temperature.fill_(-3.0)
        layer.slice.bias.copy_(torch.tensor([0.0, 0.0, -1e4, 50.0, -50.0, 1e3]))
    x = torch.randn(2, 9, 9, 4, requires_grad=True)
    y = layer(x)
    y.square().sum().backward()
    assert torch.isfinite(y).all() and torch.isfinite(x.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_stays_close_to_float32(dtype):
    torch.manual_seed(0)
    layer = SliceAttention(8, heads=2, slices=5)
    x = 50 + torch.randn(1, 60, 70, 8)  # sums over the points would overflow half precision
    x.requires_grad_()
    expected = layer(x)
    with torch.autocast("cpu", dtype=dtype):
        result = layer(x)
    assert (result - expected).norm() < 0.02 * expected.norm()
    result.float().sum().backward()
    assert torch.isfinite(x.grad).all()


def test_inference_then_training():
    layer = random_(SliceAttention(4, heads=2, slices=3, weighted=True))
    x, grid = torch.randn(1, 10, 11, 4, dtype=torch.float64), Grid((10, 11), extent=(0, 3.5))
    with torch.inference_mode():
        expected = layer(x, grid=grid)
    x.requires_grad_()
    result = layer(x, grid=grid)
    result.sum().backward()
    assert torch.equal(result.detach(), expected.clone())


@pytest.mark.filterwarnings("ignore", "error:Dynamo detected")
@pytest.mark.parametrize("options", [{}, {"local": True}, {"weighted": True}])
def test_compiled_has_the_same_values_and_gradients(options):
    layer, grid = random_(SliceAttention(4, heads=2, slices=3, **options)), Grid((5, 6))
    x = torch.randn(2, 5, 6, 4, dtype=torch.float64)
    torch._dynamo.reset()
    results = []
    for run in (layer, torch.compile(layer, backend="aot_eager")):
        layer.zero_grad()
        y = run(x, grid=grid)
        y.square().sum().backward()
        results.append([y.detach(), *(p.grad.clone() for p in layer.parameters())])
    for eager, fast in zip(*results):
        torch.testing.assert_close(fast, eager, rtol=1e-11, atol=1e-11)


@pytest.mark.gpu
@pytest.mark.parametrize("sizes, options", CASES)
def test_cuda_gives_what_the_cpu_gives(sizes, options):
    layer = random_(SliceAttention(6, **{"heads": 3, "slices": 4} | options))
    grid = Grid(sizes) if min(sizes) > 1 else None
    x = torch.randn(2, *sizes, 6, dtype=torch.float64)
    expected = layer(x, grid=grid)
    assert (layer.cuda()(x.cuda(), grid=grid).cpu() - expected).abs().max() < 1e-11


@pytest.mark.parametrize("options", [{"slices": 6}, {"heads": 2, "local": True}, {"weighted": True}])
def test_operators_of_slices_save_and_load(tmp_path, options):
    torch.manual_seed(0)
    model = build_model(
        "operator", in_channels=1, out_channels=1, width=8, depth=2, mixer="slices", mixer_options=options
    )
    assert isinstance(model, Operator) and isinstance(model.blocks[1].mixer, SliceAttention)
    x = torch.randn(2, 1, 9, 7)
    save_model(model, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors")
    assert loaded.config == model.config
    assert torch.equal(loaded(x), model(x))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="heads=3 do not divide channels=8"):
        SliceAttention(8, heads=3)
    with pytest.raises(ValueError, match="slices=0"):
        SliceAttention(8, slices=0)
    with pytest.raises(ValueError, match="expected .batch, .grid, 8 channels"):
        SliceAttention(8)(torch.randn(1, 4, 4, 6))
    with pytest.raises(ValueError, match="expected .batch, 2 grid axes, 8 channels"):
        SliceAttention(8, local=True)(torch.randn(1, 4, 4, 4, 8))
    with pytest.raises(ValueError, match="weighted=True needs the grid"):
        SliceAttention(8, weighted=True)(torch.randn(1, 4, 4, 8))
    with pytest.raises(ValueError, match="but the grid is .5, 4."):
        SliceAttention(8, weighted=True)(torch.randn(1, 4, 4, 8), grid=Grid((5, 4)))
