"""Band errors: they add up, they see every orientation, and they say which band a wave is in."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.spectral import band_edges, band_errors, power_spectrum


def pair(shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((4, 2) + shape), rng.standard_normal((4, 2) + shape)


@pytest.mark.parametrize("norm", ["isotropic", "max"])
@pytest.mark.parametrize("edges", [None, (3,), (0, 2.5, 4), (1, 2, 3, 100, 200)])
@pytest.mark.parametrize("shape", [(15,), (16,), (15, 16), (6, 7, 8)])
def test_squared_errors_sum_to_the_mean_square(shape, edges, norm):
    p, u = pair(shape)
    errors = band_errors(p, u, Grid(shape, centering="periodic"), edges, norm=norm)
    axes = tuple(range(1, p.ndim))
    np.testing.assert_allclose(errors.squared_error.sum(-1), np.square(p - u).mean(axes), rtol=1e-12)
    np.testing.assert_allclose(errors.target_energy.sum(-1), np.square(u).mean(axes), rtol=1e-12)
    np.testing.assert_allclose(errors.prediction_energy.sum(-1), np.square(p).mean(axes), rtol=1e-12)
    whole = np.sqrt((errors.relative_error**2 * errors.target_energy)[:, errors.target_energy[0] > 0].sum(-1))
    np.testing.assert_allclose(whole, np.sqrt(np.square(p - u).mean(axes)), rtol=1e-12)
    assert errors.lower[0] == 0 and np.isinf(errors.upper[-1])


def test_mirrored_waves_have_the_same_error():
    # an error that labels one quadrant of the FFT misses (3, −2)
    grid = Grid((32, 32), centering="periodic")
    x, y = grid.meshgrid()
    u = np.random.default_rng(0).standard_normal((1, 32, 32))
    for norm in ("isotropic", "max"):
        results = [
            band_errors(u + np.cos(2 * np.pi * (3 * x + ky * y)), u, grid, (2, 8), norm=norm).squared_error
            for ky in (2, -2)
        ]
        np.testing.assert_allclose(results[0], [[0, 0.5, 0]], atol=1e-14)
        np.testing.assert_allclose(results[0], results[1], rtol=1e-12, atol=1e-14)


def test_a_wave_on_an_edge_belongs_above_it():
    grid = Grid((24, 24), centering="periodic")
    x, y = grid.meshgrid()
    wave = np.cos(2 * np.pi * (3 * x + 4 * y))[None]  # |k|₂ = 5, |k|∞ = 4
    zero = np.zeros_like(wave)
    np.testing.assert_allclose(band_errors(wave, zero, grid, (5,)).squared_error, [[0, 0.5]], atol=1e-15)
    np.testing.assert_allclose(
        band_errors(wave, zero, grid, (4, 5), norm="max").squared_error, [[0, 0.5, 0]], atol=1e-15
    )
    np.testing.assert_allclose(band_errors(wave, zero, grid, (5.1,)).squared_error, [[0.5, 0]], atol=1e-15)


def test_relative_error_at_its_edges():
    grid = Grid((8, 8), centering="periodic")
    x, _ = grid.meshgrid()
    u = np.cos(2 * np.pi * x)[None] * np.ones((1, 8, 8))
    errors = band_errors(u * 1.25, u, grid, (0.5, 2))
    np.testing.assert_allclose(errors.relative_error[0, 1], 0.25, rtol=1e-12)
    nothing = band_errors(np.zeros((1, 8, 8)), np.zeros((1, 8, 8)), grid, (2,))
    np.testing.assert_array_equal(nothing.relative_error, 0.0)
    only_prediction = band_errors(np.ones((1, 8, 8)), np.zeros((1, 8, 8)), grid, (2,))
    assert np.isinf(only_prediction.relative_error[0, 0])


def test_a_high_band_error_stays_in_its_band_on_node_grids_with_walls():
    grid = Grid((33, 33))
    x, y = grid.meshgrid()
    u = (np.sin(np.pi * x) * np.sin(2 * np.pi * y))[None]
    p = u + 1e-3 * np.sin(20 * np.pi * x) * np.sin(np.pi * y)
    edges = band_edges(grid, 4, Grid((17, 17)), extension="odd")
    assert edges == (4.0, 8.0, 16.0)
    errors = band_errors(p, u, grid, edges, extension="odd")
    np.testing.assert_allclose(errors.squared_error, [[0, 0, 1e-6 / 4, 0]], atol=1e-18)


def test_edges_of_a_resolution_study():
    fine, coarse = Grid((64, 64), centering="periodic"), Grid((16, 16), centering="periodic")
    assert band_edges(fine, 6, coarse) == (6.0, 8.0, 32.0)
    assert band_edges(fine, 8, coarse) == (8.0, 32.0)
    assert band_edges(fine, 6, fine) == (6.0, 32.0)
    # nodes without extension: the period of the FFT is n·h
    assert band_edges(Grid((65, 65)), 6, Grid((17, 17))) == pytest.approx((6.0, 65 / 8, 65 / 2))


def test_torch_xarray_and_single_fields():
    grid = Grid((9, 10), centering="periodic")
    p, u = pair((9, 10))
    expected = band_errors(p, u, grid, (2, 4))
    torch_errors = band_errors(torch.from_numpy(p), torch.from_numpy(u), grid, (2, 4))
    assert isinstance(torch_errors.squared_error, torch.Tensor)
    np.testing.assert_allclose(torch_errors.squared_error, expected.squared_error, rtol=1e-12)
    dataset = torch_errors.to_xarray()
    assert dict(dataset.sizes) == {"sample": 4, "band": 3} and list(dataset.band.values)[0] == "[0, 2)"
    np.testing.assert_allclose(dataset.squared_error.sum("band"), np.square(p - u).mean((1, 2, 3)), rtol=1e-12)
    one = band_errors(p[0, 0], u[0, 0], grid, (2, 4))
    assert one.squared_error.shape == (3,)
    error = power_spectrum(p[0, 0] - u[0, 0], grid).energy.sum()
    assert one.squared_error.sum() == pytest.approx(error, rel=1e-12)


def test_bad_input_is_refused():
    p, u = pair((8, 8))
    grid = Grid((8, 8))
    with pytest.raises(ValueError, match="expected equal shapes"):
        band_errors(p[:, :1], u, grid, (2,))
    for edges in [(3, 2), (-1, 2), (2, 2), (), (float("nan"),)]:
        with pytest.raises(ValueError, match="increasing wavenumbers"):
            band_errors(p, u, grid, edges)
