"""Attacks against releases whose curves are known, and private gradients against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from sciops.evaluation.privacy import (
    bootstrap_area,
    epsilon_lower_bound,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_roc,
    largest_advantage,
    mean_release_mu,
    membership_scores,
    roc,
    shadow_masks,
    target_areas,
)


def released_means(n: int, d: int, noise: float, models: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((2 * n, d))
    masks = shadow_masks(models, 2 * n, seed=seed)
    theta = masks @ z / n + noise * rng.standard_normal((models, d))
    return theta @ z.T, masks


@pytest.mark.parametrize(
    ("n", "d", "noise", "area", "at"),
    [
        (100, 20, 0.0, 0.673, 0.045),
        (100, 100, 0.0, 0.841, 0.181),
        (100, 20, 0.2, 0.559, 0.017),
        (50, 200, 0.0, 0.977, 0.692),
    ],
)
def test_the_attack_on_released_means_meets_its_curve_and_never_exceeds_it(n, d, noise, area, at):
    mu = mean_release_mu(n, d, noise)
    assert ndtr(mu / math.sqrt(2)) == pytest.approx(area, abs=6e-4)
    assert gaussian_roc(0.01, mu) == pytest.approx(at, abs=6e-4)
    scores, masks = released_means(n, d, noise, 128, seed=1)
    # masks in pairs share the complement: the partner of the target is no independent shadow
    found = roc(membership_scores(scores, masks), masks)
    assert area - 0.03 < found.area < area + 0.012
    assert found.true_positive_at(0.01) < at * 1.1 + 0.005


def test_the_interval_of_the_area_holds_the_area():
    scores, masks = released_means(50, 40, 0.0, 12, seed=7)
    found = membership_scores(scores, masks)
    low, high = bootstrap_area(found, masks, draws=60)
    assert low < ndtr(mean_release_mu(50, 40) / math.sqrt(2)) + 0.05 and low < roc(found, masks).area < high < low + 0.3


def test_curves_are_counts():
    found = roc([3.0, 2.0, 2.0, 1.0], [True, True, False, False])
    np.testing.assert_allclose(found.true_positive, [0, 0.5, 1, 1])
    np.testing.assert_allclose(found.false_positive, [0, 0, 0.5, 1])
    assert found.area == pytest.approx(0.875) and found.advantage == 0.5
    rng = np.random.default_rng(0)
    s, m = rng.integers(0, 9, 60).astype(float), rng.random(60) < 0.5
    pairs = (s[m][:, None] > s[~m]) + 0.5 * (s[m][:, None] == s[~m])
    assert roc(s, m).area == pytest.approx(pairs.mean())


def test_areas_of_targets_are_those_of_their_curves():
    rng = np.random.default_rng(1)
    scores, member = rng.integers(0, 5, (2, 3, 40)).astype(float), rng.random((2, 3, 40)) < 0.4
    member[1, 2] = True
    found = target_areas(scores, member)
    wanted = [[roc(s, m).area if not m.all() else math.nan for s, m in zip(*rows)] for rows in zip(scores, member)]
    np.testing.assert_allclose(found, wanted)
    with pytest.raises(ValueError, match="expected equal"):
        target_areas(scores, member[0])


def test_the_gaussian_mechanism_has_its_curve_and_the_bound_holds():
    rng = np.random.default_rng(3)
    mu, delta = 1.0, 1e-5
    epsilon = gaussian_epsilon(delta, mu)
    assert gaussian_delta(epsilon, mu) == pytest.approx(delta, rel=1e-6)
    bounds = []
    for _ in range(40):
        member = rng.random(4000) < 0.5
        scores = rng.standard_normal(4000) + mu * member
        bounds.append(epsilon_lower_bound(scores, member, delta=delta))
    assert np.mean(np.array(bounds) <= epsilon) >= 0.95 and np.median(bounds) > 1.0
    assert roc(scores, member).area == pytest.approx(ndtr(mu / math.sqrt(2)), abs=0.03)
    exact = [
        max(epsilon_lower_bound(rng.standard_normal(600), rng.random(600) < 0.5) for _ in range(5)) for _ in range(8)
    ]
    assert np.mean(np.array(exact) > 0) <= 0.5  # 5 % each, five at once


def test_advantages_of_the_card():
    assert [round(largest_advantage(e), 3) for e in (1, 2, 5, 10)] == [0.462, 0.762, 0.987, 1.0]
    assert largest_advantage(0.0, 0.1) == pytest.approx(0.1)


def test_shuffled_membership_is_chance_and_a_memoriser_is_certain():
    scores, masks = released_means(50, 200, 0.0, 16, seed=2)
    rng = np.random.default_rng(0)
    wrong = rng.permuted(masks, axis=1)
    assert roc(membership_scores(scores, wrong, attack="global"), wrong).area == pytest.approx(0.5, abs=0.05)
    # the denoiser of a training set: Σ softmax(−‖x − x_i‖²/2σ²) x_i
    z = rng.standard_normal((40, 8))
    member = np.arange(40) < 20

    def loss(sigma: float) -> np.ndarray:
        e = rng.standard_normal((30, 40, 8))
        x = z + sigma * e
        odds = -((x[:, :, None] - z[member]) ** 2).sum(-1) / (2 * sigma**2)
        odds -= odds.max(-1, keepdims=True)
        share = np.exp(odds) / np.exp(odds).sum(-1, keepdims=True)
        return ((share @ z[member] - z) ** 2).sum(-1).mean(0)

    assert roc(-loss(0.05), member).area == 1.0
    # at large noise only the distance from the mean of the set is left
    assert roc(-loss(50.0), member).area < 0.8


def test_every_attack_is_calibrated_by_the_other_models_alone():
    scores, masks = released_means(40, 30, 0.0, 12, seed=4)
    for attack in ("online", "offline", "relative"):
        base = membership_scores(scores, masks, attack=attack)
        moved = scores.copy()
        moved[5] += 1000.0  # of another target: the rest of row 0 may change, its own row has no part in its law
        assert np.isfinite(base).all()
        assert not np.allclose(membership_scores(moved, masks, attack=attack)[0], base[0])
    shifted = scores + np.random.default_rng(0).standard_normal(scores.shape[1]) * 10
    for attack in ("online", "offline", "relative"):  # what is easy for a record is taken off
        one, two = (membership_scores(s, masks, attack=attack) for s in (scores, shifted))
        np.testing.assert_allclose(one, two, atol=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: roc([1.0, np.nan], [True, False]), "1 of 2 are NaN"),
        (lambda: roc([1.0, 2.0], [True, True]), "expected members and others"),
        (lambda: roc([1.0], [True, False]), "expected equal shapes"),
        (lambda: roc([1.0, 2.0], [True, False]).true_positive_at(0.01), "needs at least 100 other records: got 1"),
        (lambda: membership_scores(np.zeros((2, 4)), shadow_masks(2, 4)), "expected at least two; train more"),
        (lambda: membership_scores(np.zeros((4, 4)), shadow_masks(4, 4), attack="lira"), "attack='lira'"),
        (lambda: shadow_masks(3, 4), "expected even numbers"),
        (lambda: epsilon_lower_bound([1.0, 2.0], [True, False], delta=2), "out of range"),
    ],
)
def test_one_line_for_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
