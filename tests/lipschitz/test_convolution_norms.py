"""Convolutions of every kind against their dense Jacobians."""

import math
import random

import pytest
import torch
from torch import nn

from sciops.grids import Grid
from sciops.lipschitz import convolution_norm, kernel_gram_bound, spectral_norm
from sciops.lipschitz.norms.convolution import bridge_factor
from sciops.lipschitz.norms.symbols import dilated, polyphase, torus_norm


def dense(layer, shape, dtype):
    count = math.prod(shape)
    with torch.no_grad():
        basis = torch.eye(count, dtype=dtype).reshape(count, *shape)
        return (layer(basis) - layer(torch.zeros(1, *shape, dtype=dtype))).flatten(1).mT


def truth(layer, shape, dtype=torch.float64):
    return float(torch.linalg.svdvals(dense(layer, shape, dtype))[0])


def conv(*args, axes=2, seed=0, dtype=torch.float64, **options):
    torch.manual_seed(seed)
    return getattr(nn, f"Conv{axes}d")(*args, dtype=dtype, **options)


@pytest.mark.parametrize("seed", range(6))
def test_random_layers_stay_inside_their_bracket(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    done = 0
    while done < 25:
        axes, mode = draw.choice([1, 1, 2, 2, 2, 3]), draw.choice(["zeros", "circular", "reflect", "replicate"])
        transposed = draw.random() < 0.25
        mode = "zeros" if transposed else mode
        kernel = [draw.randint(1, 4 if axes < 3 else 2) for _ in range(axes)]
        stride = [draw.choice([1, 1, 2, 3]) for _ in range(axes)]
        dilation = [draw.choice([1, 1, 2]) for _ in range(axes)]
        grid = [draw.randint(2, 6 if axes < 3 else 3) for _ in range(axes)]
        groups = draw.choice([1, 1, 2])
        padding = [draw.choice([0, (d * (k - 1) + 1) // 2, draw.randint(0, 3)]) for k, d in zip(kernel, dilation)]
        dtype = draw.choice([torch.float64, torch.float64, torch.complex128])
        kind = getattr(nn, ("ConvTranspose" if transposed else "Conv") + f"{axes}d")
        channels = groups * draw.randint(1, 2), groups * draw.randint(1, 2)
        options = {"stride": stride, "padding": tuple(padding), "dilation": dilation, "groups": groups, "dtype": dtype}
        try:
            layer = kind(*channels, kernel, padding_mode=mode, **options)
            value = truth(layer, (channels[0], *grid), dtype)
        except (RuntimeError, ValueError, IndexError):
            continue  # torch itself has no such layer on this grid
        done += 1
        bracket, everywhere = spectral_norm(layer, grid=grid, lower_iterations=10), spectral_norm(layer)
        assert bracket.contains(value), (layer, grid, value, bracket)
        assert value <= everywhere.floats().upper, (layer, grid, value, everywhere)
        assert float(everywhere.lower) <= everywhere.floats().upper


CIRCULAR = [
    (1, (5,), (3,), 1, 1),
    (2, (4, 4), (3, 3), 1, 1),
    (2, (4, 7), (3, 5), 1, 1),
    (2, (4, 4), (7, 7), 1, 1),  # the kernel is larger than the grid
    (2, (6, 6), (3, 3), 2, 1),
    (2, (6, 8), (5, 3), (3, 2), 1),
    (2, (5, 6), (3, 3), 1, 2),
    (2, (6, 4), (3, 3), 2, 2),
    (3, (3, 2, 4), (3, 1, 3), 1, 1),
    (2, (3, 3), (1, 1), 1, 1),
]


@pytest.mark.parametrize("axes, grid, kernel, stride, dilation", CIRCULAR)
@pytest.mark.parametrize("groups", [1, 2])
def test_circular_norms_are_exact(axes, grid, kernel, stride, dilation, groups):
    padding = tuple(dilation * (k - 1) // 2 for k in kernel)
    options = {"padding": padding, "padding_mode": "circular", "stride": stride, "dilation": dilation}
    layer = conv(4, 2, kernel, axes=axes, groups=groups, **options)
    taps = [torch.arange(-p, n + p) for p, n in zip(padding, grid)]

    def wrapped(x):  # torch pads no more than one period
        for axis, (tap, n) in enumerate(zip(taps, grid)):
            x = x.index_select(axis + 2, tap % n)
        return getattr(nn.functional, f"conv{axes}d")(x, layer.weight, None, stride, 0, dilation, groups)

    value = truth(wrapped, (4, *grid))
    bracket = spectral_norm(layer, grid=grid)
    assert bracket.contains(value)
    assert float(bracket.gap) < 1e-11


def test_even_kernels_that_keep_the_size_are_exact():
    layer = conv(2, 3, (4, 2), padding="same", padding_mode="circular")
    bracket = spectral_norm(layer, grid=(5, 4))

    def wrapped(x):
        x = nn.functional.pad(x, (0, 1, 1, 2), mode="circular")
        return nn.functional.conv2d(x, layer.weight)

    assert bracket.contains(truth(wrapped, (2, 5, 4)))
    assert float(bracket.gap) < 1e-11


def test_folding_is_not_truncation():
    """A 7×7 kernel on 4×4 points: the symbol of the first 4×4 taps is another operator."""
    weight = torch.ones(1, 1, 7, 7, dtype=torch.float64)
    assert float(spectral_norm(weight, grid=4, padding_mode="circular").upper) == pytest.approx(49.0, rel=1e-12)


def test_zero_padding_lies_between_power_iteration_and_the_torus():
    worst = 0.0
    for seed, (k, n) in enumerate([(3, 4), (3, 8), (5, 5), (7, 7), (4, 6)]):
        layer = conv(2, 3, k, padding=k // 2, seed=seed)
        value = truth(layer, (2, n, n))
        bracket = spectral_norm(layer, grid=n, lower_iterations=200)
        assert bracket.contains(value)
        assert float(bracket.lower) == pytest.approx(value, rel=1e-3)
        worst = max(worst, bracket.floats().upper / value)
    assert worst < 1.5  # 7×7 kernels on 7×7 points; near 1 where the grid is wide


def test_the_circular_norm_of_the_same_grid_does_not_bound_zero_padding():
    """Why the torus is larger: kernels exist whose zero-padded norm exceeds the circular one."""
    found = 0
    for seed in range(60):
        weight = conv(1, 1, 5, padding=2, seed=seed).weight.detach()
        value = truth(lambda x, w=weight: nn.functional.conv2d(x, w, padding=2), (1, 5, 5))
        found += value > 1.001 * float(spectral_norm(weight, grid=5, padding_mode="circular").upper)
        assert value <= float(spectral_norm(weight, grid=5).upper)
    assert found > 0


@pytest.mark.parametrize("axes, kernel", [(1, (5,)), (2, (3, 3)), (2, (1, 4)), (2, (2, 2))])
def test_the_bridge_bounds_the_supremum_of_the_symbol(axes, kernel):
    for seed in range(8):
        weight = conv(2, 2, kernel, axes=axes, seed=seed).weight.detach()[None]
        fine = float(torus_norm(weight, (240,) * axes, (1,) * axes).lower)
        for scale in (1, 2, 5):
            torus = tuple(2 * (k // 2) + scale if k > 1 else 1 for k in kernel)
            coarse = torus_norm(weight, torus, (1,) * axes)
            assert fine <= float(coarse.upper) * bridge_factor(kernel, torus)
        everywhere = spectral_norm(weight[0])
        assert fine <= float(everywhere.upper) <= fine * 1.012
    assert bridge_factor((1, 1), (1, 1)) == pytest.approx(1.0)
    assert bridge_factor((3, 3), (16, 16)) == pytest.approx(math.cos(math.pi / 16) ** -2)
    with pytest.raises(ValueError, match="needs more than 2"):
        bridge_factor((3,), (2,))


def test_the_gram_iteration_of_kernels_bounds_both_paddings():
    for seed in range(5):
        for channels, k in (((2, 3), 3), ((4, 2), 2), ((1, 1), 5)):
            weight = conv(*channels, k, seed=seed).weight.detach()
            fine = float(torus_norm(weight[None], (64, 64), (1, 1)).lower)
            bounds = [float(kernel_gram_bound(weight, steps=t)) for t in (1, 2, 3)]
            assert fine <= bounds[2] <= bounds[1] * (1 + 1e-9) and bounds[1] <= bounds[0] * (1 + 1e-9)
    # 1×1 kernels: the ∞-norm of (WW*)^{2^{t−1}}
    matrix = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    power = matrix @ matrix.mT
    expected = (power @ power).abs().sum(1).max() ** 0.25
    assert float(kernel_gram_bound(matrix[:, :, None], steps=2)) == pytest.approx(float(expected), rel=1e-12)
    assert float(kernel_gram_bound(torch.zeros(2, 2, 3, 3))) == 0.0
    with pytest.raises(ValueError, match="steps=4: expected 1 to 3"):
        kernel_gram_bound(torch.ones(1, 1, 3), steps=4)


def test_polyphase_and_dilation_are_the_same_map():
    weight = torch.randn(1, 2, 3, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = torch.randn(1, 3, 12, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    phases = x.unflatten(3, (-1, 3)).unflatten(2, (-1, 2)).permute(0, 1, 3, 5, 2, 4)
    ours = nn.functional.conv2d(phases.flatten(1, 3), polyphase(weight, (2, 3))[0])
    theirs = nn.functional.conv2d(x, weight[0], stride=(2, 3))
    assert torch.allclose(ours, theirs[..., : ours.shape[2], : ours.shape[3]], atol=1e-12)
    spread = nn.functional.conv2d(x, dilated(weight, (2, 3))[0])
    assert torch.allclose(spread, nn.functional.conv2d(x, weight[0], dilation=(2, 3)), atol=1e-12)


def test_transposed_convolutions_have_the_norm_of_their_adjoint():
    torch.manual_seed(0)
    layer = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1, dtype=torch.float64)
    bracket = spectral_norm(layer, grid=(4, 5), lower_iterations=200)
    value = truth(layer, (3, 4, 5))
    assert bracket.contains(value) and float(bracket.lower) == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize("padding_mode", ["zeros", "circular", "reflect"])
@pytest.mark.parametrize("grid", [(5, 4), None])
def test_gradients_of_the_upper_end(padding_mode, grid):
    weight = conv(2, 2, 3).weight.detach().requires_grad_()

    def upper(w):
        return convolution_norm(w, grid=grid, padding_mode=padding_mode, stride=(1, 2), lower_iterations=0).upper

    assert torch.autograd.gradcheck(upper, weight, atol=1e-6)


def test_groups_count_by_their_largest():
    layer = conv(4, 4, 3, groups=2, padding=1, padding_mode="circular")
    with torch.no_grad():
        layer.weight[:2] *= 10
    both = spectral_norm(layer, grid=6)
    first = spectral_norm(layer.weight[:2].detach(), grid=6, padding_mode="circular")
    assert both.floats().upper == pytest.approx(float(first.upper), rel=1e-12)


def test_extreme_weights_kinds_and_grids():
    weight = conv(2, 2, 3).weight.detach()
    one = spectral_norm(weight, grid=Grid((6, 5), centering="cell"))
    for scale in (1e30, 1e-30, 1e300):
        scaled = spectral_norm(weight * scale, grid=(6, 5))
        assert float(scaled.upper) == pytest.approx(float(one.upper) * scale, rel=1e-9)
    array = spectral_norm(weight.numpy(), grid=(6, 5))
    assert float(array.upper) == float(one.upper) and not isinstance(array.upper, torch.Tensor)
    zero = spectral_norm(torch.zeros(2, 2, 3, 3, requires_grad=True), grid=4)
    assert zero.floats().upper == 0.0
    single = spectral_norm(weight.float(), grid=(6, 5), method="gram", precision="input")
    assert float(single.upper) >= float(spectral_norm(weight.float().double(), grid=(6, 5), lower_iterations=200).lower)


def test_refusals():
    weight = torch.ones(2, 2, 3, 3)
    cases = [
        ({"padding_mode": "mirror"}, "padding_mode='mirror': expected one of zeros"),
        ({"groups": 3}, "groups=3 does not divide"),
        ({"stride": 0}, "stride=0: expected one whole number ≥ 1 per axis, 2 in all"),
        ({"padding": "full"}, "padding='full': expected 'same', 'valid' or whole numbers"),
        ({"grid": (4,)}, r"grid=\(4,\): expected one whole number"),
        ({"grid": 2, "padding": "valid"}, "has no output on a grid of"),
        ({"transposed": True, "padding_mode": "circular"}, "of a transposed convolution: expected 'zeros'"),
        ({"grid": 2, "padding": 2, "padding_mode": "reflect"}, "reflect padding of 2 needs more than 2 points"),
        ({"grid": 1, "padding": 3, "transposed": True}, "leaves nothing of the output"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            spectral_norm(weight, **options)
    with pytest.raises(ValueError, match="NaN or infinite"):
        spectral_norm(weight * torch.nan, grid=4)
    with pytest.raises(ValueError, match="1 to 3 kernel axes"):
        convolution_norm(torch.ones(2, 2))
