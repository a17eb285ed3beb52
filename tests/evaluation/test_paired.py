"""The verdict keeps its level over seeds and samples, where the rules before did not, and says what it cannot say."""

import numpy as np
import pytest
from scipy import stats

from sciops.evaluation import FEWEST, half_widths, paired_verdict

TRIALS = 1500
LIMIT = 0.065 + 3 * np.sqrt(0.05 * 0.95 / TRIALS)  # the level promised, and three standard errors of its estimate


def null_differences(seeds, samples, of_seeds, of_samples, *, residual=1.0, law=np.random.Generator.standard_normal):
    rng = np.random.default_rng([seeds, samples])
    return (
        of_seeds * law(rng, (TRIALS, seeds, 1))
        + of_samples * law(rng, (TRIALS, 1, samples))
        + residual * rng.standard_normal((TRIALS, seeds, samples))
    )


def false_winners(differences, half):
    return float((abs(differences.mean((-2, -1))) > half).mean())


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_a_winner_is_named_on_null_data_in_at_most_6_5_per_cent(seeds):
    for of_seeds in (0.0, 0.1, 0.3, 1.0):
        for of_samples in (0.0, 0.3, 1.0):
            d = null_differences(seeds, 20, of_seeds, of_samples)
            assert false_winners(d, np.max(half_widths(d), axis=0)) <= LIMIT, (of_seeds, of_samples)


def test_the_rules_before_do_not_keep_that_level():
    d = null_differences(3, 50, 1.0, 0.0)
    rng = np.random.default_rng(0)
    rows, columns = (rng.multinomial(n, np.full(n, 1 / n), 400) / n for n in (3, 50))
    low, high = np.quantile(np.einsum("rs,tsn,rn->tr", rows, d, columns, optimize=True), [0.025, 0.975], axis=1)
    assert ((low > 0) | (high < 0)).mean() > 2 * LIMIT  # percentile bootstrap over seeds and samples
    means = d.mean(-1)
    two_errors = 2 * means.std(-1, ddof=1) / np.sqrt(3)
    assert false_winners(d, two_errors) > 2 * LIMIT
    shared = null_differences(10, 50, 0.1, 1.0)  # all seeds share the luck of the samples
    assert false_winners(shared, half_widths(shared).seeds) > 4 * LIMIT


def test_fewer_than_five_seeds_do_not_serve_where_a_training_ends_in_one_of_two_minima():
    def two(rng, shape):
        return rng.choice([-1.0, 1.0], shape)

    rates = {}
    for seeds in (3, 4, FEWEST):
        d = null_differences(seeds, 20, 1.0, 0.0, residual=0.1, law=two)
        rates[seeds] = false_winners(d, np.max(half_widths(d), axis=0))
    assert rates[3] > 0.2 and rates[4] > LIMIT and rates[FEWEST] <= LIMIT
    assert FEWEST == 5


@pytest.mark.parametrize("case", [(5, 40), (10, 7), (1, 40), (10, 1)])
def test_half_widths_are_those_of_the_formulas(case):
    seeds, samples = case
    d = np.random.default_rng(3).normal(0.1, 1, (2, seeds, samples)) + np.arange(seeds)[:, None]
    for one, *found in zip(d, *half_widths(d, level=0.9)):
        over_seeds = stats.t.ppf(0.95, seeds - 1) * stats.sem(one.mean(1)) if seeds > 1 else np.inf
        over_samples = stats.t.ppf(0.95, samples - 1) * stats.sem(one.mean(0)) if samples > 1 else np.inf
        assert found[:2] == pytest.approx([over_seeds, over_samples], rel=1e-12)
        if seeds == 1 or samples == 1:
            assert found[2] == np.inf
            continue
        a, b = samples * one.mean(1).var(ddof=1), seeds * one.mean(0).var(ddof=1)
        residual = one - one.mean(1, keepdims=True) - one.mean(0, keepdims=True) + one.mean()
        free = (seeds - 1) * (samples - 1)
        e = (residual**2).sum() / free
        c = max(a + b - e, a, b)
        nu = max(1, c**2 / (a**2 / (seeds - 1) + b**2 / (samples - 1) + e**2 / free))
        assert found[2] == pytest.approx(stats.t.ppf(0.95, nu) * np.sqrt(c / (seeds * samples)), rel=1e-12)


def test_the_verdict_is_that_of_its_half_widths():
    for d in null_differences(6, 10, 0.3, 0.3)[:40] + 0.6:
        verdict = paired_verdict(d, np.zeros_like(d))
        half = max(half_widths(d))
        assert (verdict.low, verdict.high) == pytest.approx((d.mean() - half, d.mean() + half), rel=1e-12)
        assert (verdict.winner == "second") == (d.mean() > half)
        assert verdict.over == "seeds and samples" and verdict.median == np.median(d)


def test_a_constant_difference_has_no_width_and_wins_always():
    errors = np.random.default_rng(0).uniform(1, 2, (5, 20))
    verdict = paired_verdict(errors - 0.25, errors)
    assert verdict.difference == pytest.approx(-0.25) and verdict.low == pytest.approx(-0.25)
    assert verdict.high == pytest.approx(-0.25) and verdict.win_rate == 1.0 and verdict.winner == "first"
    assert paired_verdict(errors[:4] - 0.25, errors[:4]).winner == "too few seeds"


def test_swapping_shifting_and_scaling():
    rng = np.random.default_rng(1)
    a, b = rng.uniform(size=(2, 5, 40)) + [[[0.0]], [[0.3]]]
    ab, ba = paired_verdict(a, b), paired_verdict(b, a)
    assert (ab.winner, ba.winner) == ("first", "second")
    assert ab.difference == pytest.approx(-ba.difference)
    assert (ab.low, ab.high) == pytest.approx((-ba.high, -ba.low))
    assert ab.win_rate == pytest.approx(1 - ba.win_rate) and ab.sign_p == ba.sign_p
    shifted = paired_verdict(a + 7, b + 7)
    assert (shifted.low, shifted.high) == pytest.approx((ab.low, ab.high))
    for scale in (1e-200, 1e-30, 1e200):
        scaled = paired_verdict(scale * a, scale * b)
        assert (scaled.low, scaled.high) == pytest.approx((scale * ab.low, scale * ab.high), rel=1e-12)
    logs = paired_verdict(3 * a + 1e-3, 3 * b + 1e-3, log=True)
    assert logs.difference == pytest.approx(np.log((a + 1e-3 / 3) / (b + 1e-3 / 3)).mean()) and logs.log


def test_equal_errors_are_equivalent_with_no_width():
    errors = np.ones((5, 5))
    verdict = paired_verdict(errors, errors)
    assert (verdict.low, verdict.high, verdict.winner, verdict.win_rate) == (0.0, 0.0, "equivalent", 0.5)
    assert verdict.sign_p == 1.0


def test_a_difference_below_the_smallest_effect_of_interest_does_not_win():
    rng = np.random.default_rng(4)
    d = -0.01 + 0.002 * rng.standard_normal((6, 50))
    found = [paired_verdict(d, np.zeros_like(d), smallest=s).winner for s in (0.0, 0.005, 0.01, 0.02)]
    assert found == ["first", "first", "undecided", "equivalent"]


def test_seeds_that_disagree_are_too_few_and_the_narrower_questions_have_answers():
    d = np.random.default_rng(5).normal(-1.0, 0.1, (6, 50)) + 3.0 * np.array([[-1, 1, -1, 1, -1, 1]]).T
    verdict = paired_verdict(d, np.zeros_like(d))
    assert verdict.winner == "too few seeds" and verdict.low < 0 < verdict.high
    networks = paired_verdict(d, np.zeros_like(d), over="samples")
    assert networks.winner == "first" and networks.over == "samples" and "for these networks" in str(networks)
    fields = np.random.default_rng(6).normal(-1.0, 0.1, (6, 1)) + 9.0 * np.random.default_rng(7).normal(size=(1, 50))
    fields -= fields.mean() + 1.0
    whole = paired_verdict(fields, np.zeros_like(fields))
    here = paired_verdict(fields, np.zeros_like(fields), over="seeds")
    assert whole.winner == "undecided" and here.winner == "first" and "on these samples" in str(here)


def test_one_seed_has_no_verdict_and_one_sample_answers_for_itself():
    d = np.random.default_rng(8).normal(-5.0, 0.1, (10, 60))
    one_seed = paired_verdict(d[0], np.zeros(60))
    assert one_seed.winner == "too few seeds" and one_seed.over == "samples"
    assert one_seed.high - one_seed.low == pytest.approx(2 * float(half_widths(d[:1]).samples))
    assert paired_verdict(d[0], np.zeros(60), over="samples").winner == "first"
    scores = paired_verdict(d[:, :1], np.zeros((10, 1)))
    assert scores.winner == "first" and scores.over == "seeds"
    assert paired_verdict(d[:, :1], np.zeros((10, 1)), over="seeds and samples").winner == "too few samples"
    single = paired_verdict(d[:1, :1], np.zeros((1, 1)))
    assert single.winner == "too few seeds" and single.low == -np.inf


def test_one_damaged_field_leaves_the_median_and_the_signs():
    d = np.random.default_rng(9).normal(-1.0, 0.2, (8, 50))
    d[:, 7] = 1e6
    verdict = paired_verdict(d, np.zeros_like(d))
    assert verdict.winner == "undecided" and verdict.difference > 0
    assert verdict.median == pytest.approx(-1.0, abs=0.05) and verdict.sign_p == pytest.approx(2 / 2**8)


@pytest.mark.parametrize(
    "bad",
    [
        (np.ones(3), np.ones(4)),
        (np.array([]), np.array([])),
        (np.array([np.nan]), np.ones(1)),
        (np.ma.masked_greater([1.0, 2.0], 1.5), np.ones(2)),
        (np.ones(2) * 1j, np.ones(2)),
    ],
)
def test_bad_input_is_refused(bad):
    with pytest.raises(ValueError):
        paired_verdict(*bad)


@pytest.mark.parametrize("options", [{"level": 1.0}, {"smallest": -1.0}, {"over": "fields"}, {"log": True}])
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError):
        paired_verdict(np.zeros(3), np.ones(3), **options)
