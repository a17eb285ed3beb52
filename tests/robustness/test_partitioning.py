"""Buckets equal a plain loop's, their bounds hold at level α by enumeration, and the choice follows the tail."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from sciops.robustness.smoothing.partitioning import (
    Partition,
    bucket_bounds,
    choose_partition,
    class_partition,
    every_class,
    one_bucket,
)
from sciops.robustness.smoothing.radii import cohen_radius
from sciops.robustness.statistics.intervals import clopper_pearson_lower, clopper_pearson_upper

ALL = (one_bucket, every_class, class_partition, lambda counts: choose_partition(counts, 30, 0.05))


def outcomes(p, n):
    """Every count vector of n draws and its probability."""
    counts = np.array([k for k in product(range(n + 1), repeat=len(p)) if sum(k) == n])
    return counts, stats.multinomial.pmf(counts, n, p)


def violated(p, order, lower, upper):
    """Whether a positive radius exceeds the true one, or belongs to a wrong class."""
    radius = cohen_radius(lower, upper, sigma=1.0)
    true = np.array([cohen_radius(p[c], max(np.delete(p, c)), sigma=1.0) for c in range(len(p))])
    return (radius > 0) & (radius > true[order[:, 0]] + 1e-12)


def buckets_by_loop(selection):
    """The class partition as one pops classes from the rest."""
    order = sorted(range(len(selection)), key=lambda c: -selection[c])
    buckets, rest = [[order[0]], [order[1]]], order[2:]
    while rest and sum(selection[c] for c in rest) > selection[order[1]]:
        buckets.append([rest.pop(0)])
    return [*buckets, rest] if rest else buckets


def test_class_partition_is_the_loop():
    rng = np.random.default_rng(0)
    for classes, n in ((3, 5), (10, 20), (40, 100), (40, 2000)):
        p = rng.dirichlet(np.full(classes, 0.3))
        selection = rng.multinomial(n, p, 30)
        fresh = rng.multinomial(500, p, 30)
        partition = class_partition(selection)
        lower, upper = bucket_bounds(partition, fresh, 500, 0.01)
        for i in range(30):
            buckets = buckets_by_loop(selection[i])
            sums = [fresh[i, bucket].sum() for bucket in buckets]
            assert sum(sums) == 500
            level = 0.01 / len(buckets)
            assert lower[i] == pytest.approx(float(clopper_pearson_lower(sums[0], 500, level)), abs=1e-14)
            most = max(float(clopper_pearson_upper(k, 500, level)) for k in sums[1:])
            assert upper[i] == pytest.approx(min(most, 1 - lower[i]), abs=1e-14)


def test_shares_add_up_to_one_and_every_class_has_a_bound():
    rng = np.random.default_rng(1)
    for classes, build in product((2, 3, 10, 200), ALL):
        selection = rng.multinomial(60, rng.dirichlet(np.full(classes, 0.5)), 40)
        part = build(selection)
        rest = np.where(part.pooled, part.singles < classes, classes - part.singles)
        total = part.shares[:, 0] + (part.singles - 1) * part.shares[:, 1] + rest * part.shares[:, 2]
        assert (total <= 1 + 1e-12).all()
        assert (np.sort(part.order, 1) == np.arange(classes)).all()
        # whatever the counts, an upper bound below 1 − p_A is no smaller than any class's share of the sample
        fresh = rng.multinomial(80, rng.dirichlet(np.full(classes, 0.5)), 40)
        lower, upper = bucket_bounds(part, fresh, 80, 0.05)
        ranked = np.take_along_axis(fresh, part.order, 1) / 80
        assert (lower <= ranked[:, 0]).all()
        assert (upper >= np.minimum(ranked[:, 1:].max(1), 1 - lower) - 1e-12).all()


def test_top_two_intervals_without_a_correction_lose_coverage():
    p, n, alpha = np.array([0.5, 0.05, 0.45]), 20, 0.1
    fresh, mass = outcomes(p, n)
    order = np.argsort(-fresh, axis=1, kind="stable")
    ranked = np.take_along_axis(fresh, order, 1)
    lower = clopper_pearson_lower(ranked[:, 0], n, alpha)
    upper = clopper_pearson_upper(ranked[:, 1], n, alpha)
    others = np.array([np.delete(p, first).max() for first in order[:, 0]])
    assert mass[violated(p, order, lower, upper)].sum() > 1.1 * alpha
    assert mass[(lower > p[order[:, 0]]) | (upper < others)].sum() > 1.5 * alpha
    selection, chance = outcomes(p, 4)
    for build in ALL:
        part = build(selection)
        total = 0.0
        for i in range(len(selection)):
            one = Partition(*(np.repeat(np.asarray(v)[i : i + 1], len(fresh), 0) for v in vars(part).values()))
            bounds = bucket_bounds(one, fresh, n, alpha)
            total += chance[i] * mass[violated(p, one.order, *bounds)].sum()
        assert total <= alpha


@pytest.mark.parametrize("p", [(0.5, 0.5), (0.4, 0.35, 0.25), (0.34, 0.33, 0.33), (0.7, 0.1, 0.1, 0.1)])
@pytest.mark.parametrize("bernstein", [False, True])
def test_coverage_by_enumeration_for_every_selection(p, bernstein):
    p, n, alpha = np.array(p), 12, 0.1
    fresh, mass = outcomes(p, n)
    for selection in outcomes(p, 3)[0]:
        for build in ALL:
            part = build(np.repeat(selection[None], len(fresh), 0))
            rest = np.arange(len(p)) >= part.singles[0]
            pooled = np.take_along_axis(fresh, part.order, 1)[:, rest].sum(1)
            extra = {"squares": fresh, "pooled_squares": pooled} if bernstein else {}
            lower, upper = bucket_bounds(part, fresh, n, alpha, **extra)
            first = part.order[0, 0]
            wrong = (lower > p[first]) | (upper < np.delete(p, first).max())
            assert mass[wrong].sum() <= alpha


def test_two_classes_need_no_share():
    counts = np.array([[70, 30], [20, 80]])
    for build in ALL:
        lower, upper = bucket_bounds(build(counts), 10 * counts, 1000, 1e-3)
        np.testing.assert_allclose(lower, clopper_pearson_lower([700, 800], 1000, 1e-3))
        np.testing.assert_allclose(upper, 1 - lower)


def mean_radius(build, p, drawn, n, alpha, trials=300):
    rng = np.random.default_rng(2)
    selection, fresh = rng.multinomial(drawn, p, trials), rng.multinomial(n, p, trials)
    part = build(selection)
    radius = np.maximum(cohen_radius(*bucket_bounds(part, fresh, n, alpha), sigma=1.0), 0)
    return (radius * (part.order[:, 0] == 0)).mean()


@pytest.mark.parametrize("drawn", [100, 1000])
def test_the_choice_keeps_up_with_the_best_whatever_the_tail(drawn):
    flat, light = np.full(998, 0.5 / 998), 0.35 * 0.5 ** np.arange(1, 99)
    tails = {
        "flat": np.array([0.4, 0.1, *flat]),
        "confident": np.array([0.9, *np.full(99, 0.1 / 99)]),
        "light": np.array([0.35, 0.3, *light]) / (0.65 + light.sum()),
        "zipf": np.array([0.45, *(0.55 / np.arange(1, 1000) ** 2.0 / (1 / np.arange(1, 1000) ** 2.0).sum())]),
    }
    for name, p in tails.items():
        radii = [mean_radius(b, p, drawn, 10_000, 1e-3) for b in (one_bucket, every_class, class_partition)]
        auto = mean_radius(lambda s: choose_partition(s, 10_000, 1e-3), p, drawn, 10_000, 1e-3)
        assert auto >= 0.99 * max(radii), name


def test_the_choice_is_a_function_of_one_input_s_counts():
    rng = np.random.default_rng(3)
    selection = rng.multinomial(200, rng.dirichlet(np.full(30, 0.2)), 20)
    whole, some = choose_partition(selection, 5000, 0.01), choose_partition(selection[[7, 3]], 5000, 0.01)
    for name, values in vars(some).items():
        np.testing.assert_array_equal(values, getattr(whole, name)[[7, 3]])
    tied = np.array([[5, 9, 9, 0]])
    assert choose_partition(tied, 100, 0.1).order[0].tolist() == [1, 2, 0, 3]


def test_refusals():
    with pytest.raises(ValueError, match=r"selection has shape \(3,\)"):
        one_bucket([1, 2, 3])
    with pytest.raises(ValueError, match="needs pooled_squares"):
        bucket_bounds(class_partition([[5, 3, 1, 1]]), [[5.0, 3.0, 1.0, 1.0]], 10, 0.1, squares=[[5.0, 3.0, 1.0, 1.0]])
