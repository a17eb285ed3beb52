"""Bounds on a mean hold at their level, by enumeration, and equal scipy's where scipy has them."""

import numpy as np
import pytest
from scipy import stats

from sciops.robustness.statistics.intervals import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    empirical_bernstein_radius,
    randomized_lower,
    sample_variance,
)


@pytest.mark.parametrize("n", [1, 7, 40, 1000])
@pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-3])
def test_clopper_pearson_is_the_exact_interval_of_scipy(n, alpha):
    for k in sorted({0, 1, n // 3, n - 1, n}):
        exact = stats.binomtest(k, n).proportion_ci(1 - 2 * alpha, "exact")
        assert clopper_pearson_lower(k, n, alpha) == pytest.approx(
            exact.low, abs=2e-11
        )  # scipy searches to about 1e-12
        assert clopper_pearson_upper(k, n, alpha) == pytest.approx(exact.high, abs=2e-11)


def test_clopper_pearson_at_the_ends_nested_and_without_a_level():
    n, alpha = 100_000, 1e-3
    assert clopper_pearson_lower(n, n, alpha) == pytest.approx(alpha ** (1 / n), rel=1e-14)
    assert clopper_pearson_upper(0, n, alpha) == pytest.approx(1 - alpha ** (1 / n), rel=1e-10)
    assert clopper_pearson_lower(0, n, alpha) == 0 and clopper_pearson_upper(n, n, alpha) == 1
    k, levels = np.arange(21)[:, None], np.array([0.0, 1e-9, 1e-3, 0.1, 0.4])
    lower, upper = clopper_pearson_lower(k, 20, levels), clopper_pearson_upper(k, 20, levels)
    assert (np.diff(lower, axis=1) >= 0).all() and (np.diff(upper, axis=1) <= 0).all()
    assert (np.diff(lower[:, 1:], axis=0) > 0).all() and (np.diff(upper[:, 1:], axis=0) > 0).all()
    assert (lower[:, 0] == 0).all() and (upper[:, 0] == 1).all()
    np.testing.assert_allclose(lower, 1 - clopper_pearson_upper(20 - k, 20, levels), atol=1e-14)


@pytest.mark.parametrize("p", [0.01, 0.2, 0.5, 0.77, 0.999])
@pytest.mark.parametrize("n", [5, 30])
def test_coverage_by_enumeration(p, n):
    k, alpha = np.arange(n + 1), 0.05
    mass = stats.binom.pmf(k, n, p)
    assert mass[clopper_pearson_lower(k, n, alpha) > p].sum() <= alpha
    assert mass[clopper_pearson_upper(k, n, alpha) < p].sum() <= alpha
    variance = sample_variance(k, k, n)
    width = empirical_bernstein_radius(variance, n, alpha)
    assert mass[k / n - width > p].sum() <= alpha and mass[k / n + width < p].sum() <= alpha


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
def test_the_randomised_bound_misses_with_probability_alpha_exactly(p):
    n, alpha = 12, 0.1
    k = np.arange(n + 1)
    u = (np.arange(4000) + 0.5) / 4000
    miss = (randomized_lower(k[:, None], n, alpha, u) > p).mean(1)
    assert stats.binom.pmf(k, n, p) @ miss == pytest.approx(alpha, abs=1.3e-4)  # half a step of u for each k
    np.testing.assert_allclose(randomized_lower(k, n, alpha, 1.0), clopper_pearson_lower(k, n, alpha), atol=1e-12)
    assert (randomized_lower(k, n, alpha, 0.3) >= clopper_pearson_lower(k, n, alpha) - 1e-15).all()


def test_empirical_bernstein_is_its_formula_and_covers_soft_means():
    rng = np.random.default_rng(0)
    x = rng.beta(0.5, 20, size=(2000, 300))
    variance = sample_variance(x.sum(1), (x * x).sum(1), 300)
    np.testing.assert_allclose(variance, x.var(1, ddof=1), rtol=1e-9)
    width = empirical_bernstein_radius(variance, 300, 0.05)
    log = np.log(40)
    np.testing.assert_allclose(width, np.sqrt(2 * x.var(1, ddof=1) * log / 300) + 7 * log / (3 * 299), rtol=1e-9)
    assert (x.mean(1) - width > 0.5 / 20.5).mean() <= 0.05 and (x.mean(1) + width < 0.5 / 20.5).mean() <= 0.05
    assert width.mean() < np.sqrt(np.log(20) / 600)  # Hoeffding
    assert empirical_bernstein_radius(0.1, 300, 0.0) == np.inf
    np.testing.assert_allclose(empirical_bernstein_radius(9 * variance, 300, 0.05, scale=3.0), 3 * width, rtol=1e-12)


def test_a_variance_that_cancels_is_not_too_small():
    x = 0.7 + 1e-9 * np.random.default_rng(1).standard_normal((50, 1000))
    assert (sample_variance(x.sum(1), (x * x).sum(1), 1000) >= x.var(1, ddof=1)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clopper_pearson_lower(5, 4, 0.1), "successes=5 … 5 of trials=4"),
        (lambda: clopper_pearson_upper(1, 4, 1.0), "alpha=1 … 1: expected levels"),
        (lambda: randomized_lower(1, 4, 0.1, 1.5), "uniform=1.5"),
        (lambda: empirical_bernstein_radius(0.1, 1, 0.1), "needs at least 2"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
