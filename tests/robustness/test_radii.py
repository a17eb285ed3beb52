"""Radii equal what quadrature and worst cases say, and no Lipschitz function breaks them."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from sciops.robustness.smoothing.radii import (
    cohen_radius,
    lipschitz_radius,
    margin_radius,
    paper_radius,
    smoothed_lipschitz,
    window_probability,
    window_quantile,
)

P = np.array([1e-6, 0.01, 0.3, 0.45, 0.5, 0.500001, 0.6, 0.9, 0.999, 1 - 1e-9])


NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def smoothed(f, at, sigma, breaks=()):
    """E f(at + σz) by Gauss quadrature on panels of length 1 at most, cut at the kinks of f."""
    cuts = np.unique(np.concatenate([np.arange(-14, 15), np.clip((np.array(breaks) - at) / sigma, -14, 14)]))
    middle, half = (cuts[1:] + cuts[:-1])[:, None] / 2, np.diff(cuts)[:, None] / 2
    z = middle + half * NODES
    return float((f(at + sigma * z) * stats.norm.pdf(z) * half * WEIGHTS).sum())


@pytest.mark.parametrize("window", [1e-7, 1e-3, 0.3, 1.0, 1.01, 4.0, 30.0])
def test_the_smoothed_ramp_by_quadrature(window):
    for r in (-3.0, -0.7, 0.0, 0.2, 1.0, 4.0):
        ramp = lambda x: np.clip(0.5 + x / window, 0, 1)  # noqa: E731
        got = window_probability(r, window)
        assert got == pytest.approx(smoothed(ramp, r, 1.0, (-window / 2, window / 2)), abs=1e-12)
        height = lambda v: v * stats.norm.cdf(v) + stats.norm.pdf(v)  # noqa: E731
        if window > 0.1:
            direct = (height(r + window / 2) - height(r - window / 2)) / window
            assert got == pytest.approx(direct, abs=1e-14)


@pytest.mark.parametrize("window", [0.0, 1e-6, 0.5, 3.0, 50.0])
def test_the_quantile_inverts_and_is_odd(window):
    r = window_quantile(P, window)
    if window:
        np.testing.assert_allclose(window_probability(r, window), P, rtol=1e-12, atol=1e-15)
        root = optimize.brentq(lambda s: window_probability(s, window) - 0.83, -60, 60, xtol=1e-13)
        assert window_quantile(0.83, window) == pytest.approx(root, abs=1e-11)
    np.testing.assert_allclose(window_quantile(1 - P[:-1], window), -r[:-1], rtol=1e-9, atol=1e-12)
    assert window_quantile(0.0, window) == -np.inf and window_quantile(1.0, window) == np.inf


def test_cohen():
    np.testing.assert_allclose(cohen_radius(P, sigma=0.5), 0.5 * stats.norm.ppf(P), rtol=1e-12)
    np.testing.assert_allclose(cohen_radius(P, 1 - P, sigma=0.5), cohen_radius(P, sigma=0.5), rtol=1e-6, atol=1e-12)
    two = cohen_radius(0.7, 0.1, sigma=2.0)
    assert two == pytest.approx(stats.norm.ppf(0.7) - stats.norm.ppf(0.1), rel=1e-12)
    n = 100_000
    assert cohen_radius(1e-3 ** (1 / n), sigma=1.0) == pytest.approx(3.81, abs=0.005)  # the ceiling of n samples


def test_values_of_the_literature():
    rows = [(0.1, 4.10, 2.76), (0.5, 1.486, 1.465), (2.0, 1.2949, 1.2948)]
    for lipschitz, exact, paper in rows:
        digits = 5e-3 if lipschitz == 0.1 else 5e-4
        assert lipschitz_radius(0.9, sigma=1.0, lipschitz=lipschitz) == pytest.approx(exact, abs=digits)
        assert paper_radius(0.9, sigma=1.0, lipschitz=lipschitz) == pytest.approx(paper, abs=digits)


@pytest.mark.parametrize("lipschitz", [0.05, 0.7, 3.0, 80.0, 1e5, 1e9, math.inf])
@pytest.mark.parametrize("sigma", [0.1, 1.0])
def test_exact_is_above_the_paper_above_cohen_and_above_the_plain_slope(lipschitz, sigma):
    p, other = np.linspace(0.5, 0.9999, 60)[:, None], np.linspace(0.0001, 0.5, 40)
    for pair in ((p, None), (p, np.minimum(other, 1 - p))):
        exact = lipschitz_radius(*pair, sigma=sigma, lipschitz=lipschitz)
        paper = paper_radius(*pair, sigma=sigma, lipschitz=lipschitz)
        slack = 1e-9 * (1 + exact)
        assert (paper >= -1e-12).all() and (exact >= paper - slack).all()
        assert (exact >= cohen_radius(*pair, sigma=sigma) - slack).all()
        gap = (p - 0.5) if pair[1] is None else (p - pair[1]) / 2
        assert (exact >= gap / smoothed_lipschitz(lipschitz, sigma=sigma) - slack).all()
        if lipschitz < math.inf:
            assert (exact >= gap / lipschitz - slack).all()


def test_limits_scale_and_monotonicity():
    cohen = cohen_radius(0.8, 0.05, sigma=0.3)
    gaps = [float(lipschitz_radius(0.8, 0.05, sigma=0.3, lipschitz=c / 0.3) - cohen) for c in (5, 50, 500, 1e7, 1e12)]
    assert 0 < gaps[1] < 1e-4 and all(b < a / 50 or b < 1e-14 for a, b in zip(gaps, gaps[1:]))
    assert lipschitz_radius(0.8, sigma=1e-9, lipschitz=2.0) == pytest.approx(0.15, rel=1e-6)
    for function in (lipschitz_radius, paper_radius):
        one = function(0.8, 0.1, sigma=0.3, lipschitz=2.0)
        np.testing.assert_allclose(function(0.8, 0.1, sigma=2.1, lipschitz=2 / 7), 7 * one, rtol=1e-10)
        np.testing.assert_allclose(
            function(P, 1 - P, sigma=0.3, lipschitz=2.0),
            function(P, sigma=0.3, lipschitz=2.0),
            rtol=1e-6,
            atol=1e-12,
        )
    for lipschitz in (0.1, 3.0, math.inf):
        radii = lipschitz_radius(np.linspace(0.01, 0.99, 99)[:, None], P[:8], sigma=0.3, lipschitz=lipschitz)
        assert (np.diff(radii, axis=0) > 0).all() and (np.diff(radii, axis=1) < 0).all()
    lipschitzes = np.geomspace(0.01, 1e4, 40)
    radii = [float(lipschitz_radius(0.9, 0.2, sigma=1.0, lipschitz=value)) for value in lipschitzes]
    assert (np.diff(radii) <= 1e-13).all()
    assert lipschitz_radius(0.9, 0.0, sigma=1.0, lipschitz=1.0) == np.inf
    assert lipschitz_radius(0.9, 1e-18, sigma=1.0, lipschitz=1.0) < 10  # a tiny p_B is not taken for none
    assert lipschitz_radius(0.0, 0.0, sigma=1.0, lipschitz=1.0) == -np.inf


@pytest.mark.parametrize("lipschitz", [0.02, 1.0, 30.0])
def test_the_paper_s_form_certifies_no_class_that_another_beats(lipschitz):
    p = np.linspace(0.0005, 0.9995, 80)
    paper = paper_radius(p[:, None], p, sigma=1.0, lipschitz=lipschitz)
    exact = lipschitz_radius(p[:, None], p, sigma=1.0, lipschitz=lipschitz)
    assert (paper <= exact + 1e-12).all() and (paper[p[:, None] <= p] <= 1e-9).all()
    if lipschitz == 0.02:  # not monotone: more certainty, less radius
        assert paper_radius(0.95, sigma=1.0, lipschitz=0.02) < paper_radius(0.8, sigma=1.0, lipschitz=0.02)


@pytest.mark.parametrize(
    ("slope", "sigma", "x"), [(1.5, 0.2, 0.35), (1.5, 2.0, 0.35), (0.1, 1.0, 6.0), (40.0, 0.5, 0.9)]
)
def test_on_a_ramp_the_radius_is_the_distance_to_its_middle(slope, sigma, x):
    ramp = lambda s: np.clip(slope * s + 0.3, 0, 1)  # noqa: E731
    p = smoothed(ramp, x, sigma, (-0.3 / slope, 0.7 / slope))
    middle = 0.2 / slope
    assert lipschitz_radius(p, sigma=sigma, lipschitz=slope) == pytest.approx(x - middle, rel=1e-9)
    assert paper_radius(p, sigma=sigma, lipschitz=slope) <= x - middle
    assert smoothed(ramp, middle, sigma, (-0.3 / slope, 0.7 / slope)) == pytest.approx(0.5, abs=1e-12)


def test_no_lipschitz_function_crosses_within_the_radius():
    rng = np.random.default_rng(0)
    step = 0.01
    s = np.arange(-8, 8 + step / 2, step)
    weights = stats.norm.pdf(s / 0.8) / 0.8 * step
    for trial in range(300):
        lipschitz = float(rng.uniform(0.1, 3.0))
        slopes = lipschitz * rng.choice([-1.0, 0.0, 1.0], size=len(s) // 40 + 1).repeat(40)[: len(s)]
        f = np.empty(len(s))
        f[0] = rng.uniform()
        for i in range(1, len(s)):
            f[i] = min(1.0, max(0.0, f[i - 1] + step * slopes[i]))
        p = np.convolve(f, weights, "valid" if len(f) > len(weights) else "same")
        inside = np.abs(s) < 3  # where the kernel's tails reach no edge
        p, at = p[inside], s[inside]
        for centre in (100, 300, 500):
            top = p[centre] if p[centre] > 0.5 else 1 - p[centre]
            value = p if p[centre] > 0.5 else 1 - p
            radius = float(lipschitz_radius(top, sigma=0.8, lipschitz=lipschitz))
            near = np.abs(at - at[centre]) < radius - 2 * step
            assert (value[near] >= 0.5 - 1e-6).all(), trial


def test_the_constant_of_a_smoothed_function_is_attained_by_a_ramp_and_its_limits_are_right():
    for lipschitz, sigma, span in ((1.0, 0.3, 1.0), (4.0, 1.0, 1.0), (0.5, 2.0, math.sqrt(2))):
        ramp = lambda s, a=lipschitz, b=span: np.clip(a * s, -b / 2, b / 2)  # noqa: E731
        kinks = (-span / 2 / lipschitz, span / 2 / lipschitz)
        h = 1e-4
        slope = (smoothed(ramp, h, sigma, kinks) - smoothed(ramp, -h, sigma, kinks)) / (2 * h)
        assert smoothed_lipschitz(lipschitz, sigma=sigma, span=span) == pytest.approx(slope, rel=1e-7)
    assert smoothed_lipschitz(3.0, sigma=1e-9) == pytest.approx(3.0)
    assert smoothed_lipschitz(math.inf, sigma=0.5) == pytest.approx(1 / (0.5 * math.sqrt(2 * math.pi)))
    assert smoothed_lipschitz(1e9, sigma=0.5) == pytest.approx(smoothed_lipschitz(math.inf, sigma=0.5))


def test_the_margin_radius():
    assert margin_radius(0.9, 0.05, sigma=0.7) == pytest.approx(0.7 * math.sqrt(math.pi / 2) * 0.85)
    small = margin_radius(0.9, 0.05, sigma=1e-6, lipschitz=2.0)
    assert small == pytest.approx(0.85 / (math.sqrt(2) * 2.0))
    constant = 2.0 * math.erf(1 / (2 * 2.0 * 0.3))
    assert margin_radius(0.9, 0.05, sigma=0.3, lipschitz=2.0) == pytest.approx(0.85 / (math.sqrt(2) * constant))
    assert (margin_radius(P, 1 - P, sigma=1.0) <= cohen_radius(P, 1 - P, sigma=1.0) + 1e-12)[P >= 0.5].all()


def test_refusals():
    with pytest.raises(ValueError, match="probabilities from 1.5 to 1.5"):
        cohen_radius(1.5, sigma=1.0)
    with pytest.raises(ValueError, match="sigma=0"):
        lipschitz_radius(0.7, sigma=0, lipschitz=1.0)
    with pytest.raises(ValueError, match="lipschitz=0.0"):
        paper_radius(0.7, sigma=1.0, lipschitz=0.0)
