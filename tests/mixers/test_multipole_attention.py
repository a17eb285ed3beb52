"""Multipole attention: levels, samplers and merge against loops, convolutions and closed forms."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from test_window_attention import random_, windowed
from torch.func import functional_call

from sciops.mixers import MultipoleAttention, WindowAttention
from sciops.mixers.windows.cpu import pyramid


def padded_once(x: torch.Tensor, multiple: int) -> torch.Tensor:
    for axis in range(1, x.ndim - 1):
        missing = -x.shape[axis] % multiple
        shape = (*x.shape[:axis], missing, *x.shape[axis + 1 :])
        x = torch.cat([x, x.new_zeros(shape)], axis)
    return x


def reference(layer: MultipoleAttention, x: torch.Tensor) -> torch.Tensor:
    """The definition with x padded once, cells visited one by one, windows cut to cells that exist."""
    sizes = x.shape[1:-1]
    levels = layer.level_count(tuple(sizes))
    rate = layer.rate
    pyramid, shapes = [padded_once(x, rate ** (levels - 1))], [sizes]
    for _ in range(levels - 1):
        fine = pyramid[-1]
        coarse = fine.new_zeros(fine.shape[0], *(n // rate for n in fine.shape[1:-1]), layer.channels)
        for i in range(coarse.shape[1]):
            for j in range(coarse.shape[2]):
                for a in range(rate):
                    for b in range(rate):
                        coarse[:, i, j] += fine[:, i * rate + a, j * rate + b] @ layer.down[:, :, a, b].t()
        pyramid.append(coarse)
        shapes.append(tuple(-(-n // rate) for n in shapes[-1]))
    outputs = []
    for level, (n, m) in zip(pyramid, shapes):
        y = torch.zeros_like(level)
        y[:, :n, :m] = windowed(layer.attention, level[:, :n, :m])
        outputs.append(y)
    result = outputs[-1]
    for step in range(levels - 1):
        finer = outputs[levels - 2 - step]
        up = torch.zeros_like(finer)
        for i in range(finer.shape[1]):
            for j in range(finer.shape[2]):
                up[:, i, j] = result[:, i // rate, j // rate] @ layer.up[:, :, i % rate, j % rate]
        if layer.aggregate == "vcycle_damped":
            up = up / (step + 1)
        elif layer.aggregate == "learned_per_level":
            up = up * layer.level_weights[step]
        result = finer + up
    return result[:, : sizes[0], : sizes[1]]


@pytest.mark.parametrize(
    "sizes, options",
    [
        ((8, 8), {}),
        ((8, 8), {"aggregate": "vcycle_damped"}),
        ((8, 8), {"aggregate": "learned_per_level"}),
        ((7, 9), {"aggregate": "vcycle_damped"}),
        ((9, 6), {"window": 3}),
        ((13, 10), {"window": 4, "stride": 2}),
        ((12, 5), {"rate": 3, "aggregate": "learned_per_level"}),
        ((10, 11), {"rate": 3, "window": 2, "levels": 2}),
        ((11, 14), {"window": 5, "stride": 3, "levels": 3, "aggregate": "vcycle_damped"}),
        ((6, 7), {"levels": 9}),
    ],
)
def test_equals_the_definition_by_loops(sizes, options):
    layer = random_(MultipoleAttention(4, heads=2, **options))
    x = torch.randn(2, *sizes, 4, dtype=torch.float64)
    assert (layer(x) - reference(layer, x)).abs().max() < 1e-12


def test_parameters_do_not_depend_on_the_levels():
    shapes = [
        {k: v.shape for k, v in MultipoleAttention(8, levels=n, aggregate="learned_per_level").state_dict().items()}
        for n in (1, 2, 3, 6, "auto")
    ]
    assert all(s == shapes[0] for s in shapes)
    layer = random_(MultipoleAttention(8, levels=1))
    shared = MultipoleAttention(8, levels=4).double()
    shared.load_state_dict(layer.state_dict())
    x = torch.randn(1, 16, 16, 8, dtype=torch.float64)
    assert (shared(x) - layer(x)).abs().max() > 1e-3


def test_one_level_is_window_attention():
    layer = random_(MultipoleAttention(8, window=4, levels=1))
    plain = WindowAttention(8, window=4).double()
    plain.load_state_dict(layer.attention.state_dict())
    x = torch.randn(2, 9, 12, 8, dtype=torch.float64)
    assert torch.equal(layer(x), plain(x))


@pytest.mark.parametrize("sizes", [(8, 8), (7, 10), (12, 9)])
@pytest.mark.parametrize("rate", [2, 3])
def test_samplers_are_the_strided_convolutions(sizes, rate):
    layer = random_(MultipoleAttention(5, heads=1, rate=rate))
    x = torch.randn(2, *sizes, 5, dtype=torch.float64)
    first = padded_once(x, rate).movedim(-1, 1)
    coarse = F.conv2d(first, layer.down, stride=rate).movedim(1, -1)
    assert (layer.coarsened(x) - coarse).abs().max() < 1e-13
    fine = F.conv_transpose2d(coarse.movedim(-1, 1), layer.up, stride=rate).movedim(1, -1)
    fine = fine[:, : sizes[0], : sizes[1]]
    assert (layer.refined(coarse, sizes) - fine).abs().max() < 1e-13


@pytest.mark.parametrize("axes", [1, 3])
def test_samplers_in_one_and_three_dimensions(axes):
    layer = random_(MultipoleAttention(4, heads=1, axes=axes))
    down, up = {1: (F.conv1d, F.conv_transpose1d), 3: (F.conv3d, F.conv_transpose3d)}[axes]
    sizes = (6, 8, 4)[:axes]
    x = torch.randn(2, *sizes, 4, dtype=torch.float64)
    coarse = down(x.movedim(-1, 1), layer.down, stride=2)
    assert (layer.coarsened(x) - coarse.movedim(1, -1)).abs().max() < 1e-13
    fine = up(coarse, layer.up, stride=2).movedim(1, -1)
    assert (layer.refined(coarse.movedim(1, -1), sizes) - fine).abs().max() < 1e-13
    odd = torch.randn(1, *(n - 1 for n in sizes), 4, dtype=torch.float64)
    assert torch.isfinite(layer(odd)).all()


def without_attention(monkeypatch) -> None:
    """The identity in place of attention, in both forms of the layer."""
    monkeypatch.setattr(WindowAttention, "attend", lambda self, fields: list(fields))
    whole = lambda work, weights, fields, scratch: ([x.clone() for x in fields], [])  # noqa: E731
    monkeypatch.setattr(pyramid, "attend", whole)


def mean_and_copy(layer: MultipoleAttention) -> MultipoleAttention:
    """D as the mean of the children, U as a copy to them."""
    if layer.sampler == "conv":
        unit = torch.eye(layer.channels).reshape(layer.channels, layer.channels, *(1,) * layer.axes)
        with torch.no_grad():
            layer.down.copy_(unit.expand_as(layer.down) / layer.rate**layer.axes)
            layer.up.copy_(unit.expand_as(layer.up))
    return layer.double()


@pytest.mark.parametrize("sampler", ["conv", "average"])
@pytest.mark.parametrize("sizes", [(16, 16), (8, 12), (13, 16)])
def test_constants_pass_with_the_sum_of_the_level_weights(monkeypatch, sizes, sampler):
    """With the identity for attention, averaging D and copying U, level l adds its weight times the constant."""
    if sampler == "conv" and sizes == (13, 16):
        sizes = (16, 24)  # the learned kernel counts missing cells as zero, only the average knows them
    without_attention(monkeypatch)
    x = torch.full((1, *sizes, 4), 1.5, dtype=torch.float64)
    for levels in range(1, 5):
        damped = sum(math.factorial(levels - 1 - l) / math.factorial(levels - 1) for l in range(levels))
        for aggregate, total in (("sum", levels), ("learned_per_level", levels), ("vcycle_damped", damped)):
            options = {"heads": 1, "levels": levels, "aggregate": aggregate, "sampler": sampler}
            if sampler == "conv" and any(n % 2 ** (levels - 1) for n in sizes):
                continue
            layer = mean_and_copy(MultipoleAttention(4, **options))
            assert (layer(x) - 1.5 * total).abs().max() < 1e-14
    assert damped == pytest.approx(5 / 3)


def test_an_impulse_spreads_over_its_ancestors(monkeypatch):
    without_attention(monkeypatch)
    layer = mean_and_copy(MultipoleAttention(1, heads=1, levels=3))
    x = torch.zeros(1, 8, 8, 1, dtype=torch.float64)
    x[0, 5, 2] = 1.0
    expected = torch.zeros(8, 8, dtype=torch.float64)
    expected[5, 2] += 1.0
    expected[4:6, 2:4] += 1 / 4
    expected[4:8, 0:4] += 1 / 16
    assert (layer(x)[0, ..., 0] - expected).abs().max() < 1e-15


@pytest.mark.parametrize("n, window, levels, side", [(32, 2, 1, 2), (32, 2, 3, 8), (32, 2, 5, 32), (32, 8, 2, 16)])
def test_receptive_field(n, window, levels, side):
    layer = random_(MultipoleAttention(4, heads=2, window=window, levels=levels))
    x = torch.randn(1, n, n, 4, dtype=torch.float64, requires_grad=True)
    i, j = 13, 22
    (g,) = torch.autograd.grad(layer(x)[0, i, j].square().sum(), x)
    seen = g[0].abs().sum(-1) > 0
    expected = torch.zeros(n, n, dtype=torch.bool)
    expected[i // side * side : (i // side + 1) * side, j // side * side : (j // side + 1) * side] = True
    assert torch.equal(seen, expected)


@pytest.mark.parametrize("sizes, window, rate", [((16, 16), 2, 2), ((17, 17), 2, 2), ((21, 10), 4, 2), ((19, 5), 2, 3)])
def test_automatic_levels_reach_everywhere_and_one_less_does_not(sizes, window, rate):
    layer = random_(MultipoleAttention(4, heads=2, window=window, rate=rate))
    count = layer.level_count(sizes)

    def seen(levels):
        layer.levels = levels
        x = torch.randn(1, *sizes, 4, dtype=torch.float64, requires_grad=True)
        (g,) = torch.autograd.grad(layer(x)[0, 0, 0].square().sum(), x)
        return (g[0].abs().sum(-1) > 0).all().item()

    assert seen("auto") and seen(count) and not seen(count - 1)


def test_levels_are_counted_in_whole_numbers():
    layer = MultipoleAttention(4, window=1, rate=3)
    assert [layer.level_count((3**k, 1)) for k in range(7)] == list(range(1, 8))
    assert MultipoleAttention(4).level_count((85, 85)) == 7
    assert MultipoleAttention(4, window=4).level_count((16, 64)) == 5
    assert MultipoleAttention(4, levels=3).level_count((64, 64)) == 3
    assert MultipoleAttention(4, levels=30).level_count((8, 8)) == 4


def test_translations_by_the_coarsest_window_commute_and_by_one_cell_do_not():
    layer = random_(MultipoleAttention(4, heads=2, window=2, levels=3))
    x = torch.randn(1, 16, 24, 4, dtype=torch.float64)
    for shift, equal in ((8, True), (16, True), (1, False), (4, False)):
        moved = layer(x.roll(shift, 2)) - layer(x).roll(shift, 2)
        assert (moved.abs().max() < 1e-12) == equal


def test_zeroed_weights_switch_off_what_they_carry():
    layer = random_(MultipoleAttention(4, heads=2, window=2))
    plain = WindowAttention(4, heads=2, window=2).double()
    plain.load_state_dict(layer.attention.state_dict())
    x = torch.randn(1, 8, 12, 4, dtype=torch.float64)
    with torch.no_grad():
        layer.up.zero_()
    assert (layer(x) - plain(x)).abs().max() < 1e-14
    layer = random_(MultipoleAttention(4, heads=2, window=2))
    with torch.no_grad():
        layer.attention.out.weight.zero_()
        layer.attention.out.bias.zero_()
    assert layer(x).abs().max() == 0


@pytest.mark.parametrize("aggregate", ["sum", "vcycle_damped", "learned_per_level"])
def test_derivatives(aggregate):
    layer = random_(MultipoleAttention(4, heads=2, levels=3, aggregate=aggregate))
    names = [n for n, _ in layer.named_parameters()]
    x = torch.randn(1, 8, 8, 4, dtype=torch.float64, requires_grad=True)

    def call(x, *values):
        return functional_call(layer, dict(zip(names, values)), (x,))[:, ::3, ::3]

    assert torch.autograd.gradcheck(call, (x, *layer.parameters()), fast_mode=True)
    assert torch.autograd.gradgradcheck(call, (x, *layer.parameters()), fast_mode=True)


def test_every_level_reaches_the_samplers():
    """The gradient of D and U must lose something when any one level is taken away."""
    layer = random_(MultipoleAttention(4, heads=2, aggregate="learned_per_level"))
    x = torch.randn(1, 16, 16, 4, dtype=torch.float64)
    layer(x).square().sum().backward()
    merges = layer.level_count((16, 16)) - 1
    used = layer.level_weights.grad[:merges]
    assert (used.abs() > 1e-6).all() and (layer.level_weights.grad[merges:] == 0).all()
    full = layer.down.grad.clone(), layer.up.grad.clone()
    for step in range(merges):
        layer.zero_grad()
        with torch.no_grad():
            layer.level_weights.fill_(1.0)
            layer.level_weights[step] = 0.0
        layer(x).square().sum().backward()
        assert all((g - w).abs().max() > 1e-6 for g, w in zip((layer.down.grad, layer.up.grad), full))


def test_cost_grows_linearly():
    """Multiplications counted by torch itself: slope 1 in the number of points, close to 4/3 of one level."""
    from torch.utils.flop_counter import FlopCounterMode

    def flops(layer, n):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            layer(torch.randn(1, n, n, 8))
        return counter.get_total_flops()

    layer = MultipoleAttention(8, heads=2, window=4)
    points = [32, 64, 128]
    counts = [flops(layer, n) for n in points]
    slopes = [math.log(b / a) / math.log(4) for a, b in zip(counts, counts[1:])]
    assert all(0.98 < s < 1.02 for s in slopes)
    # per point and level 4·d² for the projections; 4·d² per coarse point for D and for U
    expected = 2 * 128**2 * 64 * (4 * 4 / 3 + 2 * 4 / 3)
    assert abs(counts[-1] / expected - 1) < 0.05


def test_samplers_start_with_unit_gain():
    torch.manual_seed(0)
    layer = MultipoleAttention(64, heads=1)
    x = torch.randn(4, 16, 16, 64)
    coarse = layer.coarsened(x)
    assert 0.9 < coarse.square().mean() / x.square().mean() < 1.1
    assert 0.9 < layer.refined(coarse, (16, 16)).square().mean() / coarse.square().mean() < 1.1
