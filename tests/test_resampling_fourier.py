"""Trigonometric resampling against a dense float64 series: even and odd, up and down, Nyquist, shifts, node grids."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
import torch

from sciops import Grid, resample, resampling

SIZES = (7, 8, 15, 16)


def periodic(*shape):
    return Grid(shape, centering="periodic")


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def dense_interpolant(u, points):
    """Naive float64 reference in 1-D: Σ û_k e^{2πikx} with the even Nyquist coefficient shared by ±n/2."""
    n = u.size
    total = np.zeros(points.shape, complex)
    for k in range(-(n // 2), n // 2 + 1):
        coefficient = (u * np.exp(-2j * np.pi * k * np.arange(n) / n)).mean()
        total += coefficient * np.exp(2j * np.pi * k * points) * (0.5 if 2 * abs(k) == n else 1)
    assert np.abs(total.imag).max() < 1e-12
    return total.real


def trig_polynomial(grid, degree, seed=0):
    """Σ over |k_i| ≤ degree_i of random waves of the unit box, at the grid's points."""
    rng = np.random.default_rng(seed)
    total = np.zeros(grid.shape)
    for k in product(*(range(-d, d + 1) for d in degree)):
        angle = 2 * np.pi * sum(q * x for q, x in zip(k, grid.meshgrid()))
        total += rng.standard_normal() * np.cos(angle) + rng.standard_normal() * np.sin(angle)
    return total


# ---------------------------------------------------------------------------------------------------- fourier, periodic


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", (7, 8, 15, 16, 29, 30, 3, 4))
def test_fourier_equals_the_dense_interpolant_or_the_cropped_series(n, m):
    u = noise(n)
    got = resample(u, periodic(n), periodic(m), "fourier")
    if m >= n:
        want = dense_interpolant(u, np.arange(m) / m)
    else:  # the series truncated to |k| ≤ m/2, sampled: what zero Fourier content above the coarse grid would give
        k = np.fft.fftfreq(n, 1 / n).astype(int)
        coefficients = np.fft.fft(u, norm="forward") * (np.abs(k) <= m / 2)
        want = (coefficients * np.exp(2j * np.pi * np.outer(np.arange(m) / m, k))).sum(1).real
    np.testing.assert_allclose(got, want, atol=1e-13)


@pytest.mark.parametrize(("n", "m"), [(n, m) for n in SIZES for m in (*SIZES, 29, 30)])
def test_fourier_is_exact_below_the_nyquist_of_both_grids(n, m):
    source, target = periodic(n, n + 3), periodic(m, m - 2)
    degree = [(min(a, b) - 1) // 2 for a, b in zip(source.shape, target.shape)]
    got = resample(trig_polynomial(source, degree), source, target, "fourier")
    want = trig_polynomial(target, degree)
    assert np.abs(got - want).max() < 1e-12 * max(1, np.abs(want).max())


@pytest.mark.parametrize("n", SIZES)
def test_fourier_identities(n):
    source, fine, finer = periodic(n, n + 1), periodic(2 * n, 3 * n + 3), periodic(4 * n + 1, 3 * n + 4)
    u = noise(2, n, n + 1)
    up = resample(u, source, fine, "fourier")
    assert np.array_equal(up[:, ::2, ::3], u)  # coincident points, to the bit
    np.testing.assert_allclose(up.mean((1, 2)), u.mean((1, 2)), atol=1e-14)
    shifted = resample(np.roll(u, (2, 3), (1, 2)), source, fine, "fourier")
    np.testing.assert_allclose(shifted, np.roll(up, (4, 9), (1, 2)), atol=1e-13)
    np.testing.assert_allclose(resample(up, fine, finer, "fourier"), resample(u, source, finer, "fourier"), atol=1e-13)
    np.testing.assert_allclose(resample(up, fine, source, "fourier"), u, atol=1e-13)
    if n % 2:  # n × n keeps every coefficient once
        square, larger = periodic(n, n), periodic(2 * n + 1, 3 * n)
        v = noise(n, n)
        energy = lambda w: (np.abs(np.fft.fft2(w, norm="forward")) ** 2).sum()  # noqa: E731
        np.testing.assert_allclose(energy(resample(v, square, larger, "fourier")), energy(v), rtol=1e-13)


@pytest.mark.parametrize("m", (9, 15, 16, 17, 32, 33))
@pytest.mark.parametrize("axis", (0, 1))
def test_nyquist_mode_keeps_its_amplitude(m, axis):
    """cos(πnx) on n even points: amplitude 1, no sine; halving forgotten gives 2 on even m and a sine on odd m."""
    n = 8
    shapes = [[n, 5], [m, 5]] if axis == 0 else [[5, n], [5, m]]
    source, target = (periodic(*s) for s in shapes)
    u = np.cos(np.pi * n * source.meshgrid()[axis])
    want = np.cos(np.pi * n * target.meshgrid()[axis])
    np.testing.assert_allclose(resample(u, source, target, "fourier"), want, atol=1e-13)
    corner = np.cos(np.pi * n * periodic(n, n).meshgrid()[0]) * np.cos(np.pi * n * periodic(n, n).meshgrid()[1])
    x, y = periodic(m, m).meshgrid()
    got = resample(corner, periodic(n, n), periodic(m, m), "fourier")
    np.testing.assert_allclose(got, np.cos(np.pi * n * x) * np.cos(np.pi * n * y), atol=1e-13)


@pytest.mark.parametrize("n", (8, 15, 16))
def test_nyquist_folds_on_the_way_down(n):
    """Content at ±m/2 of an even target: cos(πmx) survives with its amplitude, sin(πmx) cannot be seen."""
    m = 6
    x, y = (periodic(s).coordinates()[0] for s in (n, m))
    u = 0.7 * np.cos(np.pi * m * x) + 0.4 * np.sin(np.pi * m * x) + 0.1
    want = 0.7 * np.cos(np.pi * m * y) + 0.1
    np.testing.assert_allclose(resample(u, periodic(n), periodic(m), "fourier"), want, atol=1e-14)


@pytest.mark.parametrize("n", (15, 16))
@pytest.mark.parametrize("d", (1, 2, 3))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_seventh_wave_doubles_exactly(n, d, dtype):
    """cos(2π·7x) on 15 and 16 points, times two (neuraloperator issue 731: wrong there by 0.7 to 0.95)."""
    source, target = periodic(*(n,) * d), periodic(*(2 * n,) * d)
    u, want = (torch.from_numpy(np.cos(2 * np.pi * 7 * g.meshgrid()[0])).to(dtype) for g in (source, target))
    got = resample(u, source, target, "fourier")
    assert got.dtype == dtype
    assert torch.linalg.norm(got - want) / torch.linalg.norm(want) < 1e-6


@pytest.mark.parametrize(("n", "m"), [(7, 12), (8, 13), (8, 16), (16, 6), (15, 6), (16, 7), (8, 8)])
def test_cells_are_a_periodic_box_half_a_cell_in(n, m):
    cells, finer = Grid((n,), centering="cell"), Grid((m,), centering="cell")
    degree = [(min(n, m) - 1) // 2]
    u = trig_polynomial(cells, degree)
    for target in (finer, periodic(m), Grid((m + 1,))):
        options = {"aligned": True} if target.centering == "node" else {}
        got = resample(u, cells, target, "fourier", **options)
        np.testing.assert_allclose(got, trig_polynomial(target, degree), atol=1e-12)
        back = trig_polynomial(target, degree)
        np.testing.assert_allclose(resample(back, target, cells, "fourier", **options), u, atol=1e-12)


def test_transform_and_matrix_agree_on_either_side_of_the_threshold(monkeypatch):
    for n, m, centering in product((7, 8), (5, 6, 12, 13), ("cell", "periodic", "node")):
        source, target = Grid((n, 4), centering=centering), Grid((m, 6), centering=centering)
        for u in (torch.from_numpy(noise(3, n, 4)), torch.from_numpy(noise(n, 4) + 1j * noise(n, 4, seed=1))):
            for aligned in (True, False):
                by_matrix = resample(u, source, target, "fourier", aligned=aligned)
                monkeypatch.setattr(resampling, "_LARGEST_FOURIER_MATRIX", 0)
                by_transform = resample(u, source, target, "fourier", aligned=aligned)
                monkeypatch.undo()
                torch.testing.assert_close(by_matrix, by_transform, rtol=0, atol=1e-14)


# ------------------------------------------------------------------------------------------------------- fourier, nodes


def test_naive_padding_is_what_the_peers_do_and_says_so():
    source, target = Grid((9, 12)), Grid((17, 20))
    u = noise(9, 12)
    for _ in range(2):  # every time: what a process did before does not matter
        with pytest.warns(UserWarning, match="move by up to 5.88% of the extent") as caught:
            naive = resample(u, source, target, "fourier")
    assert caught[0].filename == __file__
    padded = resample(u, periodic(9, 12), periodic(17, 20), "fourier")
    np.testing.assert_allclose(naive, padded, atol=1e-14)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(resample(u, source, target, "fourier", aligned=False), naive)  # asked for
    # the values are those at j·n/(m(n−1)): a smooth bump far from the seam shows it
    bump = lambda x: np.exp(-(((x - 0.5) / 0.06) ** 2))  # noqa: E731
    n, m = 65, 129
    got = resample(bump(Grid((n,)).coordinates()[0]), Grid((n,)), Grid((m,)), "fourier", aligned=False)
    np.testing.assert_allclose(got, bump(np.arange(m) * n / (m * (n - 1))), atol=1e-9)


@pytest.mark.parametrize(("n", "m"), [(8, 15), (9, 17), (17, 9), (16, 8), (9, 14)])
def test_aligned_fourier_on_nodes(n, m):
    source, target = Grid((n, n + 2)), Grid((m, m + 3))
    degree = [(min(a, b) - 2) // 2 for a, b in zip(source.shape, target.shape)]
    got = resample(trig_polynomial(source, degree), source, target, "fourier", aligned=True)
    np.testing.assert_allclose(got, trig_polynomial(target, degree), atol=1e-11)
    assert np.array_equal(got[0], got[-1]) and np.array_equal(got[:, 0], got[:, -1])
