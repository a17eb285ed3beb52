"""Precision-recall and divergence curves against sums over bins, integrals, hand values, and planted clusters."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sciops.evaluation import cluster_curves, divergence_curve, histograms, k_means, pr_curve


def drawn(seed, bins=9, empty=2):
    p = np.random.default_rng(seed).uniform(0, 1, bins)
    p[np.random.default_rng(seed + 50).permutation(bins)[:empty]] = 0
    return p / p.sum()


def alpha(p, q, slope):
    return float(np.minimum(slope * p, q).sum())


PAIRS = [(drawn(s), drawn(s + 1, empty=1)) for s in range(3)] + [
    (np.array([1.0, 0.0]), np.array([0.5, 0.5])),
    (np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0])),
    (np.array([0.25, 0.75]), np.array([0.25, 0.75])),
]


@pytest.mark.parametrize("pair", range(len(PAIRS)))
def test_sums_over_bins_give_the_same(pair):
    p, q = PAIRS[pair]
    curve = pr_curve(p, q, angles=90)
    assert len(curve.slope) == 91 and curve.slope[0] == 0 and np.isinf(curve.slope[-1])
    for slope, a, b in zip(curve.slope[1:-1], curve.precision[1:-1], curve.recall[1:-1]):
        assert a == pytest.approx(alpha(p, q, slope), abs=1e-15)
        assert b == pytest.approx(np.minimum(p, q / slope).sum(), abs=1e-15)
    assert (curve.precision[0], curve.recall[-1]) == (0, 0)
    assert curve.support_precision == pytest.approx(q[p > 0].sum()) and curve.support_recall == pytest.approx(
        p[q > 0].sum()
    )
    a, b, slope = curve.precision, curve.recall, curve.slope
    np.testing.assert_allclose(a[1:-1], slope[1:-1] * b[1:-1], rtol=1e-13, atol=1e-15)
    assert (a <= np.minimum(1, slope) + 1e-15).all() and (np.diff(a) >= -1e-15).all() and (np.diff(b) <= 1e-15).all()
    rises = np.diff(a[:-1]) / np.diff(slope[:-1])
    assert (np.diff(rises) <= 1e-9).all(), "concave"
    assert a[45] == pytest.approx(1 - 0.5 * abs(p - q).sum()) == pytest.approx(b[45])
    other = pr_curve(q, p, angles=90)
    np.testing.assert_allclose(a, other.recall[::-1], atol=1e-14)
    for name in (1 / 8, 1.0, 8.0):
        pairs = [(x, y) for x, y in zip(a, b) if x + y > 0]
        naive = max(((1 + name**2) * x * y / (name**2 * x + y) for x, y in pairs), default=0.0)
        assert curve.f_score(name) == pytest.approx(naive, abs=1e-15)


def test_known_curves():
    two = pr_curve([1.0, 0.0], [0.5, 0.5])
    np.testing.assert_allclose(two.precision[:-1], np.minimum(two.slope[:-1], 0.5), atol=1e-15)
    assert (two.support_precision, two.support_recall) == (0.5, 1)
    apart = pr_curve([1, 1, 0], [0, 0, 3])
    assert not apart.precision.any() and not apart.recall.any() and apart.f_score(8) == 0
    same = pr_curve([1, 2, 3], [10, 20, 30])
    np.testing.assert_allclose(same.precision, np.minimum(1, same.slope), atol=1e-15)
    assert same.f_score(8) == pytest.approx(1, abs=1e-9) == same.f_score(1 / 8)


def pieces(p, q):
    """(λ_low, λ_high, a, c): α_λ − a − cλ = 0 in between, for 0 < λ < ∞."""
    cuts = sorted({*(q[p > 0] / p[p > 0]), 1.0} - {0.0})
    for low, high in zip([0.0, *cuts], [*cuts, math.inf]):
        middle = low + 1 if math.isinf(high) else (low + high) / 2
        yield low, high, q[q < middle * p].sum(), p[q >= middle * p].sum()


def test_divergences_are_mixtures_of_the_curves_own():
    """KL(P‖Q) = ∫ λ⁻² D dλ, KL(Q‖P) = ∫ λ⁻¹ D dλ, χ²(P‖Q) = 2∫ λ⁻³ D dλ, exactly, piece by piece."""
    p, q = drawn(3, empty=0), drawn(4, empty=0)
    found = {power: 0.0 for power in (-1, -2, -3)}
    primitive = {
        -1: (np.log, lambda x: x),
        -2: (lambda x: -1 / x, np.log),
        -3: (lambda x: -0.5 / x**2, lambda x: -1 / x),
    }
    for low, high, a, c in pieces(p, q):
        a, c = (-a, 1 - c) if high <= 1 else (1 - a, -c)  # D = min(1, λ) − α
        if low == 0 or math.isinf(high):
            assert abs(a) < 1e-14 and abs(c) < 1e-14, "no divergence beyond the ratios of the bins"
            continue
        for power, (constant, linear) in primitive.items():
            found[power] += a * (constant(high) - constant(low)) + c * (linear(high) - linear(low))
    kl = lambda x, y: (x * np.log(x / y)).sum()  # noqa: E731
    assert found[-2] == pytest.approx(kl(p, q), rel=1e-12) and found[-1] == pytest.approx(kl(q, p), rel=1e-12)
    assert 2 * found[-3] == pytest.approx(((p - q) ** 2 / q).sum(), rel=1e-12)
    curve = pr_curve(p, q, angles=40)
    for slope, value in zip(curve.slope[:-1], curve.divergence[:-1]):
        f = np.maximum(slope * p / q, 1) - max(slope, 1)
        assert value == pytest.approx((q * f).sum(), abs=1e-14)


def test_area_of_the_divergence_curve():
    """Disjoint histograms: ∫(1 − x^{1/c})^c dx = Γ(c + 1)²/Γ(2c + 1), larger by few trapezoids; equal ones: 1."""
    apart = ([1, 1, 0], [0, 0, 1])
    assert divergence_curve(*apart).area == pytest.approx(0.004072, abs=1e-6)
    assert divergence_curve(*apart, weights=101).area == pytest.approx(0.003974, abs=1e-6)
    exact = math.gamma(6) ** 2 / math.gamma(11)
    assert divergence_curve(*apart, weights=20_001).area == pytest.approx(exact, abs=1e-9)
    assert divergence_curve(*apart, scale=1.0, weights=2001).area == pytest.approx(0.5, abs=1e-5)
    assert divergence_curve([1, 2, 0, 4], [2, 4, 0, 8]).area == pytest.approx(1, abs=1e-12)
    p, q = drawn(0), drawn(1)
    curve = divergence_curve(p, q, weights=11)
    for w, x, y in zip(np.linspace(1e-6, 1 - 1e-6, 11), curve.quality[1:-1], curve.diversity[1:-1]):
        r = w * p + (1 - w) * q
        kl = lambda v, r=r: sum(a * math.log(a / b) for a, b in zip(v, r) if a > 0)  # noqa: E731
        assert (x, y) == pytest.approx((math.exp(-5 * kl(q)), math.exp(-5 * kl(p))), rel=1e-10)
    other_way = np.trapezoid(curve.quality, curve.diversity)  # both orders of integration agree: xy = 0 at both ends
    assert curve.area == pytest.approx(other_way, abs=1e-15) and 0 < curve.area < 1
    assert divergence_curve(q, p, weights=11).area == pytest.approx(curve.area, abs=1e-12)


def test_kinds_and_huge_counts():
    p, q = torch.tensor([1.0, 3.0]), torch.tensor([2.0, 2.0])
    curve = pr_curve(p, q)
    assert isinstance(curve.precision, torch.Tensor) and curve.precision.dtype == torch.float64
    assert isinstance(curve.divergence, torch.Tensor) and isinstance(divergence_curve(p, q).quality, torch.Tensor)
    large = pr_curve(5e307 * np.array([1.0, 3.0]), [2, 2])
    np.testing.assert_allclose(large.precision, curve.precision.numpy(), atol=1e-15)


def planted(seed, counts, d=3, spacing=40.0):
    """Samples of well separated modes, `counts` of each."""
    centres = spacing * np.random.default_rng(7).standard_normal((len(counts), d))
    return np.repeat(centres, counts, 0) + np.random.default_rng(seed).standard_normal((sum(counts), d))


def test_clusters_are_a_fixed_point_of_lloyds_rule():
    x = torch.from_numpy(planted(0, [30, 50, 20]))
    centres, labels, cost = k_means(x, 3, restarts=3)
    truth = np.repeat(np.arange(3), [30, 50, 20])
    assert sorted(np.bincount(labels.numpy())) == [20, 30, 50]
    assert len({(a, b) for a, b in zip(truth, labels.tolist())}) == 3, "planted clusters are found"
    for cloud in (x, torch.from_numpy(np.random.default_rng(0).uniform(size=(300, 2))) + 1e4):
        centres, labels, cost = k_means(cloud, 3, restarts=2)
        moved = cloud - cloud.mean(0)
        d = torch.cdist(moved, centres, compute_mode="donot_use_mm_for_euclid_dist")
        np.testing.assert_allclose(d.min(1).values, d.gather(1, labels[:, None])[:, 0], rtol=1e-7)
        for i in range(3):
            np.testing.assert_allclose(centres[i], moved[labels == i].mean(0), rtol=1e-9, atol=1e-12)
        assert cost == pytest.approx(float(d.min(1).values.square().sum()), rel=1e-6)


def test_clusters_as_good_as_scipys():
    from scipy.cluster.vq import kmeans2

    x = np.random.default_rng(0).standard_normal((400, 4))
    best = np.inf
    for seed in range(5):
        centres, labels = kmeans2(x, 12, minit="++", iter=100, seed=seed)
        best = min(best, np.square(x - centres[labels]).sum())
    assert k_means(torch.from_numpy(x), 12, restarts=5)[2] < 1.02 * best


def test_more_clusters_than_different_samples():
    x = torch.tensor([[0.0], [0.0], [1.0], [1.0], [1.0]])
    centres, labels, cost = k_means(x, 4)
    assert cost < 1e-12 and len(set(labels.tolist())) == 2 and centres.shape == (4, 1)
    p, q = histograms(np.zeros((20, 2)), np.zeros((20, 2)))
    assert sorted(p) == sorted(q) == [0, 20]


def test_histograms_of_planted_modes():
    x, y = planted(0, [50, 50, 50]), planted(1, [100, 50, 0])
    p, q = histograms(x, y, clusters=3)
    assert sorted(zip(p, q)) == [(50, 0), (50, 50), (50, 100)]
    assert isinstance(p, np.ndarray) and len(histograms(x, y)[0]) == 15
    found = cluster_curves(x, y, clusters=3, splits=2, resolution=0.1)
    exact = pr_curve([1, 1, 1], [2, 1, 0])
    np.testing.assert_allclose(found.curve.precision, exact.precision, atol=1e-15)
    assert (found.precision, found.recall) == (exact.f_score(1 / 8), exact.f_score(8.0))
    assert found.precision > 0.97 and found.recall == pytest.approx(2 / 3, abs=0.02) and found.area < 0.9
    assert all(found.ceiling[name].mean > 0.9 for name in found.NAMES) and found.ceiling_samples == 75
    assert "3 clusters; 150 samples" in str(found) and found.clusters == 3


def test_two_draws_of_one_law_do_not_reach_one():
    """A tenth as many bins as samples: α_1 near 0.82 whatever the number of samples, hence the ceiling."""
    for n in (400, 4000):
        random = np.random.default_rng(n)
        draws = [random.multinomial(n, np.full(n // 10, 10 / n), 2) for _ in range(10)]
        mean = np.mean([pr_curve(p, q, angles=2).precision[1] for p, q in draws])
        assert mean == pytest.approx(0.82, abs=0.02)
    x, y = np.random.default_rng(0).standard_normal((2, 200, 4))
    found = cluster_curves(x, y, restarts=1, splits=3, resolution=0.1)
    for name in found.NAMES:
        assert getattr(found, name) == pytest.approx(found.ceiling[name].mean, abs=0.12)
    assert found.ceiling["area"].mean < 0.995 and found.curve.precision[500] < 0.9


BAD = {
    "expected a histogram (bins,)": lambda: pr_curve(np.ones((2, 2)), np.ones((2, 2))),
    "generated holds a negative number": lambda: pr_curve([1, 1], [2, -1]),
    "reference holds a negative number, NaN": lambda: pr_curve([1, np.nan], [2, 1]),
    "generated is empty: all of its 2 bins": lambda: divergence_curve([1, 1], [0, 0]),
    "expected the same bins": lambda: pr_curve([1, 1], [1, 1, 1]),
    "angles=1": lambda: pr_curve([1], [1], angles=1),
    "b=0": lambda: pr_curve([1], [1]).f_score(0),
    "scale=0": lambda: divergence_curve([1], [1], scale=0),
    "weights=1": lambda: divergence_curve([1], [1], weights=1),
    "there are 3 samples": lambda: k_means(torch.zeros(3, 1), 4),
    "restarts=0": lambda: k_means(torch.zeros(3, 1), 2, restarts=0),
    "one sample of a cloud has no histogram": lambda: cluster_curves(np.zeros((1, 2)), np.zeros((5, 2))),
}


@pytest.mark.parametrize("message", BAD)
def test_one_line_says_what_is_wrong(message):
    with pytest.raises(ValueError) as error:
        BAD[message]()
    assert message in str(error.value) and "\n" not in str(error.value)
