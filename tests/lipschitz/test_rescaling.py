"""1-Lipschitz layers: dense Jacobians of norm at most one, whatever the weights and the number of steps."""

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.lipschitz import (
    RescaledConv,
    RescaledLinear,
    RescaledResidual,
    RescaledSpectral,
    kernel_scales,
    row_scales,
)
from sciops.lipschitz.norms.fourier import fourier_norm

STEPS = (1, 2, 3, 4, 6, 10)


def norm(matrix):
    return float(torch.linalg.matrix_norm(matrix.detach(), 2))


def jacobian(layer, shape):
    """The matrix of the linear part of a layer on (1, *shape), float64."""
    count = int(np.prod(shape))
    with torch.no_grad():
        zero = layer(torch.zeros(1, *shape, dtype=torch.float64))
        return (layer(torch.eye(count, dtype=torch.float64).reshape(count, *shape)) - zero).reshape(count, -1).T


def test_rescaled_matrices_have_norm_at_most_one_and_tend_to_it():
    generator = torch.Generator().manual_seed(0)
    for shape in ((8, 6), (3, 7), (1, 4), (5, 1)):
        w = torch.randn(3, *shape, generator=generator, dtype=torch.float64)
        w[1] *= 1e-3
        norms = torch.stack([torch.linalg.matrix_norm(w / row_scales(w, t)[..., None], 2) for t in STEPS])
        assert (norms <= 1 + 1e-12).all()
        assert (norms[-1] > 0.997).all()


def test_one_step_is_aol_and_many_are_the_spectral_norm():
    w = torch.randn(5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.allclose(row_scales(w, 1), (w @ w.T).abs().sum(1).sqrt(), rtol=1e-12)
    assert torch.allclose(row_scales(w, 14), torch.full((5,), norm(w), dtype=w.dtype), rtol=1e-3)


def test_a_direct_power_agrees():
    w = torch.randn(4, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for t in (2, 3, 4):
        power = torch.linalg.matrix_power(w @ w.T, 2 ** (t - 1))
        assert torch.allclose(row_scales(w, t), power.abs().sum(1) ** (0.5**t), rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [1, 4, 10])
def test_extreme_matrices(dtype, steps):
    generator = torch.Generator().manual_seed(3)
    w = torch.randn(6, 6, generator=generator, dtype=dtype)
    small = 1e-18 if dtype == torch.float32 else 1e-150
    cases = [w * 1e30, w * 1e-30, torch.zeros_like(w), torch.linalg.qr(w)[0], w[:, :1] @ w[:1]]
    uneven = w.clone()
    uneven[2:4] *= small
    uneven[5] = 0
    for case in [*cases, uneven]:
        scaled = case / torch.where((r := row_scales(case, steps)) > 0, r, 1)[:, None]
        assert torch.isfinite(scaled).all()
        assert norm(scaled.double()) <= 1 + (1e-12 if dtype == torch.float64 else 2e-6)


@pytest.mark.parametrize("padding", ["zeros", "circular"])
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_rescaled_convolutions(padding, steps):
    torch.manual_seed(steps)
    for axes, size, grid in ((1, 3, (7,)), (1, 5, (3,)), (2, 3, (5, 6)), (2, 5, (4, 4)), (3, 3, (3, 4, 3))):
        layer = RescaledConv(2, 3, size=size, axes=axes, padding=padding, steps=steps).double()
        assert norm(jacobian(layer, (2, *grid))) <= 1 + 1e-12
    layer = RescaledConv(2, 2, axes=1, padding=padding, steps=steps).double()
    found = norm(jacobian(layer, (2, 60)))
    assert found > {1: 0.6, 2: 0.75, 3: 0.85, 4: 0.92}[steps]


def test_kernel_scales_are_those_of_the_powers_kernel():
    """Against the matrix of a lattice long enough that nothing wraps."""
    kernel = torch.randn(2, 2, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    n, t = 64, 3
    matrix = torch.zeros(2, n, 2, n, dtype=torch.float64)
    for i in range(n):
        for k in range(3):
            matrix[:, i, :, (i + k) % n] += kernel[:, :, k]
    matrix = matrix.reshape(2 * n, 2 * n)
    power = torch.linalg.matrix_power(matrix @ matrix.T, 2 ** (t - 1))
    expected = power.abs().sum(1).reshape(2, n)[:, 0] ** (0.5**t)
    assert torch.allclose(kernel_scales(kernel, t), expected, rtol=1e-12)


@pytest.mark.parametrize("shrink", [True, False])
@pytest.mark.parametrize("steps", [1, 3, 6])
def test_rescaled_spectral_layers(shrink, steps):
    torch.manual_seed(steps)
    for shape, modes in (((8, 8), (4, 5)), ((7, 8), (3, 3)), ((9,), (4,))):
        layer = RescaledSpectral(2, modes, steps=steps, shrink=shrink, out_channels=3).double()
        with torch.no_grad():
            for part in layer.parts:
                part.parametrizations.weight.original.mul_(30)
        found = norm(jacobian(layer, (*shape, 2)))
        assert 0.5 < found <= 1 + 1e-12
        assert found == pytest.approx(
            float(fourier_norm(layer, Grid(shape, centering="periodic")).upper.detach()), rel=1e-12
        )


@pytest.mark.parametrize("basis", ["sine", "cosine", "sine-cosine"])
def test_rescaled_sines_and_cosines(basis):
    layer = RescaledSpectral(2, (4, 4), basis=basis, shrink=False).double()
    grid = Grid((8, 7))
    matrix = jacobian(layer, (8, 7, 2))
    w = torch.from_numpy(np.sqrt(np.repeat(grid.weights().ravel(), 2)))
    assert 0.9 < norm(w[:, None] * matrix / w) <= 1 + 1e-12


def test_shrinking_leaves_small_modes_alone():
    torch.manual_seed(0)
    layer = RescaledSpectral(3, (4, 4))
    original = layer.parts[0].parametrizations.weight.original
    assert torch.equal(layer.parts[0].weight, original)  # gains of 0.1 at the start
    linear = RescaledLinear(3, 3, shrink=True)
    with torch.no_grad():
        linear.raw.mul_(0.01)
    assert torch.equal(linear.weight, linear.raw)


@pytest.mark.parametrize("activation", ["relu", "tanh", "softsign"])
@pytest.mark.parametrize("steps", STEPS)
def test_the_residual_layer_is_one_lipschitz(activation, steps):
    torch.manual_seed(steps)
    layer = RescaledResidual(5, hidden=8, activation=activation, steps=steps).double()
    worst = 0.0
    for x in 3 * torch.randn(20, 5, dtype=torch.float64):
        worst = max(worst, norm(torch.autograd.functional.jacobian(layer, x)))
    assert 0.5 < worst <= 1 + 1e-12


def test_layers_train_and_stay_contractions():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        RescaledLinear(4, 6), RescaledResidual(6), torch.nn.ReLU(), RescaledLinear(6, 2)
    ).double()
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    x = torch.randn(32, 4, dtype=torch.float64)
    losses = []
    for _ in range(30):
        loss = (model(x) - x[:, :2].sin()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]
    y = x + 0.1 * torch.randn(32, 4, dtype=torch.float64)
    assert ((model(x) - model(y)).norm(dim=1) <= (x - y).norm(dim=1) * (1 + 1e-12)).all()


def test_gradients_of_the_scales():
    w = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: row_scales(w, 3), w)
    k = torch.randn(2, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda k: kernel_scales(k, 2), k)


def test_errors_are_told():
    for make in (
        lambda: RescaledLinear(2, 2, steps=0),
        lambda: RescaledConv(2, 2, size=4),
        lambda: RescaledConv(2, 2, padding="reflect"),
        lambda: RescaledSpectral(2, (2,), weights="diagonal"),
        lambda: RescaledResidual(2, activation="gelu"),
    ):
        with pytest.raises(ValueError, match="expected"):
            make()
