"""Gaussian fields: the law mode by mode, one function on every grid, independence of batch and truncation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from sciops import Grid, restrict
from sciops.random_fields import gaussian_random_field, log_normal, two_phase

LAW = dict(tau=3.0, alpha=2.0, seed=7)


def draws(seed, index, modes, d):
    """ξ of one sample as {k: value}, shell by shell: the naive reading of the docstring."""
    values = iter(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,))).standard_normal(modes**d))
    return {k: next(values) for shell in range(modes) for k in product(range(shell + 1), repeat=d) if max(k) == shell}


def standard_deviation(k, lengths, tau, alpha):
    """√variance of the coefficient of the plain product Π cos(πk_i x_i/L_i)."""
    d = len(k)
    if not any(k):
        return 0.0
    eigenvalue = sum((np.pi * q / length) ** 2 for q, length in zip(k, lengths))
    weight = np.prod([(1 if q == 0 else 2) / length for q, length in zip(k, lengths)])
    return tau ** (alpha - d / 2) * (eigenvalue + tau**2) ** (-alpha / 2) * np.sqrt(weight)


@pytest.mark.parametrize(
    "grid",
    [
        Grid((11,), extent=2.5),
        Grid((7, 10), extent=((-1, 1), (0, 0.5))),
        Grid((6, 9), centering="cell"),
        Grid((5, 5), extent=0.8, domain=(0, 1)),
        Grid((4, 5, 6), extent=((0, 2), (0, 1), (-1, 1))),
    ],
    ids=["1d", "2d-box", "cells", "short-of-wall", "3d"],
)
def test_equals_the_naive_sum(grid):
    modes, (tau, alpha, seed) = 5, (2.5, 2.25, 11)
    got = gaussian_random_field(grid, 2, tau=tau, alpha=alpha, seed=seed, modes=modes, first=3)
    lengths = [b - a for a, b in grid.domain]
    for field, index in zip(got, (3, 4)):
        want = np.zeros(grid.shape)
        for k, xi in draws(seed, index, modes, grid.ndim).items():
            term = xi * standard_deviation(k, lengths, tau, alpha)
            for x, q, (left, right) in zip(grid.meshgrid(), k, grid.domain):
                term = term * np.cos(np.pi * q * (x - left) / (right - left))
            want += term
        np.testing.assert_allclose(field, want, atol=1e-14)


def test_spectrum_follows_the_law():
    """The cosine coefficients over their law's deviation are iid N(0, 1): sums of squares over any set of modes are χ².

    χ²_m has mean m and variance 2m; 5σ over a dozen sets leaves about one false alarm in 10⁵ seeds.
    """
    modes, samples, n = 16, 200, 17
    x = Grid((n, n), centering="cell").coordinates()[0]
    fields = gaussian_random_field(Grid((n, n), centering="cell"), samples, modes=modes, **LAW)
    cosines = np.cos(np.pi * np.outer(np.arange(modes), x))  # DCT-II rows are orthogonal: n on the first, n/2 beyond
    inverse = cosines * np.where(np.arange(modes) == 0, 1, 2)[:, None] / n
    coefficients = np.einsum("kx,sxy,ly->skl", inverse, fields, inverse)
    deviation = np.array([[standard_deviation((k, l), (1, 1), 3.0, 2.0) for l in range(modes)] for k in range(modes)])
    assert np.abs(coefficients[:, 0, 0]).max() < 1e-14
    deviation[0, 0] = np.inf
    xi = coefficients / deviation
    shell = np.maximum.outer(np.arange(modes), np.arange(modes))
    for s in range(1, modes):
        inside = xi[:, shell == s]
        m = inside.size
        assert abs((inside**2).sum() - m) < 5 * np.sqrt(2 * m)
        assert abs(inside.sum()) < 5 * np.sqrt(m)
    # and not correlated: neighbouring modes, neighbouring samples
    for a, b in ((xi[:, 1:-1], xi[:, 2:]), (xi[1:, 1:], xi[:-1, 1:])):
        assert abs((a * b).sum()) < 5 * np.sqrt(a.size)


def test_periodic_law():
    grid = Grid((24, 20), extent=((0, 2), (0, 1)), centering="periodic")
    fields = gaussian_random_field(grid, 400, modes=9, **LAW)
    spectrum = (np.abs(np.fft.fft2(fields, norm="forward")) ** 2).mean(0)
    assert np.abs(fields.mean((1, 2))).max() < 1e-14
    for p, q in product(range(-4, 5), repeat=2):
        if (p, q) == (0, 0):
            continue
        law = 9.0 * ((np.pi * p) ** 2 + (2 * np.pi * q) ** 2 + 9) ** -2.0 / 2
        # |û|² is a mean of 400 squares of 2 or 4 normals, at least χ²₂/2
        assert abs(spectrum[p, q] / law - 1) < 5 / np.sqrt(400)
    rolled = gaussian_random_field(grid, 400, modes=9, **LAW).std(0)
    assert rolled.std() / rolled.mean() < 0.06  # stationary, unlike the Neumann law
    node = gaussian_random_field(Grid((25, 21), extent=((0, 2), (0, 1))), 3, modes=9, boundary="periodic", **LAW)
    np.testing.assert_allclose(node[:, :-1, :-1], fields[:3], atol=1e-13)
    np.testing.assert_allclose(node[:, -1], node[:, 0], atol=1e-13)


@pytest.mark.parametrize("factor", [2, 5, 10])
def test_one_field_on_nested_grids(factor):
    fine = Grid((421, 421))
    coarse = fine.coarsen(factor)
    a, b = (gaussian_random_field(g, 3, **LAW) for g in (fine, coarse))
    strided = restrict(a, fine, coarse)
    assert np.abs(strided - b).max() < 1e-13 * np.abs(a).max()
    untied = np.abs(b) > 1e-12
    assert untied.all() and np.array_equal(two_phase(strided), two_phase(b))


def test_one_field_on_grids_of_every_kind():
    """A 16-node grid that stops at 390/420 and a cell grid see what the 421-node grid sees."""
    fine = Grid((421, 421))
    a = gaussian_random_field(fine, 2, **LAW)
    short = Grid((16, 16), extent=(0, 390 / 420), domain=(0, 1))
    np.testing.assert_allclose(gaussian_random_field(short, 2, **LAW), a[:, :391:26, :391:26], atol=1e-13)
    cells = Grid((210, 70), centering="cell")
    np.testing.assert_allclose(gaussian_random_field(cells, 2, **LAW), a[:, 1::2, 3::6], atol=1e-13)


def test_samples_do_not_depend_on_the_batch():
    grid = Grid((33, 40))
    together = gaussian_random_field(grid, 7, **LAW)
    assert np.array_equal(together[2:5], gaussian_random_field(grid, 3, first=2, **LAW))
    assert np.array_equal(together[6:], gaussian_random_field(grid, 1, first=6, **LAW))
    assert np.abs(together - gaussian_random_field(grid, 7, tau=3, alpha=2, seed=8)).min(axis=(1, 2)).max() > 0
    assert gaussian_random_field(grid, 0, **LAW).shape == (0, 33, 40)


@pytest.mark.parametrize("shape", [(85, 85), (211, 40), (9, 10, 11)])
def test_samples_do_not_depend_on_the_number_of_threads(shape):
    threads = torch.get_num_threads()
    modes = 192 if len(shape) == 2 else 24
    try:
        fields = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            fields.append(gaussian_random_field(Grid(shape), 2, modes=modes, **LAW))
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    assert np.array_equal(fields[0], fields[1]) and np.array_equal(fields[0], fields[2])


def test_more_modes_only_add_modes():
    """The sum to K modes is the projection of any longer sum, and the rest shrinks with K."""
    n = 64
    grid = Grid((n, n), centering="cell")
    small, large = (gaussian_random_field(grid, 2, modes=m, **LAW) for m in (6, 40))
    cosines = np.cos(np.pi * np.outer(np.arange(6), grid.coordinates()[0]))
    projector = cosines.T @ (cosines * np.where(np.arange(6) == 0, 1, 2)[:, None] / n)
    np.testing.assert_allclose(projector @ large @ projector.T, small, atol=1e-14)
    reference = gaussian_random_field(grid, 2, modes=64, **LAW)
    rests = [
        np.linalg.norm((gaussian_random_field(grid, 2, modes=m, **LAW) - reference).reshape(2, -1), axis=1)
        for m in (2, 3, 5, 8, 16, 32, 48)
    ]
    assert (np.diff(rests, axis=0) < 0).all()


def test_variance_missing_beyond_192_modes():
    """The docstring's 2e-5, from the law itself: share of Σ variance with max(k) ≥ 192."""
    k = np.arange(3000)
    variance = ((np.pi * k[:, None]) ** 2 + (np.pi * k) ** 2 + 9) ** -2.0  # ⟨φ_k²⟩ = 1 for every k
    variance[0, 0] = 0
    missing = 1 - variance[:192, :192].sum() / variance.sum()
    assert 1.5e-5 < missing < 2.5e-5


@pytest.mark.parametrize("d", [1, 2, 3])
def test_prefactor_makes_the_variance_independent_of_tau(d):
    """√(⟨g²⟩) from many modes, for correlation lengths far below the box: the same within a percent or two."""
    modes = {1: 4000, 2: 400, 3: 90}[d]
    k = np.pi * np.arange(modes)
    eigenvalue = sum(np.ix_(*[k**2] * d))
    variance = {}
    for tau in (20.0, 40.0):
        terms = tau ** (2 * 3 - d) * (eigenvalue + tau**2) ** -3.0
        terms[(0,) * d] = 0
        variance[tau] = terms.sum()
    # wall modes carry a share of order 1/τ more than the whole-space value
    assert variance[20.0] / variance[40.0] == pytest.approx(1, abs=0.1 * d)
    grid = Grid((8,) * d, centering="cell")
    unit = gaussian_random_field(grid, 1, tau=20.0, alpha=3, seed=0, modes=8)
    scaled = gaussian_random_field(grid, 1, tau=20.0, alpha=3, seed=0, modes=8, normalize=True)
    terms = 20.0 ** (6 - d) * (sum(np.ix_(*[k[:8] ** 2] * d)) + 400) ** -3.0
    terms[(0,) * d] = 0
    np.testing.assert_allclose(unit / scaled, np.sqrt(terms.sum()), rtol=1e-10)


def test_normalized_fields_have_unit_mean_square():
    grid = Grid((20, 20), extent=((0, 3), (1, 2)), centering="cell")
    fields = gaussian_random_field(grid, 2000, modes=12, normalize=True, **LAW)
    assert (fields**2).mean() == pytest.approx(1, abs=0.06)  # one sample's mean square has deviation about 0.5


def test_two_phase_and_log_normal():
    g = np.array([-1.0, -0.0, 0.0, 1e-300, -1e-300, np.nan, np.inf, -np.inf])
    np.testing.assert_array_equal(two_phase(g), [3, 12, 12, 12, 3, np.nan, 12, 3])
    np.testing.assert_array_equal(two_phase(g[:5], low=1, high=100), [1, 100, 100, 100, 1])
    t = torch.tensor([[-1.0, 2.0]], dtype=torch.float32)
    assert torch.equal(two_phase(t), torch.tensor([[3.0, 12.0]])) and two_phase(t).dtype == torch.float32
    np.testing.assert_allclose(log_normal(np.array([0.0, 0.3, -0.6]), scale=0.3), np.exp([0.0, 1.0, -2.0]), rtol=1e-15)
    with pytest.raises(ValueError, match="scale"):
        log_normal(g, scale=0.0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (dict(tau=0.0), "tau=0.0"),
        (dict(tau=np.nan), "tau=nan"),
        (dict(alpha=1.0), "alpha=1.0"),
        (dict(seed=-1), "seed=-1"),
        (dict(modes=1), "modes=1"),
        (dict(first=-2), "first=-2"),
        (dict(samples=1.5), "samples=1.5"),
        (dict(seed=None), "seed=None: expected a whole number"),
        (dict(seed=1.0), "seed=1.0: expected a whole number"),
        (dict(modes=np.inf), "modes=inf: expected a whole number of at least 2"),
        (dict(boundary="dirichlet"), "dirichlet"),
    ],
)
def test_refusals(change, named):
    arguments = dict(samples=1, **LAW) | change
    with pytest.raises(ValueError, match=named):
        gaussian_random_field(Grid((5, 5)), **arguments)
    with pytest.raises(TypeError, match="expected a Grid, such as"):
        gaussian_random_field((5, 5), 1, **LAW)


@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
@pytest.mark.parametrize("modes", [2, 3, 4, 9])
def test_tiny_grids_sample_the_same_function(centering, modes):
    """Also beyond what the grid tells apart, where waves of an even grid's Nyquist number are not what they seem."""
    draw = dict(tau=2.0, alpha=2.0, seed=4, modes=modes)
    fine = Grid((49,) if centering == "node" else (48,), centering=centering)
    u = gaussian_random_field(fine, 2, **draw)
    x = fine.coordinates()[0]
    for n in (2, 3, 4, 5, 8):
        coarse = Grid((n,), centering=centering)
        at = [int(np.abs(x - p).argmin()) for p in coarse.coordinates()[0]]
        shared = np.abs(x[at] - coarse.coordinates()[0]) < 1e-12
        v = gaussian_random_field(coarse, 2, **draw)
        assert np.isfinite(v).all()
        np.testing.assert_allclose(v[:, shared], u[:, at][:, shared], atol=1e-13)


def test_an_odd_number_of_waves_is_stationary():
    """The pointwise variance of the law is the same everywhere; an even number leaves one cosine without its sine."""
    grid = Grid((16,), centering="periodic")
    for modes, even in ((5, False), (4, True)):
        bases, k = [], np.arange(1, modes)
        fields = gaussian_random_field(grid, 400, tau=2.0, alpha=1.0, seed=0, modes=modes)
        phase = 2 * np.pi * np.multiply.outer(grid.coordinates()[0], (k + 1) // 2)
        bases = np.where(k % 2, np.cos(phase), np.sin(phase))
        coefficients, *_ = np.linalg.lstsq(bases, fields.T, rcond=None)
        np.testing.assert_allclose(bases @ coefficients, fields.T, atol=1e-12)
        law = 2 * 2.0 * ((2 * np.pi * ((k + 1) // 2)) ** 2 + 4.0) ** -1.0
        variance = bases**2 @ law
        assert (np.ptp(variance) > 1e-3) == even
        np.testing.assert_allclose(coefficients.var(1) / law, 1, atol=0.35)


@pytest.mark.parametrize(("tau", "alpha"), [(1e200, 2.0), (1e-200, 4.0), (3.0, 1000.0)])
def test_coefficients_that_float64_cannot_hold_are_refused(tau, alpha):
    with pytest.raises(ValueError, match="float64 cannot hold"):
        gaussian_random_field(Grid((8,)), 1, tau=tau, alpha=alpha, seed=0, modes=4)
