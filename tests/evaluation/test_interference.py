"""The interference matrix: scores, orientation, budgets, asymmetry, the additive model, mixtures and groups."""

from itertools import permutations, product

import numpy as np
import pytest
import torch

from sciops.evaluation import (
    additive_model,
    asymmetry,
    asymmetry_share,
    best_groups,
    group_tasks,
    interference_matrix,
    measure_interference,
    mixture_scores,
    pair_trainings,
    predict_mixture,
    score_losses,
)


def noise(n, seeds=None, seed=0):
    return np.random.default_rng(seed).standard_normal((n, n) if seeds is None else (seeds, n, n))


def emptied(matrix):
    return matrix - np.diag(np.diag(matrix))


def losses(seeds=4, n=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(1, 3, (seeds, n)), rng.uniform(1, 3, (seeds, n, n))


def planted(n=6):
    v, a = np.linspace(-1, 1, n) ** 3, np.cos(np.arange(n))
    v, a = v - v.mean(), a - a.mean()
    return v, a, emptied(0.3 + v[:, None] + a)


def rng():
    return np.random.default_rng(0)


# ---- the matrix


def test_rows_are_victims():
    """ℓ_a alone 1, with b 2; ℓ_b alone 4, with a 5: I[a, b] = 1, I[b, a] = 0.25."""
    table = {("a",): {"a": 1.0}, ("b",): {"b": 4.0}, ("a", "b"): {"a": 2.0, "b": 5.0}}
    found = measure_interference(lambda mixture, seed, share: table[mixture], ["a", "b"], seeds=[0])
    assert found.tasks == ("a", "b") and found.values.tolist() == [[0.0, 1.0], [0.25, 0.0]]
    assert [(row["victim"], row["partner"], row["value"]) for row in found.rows()] == [("a", "b", 1), ("b", "a", 0.25)]
    assert found.vulnerability.tolist() == [1.0, 0.25] and found.aggressiveness.tolist() == [0.25, 1.0]
    assert not found.decided().any() and np.isnan(found.errors).all()  # one seed


@pytest.mark.parametrize("score", ["relative", "log_ratio", "perplexity"])
def test_scores_are_those_of_the_formulas(score):
    alone, together = losses()
    found = interference_matrix(alone, together, score=score)
    seeds, n = alone.shape
    for i, j in product(range(n), repeat=2):
        one, two = alone[:, i], together[:, i, j]
        expected = {
            "relative": (two - one) / one.mean(),
            "log_ratio": np.log(two / one),
            "perplexity": np.exp(two - one) - 1,
        }
        wanted = expected[score] if i != j else np.zeros(seeds)
        np.testing.assert_allclose(found.scores[:, i, j], wanted, rtol=0, atol=1e-14)
        assert found.values[i, j] == pytest.approx(wanted.mean(), abs=1e-14)
        assert found.errors[i, j] == pytest.approx(wanted.std(ddof=1) / 2, abs=1e-14)
    off = ~np.eye(n, dtype=bool)
    for j in range(n):
        assert found.aggressiveness[j] == pytest.approx(found.values[off[:, j], j].mean(), abs=1e-14)
        assert found.vulnerability[j] == pytest.approx(found.values[j, off[j]].mean(), abs=1e-14)


def test_invariances():
    alone, together = losses()
    base = interference_matrix(alone, together)
    units = np.array([1.0, 7.0, 1e-3, 40.0, 2.0])  # of each task's loss
    scaled = interference_matrix(alone * units, together * units[:, None])
    np.testing.assert_allclose(scaled.scores, base.scores, rtol=0, atol=1e-14)
    order = [3, 1, 4, 0, 2]
    moved = interference_matrix(alone[:, order], together[:, order][:, :, order])
    np.testing.assert_array_equal(moved.scores, base.scores[:, order][:, :, order])
    there, back = (score_losses(*pair, score="log_ratio") for pair in ((alone, 2 * alone + 1), (2 * alone + 1, alone)))
    np.testing.assert_array_equal(there, -back)


def test_an_entry_is_decided_where_the_interval_over_seeds_leaves_zero():
    alone = np.ones((5, 2))
    together = np.ones((5, 2, 2))
    together[:, 0, 1] += 0.1 + 0.01 * np.arange(5)
    together[:, 1, 0] += 0.1 * np.array([-2, 2, -1, 1, 0.5])
    assert interference_matrix(alone, together).decided().tolist() == [[False, True], [False, False]]


def test_the_total_budget_and_its_dilution():
    """A task whose loss depends on its own examples alone has no net interference."""

    def train(mixture, seed, share):
        return {task: (ord(task) + seed) / share**0.5 for task in mixture}

    assert pair_trainings("ab") == [(("a",), 1.0), (("b",), 1.0), (("a", "b"), 1.0)]
    assert pair_trainings("ab", budget="total")[2:] == [(("a",), 0.5), (("b",), 0.5), (("a", "b"), 0.5)]
    assert len(pair_trainings(map(str, range(83)))) == 3486
    found = measure_interference(train, list("abc"), seeds=range(3), budget="total")
    gain = 2**0.5 - 1
    np.testing.assert_allclose(found.dilution.mean(0), gain, atol=1e-14)
    np.testing.assert_allclose(found.values, gain * (1 - np.eye(3)), atol=1e-14)
    np.testing.assert_allclose(found.net.values, 0, atol=1e-14)
    equal = measure_interference(train, list("abc"), seeds=range(3))
    assert not equal.values.any() and equal.dilution is None
    with pytest.raises(ValueError, match="dilution was not measured"):
        print(equal.net)


@pytest.mark.parametrize("kind", [torch.tensor, np.float32, np.float16, np.ndarray.tolist])
def test_kinds_of_arrays(kind):
    alone, together = (np.round(4 * one) for one in losses())
    expected = interference_matrix(alone, together)
    given = interference_matrix(kind(alone), kind(together))
    np.testing.assert_array_equal(given.scores, expected.scores)
    matrix = kind(np.round(8 * noise(5)))
    assert asymmetry_share(matrix) == asymmetry_share(np.round(8 * noise(5)))
    assert additive_model(matrix).mean == additive_model(np.round(8 * noise(5))).mean


def test_labelled_arrays():
    found = interference_matrix(*losses(), tasks="abcde", shorter=losses(seed=1)[0], budget="total").to_xarray()
    assert found.scores.dims == ("seed", "victim", "partner") and found.attrs["budget"] == "total"
    assert float(found.value.sel(victim="b", partner="d")) == pytest.approx(found.scores.values[:, 1, 3].mean())
    model = additive_model(planted()[2]).to_xarray()
    np.testing.assert_allclose((model.fitted + model.rest).values, planted()[2], atol=1e-14)


# ---- asymmetry


def test_the_share_of_asymmetry():
    matrix = noise(7)
    assert asymmetry_share(matrix + matrix.T) == 0 and asymmetry_share(matrix - matrix.T) == 1
    assert asymmetry_share(noise(200)) == pytest.approx(0.5, abs=0.01)
    for scale in (1e-200, 1e200):
        assert asymmetry_share(scale * matrix) == pytest.approx(asymmetry_share(matrix), rel=1e-12)
    assert np.isnan(asymmetry_share(np.eye(3)))


FIVE_LANGUAGES = np.array(
    [
        [
            [0, 1.3, 0.9, 0.9, 1.2],
            [0.2, 0, 2.5, 0.9, 0.2],
            [1.1, 1.5, 0, 0.2, -1.5],
            [2, 2.9, 0, 0, 5.1],
            [2.6, 2.6, -0.5, 4.6, 0],
        ],
        [
            [0, 1.8, 0.7, 0.9, -0.3],
            [0.3, 0, -1.6, -0.8, -1.1],
            [1.2, 0.6, 0, -0.9, -1.4],
            [1.1, 2.2, 0.2, 0, 3.9],
            [2.4, 2.9, 0, 4.3, 0],
        ],
    ]
)
"""Percent lost by fr, es, ru, fa and ar in a model of characters, two seeds."""


def test_a_measured_table():
    found = asymmetry(FIVE_LANGUAGES, rng=rng())
    assert asymmetry_share(FIVE_LANGUAGES[0]) == pytest.approx(0.09, abs=0.005)
    assert asymmetry_share(FIVE_LANGUAGES.mean(0)) == pytest.approx(found.share) == pytest.approx(0.1731, abs=1e-4)
    assert found.p_seeds == 0.5  # the least of two seeds
    mutual = FIVE_LANGUAGES.mean(0) + FIVE_LANGUAGES.mean(0).T
    assert np.unravel_index(mutual.argmax(), (5, 5)) == (3, 4)  # fa and ar: one script, two families


def test_exchanges_in_one_matrix_leave_its_share_as_it_is():
    """Which is why the test exchanges whole seeds: a permutation test of a single matrix would always say p = 1."""
    matrix, swapped = noise(6), noise(6)
    for i, j in ((0, 1), (2, 5), (3, 4)):
        swapped[i, j], swapped[j, i] = matrix[j, i], matrix[i, j]
    assert asymmetry_share(swapped) == pytest.approx(asymmetry_share(matrix), rel=1e-14)


def test_asymmetry_against_sums_over_all_exchanges():
    cube = noise(4, seeds=5) + np.triu(np.ones((4, 4)), 1)
    found = asymmetry(cube, rng=rng())
    odd = np.array([(emptied(one) - emptied(one).T) / 2 for one in cube])
    even = np.array([(emptied(one) + emptied(one).T) / 2 for one in cube])

    def size(signs):
        return np.square(np.mean([s * one for s, one in zip(signs, odd)], axis=0)).sum()

    sizes = [size(signs) for signs in product([1, -1], repeat=5)]
    assert found.p_seeds == np.mean(np.array(sizes) >= size([1] * 5) * (1 - 1e-12))
    upper = np.triu_indices(4, 1)

    def flow(signs):
        turned = np.zeros((4, 4))
        turned[upper] = odd.mean(0)[upper] * signs
        return np.square((turned - turned.T).sum(1)).sum()

    flows = np.array([flow(signs) for signs in product([1, -1], repeat=6)])
    assert found.p_flow == np.mean(flows >= flow(np.ones(6)) * (1 - 1e-12))
    np.testing.assert_allclose(found.flow, odd.mean(0).sum(1), atol=1e-14)
    clean = [max(0, np.square(p.mean(0)).sum() - p.var(0, ddof=1).sum() / 5) for p in (odd, even)]
    assert found.corrected == pytest.approx(clean[0] / sum(clean))
    mean, off = cube.mean(0), ~np.eye(4, dtype=bool)
    assert found.correlation == pytest.approx(np.corrcoef(mean[off], mean.T[off])[0, 1])
    drawn = asymmetry(np.concatenate([cube] * 3), rng=rng(), permutations=999)  # 2^15 exchanges of seeds
    assert drawn.p_seeds < 0.02 and drawn.seeds == 15


def test_asymmetry_of_what_is_symmetric_but_for_noise():
    """The noise of a pair's model and of the tasks alone is shared by entries: p holds, the share is corrected."""
    draws, seeds, n = np.random.default_rng(3), 6, 5
    truth = emptied(noise(n) + noise(n).T)
    p, corrected = [], []
    for _ in range(200):
        own = 2 * draws.standard_normal((seeds, n, 1))  # of the losses alone: whole rows
        cube = truth + own + draws.standard_normal((seeds, n, n))
        found = asymmetry(cube, rng=draws, permutations=99)
        p.append(found.p_seeds)
        corrected.append(found.corrected)
    assert np.mean(np.array(p) <= 2 / 2**seeds) == pytest.approx(2 / 2**seeds, abs=0.04)
    assert np.mean(p) == pytest.approx(0.5, abs=0.07)
    assert np.median(corrected) < 0.2 < asymmetry_share(cube.mean(0))
    single = asymmetry(cube[0], rng=draws)
    assert np.isnan(single.p_seeds) and np.isnan(single.corrected)


# ---- the additive model


def test_the_additive_model_recovers_what_was_planted():
    v, a, matrix = planted()
    found = additive_model(matrix + np.diag(np.full(6, 9.0)))  # the diagonal does not count
    np.testing.assert_allclose(found.vulnerability, v, atol=1e-14)
    np.testing.assert_allclose(found.aggressiveness, a, atol=1e-14)
    assert found.mean == pytest.approx(matrix.sum() / 30) and found.explained == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(found.fitted, matrix, atol=1e-14)


@pytest.mark.parametrize("n", [3, 4, 9])
def test_the_additive_model_is_least_squares(n):
    matrix = noise(n)
    found = additive_model(matrix)
    where = np.argwhere(~np.eye(n, dtype=bool))
    design = np.zeros((len(where), 1 + 2 * n))
    design[:, 0] = 1
    for row, (i, j) in zip(design, where):
        row[1 + i], row[1 + n + j] = 1, 1
    y = matrix[tuple(where.T)]
    rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    np.testing.assert_allclose(found.rest[tuple(where.T)], rest, atol=1e-13)
    assert found.explained == pytest.approx(1 - rest @ rest / np.square(y - y.mean()).sum())
    np.testing.assert_allclose([found.rest.sum(0), found.rest.sum(1)], 0, atol=1e-13)
    assert found.vulnerability.sum() == pytest.approx(0, abs=1e-13)
    assert found.aggressiveness.sum() == pytest.approx(0, abs=1e-13)


def test_what_remains_beside_noise():
    """Σ rest² of pure noise is what the spread over seeds predicts; of an interaction it is much more."""
    draws, (_, _, sum_of_effects) = np.random.default_rng(5), planted()
    shares = [additive_model(sum_of_effects + draws.standard_normal((6, 6, 6))).noise for _ in range(100)]
    assert np.median(shares) == pytest.approx(1, abs=0.1)
    assert additive_model(sum_of_effects + 3 * noise(6) + 0.1 * noise(6, seeds=6, seed=1)).noise < 0.01
    assert np.isnan(additive_model(np.ones((4, 4))).explained)


# ---- mixtures and groups


def test_predictions_of_mixtures():
    matrix = np.arange(16.0).reshape(4, 4)
    assert predict_mixture(matrix, ("0", "2", "3")) == {"0": 5.0, "2": 19.0, "3": 26.0}
    assert predict_mixture(matrix, ["a", "c", "d"], how="mean", tasks="abcd") == {"a": 2.5, "c": 9.5, "d": 13.0}


def test_mixtures_that_add_up_are_predicted_exactly():
    names, alone, off = "abcde", {task: [2.0 + k, 3.0 + k] for k, task in enumerate("abcde")}, emptied(np.abs(noise(5)))
    single = np.array([alone[task] for task in names]).T
    matrix = interference_matrix(single, single[:, :, None] * np.exp(off), tasks=names, score="log_ratio")
    losses = {}
    for mixture in (("a", "b", "c"), ("b", "d", "e", "a")):
        at = [names.index(task) for task in mixture]
        losses[mixture] = {t: np.array(alone[t]) * np.exp(off[i, at].sum()) for t, i in zip(mixture, at)}
    found = mixture_scores(matrix, alone, losses)
    np.testing.assert_allclose(found.predicted, found.measured, atol=1e-14)
    assert found.rank_correlation == pytest.approx(1) and found.error < 1e-14 and len(found.rows()) == 7
    wrong = mixture_scores(matrix.values.T, alone, losses, score="log_ratio", tasks=names)
    assert wrong.rank_correlation < 0.9 and wrong.error > 0.1  # victims and partners confused


def blocks():
    own = np.array([0, 1, 0, 2, 1, 2, 0])
    return own, np.where(own[:, None] == own, 0.1, 1.0) + 0.01 * noise(7)


def test_planted_groups_are_found():
    own, matrix = blocks()
    for found in (group_tasks(matrix, 3), group_tasks(matrix, 3, linkage="single"), best_groups(matrix, 3)):
        assert sorted(found.groups) == [("0", "2", "6"), ("1", "4"), ("3", "5")]
    assert group_tasks(matrix, 7).cost == 0 and group_tasks(matrix, 1).groups == (tuple("0123456"),)
    moved = group_tasks(matrix - 5, 3)  # also where every pair gains
    assert moved.groups == group_tasks(matrix, 3).groups and moved.base + 5 == pytest.approx(
        group_tasks(matrix, 3).base
    )
    np.testing.assert_allclose(moved.tree, group_tasks(matrix, 3).tree, atol=1e-13)


def test_heights_are_mean_interferences_between_groups():
    matrix = noise(5)
    found = group_tasks(matrix, 1, tasks="abcde")
    members = [[i] for i in range(5)]
    for first, second, height, count in found.tree:
        one, two = members[int(first)], members[int(second)]
        mutual = [(matrix[i, j] + matrix[j, i]) / 2 for i in one for j in two]
        assert height + found.base == pytest.approx(np.mean(mutual)) and count == len(one) + len(two)
        members.append(one + two)


@pytest.mark.parametrize("how", ["sum", "mean"])
@pytest.mark.parametrize("groups", [1, 2, 3, 5])
def test_the_best_groups_by_trying_all_labels(groups, how):
    matrix = noise(5, seed=2)
    best = np.inf
    for labels in product(range(groups), repeat=5):
        if len(set(labels)) == groups:
            cost = 0.0
            for g in range(groups):
                own = [i for i in range(5) if labels[i] == g]
                lost = sum(matrix[i, j] for i, j in permutations(own, 2))
                cost += lost if how == "sum" else lost / max(1, len(own) - 1)
            best = min(best, cost)
    found = best_groups(matrix, groups, how=how)
    assert found.cost == pytest.approx(best) and len(found.groups) == groups
    assert found.cost <= group_tasks(matrix, groups, how=how).cost + 1e-12


# ---- wrong inputs


ALONE, TOGETHER = np.ones((2, 3)), np.ones((2, 3, 3))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: interference_matrix(ALONE, TOGETHER[:, :2]), r"\(seeds, tasks\)"),
        (lambda: interference_matrix(ALONE[:1], TOGETHER), r"\(1, 3\) and together \(2, 3, 3\)"),
        (lambda: interference_matrix(ALONE.T, TOGETHER), "seeds, tasks"),
        (lambda: interference_matrix(ALONE[:0], TOGETHER[:0]), "seeds, tasks"),
        (lambda: interference_matrix(ALONE * np.nan, TOGETHER), "NaN or infinity"),
        (lambda: interference_matrix(ALONE, -TOGETHER), "positive"),
        (lambda: interference_matrix(1j * ALONE, TOGETHER), "complex"),
        (lambda: interference_matrix(np.ma.masked_equal(ALONE, 1), TOGETHER), "masked"),
        (lambda: interference_matrix(ALONE, TOGETHER, tasks=["a", "a", "b"]), "3 names that all differ"),
        (lambda: interference_matrix(ALONE, TOGETHER, score="ppl"), "relative, log_ratio, perplexity"),
        (lambda: interference_matrix(ALONE, TOGETHER, budget="equal"), "per_task, total"),
        (lambda: interference_matrix(ALONE, TOGETHER, shorter=ALONE[:1]), "expected the same"),
        (lambda: measure_interference(lambda *_: {}, "ab", seeds=[0]), "no loss of a"),
        (lambda: measure_interference(lambda *_: {}, "ab", seeds=[]), "at least one"),
        (lambda: pair_trainings(["a"]), "at least two"),
        (lambda: asymmetry_share(np.ones((3, 4))), r"\(tasks, tasks\)"),
        (lambda: asymmetry_share(np.ones(3)), r"\(tasks, tasks\)"),
        (lambda: asymmetry(np.full((3, 3), np.inf), rng=rng()), "NaN or infinity"),
        (lambda: asymmetry(noise(3), rng=rng(), permutations=9), "at least 99"),
        (lambda: additive_model(noise(2)), "at least 3 tasks"),
        (lambda: predict_mixture(noise(3), ["0"]), "at least two"),
        (lambda: predict_mixture(noise(3), ["0", "0", "1"]), "different names"),
        (lambda: predict_mixture(noise(3), ["0", "x"]), "of 0, 1, 2"),
        (lambda: predict_mixture(noise(3), "01"), "at least two"),
        (lambda: predict_mixture(noise(3), ["0", "1"], how="max"), "'sum' or 'mean'"),
        (lambda: mixture_scores(noise(3), {}, {}), "at least one mixture"),
        (lambda: mixture_scores(noise(3), {"0": [1.0]}, {("0", "1"): {"0": [1.0]}}), "no losses of '1'"),
        (lambda: group_tasks(noise(3), 4), "from 1 to 3"),
        (lambda: group_tasks(noise(3), 2, linkage="ward"), "'single'"),
        (lambda: best_groups(noise(13), 2), "at most 12"),
    ],
)
def test_wrong_inputs_are_refused_in_one_line(call, says):
    with pytest.raises(ValueError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_seed_in_place_of_a_generator_is_refused():
    with pytest.raises(TypeError, match="default_rng"):
        asymmetry(noise(3), rng=0)
