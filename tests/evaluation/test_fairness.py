"""Gaps between groups: identities, planted populations, and verdicts that err no more often than they state."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from sciops.evaluation.fairness import (
    Hypothesis,
    Observations,
    assess,
    bootstrap_rates,
    cluster_table,
    equivalence_p,
    expected_range,
    group_rates,
    intersectional_cells,
    kitagawa,
    mixed_poisson,
    permutation_test,
    poisson_regression,
    score_bootstrap,
)
from sciops.evaluation.fairness.mixed import log_integral

pytest.importorskip("statsmodels")


def drawn(
    rng: np.random.Generator,
    rates: np.ndarray,
    *,
    factors: dict[str, np.ndarray],
    rows: int = 10,
    words: int = 10,
    sigma: float = 0.5,
) -> Observations:
    """Rows of clusters with these rates, times a log-normal factor of each cluster."""
    speakers = np.arange(len(rates)).repeat(rows)
    each = rates * np.exp(sigma * rng.standard_normal(len(rates)))
    errors = rng.poisson(words * each[speakers])
    return Observations(
        errors, np.full(len(speakers), words), speakers, {name: values[speakers] for name, values in factors.items()}
    )


def confounded(rng: np.random.Generator, speakers: int = 200) -> Observations:
    """Non-native speakers have twice the rate; ethnicity does nothing, and goes along with being non-native."""
    native = rng.random(speakers) < 0.6
    ethnicity = (rng.random(speakers) < np.where(native, 0.15, 0.75)).astype(int)
    rates = 0.10 * np.exp(np.where(native, 0.0, 0.7))
    return drawn(rng, rates, factors={"ethnicity": ethnicity, "native": np.where(native, "a native", "non-native")})


def small(seed: int = 0, speakers: int = 40, **options) -> Observations:
    rng = np.random.default_rng(seed)
    group = np.array(["A", "B"])[np.arange(speakers) % 2]
    other = np.array(["x", "y", "z"])[rng.integers(0, 3, speakers)]
    rates = 0.2 * np.exp(0.3 * (group == "B") + 0.4 * (other == "y"))
    return drawn(rng, rates, factors={"group": group, "other": other}, **options)


def test_rate_and_composition_add_up_and_change_sign_with_the_order():
    table = small()
    there, back = (kitagawa(table, "group", *pair, within=("other",)) for pair in (("A", "B"), ("B", "A")))
    assert abs(there.rate_effect + there.composition_effect - there.gap) < 1e-12
    assert there.gap == pytest.approx(-back.gap, abs=1e-15)
    assert there.rate_effect == pytest.approx(-back.rate_effect, abs=1e-15)
    rates = {rate.group: rate.pooled for rate in group_rates(table, "group")}
    assert there.left_out == pytest.approx(0, abs=1e-12)
    assert there.gap == pytest.approx(rates["B"] - rates["A"], abs=1e-14)


def test_composition_alone_is_called_misleading():
    # equal rates in both cells; B is found in the hard one
    rates, words = np.array([0.1, 0.1, 0.5, 0.5]), np.array([900, 100, 100, 900])
    table = Observations(
        rates * words, words, range(4), {"group": list("ABAB"), "cell": ["easy", "easy", "hard", "hard"]}
    )
    split = kitagawa(table, "group", "A", "B", within=("cell",))
    assert abs(split.rate_effect) < 1e-15 and split.composition_effect == pytest.approx(split.gap) and split.misleading


def test_one_row_a_cluster_gives_the_ratio_of_pooled_rates():
    table = small(rows=1, speakers=60)
    rates = {rate.group: rate.pooled for rate in group_rates(table, "group")}
    found = poisson_regression(table, ("group",))
    assert math.exp(found.coefficients[1]) == pytest.approx(rates["B"] / rates["A"], rel=1e-10)


def test_the_scale_of_the_exposure_moves_the_intercept_alone():
    table = small()
    scaled = replace(table, exposure=table.exposure * 7.5)
    one, two = (poisson_regression(part, ("group", "other")) for part in (table, scaled))
    assert two.coefficients[0] - one.coefficients[0] == pytest.approx(-math.log(7.5), abs=1e-9)
    np.testing.assert_allclose(two.coefficients[1:], one.coefficients[1:], atol=1e-9)
    np.testing.assert_allclose(two.standard_errors, one.standard_errors, rtol=1e-7)


def test_rows_repeated_in_their_clusters_are_no_news():
    table = small()
    twice = table.rows(np.tile(np.arange(len(table)), 2))
    options = {"covariance": "cluster", "small_sample": False}
    one, two = (poisson_regression(part, ("group",), **options) for part in (table, twice))
    np.testing.assert_allclose(two.standard_errors, one.standard_errors, rtol=1e-8)
    naive = [poisson_regression(part, ("group",), covariance="naive").standard_errors for part in (table, twice)]
    np.testing.assert_allclose(naive[1], naive[0] / math.sqrt(2), rtol=1e-8)


def test_the_sandwich_is_the_sum_over_clusters():
    table = small(rows=3)
    found = poisson_regression(table, ("group",), small_sample=False)
    x = np.stack([np.ones(len(table)), (table.factors["group"] == "B").astype(float)], axis=1)
    mean = table.exposure * np.exp(x @ found.coefficients)
    bread = np.linalg.inv((x * mean[:, None]).T @ x)
    scores = [
        (x[rows] * (table.errors - mean)[rows, None]).sum(axis=0)
        for rows in (table.cluster == cluster for cluster in sorted({*table.cluster.tolist()}))
    ]
    meat = sum(np.outer(score, score) for score in scores)
    np.testing.assert_allclose(found.covariance, bread @ meat @ bread, rtol=1e-8)


def naive_reduction(x: np.ndarray, table: Observations, mean: np.ndarray, contrasts: np.ndarray):
    """The bias-reduced covariance and its degrees of freedom, with matrices as large as the rows."""
    rows = x * np.sqrt(mean)[:, None]
    bread = np.linalg.inv(rows.T @ rows)
    hat = rows @ bread @ rows.T
    residual = (table.errors - mean) / np.sqrt(mean)
    meat, forms = 0.0, []
    for cluster in sorted({*table.cluster.tolist()}):
        own = table.cluster == cluster
        values, vectors = np.linalg.eigh(np.eye(own.sum()) - hat[np.ix_(own, own)])
        adjusted = rows[own].T @ (vectors / np.sqrt(values)) @ vectors.T
        score = adjusted @ residual[own]
        meat = meat + np.outer(score, score)
        forms.append((np.eye(len(x)) - hat)[:, own] @ adjusted.T @ bread)
    law = np.linalg.inv(np.linalg.cholesky(contrasts @ bread @ contrasts.T)) @ contrasts
    parts = np.stack([form @ law.T for form in forms])  # (clusters, rows, contrasts)
    products = np.einsum("sni,tnj->ijst", parts, parts)
    q = len(contrasts)
    spread = sum(
        (products[i, i] * products[j, j] + products[i, j] * products[j, i]).sum() for i in range(q) for j in range(q)
    )
    return bread @ meat @ bread, q * (q + 1) / spread


def test_the_bias_reduced_sandwich_is_that_of_the_full_matrices():
    table = small(rows=4, speakers=14, seed=2)
    found = poisson_regression(table, ("group", "other"), covariance="bias-reduced")
    mean = table.exposure * np.exp(found.design.matrix @ found.coefficients)
    for contrasts in (np.eye(4)[1:2], np.eye(4)[2:], np.array([[0.0, 1.0, -1.0, 0.0]])):
        covariance, freedom = naive_reduction(found.design.matrix, table, mean, contrasts)
        np.testing.assert_allclose(found.covariance, covariance, rtol=1e-9, atol=1e-15)
        assert found.reduction.freedom(contrasts) == pytest.approx(freedom, rel=1e-9)
    # counts without dependence: no bias, in that the leverages are those of all rows
    np.testing.assert_allclose(found.reduction.leverage.sum(axis=0), np.eye(4), atol=1e-10)
    plain = poisson_regression(table, ("group", "other"), small_sample=False)
    assert (found.standard_errors > plain.standard_errors).all()
    order = np.random.default_rng(0).permutation(len(table))
    again = poisson_regression(table.rows(order), ("group", "other"), covariance="bias-reduced")
    np.testing.assert_allclose(again.covariance, found.covariance, rtol=1e-8)


def test_a_level_of_one_cluster_leaves_finite_errors():
    table = small(speakers=12)
    table = replace(table, factors={**table.factors, "other": np.where(table.cluster == 0, "rare", "x")})
    found = poisson_regression(table, ("group", "other"), covariance="bias-reduced")
    assert np.isfinite(found.covariance).all() and found.standard_errors[found.names.index("group[B]")] > 0
    with pytest.raises(ValueError, match="expected one of bias-reduced, cluster, naive"):
        poisson_regression(table, ("group",), covariance="CR2")


def test_a_coin_is_as_often_significant_as_stated_beside_twenty_columns():
    wrong = {"bias-reduced": 0, "cluster": 0}
    count = 40
    for repeat in range(80):
        rng = np.random.default_rng(repeat)
        table = drawn(rng, np.full(count, 0.2), factors={"coin": rng.permutation(count) % 2}, rows=3)
        noise = rng.standard_normal((20, count))[:, np.arange(count).repeat(3)]
        table = replace(table, covariates={f"z{i}": row for i, row in enumerate(noise)})
        for kind in wrong:
            fit = poisson_regression(table, ("coin",), covariates=tuple(table.covariates), covariance=kind)
            value, error = fit.contrast(np.eye(22)[1])
            wrong[kind] += 2 * student.sf(abs(value / error), fit.freedom(np.eye(22)[1])) < 0.05
    # 5 % of 80 is 4; 10 or more has probability 0.6 %
    assert wrong["bias-reduced"] <= 9 < wrong["cluster"], wrong


def test_without_spread_the_mixed_regression_is_the_plain_one():
    rng = np.random.default_rng(3)
    means = rng.uniform(1, 9, 20)
    errors = rng.poisson(means).astype(float)
    value, tilt, second = log_integral(errors, means, 1e-4)
    np.testing.assert_allclose(value, -means, atol=1e-6)
    np.testing.assert_allclose(tilt, 1, atol=1e-6)
    np.testing.assert_allclose(second, 1e-8, rtol=1e-4)
    table = small(sigma=0.0, speakers=30)
    table = replace(table, errors=np.round(table.exposure * 0.2 + (np.arange(len(table)) % 2)))  # below Poisson spread
    mixed, plain = mixed_poisson(table, ("group",)), poisson_regression(table, ("group",))
    np.testing.assert_allclose(mixed.coefficients, plain.coefficients, atol=1e-5)
    assert mixed.sigma < 0.01 and mixed.spread_p > 0.4


def test_the_integral_over_a_cluster_is_that_of_a_fine_sum():
    u = np.linspace(-12, 12, 400_001)
    for errors, mean, sigma in ((0.0, 3.0, 0.5), (7.0, 2.0, 1.0), (250.0, 40.0, 0.6), (3.0, 1e-3, 2.0)):
        exponent = errors * u - mean * np.exp(u) - u**2 / (2 * sigma**2)
        top = exponent.max()
        weights = np.exp(exponent - top)
        exact = math.log(weights.sum() * (u[1] - u[0])) + top - math.log(sigma * math.sqrt(2 * math.pi))
        value, tilt, second = (float(x[0]) for x in log_integral(np.array([errors]), np.array([mean]), sigma))
        assert value == pytest.approx(exact, abs=1e-7)
        assert tilt == pytest.approx(float((weights * np.exp(u)).sum() / weights.sum()), rel=1e-6)
        assert second == pytest.approx(float((weights * u**2).sum() / weights.sum()), rel=1e-5)
    # E e^u = e^{σ²/2}
    assert math.exp(0.6**2 / 2) == pytest.approx(1.19722, abs=1e-5)


def test_the_mixed_regression_finds_ratio_and_spread():
    rng = np.random.default_rng(5)
    group = np.arange(600) % 2
    table = drawn(rng, 0.2 * np.exp(0.5 * group), factors={"group": group}, sigma=0.6)
    found = mixed_poisson(table, ("group",))
    assert found.coefficients[1] == pytest.approx(0.5, abs=0.15)
    assert found.sigma == pytest.approx(0.6, abs=0.06) and found.spread_p < 1e-6
    assert found.coefficients[0] == pytest.approx(math.log(0.2), abs=0.12)
    assert np.corrcoef(found.effects, np.log(cluster_table(table).rate + 0.01))[0, 1] > 0.8


def test_the_range_of_equal_groups():
    known = {2: 1.128, 3: 1.693, 4: 2.059, 5: 2.326, 7: 2.704, 10: 3.078, 20: 3.735}
    assert {groups: round(expected_range(groups), 3) for groups in known} == known
    # the law when groups are exchanged has that mean
    rng = np.random.default_rng(0)
    group = np.arange(400) % 5
    table = drawn(rng, np.full(400, 0.3), factors={"group": group}, sigma=0.3)
    found = permutation_test(table, "group", draws=1000)
    rates = cluster_table(table).rate
    assert found.null_mean == pytest.approx(2.326 * rates.std() / math.sqrt(80), rel=0.05)


def test_rates_are_those_of_sums_and_means():
    table = Observations(
        [1, 2, 3, 4],
        [10, 10, 10, 70],
        ["a", "a", "b", "c"],
        {"g": list("uuuv")},
        parts={"S": [1, 1, 1, 4], "D": [0, 1, 2, 0]},
    )
    u, v = group_rates(table, "g")
    assert (u.pooled, u.macro, u.row_mean) == pytest.approx((6 / 30, (3 / 20 + 3 / 10) / 2, 0.2))
    assert (u.clusters, u.rows, v.clusters) == (2, 3, 1)
    assert dict(u.parts) == pytest.approx({"S": 3 / 30, "D": 3 / 30})


def test_the_planted_population_blames_ethnicity_only_where_it_stands_alone():
    naive, joint, marginal = [], [], []
    for repeat in range(80):
        table = confounded(np.random.default_rng(repeat))
        found = [
            poisson_regression(table, ("ethnicity", "native"), covariance="naive"),
            poisson_regression(table, ("ethnicity", "native")),
            poisson_regression(table, ("ethnicity",)),
        ]
        for fit, kept in zip(found, (naive, joint, marginal)):
            kept.append(abs(fit.coefficients[1]) > 1.959964 * fit.standard_errors[1])
    assert np.mean(naive) > 0.2 and np.mean(joint) <= 0.12 and np.mean(marginal) > 0.9


def test_the_population_has_the_rates_of_the_card():
    table = confounded(np.random.default_rng(1), 4000)
    low, high = (rate.pooled for rate in group_rates(table, "ethnicity"))
    cells = {rate.group: rate.pooled for rate in group_rates(table, "native", "ethnicity")}
    assert (low, high) == pytest.approx((0.134, 0.198), abs=0.012)
    for name, expected in (("a native", 0.10 * math.exp(0.125)), ("non-native", 0.10 * math.exp(0.825))):
        assert [cells[f"{name} × {e}"] for e in "01"] == pytest.approx([expected, expected], rel=0.08)


def test_verdicts_of_the_planted_population():
    table = confounded(np.random.default_rng(2), 400)
    outcome = Hypothesis("word error rate", "ethnicity", margin=1.25, declared_before_results=True)
    carried = replace(outcome, conditioning=("native",))
    native = Hypothesis("word error rate", "native", conditioning=("ethnicity",), margin=1.25)
    first, second, third = (assess(table, one) for one in (outcome, carried, native))
    assert first.findings[0].verdict == "supported" and first.findings[0].effect > 1.3
    assert second.findings[0].verdict in ("refuted", "inconclusive")
    assert 0.8 < second.findings[0].effect < 1.25 and second.findings[0].marginal == first.findings[0].effect
    assert second.findings[0].split.misleading and "composition" in " ".join(second.notes)
    assert third.findings[0].verdict == "supported" and third.findings[0].effect == pytest.approx(2.0, rel=0.2)


def test_an_interaction_is_in_the_cells_and_not_in_the_margins():
    # one cell is 1.65 times as bad, and the main effects hide it: both margins are equal
    rng = np.random.default_rng(4)
    speakers = 1600
    a, b = np.arange(speakers) % 2, np.arange(speakers) // 2 % 2
    log = np.array([[0.25, 0.0], [0.0, 0.25]])  # ± half of the interaction on the diagonal
    table = drawn(rng, 0.2 * np.exp(log[a, b]), factors={"a": a, "b": b}, sigma=0.3)
    marginal = [assess(table, Hypothesis("errors", name, margin=1.1)).findings[0] for name in "ab"]
    assert [finding.verdict for finding in marginal] == ["refuted", "refuted"]
    cells = intersectional_cells(table, ("a", "b"))
    assert cells.explained < 0.3 and cells.spread_beyond > 0.08
    same = [cell.pooled for cell in cells.cells if cell.levels[0] == cell.levels[1]]
    other = [cell.pooled for cell in cells.cells if cell.levels[0] != cell.levels[1]]
    assert min(same) > 1.15 * max(other)


def test_factors_that_act_alone_explain_the_cells():
    rng = np.random.default_rng(6)
    a, b = np.arange(1200) % 3, np.arange(1200) // 3 % 2
    table = drawn(rng, 0.1 * np.exp(0.4 * a + 0.5 * b), factors={"a": a, "b": b}, sigma=0.3)
    cells = intersectional_cells(table, ("a", "b"))
    assert cells.explained > 0.9
    assert all(cell.low <= cell.shrunken <= cell.high for cell in cells.cells)
    rows = np.r_[: len(table) // 2, np.flatnonzero((table.factors["a"] == "0") | (table.factors["b"] == "0"))]
    few = intersectional_cells(table.rows(np.unique(rows)), ("a", "b"), fewest_clusters=150)
    assert {cell.suppressed for cell in few.cells} == {True, False}


def test_intervals_over_clusters_cover_with_thirty_and_not_with_six():
    def covers(count: int, sets: int) -> float:
        inside = 0
        for repeat in range(sets):
            rng = np.random.default_rng(1000 + repeat)
            table = drawn(rng, np.full(count, 0.2), factors={"g": np.zeros(count, int)}, rows=5)
            drawn_rates = bootstrap_rates(table, "g", draws=400, seed=repeat)["0"]
            low, high = np.quantile(drawn_rates, [0.025, 0.975])
            inside += low <= 0.2 * math.exp(0.125) <= high
        return inside / sets

    assert 0.88 <= covers(60, 200) <= 0.98
    assert covers(6, 200) < 0.9


def test_without_a_gap_verdicts_err_as_often_as_they_state():
    wrong = {"few": 0, "many": 0, "odds": 0}
    for repeat in range(40):
        rng = np.random.default_rng(repeat)
        for name, count in (("few", 14), ("many", 60), ("odds", 24)):
            table = drawn(rng, np.full(count, 0.2), factors={"g": np.arange(count) % 2}, rows=4)
            asked = Hypothesis("errors", "g", draws=200, seed=repeat)
            if name == "odds":
                asked = replace(asked, estimand="rate difference", aggregation="macro")
            wrong[name] += assess(table, asked).findings[0].verdict == "supported"
    # 5 % of 40 is 2; 7 or more has probability 0.3 %
    assert max(wrong.values()) <= 6


def test_few_clusters_and_no_errors_are_handled_and_said():
    table = small(speakers=8)
    found = assess(table, Hypothesis("errors", "group"))
    assert found.findings[0].verdict == "not testable" and "8 clusters in all" in " ".join(found.notes)
    silent = small(speakers=40)
    silent = replace(silent, errors=np.where(silent.factors["group"] == "A", 0, silent.errors))
    with pytest.raises(ValueError, match=r"group\[A\] has no error at all"):
        poisson_regression(silent, ("group",))
    finding = assess(silent, Hypothesis("errors", "group")).findings[0]
    assert (
        finding.verdict == "supported" and finding.test == "permutation across clusters" and finding.effect == math.inf
    )


def test_score_bootstrap_tries_all_signs_of_few_clusters():
    table = small(speakers=10, seed=3)
    columns = poisson_regression(table, ("group",)).design
    p = score_bootstrap(table, columns, 1)
    assert (p * 2**10) == pytest.approx(round(p * 2**10), abs=1e-9) and 0 < p <= 1


def test_several_contrasts_pass_one_gate_and_one_family():
    rng = np.random.default_rng(8)
    group = np.arange(300) % 4
    table = drawn(rng, 0.2 * np.exp(0.8 * (group == 3)), factors={"g": group})
    for contrast, count in (("reference", 3), ("rest", 4), ("pairs", 6)):
        found = assess(table, Hypothesis("errors", "g", contrast=contrast, margin=1.6))
        assert len(found.findings) == count and found.omnibus_p < 0.01
        supported = [f for f in found.findings if f.verdict == "supported"]
        assert supported and all("3" in (f.first, f.second) or contrast == "rest" for f in supported)
        assert all(f.adjusted_p >= f.p for f in found.findings)
    assert found.range.statistic > found.range.null_high > found.range.null_mean > 0


def test_equivalence_of_an_effect_inside_and_at_the_margin():
    assert equivalence_p(0.0, 0.1, 0.5) < 1e-6 < 0.4 < equivalence_p(0.5, 0.1, 0.5) <= 0.5 + 1e-12


def test_a_hypothesis_is_kept_as_text():
    asked = Hypothesis("relative L2", "walls", conditioning=("roughness",), margin=1.1, exclusions=("NaN fields",))
    assert Hypothesis.from_json(asked.to_json()) == asked
    for text, message in (
        ("{", "not JSON"),
        ("[]", "expected a JSON object"),
        ('{"metric": "a", "factor": "b", "levels": 3}', "'levels' is not an option"),
    ):
        with pytest.raises(ValueError, match=message):
            Hypothesis.from_json(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contrast": "all"}, "contrast='all': expected one of reference, rest, pairs"),
        ({"margin": 0.9}, "expected a ratio above 1"),
        ({"alpha": 0.0}, "expected a level"),
        ({"conditioning": ("g",)}, "is in conditioning too"),
        ({"conditioning": ("h",), "aggregation": "macro"}, "conditioning is by Poisson regression"),
        ({"fewest_clusters": 2}, "expected at least 5"),
    ],
)
def test_hypotheses_that_cannot_be_tested(options, message):
    with pytest.raises(ValueError, match=message):
        Hypothesis("errors", "g", **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"errors": []}, "there are no rows"),
        ({"errors": [1, -1]}, "-1 is negative"),
        ({"errors": [1, np.nan]}, "1 of 2 numbers are not finite"),
        ({"exposure": [1, 0]}, "expected positive numbers"),
        ({"exposure": [1, 1, 1]}, r"exposure of shape \(3,\): expected \(2,\)"),
        ({"factors": {"g": ["a", "b"]}}, "factor 'g' changes within a cluster"),
        ({"parts": {"S": [1, 1], "D": [1, 1]}}, "parts S, D do not add up"),
        ({"covariates": {"g": [1.0, 2.0]}}, "'g' is a factor and a covariate"),
    ],
)
def test_observations_that_contradict_themselves(change, message):
    plain = {"errors": [1, 2], "exposure": [5, 5], "cluster": ["s", "s"], "factors": {"g": ["a", "a"]}}
    with pytest.raises(ValueError, match=message):
        Observations(**(plain | change))


def test_names_that_are_unknown():
    table = small()
    for call, message in (
        (lambda: assess(table, Hypothesis("errors", "h")), "factor 'h' is unknown: the observations have group, other"),
        (lambda: assess(table, Hypothesis("errors", "group", reference="C")), "group has the levels A, B"),
        (lambda: assess(table, Hypothesis("errors", "group", conditioning=("snr",))), "conditioning on 'snr'"),
        (lambda: kitagawa(table, "group", "A", "C", within=("other",)), "group has the levels A, B"),
        (lambda: permutation_test(table, "group", statistic="difference"), "pass the two levels"),
        (
            lambda: poisson_regression(
                replace(table, factors=table.factors | {"same": table.factors["group"]}), ("group", "same")
            ),
            "depend on each other",
        ),
        (
            lambda: assess(
                replace(table, errors=table.errors * 9), Hypothesis("e", "group", estimand="log-odds difference")
            ),
            "not a probability",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
