"""Explanations of an interference matrix: the Mantel test and the regression on several matrices."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import kstest, pearsonr, spearmanr

from sciops.evaluation import interference_matrix, mantel, matrix_regression


def rng(seed=0):
    return np.random.default_rng(seed)


def noise(n, seed=0):
    return rng(seed).standard_normal((n, n))


def off(matrix):
    return matrix[~np.eye(len(matrix), dtype=bool)]


def symmetric(n, seed):
    matrix = noise(n, seed)
    return matrix + matrix.T


def same(labels):
    labels = np.array(list(labels))
    return (labels[:, None] == labels).astype(float)


def test_identical_matrices_have_the_least_p():
    matrix = noise(9)
    for method in ("spearman", "pearson"):
        found = mantel(matrix, 3 * matrix + 1, rng=rng(), method=method, permutations=999)
        assert found.correlation == pytest.approx(1) and found.p == 1 / 1000 and not found.exact
    assert mantel(matrix, -matrix, rng=rng(), permutations=999).p == 1 / 1000
    assert mantel(matrix, -matrix, rng=rng(), permutations=999, alternative="greater").p == 1


@pytest.mark.parametrize("method", ["spearman", "pearson"])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_against_all_orders_one_by_one(method, alternative):
    values, predictor = noise(5), noise(5, 1) + 0.4 * noise(5)
    found = mantel(values, predictor, rng=rng(), method=method, alternative=alternative, permutations=119)
    correlate = {"spearman": spearmanr, "pearson": pearsonr}[method]
    turn = {"two-sided": abs, "greater": float, "less": lambda r: -r}[alternative]
    all_of_them, slopes = [], []
    for order in permutations(range(5)):
        moved = predictor[np.ix_(order, order)]
        all_of_them.append(turn(correlate(off(values), off(moved)).statistic))
        slopes.append(np.polyfit(off(moved), off(values), 1)[0])
    assert found.exact and found.permutations == 120
    assert found.correlation == pytest.approx(correlate(off(values), off(predictor)).statistic)
    assert found.p == np.mean(np.array(all_of_them) >= all_of_them[0] - 1e-12)
    assert found.slope == pytest.approx(slopes[0])
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(slopes, [0.025, 0.975])))


def test_the_slope_of_zeros_and_ones_is_a_difference_of_means():
    values, shared = noise(6), same("aabbbc")
    found = mantel(values, shared, rng=rng())
    inside, entries = off(shared) == 1, off(values)
    assert found.slope == pytest.approx(entries[inside].mean() - entries[~inside].mean())


def test_p_values_of_unrelated_matrices_are_uniform():
    """Rows with effects of their own: the entries depend on each other, and an ordinary p value is too small."""
    draws, p, ordinary = rng(1), [], []
    for _ in range(200):
        values = draws.standard_normal((8, 8)) + 3 * draws.standard_normal((8, 1))
        predictor = draws.standard_normal((8, 8)) + 3 * draws.standard_normal((8, 1))
        p.append(mantel(values, predictor, rng=draws, permutations=199).p)
        ordinary.append(spearmanr(off(values), off(predictor)).pvalue)
    assert kstest(p, "uniform").pvalue > 0.01
    assert np.mean(np.array(p) < 0.05) < 0.1 and np.mean(np.array(ordinary) < 0.05) > 0.3


def test_a_regression_is_least_squares_on_all_predictors():
    values, a, b = noise(6), noise(6, 1), same("aabbcc")
    found = matrix_regression(values, {"a": a, "b": b}, rng=rng(), permutations=99)
    design = np.stack([np.ones(30), off(a), off(b)], 1)
    expected, rest = np.linalg.lstsq(design, off(values), rcond=None)[:2]
    np.testing.assert_allclose([found.intercept, found.slopes["a"], found.slopes["b"]], expected, atol=1e-13)
    assert found.explained == pytest.approx(1 - rest[0] / np.square(off(values) - off(values).mean()).sum())
    assert [row["predictor"] for row in found.rows()] == ["a", "b"]


def test_the_p_values_of_a_regression_against_all_orders():
    values, a, b = noise(5), symmetric(5, 1), same("aabbc")
    found = matrix_regression(values, {"a": a, "b": b}, rng=rng(), permutations=119)
    design = np.stack([np.ones(20), off(b)], 1)

    def rest(y):
        return y - design @ np.linalg.lstsq(design, y, rcond=None)[0]

    left = np.zeros((5, 5))
    left[~np.eye(5, dtype=bool)] = rest(off(a))
    sizes = []
    for order in permutations(range(5)):
        one, two = rest(off(values)), rest(off(left[np.ix_(order, order)]))
        sizes.append(abs(one @ two) / np.linalg.norm(one) / np.linalg.norm(two))
    assert found.permutations == 119 and found.p["a"] == np.mean(np.array(sizes) >= sizes[0] - 1e-12)


def test_a_regression_tells_a_cause_from_what_goes_with_it():
    """Interference by script; families go with scripts, but explain nothing beyond them."""
    script, family = same("aaaaabbbbb"), same("aaaabbbbbb")
    values = script + 0.3 * noise(10)
    alone = mantel(values, family, rng=rng(), permutations=999)
    found = matrix_regression(values, {"script": script, "family": family}, rng=rng(), permutations=999)
    assert alone.p < 0.05 and found.p["script"] < 0.05 < found.p["family"]
    assert found.slopes["script"] == pytest.approx(1, abs=0.2) and abs(found.slopes["family"]) < 0.2


def test_p_values_of_a_regression_are_uniform_without_an_effect():
    draws, p = rng(2), []
    for _ in range(150):
        values = draws.standard_normal((8, 8)) + draws.standard_normal((8, 1)) + same("aaaabbbb")
        predictors = {"cause": same("aaaabbbb"), "other": draws.standard_normal((8, 8)) + same("aaaabbbb")}
        p.append(matrix_regression(values, predictors, rng=draws, permutations=99).p["other"])
    assert kstest(p, "uniform").pvalue > 0.01


def test_a_matrix_with_its_names():
    alone, together = rng().uniform(1, 2, (3, 5)), rng(1).uniform(1, 2, (3, 5, 5))
    found = interference_matrix(alone, together)
    predictor = noise(5)
    assert mantel(found, predictor, rng=rng()) == mantel(found.values, predictor, rng=rng())
    both = (matrix_regression(one, {"x": predictor}, rng=rng()) for one in (found, found.values))
    assert next(both) == next(both)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mantel(noise(4), noise(5), rng=rng()), "the same tasks"),
        (lambda: mantel(noise(2), noise(2), rng=rng()), "at least 3 tasks"),
        (lambda: mantel(noise(4), np.ones((4, 4)), rng=rng()), "entries of predictor are equal"),
        (lambda: mantel(np.ones((4, 4)), noise(4), rng=rng()), "entries of values are equal"),
        (lambda: mantel(noise(4), np.full((4, 4), np.nan), rng=rng()), "NaN or infinity"),
        (lambda: mantel(noise(4), noise(4), rng=rng(), method="kendall"), "'spearman' or 'pearson'"),
        (lambda: mantel(noise(4), noise(4), rng=rng(), permutations=98.5), "whole number"),
        (lambda: matrix_regression(noise(4), {}, rng=rng()), "0 predictors"),
        (lambda: matrix_regression(noise(4), {"a": noise(5)}, rng=rng()), "'a' has shape"),
        (lambda: matrix_regression(noise(4), {"a": noise(4), "b": 2 * noise(4)}, rng=rng()), "sum of the others"),
        (lambda: matrix_regression(noise(4), {"a": np.ones((4, 4))}, rng=rng()), "constant"),
    ],
)
def test_wrong_inputs_are_refused_in_one_line(call, says):
    with pytest.raises(ValueError, match=says) as error:
        call()
    assert "\n" not in str(error.value)
