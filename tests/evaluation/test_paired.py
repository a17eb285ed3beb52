import numpy as np
import pytest

from sciops.evaluation import paired_verdict


def test_a_constant_difference_has_no_width_and_wins_always():
    errors = np.random.default_rng(0).uniform(1, 2, (3, 20))
    verdict = paired_verdict(errors - 0.25, errors)
    assert verdict.difference == pytest.approx(-0.25) and verdict.low == pytest.approx(-0.25)
    assert verdict.high == pytest.approx(-0.25) and verdict.win_rate == 1.0 and verdict.winner == "first"


def test_swapping_the_two_changes_the_sign():
    rng = np.random.default_rng(1)
    a, b = rng.uniform(size=(2, 40)), rng.uniform(size=(2, 40))
    ab, ba = paired_verdict(a, b), paired_verdict(b, a)
    assert ab.difference == pytest.approx(-ba.difference)
    assert (ab.low, ab.high) == pytest.approx((-ba.high, -ba.low))
    assert ab.win_rate == pytest.approx(1 - ba.win_rate)


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    hits = 0
    for trial in range(200):
        verdict = paired_verdict(rng.normal(0.3, 1.0, 60), np.zeros(60), resamples=500, seed=trial)
        hits += verdict.low <= 0.3 <= verdict.high
    assert 0.90 <= hits / 200 <= 0.99


def test_identical_errors_are_a_tie():
    errors = np.ones((2, 5))
    verdict = paired_verdict(errors, errors)
    assert verdict.winner == "tie" and verdict.win_rate == 0.5


@pytest.mark.parametrize(
    "bad", [(np.ones(3), np.ones(4)), (np.array([]), np.array([])), (np.array([np.nan]), np.ones(1))]
)
def test_bad_input_is_refused(bad):
    with pytest.raises(ValueError):
        paired_verdict(*bad)
