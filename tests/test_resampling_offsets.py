"""Periodic grids that begin anywhere: an exact phase shift between them, and everything that works on two grids."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciops import Grid, build_model, resample, resampling, restrict
from sciops.random_fields import gaussian_random_field, random_waves
from sciops.spectral import equivariance_error, power_spectrum

STARTS = [(0.0, 0.25), (0.5 / 8, 0.5 / 12), (-1.0, -0.3), (0.125, 5.125), (7.0, -2.5), (-0.4, 1e3)]


def ring(n, start, length=1.0, axes=1, **options):
    return Grid((n,) * axes, (start, start + length), "periodic", **options)


def polynomial(grid, degree, length, seed=0):
    """A real trigonometric polynomial of that degree along each axis, at the true positions."""
    rng, u = np.random.default_rng(seed), np.ones(grid.shape)
    for x in grid.meshgrid():
        u = u * sum(
            rng.normal() * np.cos(2 * np.pi * k * x / length) + rng.normal() * np.sin(2 * np.pi * k * x / length)
            for k in range(degree + 1)
        )
    return u


@pytest.mark.parametrize(("s", "t"), STARTS)
@pytest.mark.parametrize(("n", "m"), [(8, 12), (9, 8), (8, 9), (12, 6), (7, 7), (8, 8)])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_fourier_is_exact_wherever_a_period_begins(s, t, n, m, axes):
    length = 1.0 if axes < 3 else 2.0
    source, target = ring(n, s, length, axes), ring(m, t, length, axes)
    degree = (min(n, m) - 1) // 2
    u, want = (polynomial(g, degree, length) for g in (source, target))
    tolerance = 1e-12 * np.abs(u).max() * max(1, abs(t))
    np.testing.assert_allclose(resample(u, source, target, "fourier"), want, atol=tolerance)
    got = resample(torch.from_numpy(u).float(), source, target, "fourier")
    np.testing.assert_allclose(got.numpy(), want, atol=3e-6 * np.abs(u).max())


def test_by_the_transform_too(monkeypatch):
    source, target = ring(9, -0.3, axes=2), ring(20, 0.17, axes=2)
    u = np.random.default_rng(0).standard_normal((3, 9, 9))
    by_matrix = resample(u, source, target, "fourier")
    monkeypatch.setattr(resampling, "_LARGEST_FOURIER_MATRIX", 0)
    np.testing.assert_allclose(resample(u, source, target, "fourier"), by_matrix, atol=1e-14)


@pytest.mark.parametrize("m", [4, 6, 8, 9, 16])
@pytest.mark.parametrize("shift", [0.0, 0.03, 1 / 16, 0.125, -2.21])
def test_the_nyquist_mode_under_a_shift(m, shift):
    """Of cos(πnx) on n even points an odd or finer grid sees the cosine itself, one too coarse for it nothing."""
    n = 8
    source, target = ring(n, 0.0), ring(m, shift)
    (x,) = target.coordinates()
    u = np.cos(np.pi * n * source.coordinates()[0])
    want = np.cos(np.pi * n * x) if m >= n else np.zeros(m)
    np.testing.assert_allclose(resample(u, source, target, "fourier"), want, atol=1e-13)


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.125, 1.3])
def test_modes_on_the_nyquist_of_a_coarser_grid_are_sampled_there(shift):
    n, m = 16, 6
    source, target = ring(n, 0.0), ring(m, shift)
    f = lambda x: 0.7 * np.cos(np.pi * m * x) + 0.4 * np.sin(np.pi * m * x) + 0.1  # noqa: E731
    got = resample(f(source.coordinates()[0]), source, target, "fourier")
    np.testing.assert_allclose(got, f(target.coordinates()[0]), atol=1e-14)


def test_whole_periods_change_nothing_and_whole_spacings_roll():
    u = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 8, 8)))
    for start in (0.0, 3.0, -17.0):
        assert ring(8, start, axes=2).same_points(ring(8, 0.0, axes=2))
        for method in ("fourier", "linear", "cubic", "nearest"):
            assert resample(u, ring(8, 0.0, axes=2), ring(8, start, axes=2), method) is u
    for method in ("fourier", "linear", "cubic", "nearest"):
        moved = resample(u, ring(8, 0.0, axes=2), ring(8, -0.375, axes=2), method)
        assert torch.equal(moved, u.roll((3, 3), (1, 2)))  # copies, by construction
    assert not ring(8, 0.0).same_points(ring(8, 0.125)) and not ring(8, 0.0).same_points(ring(8, 0.5, 2.0))


def test_there_and_back_is_the_identity_in_odd_numbers_and_the_adjoint_holds():
    a, b = ring(9, 0.5 / 9, axes=2), ring(15, -0.31, axes=2)
    u = np.random.default_rng(0).standard_normal((9, 9))
    np.testing.assert_allclose(resample(resample(u, a, b, "fourier"), b, a, "fourier"), u, atol=1e-13)
    x = torch.from_numpy(u).requires_grad_()
    y = torch.from_numpy(np.random.default_rng(1).standard_normal((15, 15)))
    image = resample(x, a, b, "fourier")
    (adjoint,) = torch.autograd.grad(image, x, y)
    # the map of one grid to the other is an isometry of the modes, up to the number of points
    torch.testing.assert_close(adjoint * 81 / 225, resample(y, b, a, "fourier"), rtol=0, atol=1e-13)


@pytest.mark.parametrize("method", ["linear", "cubic", "nearest"])
def test_other_methods_take_true_positions(method):
    source, plain = ring(12, 0.5 / 12), ring(12, 0.0)
    u = np.random.default_rng(0).standard_normal(12)
    target = ring(30, 0.2)
    by_hand = resample(u, plain, ring(30, 0.2 - 0.5 / 12), method)
    np.testing.assert_allclose(resample(u, source, target, method), by_hand, atol=1e-13)


@pytest.mark.parametrize("start", [0.0, 0.5 / 12, -3.2])
def test_cells_and_nodes_of_a_box_meet_a_period_that_begins_elsewhere(start):
    points, cells, nodes = ring(12, start), Grid((11,), centering="cell"), Grid((13,))
    for walled, options in ((cells, {}), (nodes, {"aligned": True})):
        u, v = (polynomial(g, 4, 1.0) for g in (points, walled))
        np.testing.assert_allclose(resample(u, points, walled, "fourier", **options), v, atol=1e-11)
        np.testing.assert_allclose(resample(v, walled, points, "fourier", **options), u, atol=1e-11)
    with pytest.raises(ValueError, match="the same domain="):  # two boxes with walls are two domains
        resample(v, nodes, Grid((13,), (0.5, 1.5)), "linear")


def test_periods_of_two_lengths_are_refused_with_what_helps():
    with pytest.raises(ValueError, match="periods of one length"):
        resample(np.ones(8), ring(8, 0.0), ring(8, 0.0, 2.0), "fourier")


def test_a_domain_of_one_period_holds_points_that_begin_half_a_spacing_in():
    grid = ring(8, 0.5 / 8, domain=(0, 1))
    assert grid.domain == ((0.0, 1.0),) and grid.reaches_walls and Grid.from_dict(grid.to_dict()) == grid
    assert grid.coarsen(2).domain == grid.domain and grid.same_domain(ring(5, -7.0))
    with pytest.raises(ValueError, match="does not hold"):
        ring(8, 0.5 / 8, domain=(0, 0.9))
    with pytest.raises(ValueError, match="does not hold"):
        Grid(8, (0.1, 1.1), "cell", (0, 1))


@pytest.mark.parametrize("axes", [1, 2])
def test_random_fields_on_one_domain_are_one_field_wherever_the_points_begin(axes):
    plain, moved = ring(15, 0.0, axes=axes), ring(15, 0.21, axes=axes, domain=(0, 1))
    draws = [lambda g: gaussian_random_field(g, 2, tau=3, alpha=2, seed=0, modes=11)]
    if axes == 1:
        draws.append(lambda g: random_waves(g, 3, terms=2, wavenumbers=(1, 4), amplitudes=(0, 1), seed=0))
    for draw in draws:
        u, v = draw(plain), draw(moved)
        np.testing.assert_allclose(resample(u, plain, moved, "fourier"), v, atol=1e-13 * np.abs(u).max())


def test_restriction_to_points_that_begin_later():
    fine = ring(12, 0.0, axes=2)
    u = np.random.default_rng(0).standard_normal((2, 12, 12))
    coarse = ring(6, 1 / 12, axes=2)
    assert np.array_equal(restrict(u, fine, coarse), u[:, 1::2, 1::2])
    assert np.array_equal(restrict(u, fine, ring(6, 11 / 12 + 4, axes=2)), np.roll(u, 1, (1, 2))[:, ::2, ::2])
    np.testing.assert_allclose(resample(u, fine, coarse, "linear"), u[:, 1::2, 1::2], atol=1e-15)
    assert coarse.strides_in(fine) is None  # not what coarsen gives
    with pytest.raises(ValueError, match="not nested"):
        restrict(u, fine, ring(6, 0.5 / 12, axes=2))
    with pytest.raises(ValueError, match="not nested"):
        restrict(u, fine, ring(6, 0.0, 2.0, axes=2))


def test_spectra_do_not_depend_on_where_a_period_begins():
    a, b = ring(9, 0.0, axes=2), ring(13, 0.4, axes=2)
    u = np.random.default_rng(0).standard_normal((9, 9))
    energies = [power_spectrum(v, g).energy for v, g in ((u, a), (resample(u, a, b, "fourier"), b))]
    np.testing.assert_allclose(energies[1][:6], energies[0][:6], atol=1e-14)
    assert np.abs(energies[1].sum() - energies[0].sum()) < 1e-14


@pytest.mark.parametrize(
    ("fine", "coarse"), [(ring(20, 0.5 / 20), ring(10, 0.5 / 10)), (ring(20, 0.05), ring(10, 1.1))]
)
def test_a_convolution_is_one_operator_on_grids_that_begin_apart(fine, coarse):
    class Derivative(torch.nn.Module):
        def forward(self, x):
            c = torch.fft.rfft(x, norm="forward")
            k = torch.arange(c.shape[-1])
            return torch.fft.irfft(2j * torch.pi * k * c * (k < 5), n=x.shape[-1], norm="forward")

    a = torch.from_numpy(polynomial(fine, 4, 1.0))[None, None]
    for refine in ("true", "lossless"):
        assert equivariance_error(Derivative(), a, fine, coarse, refine=refine).max() < 1e-13


def test_a_model_takes_every_start_of_its_period_and_counts_positions_from_its_own():
    torch.manual_seed(0)
    reference = ring(12, 0.0)
    options = dict(in_channels=1, out_channels=1, width=4, depth=1, modes=(3,), grid=reference)
    model = build_model("fno", coordinates="periodic", **options).double()
    x = torch.randn(2, 1, 12, dtype=torch.float64)
    with torch.no_grad():
        y = model(x, grid=reference)
        torch.testing.assert_close(model(x, grid=ring(12, 4.0)), y, rtol=1e-12, atol=1e-12)
        # the field and its grid moved together by whole spacings: the same function at the same positions
        torch.testing.assert_close(model(x.roll(3, -1), grid=ring(12, -0.25)).roll(-3, -1), y, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="this model was made for"):
        model(x, grid=ring(12, 0.0, 2.0))
    with pytest.raises(ValueError, match="this model was made for"):
        model(x, grid=Grid((12,), (0.5, 1.5), "cell"))
