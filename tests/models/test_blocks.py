"""Norms, the local kernel, residual blocks and dealiasing against their definitions in float64."""

import numpy as np
import pytest
import torch
from torch import nn

from sciops import Grid, resample
from sciops.models.spine.blocks import ClassicBlock, LocalKernel, ResidualBlock
from sciops.models.spine.dealiasing import on_finer_grid
from sciops.models.spine.norms import InstanceNorm, RMSNorm

torch.manual_seed(0)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


class Scale(nn.Module):
    """A stand-in mixer: x ↦ 2x."""

    def forward(self, x, grid=None):
        return 2 * x


def residual(channels: int = 6, **options) -> ResidualBlock:
    defaults = dict(norm="rms", mlp="gated", mlp_ratio=1.5, mixer_activation=True, local=None, layer_scale=None)
    return ResidualBlock(channels, Scale(), **{**defaults, "dealias": 1, "periodic": False, **options}).double()


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script.*:DeprecationWarning"
)  # inside torch, on first use of forward mode
def test_rms_norm_is_its_definition_with_derivatives_of_both_orders_and_directions():
    norm, x = RMSNorm(5).double(), randn(2, 3, 4, 5)
    with torch.no_grad():
        norm.weight.copy_(randn(5))
    expected = norm.weight * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(norm(x), expected, rtol=1e-14, atol=1e-14)

    def f(x, w):
        return torch.func.functional_call(norm, {"weight": w}, (x,))

    inputs = (x[:1, :2, :2].clone().requires_grad_(), randn(5).requires_grad_())
    assert torch.autograd.gradcheck(f, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, inputs)


def test_per_sample_gradients_through_the_norm_are_those_of_a_loop():
    norm, x = RMSNorm(4).double(), randn(3, 5, 4)

    def gradient(w, sample):
        return torch.func.grad(lambda v: torch.func.functional_call(norm, {"weight": v}, (sample,)).pow(3).sum())(w)

    w = norm.weight.detach()
    together = torch.func.vmap(gradient, in_dims=(None, 0))(w, x)
    torch.testing.assert_close(together, torch.stack([gradient(w, s) for s in x]), rtol=1e-12, atol=1e-12)


def test_rms_norm_in_half_precision_is_the_rounded_float32_result():
    norm, x = RMSNorm(32), torch.randn(4, 7, 32)
    expected = norm(x.bfloat16().float()).bfloat16()
    torch.testing.assert_close(norm(x.bfloat16()), expected, rtol=0, atol=0)
    torch.testing.assert_close(norm.bfloat16()(x.bfloat16()), expected, rtol=0, atol=0)


def test_instance_norm_has_zero_mean_and_unit_variance_per_sample_and_channel():
    y = InstanceNorm(3, eps=0.0).double()(randn(2, 9, 8, 3) * 5 + 4)
    torch.testing.assert_close(y.mean((1, 2)), torch.zeros(2, 3, dtype=torch.float64), rtol=0, atol=1e-13)
    torch.testing.assert_close(y.var((1, 2), correction=0), torch.ones(2, 3, dtype=torch.float64))


@pytest.mark.parametrize("norm", ["rms", "layer", "instance", "none"])
@pytest.mark.parametrize("mlp", ["gated", "plain"])
def test_a_residual_block_whose_branches_end_in_zero_is_the_identity(norm, mlp):
    block, x = residual(norm=norm, mlp=mlp, local=LocalKernel(6, 2)), randn(2, 5, 4, 6)
    for last in (block.after_mixer, block.mlp_out):
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
    assert torch.equal(block(x, Grid((5, 4)), (1, 1)), x)


def test_a_layer_scale_of_zero_is_the_identity_and_one_changes_nothing():
    x, grid = randn(2, 5, 4, 6), Grid((5, 4))
    assert torch.equal(residual(layer_scale=0.0)(x, grid, (1, 1)), x)
    with_scale, without = residual(layer_scale=1.0), residual()
    without.load_state_dict({k: v for k, v in with_scale.state_dict().items() if "scale" not in k})
    assert torch.equal(with_scale(x, grid, (1, 1)), without(x, grid, (1, 1)))


def test_a_residual_block_is_the_formula_of_its_docstring():
    block, x = residual(norm="none", local=LocalKernel(6, 2)), randn(2, 5, 4, 6)
    grid = Grid((5, 4))
    gelu = torch.nn.functional.gelu
    z = x + block.after_mixer(gelu(2 * x + block.local(x, grid, (1, 1))))
    expected = z + block.mlp_out(block.mlp_in(z) * gelu(block.mlp_gate(z)))
    torch.testing.assert_close(block(x, grid, (1, 1)), expected, rtol=1e-14, atol=1e-14)


def test_a_classic_block_is_linear_when_last_and_adds_its_three_terms():
    block = ClassicBlock(3, Scale(), norm="none", local=None, last=True, dealias=1, periodic=True).double()
    x = randn(2, 5, 4, 3)
    expected = x @ block.skip.weight.T + block.skip.bias + 2 * x
    torch.testing.assert_close(block(x, Grid((5, 4)), (1, 1)), expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("shape, dilation", [((7,), (2,)), ((5, 8), (1, 1)), ((8, 5), (3, 2)), ((4, 5, 3), (1, 2, 1))])
@pytest.mark.parametrize("centering", ["node", "periodic"])
def test_the_local_kernel_is_a_sum_of_shifted_fields(shape, dilation, centering):
    kernel, x = LocalKernel(2, len(shape)).double(), randn(2, *shape, 2)
    got = kernel(x, Grid(shape, centering=centering), dilation)
    weight, expected = kernel.weight.detach().numpy(), np.zeros(x.shape)
    for tap in np.ndindex(*(3,) * len(shape)):
        offset = [(t - 1) * d for t, d in zip(tap, dilation)]
        for point in np.ndindex(*shape):
            source = [p + o for p, o in zip(point, offset)]
            if centering == "periodic":
                source = [s % n for s, n in zip(source, shape)]
            if all(0 <= s < n for s, n in zip(source, shape)):
                expected[(slice(None), *point)] += weight[(slice(None), 0, *tap)] * x[(slice(None), *source)].numpy()
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("centering, fine", [("node", (13, 17)), ("periodic", (14, 18))])
def test_a_dilated_kernel_on_a_finer_grid_equals_the_plain_one_at_shared_points(centering, fine):
    on_fine = Grid(fine, centering=centering)
    on_coarse = on_fine.coarsen(2)
    kernel, x = LocalKernel(3, 2).double(), randn(2, *fine, 3)
    a = kernel(x, on_fine, (2, 2))[:, ::2, ::2]
    b = kernel(x[:, ::2, ::2], on_coarse, (1, 1))
    torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("centering, periodic", [("periodic", True), ("node", True), ("node", False), ("cell", False)])
@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize("shape", [(8, 9), (7,), (6, 5, 4)])
def test_dealiasing_a_linear_map_changes_nothing(centering, periodic, factor, shape):
    x = randn(2, *shape, 3)
    y = on_finer_grid(lambda z: 2 * z, (x,), Grid(shape, centering=centering), factor, periodic)
    torch.testing.assert_close(y, 2 * x, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("centering, method", [("periodic", "fourier"), ("node", "cosine"), ("cell", "cosine")])
@pytest.mark.parametrize("n", [8, 9])
def test_the_finer_field_is_what_resample_gives(centering, method, n):
    coarse, seen = Grid((n, 5), centering=centering), []
    x = randn(2, n, 5, 3)
    on_finer_grid(lambda z: (seen.append(z), z)[1], (x,), coarse, 3, False)
    shape = tuple(3 * (m - 1) + 1 if centering == "node" else 3 * m for m in coarse.shape)
    expected = resample(x.movedim(-1, 1), coarse, Grid(shape, centering=centering), method).movedim(1, -1)
    torch.testing.assert_close(seen[0], expected, rtol=1e-11, atol=1e-11)


def test_dealiased_squares_keep_the_true_low_modes_and_drop_what_would_fold():
    """(cos 5θ)² = ½ + ½ cos 10θ; on 12 points cos 10θ looks like cos 2θ, and must be dropped, not folded."""
    theta = 2 * torch.pi * torch.arange(12, dtype=torch.float64) / 12
    x, grid = torch.cos(5 * theta)[None, :, None], Grid((12,), centering="periodic")
    y = on_finer_grid(torch.square, (x,), grid, 2, True)
    torch.testing.assert_close(y, torch.full_like(y, 0.5), rtol=1e-12, atol=1e-12)
    folded = on_finer_grid(torch.square, (x,), grid, 1, True)
    torch.testing.assert_close(folded[0, :, 0], 0.5 + 0.5 * torch.cos(2 * theta), rtol=1e-12, atol=1e-12)
