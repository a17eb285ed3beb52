"""Aliasing of nonlinearities: the thresholds are sharp, refinement removes it, smooth functions alias less."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sciops.grids import Grid
from sciops.models import build_model
from sciops.resampling import resample
from sciops.spectral import aliasing_error, layer_aliasing


def band_limited(n, band, ndim=1, seed=0, batch=2):
    """Random fields with |k|∞ ≤ band on n points per axis, the same function for every n > 2·band."""
    rng = np.random.default_rng(seed)
    x = np.arange(n) / n
    k = np.arange(1, band + 1)[:, None]
    basis = np.concatenate([np.ones((1, n)), np.cos(2 * np.pi * k * x), np.sin(2 * np.pi * k * x)])
    c = rng.standard_normal((batch,) + (len(basis),) * ndim)
    for axis in range(1, ndim + 1):
        c = np.moveaxis(np.tensordot(c, basis, (axis, 0)), -1, axis)
    return c


def dealiased(activation, v, grid, factor):
    """The activation on a grid of `factor` times the points, brought back by dropping what the grid cannot hold."""
    fine = Grid(tuple(factor * n for n in grid.shape), centering="periodic")
    return resample(activation(resample(v, grid, fine, method="fourier")), fine, grid, method="fourier")


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("band, kept", [(4, 4), (5, 3), (3, 5)])
def test_a_polynomial_is_alias_free_exactly_above_the_threshold(ndim, degree, band, kept):
    threshold = degree * band + kept
    for n in (threshold, threshold + 1, threshold + 2):
        v = band_limited(n, band, ndim)
        error = aliasing_error(lambda z: z**degree, v, Grid((n,) * ndim, centering="periodic"), kept)
        assert error.shape == (2,)
        if n > threshold:
            assert error.max() < 1e-13
        else:
            assert error.min() > 1e-6


def test_the_first_alias_lands_on_the_last_kept_mode():
    band, kept = 4, 4
    n = 2 * band + kept
    grid = Grid(n, centering="periodic")
    v = band_limited(n, band)
    assert aliasing_error(np.square, v, grid, kept).min() > 1e-6
    assert aliasing_error(np.square, v, grid, kept - 1).max() < 1e-13


@pytest.mark.parametrize(
    "basis, centering", [("sine", "node"), ("cosine", "node"), ("cosine", "cell"), ("sine", "cell")]
)
def test_bases_with_walls_have_their_own_thresholds(basis, centering):
    # half-waves p ≤ P: the square has p ≤ 2P, which folds about the highest half-wave the grid can tell apart
    rng = np.random.default_rng(0)
    band, kept = 3.0, 2.0  # waves per extent: half-waves up to 6 and 4
    wave = np.sin if basis == "sine" else np.cos
    for n in range(7, 13):
        grid = Grid(n, centering=centering)
        p = np.arange(1, 7)[:, None]
        v = rng.standard_normal((3, 6)) @ wave(np.pi * p * grid.coordinates()[0])
        cube = (lambda z: z**3) if basis == "sine" else (lambda z: z * z)
        reach = 6 * (3 if basis == "sine" else 2)
        period = 2 * (n - 1 if centering == "node" else n)
        if 6 >= period / 2 or 2 * kept >= period / 2:
            continue
        error = aliasing_error(cube, v, grid, kept, basis=basis, factor=8)
        assert (error.max() < 1e-12) == (period > reach + 2 * kept), n
    assert band > kept


def test_a_pointwise_function_of_constants_or_linear_ones_never_alias():
    grid, v = Grid((9, 8), centering="periodic"), np.random.default_rng(0).standard_normal((3, 2, 9, 8))
    assert aliasing_error(lambda z: 3 * z + 1, v, grid, 3).max() < 1e-14
    # even with channels mixed by the function
    assert aliasing_error(lambda z: z[:, ::-1] - z, v, grid, (4, 3)).max() < 1e-13
    assert aliasing_error(lambda z: 0 * z, v, grid, 3).max() == 0


def test_dealiased_activations_improve_with_the_factor_and_smooth_ones_faster():
    grid = Grid((17, 17), centering="periodic")
    v = torch.from_numpy(band_limited(17, 4, 2, batch=4))
    errors = {}
    for name, activation in {"gelu": F.gelu, "relu": F.relu}.items():
        for q in (1, 2, 4, 8):
            # the reference is already fine: only what is sampled on the grid itself is replaced
            def act(z, activation=activation, q=q):
                return dealiased(activation, z, grid, q) if z.shape[-1] == 17 else activation(z)

            errors[name, q] = float(aliasing_error(act, v, grid, 4, factor=32).mean())
        assert all(errors[name, q] > 1.9 * errors[name, 2 * q] for q in (1, 2, 4)), errors
    # relative to where each starts, the smooth one gains more at every step
    for q in (2, 4):
        assert errors["gelu", q] / errors["gelu", 1] < errors["relu", q] / errors["relu", 1], errors


def test_gradients_pass_through_interpolation_and_dealiasing():
    coarse, fine = Grid((4, 5), centering="periodic"), Grid((8, 10), centering="periodic")
    v = torch.randn(2, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    w = torch.randn(2, 8, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (resample(v, coarse, fine, method="fourier") * w).sum().backward()
    # <P v, w> = <v, Pᵀ w> with Pᵀ from the gradient
    lhs = (resample(v.detach(), coarse, fine, method="fourier") * w).sum()
    torch.testing.assert_close(lhs, (v.detach() * v.grad).sum(), rtol=1e-12, atol=1e-12)
    z = torch.randn(1, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: dealiased(F.gelu, t, coarse, 2), (z,))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 1), nn.Linear(3, 6)
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.activation(self.first(x))
        u, v = self.second(x.movedim(1, -1)).chunk(2, -1)
        return (u * F.gelu(v)).movedim(-1, 1)


def test_layers_of_a_model_are_measured_one_by_one():
    torch.manual_seed(0)
    model, grid = Net().double(), Grid((11, 8), centering="periodic")
    x = torch.randn(3, 1, 11, 8, dtype=torch.float64)
    result = layer_aliasing(model, x, grid, 3)
    assert list(result.layer.values) == ["activation.relu", "gelu", "mul"]
    with torch.no_grad():
        first = model.first(x)
        u, v = model.second(F.relu(first).movedim(1, -1)).movedim(-1, 1).chunk(2, 1)
    for label, error in {
        "activation.relu": aliasing_error(F.relu, first, grid, 3),
        "gelu": aliasing_error(F.gelu, v, grid, 3),
        "mul": aliasing_error(lambda z: z[:, :3] * z[:, 3:], torch.cat([u, F.gelu(v)], 1), grid, 3),
    }.items():
        np.testing.assert_allclose(result.sel(layer=label), error.square().mean().sqrt(), rtol=1e-10, err_msg=label)
    assert torch.equal(model(x), model(x))  # the in-place activation of the run was not disturbed
    only = layer_aliasing(model, x, grid, 3, layers=["gelu"])
    np.testing.assert_allclose(only, result[1:2])


@pytest.mark.parametrize("dealias", [1, 2])
def test_the_spine(dealias):
    torch.manual_seed(0)
    grid = Grid((16, 16), centering="periodic")
    model = build_model(
        "fno", in_channels=1, out_channels=1, width=4, depth=2, modes=(4, 4), grid=grid, dealias=dealias
    ).double()
    x = torch.from_numpy(band_limited(16, 3, 2)[:, None])
    result = layer_aliasing(model, x, grid, 4)
    inside = [label for label in result.layer.values if label.startswith("blocks")]
    if dealias == 1:
        assert "blocks.0.gelu" in inside and "blocks.1.mul" in inside
        assert float(result.sel(layer=inside).min()) > 0
    else:
        assert inside == [] and "blocks.0.gelu" in result.skipped


def test_modes_that_do_not_fit_are_refused():
    for n, modes in [(8, 4), (9, 5), (8, -1), (8, (1, 2))]:
        with pytest.raises(ValueError, match="at most"):
            aliasing_error(np.tanh, np.zeros((1, n)), Grid(n, centering="periodic"), modes)
    with pytest.raises(ValueError, match="at least 2"):
        aliasing_error(np.tanh, np.zeros((1, 8)), Grid(8, centering="periodic"), 2, factor=1)
    with pytest.raises(ValueError, match="expected one of"):
        aliasing_error(np.tanh, np.zeros((1, 8)), Grid(8, centering="periodic"), 2, basis="legendre")
