"""Dense norms by every method against singular values in float64; numpy and layers through the one door."""

import numpy as np
import pytest
import torch
from torch import nn

from sciops.lipschitz import dense_norm, spectral_norm
from sciops.mixers import SpectralMixer

METHODS = ["auto", "gram", "eigvalsh", "svdvals"]


def gaussian(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("precision", ["double", "input"])
def test_the_truth_is_inside(method, dtype, precision):
    for shape in ((60, 8, 8), (60, 3, 9), (60, 9, 3), (60, 1, 1), (1, 70, 50)):
        for scale in (1e-30, 1.0, 1e30):
            matrix = gaussian(*shape, dtype=dtype) * scale
            truth = torch.linalg.svdvals(matrix.to(torch.complex128))[..., 0]
            bracket = dense_norm(matrix, method=method, precision=precision)
            assert bracket.contains(truth).all()
            assert (bracket.gap < 1.5e-3).all()


@pytest.mark.parametrize("method", ["eigvalsh", "svdvals"])
def test_direct_methods_are_exact_to_round_off(method):
    matrix = gaussian(20, 30, 20)
    bracket = dense_norm(matrix, method=method)
    assert (bracket.gap < 1e-11).all()
    assert torch.allclose(bracket.upper, torch.linalg.svdvals(matrix)[..., 0], rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_gradients_are_the_outer_product(method):
    matrix = (gaussian(40, 40) + 40 * gaussian(40, 1) @ gaussian(1, 40, seed=1)).requires_grad_()
    dense_norm(matrix, method=method, tolerance=1e-9).upper.backward()
    u, _, v = torch.linalg.svd(matrix.detach())
    assert torch.allclose(matrix.grad, torch.outer(u[:, 0], v[0]), atol=1e-5)
    zero = torch.zeros(3, 40, 40, requires_grad=True)
    dense_norm(zero, method=method).upper.sum().backward()
    assert torch.isfinite(zero.grad).all()


def test_layers_and_weights_through_one_door():
    layer = nn.Linear(7, 5, dtype=torch.float64)
    truth = float(torch.linalg.svdvals(layer.weight.detach())[0])
    assert spectral_norm(layer).contains(truth)
    array = layer.weight.detach().numpy()
    bracket = spectral_norm(array)
    assert isinstance(bracket.upper, np.ndarray | np.floating) and bracket.lower <= truth <= bracket.upper
    assert spectral_norm(nn.Identity()).floats().upper == 1.0
    half = spectral_norm(layer.weight.detach().bfloat16())
    assert half.contains(float(torch.linalg.svdvals(layer.weight.detach().bfloat16().double())[0]))


def jacobian(layer, shape):
    with torch.no_grad():
        basis = torch.eye(int(np.prod(shape)), dtype=torch.float64).reshape(-1, *shape)
        return layer(basis).flatten(1).mT


@pytest.mark.parametrize("grid", [(6, 6), (7, 9), (8, 6), (9, 12)])
def test_spectral_layers_with_and_without_a_grid(grid):
    torch.manual_seed(0)
    mixer = SpectralMixer(2, (3, 4)).double()
    truth = float(torch.linalg.svdvals(jacobian(mixer, (*grid, 2)))[0])
    exact, everywhere = spectral_norm(mixer, grid=grid), spectral_norm(mixer)
    assert exact.contains(truth) and float(exact.gap) < 1e-11
    assert truth <= everywhere.floats().upper and float(everywhere.lower) <= everywhere.floats().upper
    layers = [r for r in mixer.parts[0].weight.detach().flatten(0, 1)]
    most = max(float(torch.linalg.svdvals(torch.complex(r[:, 0], r[:, 1]))[0]) for r in layers)
    assert everywhere.floats().upper == pytest.approx(most, rel=1e-11)


def test_a_neuraloperator_layer():
    from neuralop.layers.spectral_convolution import SpectralConv

    torch.manual_seed(0)
    conv = SpectralConv(2, 3, (4, 6))
    exact, everywhere = spectral_norm(conv, grid=(8, 12)), spectral_norm(conv)
    assert float(exact.gap) < 1e-11
    assert exact.floats().upper <= everywhere.floats().upper * (1 + 1e-12)


def test_refusals():
    with pytest.raises(ValueError, match="method='lanczos': expected 'auto'"):
        dense_norm(torch.ones(2, 2), method="lanczos")
    with pytest.raises(ValueError, match="NaN or infinite"):
        spectral_norm(np.array([[np.nan]]))
    with pytest.raises(TypeError, match="spectral_norm of LSTM: expected a linear, convolution or spectral layer"):
        spectral_norm(nn.LSTM(2, 2))
    with pytest.raises(TypeError, match="stride: the weight \\(2, 2\\) is a matrix"):
        spectral_norm(torch.ones(2, 2), stride=2)
    with pytest.raises(TypeError, match="padding: a module brings these along"):
        spectral_norm(nn.Linear(2, 2), padding=1)
    with pytest.raises(ValueError, match="weight of shape \\(2,\\): expected"):
        spectral_norm(torch.ones(2))
    with pytest.raises(ValueError, match="basis='sine': the norm depends on where the points lie"):
        spectral_norm(SpectralMixer(2, (2, 2), basis="sine"))
