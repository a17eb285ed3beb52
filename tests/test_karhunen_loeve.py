"""The Karhunen–Loève sum as a linear map: a matrix written out, its transpose, its covariance, what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from sciops import Grid
from sciops.random_fields import KarhunenLoeve, gaussian_random_field, normal_coefficients

GRIDS = {
    "1d": Grid((9,), extent=2.5),
    "box": Grid((5, 7), extent=((-1, 1), (0, 0.5))),
    "cells": Grid((4, 6), centering="cell"),
    "periodic": Grid((6, 5), centering="periodic"),
    "3d": Grid((3, 4, 2), extent=((0, 2), (0, 1), (-1, 1))),
}


def matrix(prior: KarhunenLoeve) -> np.ndarray:
    """Φ, (points, coefficients), entry by entry from the formula of `gaussian_random_field`, τ = 3 and α = 2."""
    grid, modes = prior.grid, prior.shape[0]
    d, fourier = grid.ndim, grid.centering == "periodic"
    lengths = [b - a for a, b in grid.domain]
    columns = []
    for k in product(range(modes), repeat=d):
        eigenvalue, column = 0.0, np.ones(grid.shape)
        for x, number, (a, _), length in zip(grid.meshgrid(), k, grid.domain, lengths):
            if fourier:
                wave = 2 * np.pi * ((number + 1) // 2) / length
                value = np.cos(wave * (x - a)) if number % 2 or number == 0 else np.sin(wave * (x - a))
            else:
                wave = np.pi * number / length
                value = np.cos(wave * (x - a))
            eigenvalue += wave**2
            column = column * value * np.sqrt((2 if number else 1) / length)
        columns.append(column.ravel() * (3.0 ** (2 - d / 2) * (eigenvalue + 9) ** -1.0 if any(k) else 0.0))
    return np.stack(columns, 1)


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_equals_the_matrix(grid):
    prior = KarhunenLoeve(grid, tau=3.0, alpha=2.0, modes=5)
    phi, rng = matrix(prior), np.random.default_rng(0)
    xi, g = rng.standard_normal((2, 3, *prior.shape)), rng.standard_normal((2, *grid.shape))
    close = {"rtol": 0, "atol": 1e-14 * np.abs(phi).max() * phi.shape[1]}
    np.testing.assert_allclose(prior.field(xi).reshape(2, 3, -1), xi.reshape(2, 3, -1) @ phi.T, **close)
    np.testing.assert_allclose(prior.transpose(g).reshape(2, -1), g.reshape(2, -1) @ phi, **close)
    covariance = prior.covariance()
    assert covariance.shape == grid.shape * 2
    np.testing.assert_allclose(covariance.reshape(grid.size, -1), phi @ phi.T, **close)
    np.testing.assert_allclose(prior.variance().ravel(), (phi**2).sum(1), **close)


def test_samples_are_its_fields():
    grid = Grid((21, 33))
    prior = KarhunenLoeve(grid, tau=4.0, alpha=1.5, modes=24, normalize=True)
    xi = np.stack([normal_coefficients(24, 2, seed=3, number=i) for i in (5, 6)])
    drawn = gaussian_random_field(grid, 2, tau=4.0, alpha=1.5, modes=24, seed=3, first=5, normalize=True)
    assert np.array_equal(prior.field(xi), drawn)
    assert np.array_equal(prior.field(xi[1]), drawn[1])
    assert np.array_equal(prior.field(np.asfortranarray(xi)[::-1]), drawn[::-1])


def test_the_mean_square_of_a_normalized_field_is_one():
    grid = Grid((64, 48), extent=((0, 3), (0, 1)), centering="cell")
    prior = KarhunenLoeve(grid, tau=3.0, alpha=2.0, modes=20, normalize=True)
    assert prior.variance().mean() == pytest.approx(1.0, rel=1e-12)  # the midpoint rule is exact for these squares


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keeps_kind_and_dtype_and_lets_gradients_through(dtype):
    prior = KarhunenLoeve(Grid((7, 6)), tau=3.0, alpha=2.0, modes=4)
    xi = torch.randn(3, 4, 4, dtype=dtype, generator=torch.Generator().manual_seed(0), requires_grad=True)
    g = prior.field(xi)
    assert g.dtype == dtype and g.shape == (3, 7, 6)
    weight = torch.linspace(-1, 1, g.numel(), dtype=dtype).reshape(g.shape)
    (gradient,) = torch.autograd.grad((g * weight).sum(), xi)
    torch.testing.assert_close(gradient, prior.transpose(weight))
    assert isinstance(prior.field(xi.detach().numpy()), np.ndarray)
    assert prior.field(np.zeros((0, 4, 4))).shape == (0, 7, 6)


def test_uses_one_thread_and_gives_the_others_back():
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        KarhunenLoeve(Grid((7, 6)), tau=3.0, alpha=2.0, modes=4).field(np.zeros((4, 4)))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


def test_refuses_other_shapes_and_complex_numbers():
    prior = KarhunenLoeve(Grid((7, 6)), tau=3.0, alpha=2.0, modes=4)
    with pytest.raises(ValueError, match=r"coefficients of shape \(3, 4\): expected \(…, 4, 4\)"):
        prior.field(np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"fields of shape \(6, 7\): expected \(…, 7, 6\)"):
        prior.transpose(np.zeros((6, 7)))
    with pytest.raises(ValueError, match=r"coefficients of shape \(4,\)"):
        prior.field(np.zeros(4))
    with pytest.raises(ValueError, match="complex128: expected real numbers"):
        prior.field(np.zeros((4, 4), complex))
    with pytest.raises(ValueError, match="tau=-1"):
        KarhunenLoeve(Grid((7, 6)), tau=-1.0, alpha=2.0)
    with pytest.raises(TypeError, match="expected a Grid"):
        KarhunenLoeve((7, 6), tau=3.0, alpha=2.0)
