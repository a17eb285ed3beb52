"""Errors by regime, and bias against variance over seeds: identities, planted effects and inputs that are refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from sciops import Grid
from sciops.evaluation import half_widths, paired_verdict
from sciops.evaluation.fairness import regime_errors, seed_split
from sciops.metrics import relative_l2


def planted(rng, *, fields=20, seeds=5, noise=0.1, interaction=0.0):
    """Every field solved in every cell: errors 0.02, × 2 by wall b, × 3 by contrast high."""
    cells = list(itertools.product(range(fields), "abc", ("low", "high")))
    field, wall, contrast = (np.array(column) for column in zip(*cells))
    y = math.log(0.02) + math.log(2) * (wall == "b") + math.log(3) * (contrast == "high")
    y = y + interaction * ((wall == "b") & (contrast == "high"))
    y = y + 0.3 * rng.standard_normal(fields)[field] + 0.1 * rng.standard_normal((seeds, 1))
    return np.exp(y + noise * rng.standard_normal(y.shape)), {"wall": wall, "contrast": contrast}, field


def effect(found, name, level):
    return next(e for e in found.effects if (e.factor, e.level) == (name, level))


def test_a_balanced_design_gives_paired_verdicts_within_clusters():
    errors, factors, field = planted(np.random.default_rng(0))
    found = regime_errors(errors, factors, cluster=field)
    y = np.log(errors).reshape(5, 20, 3, 2)
    for place, level in ((1, "b"), (2, "c")):
        d = (y[:, :, place] - y[:, :, 0]).mean(-1)
        expected = paired_verdict(d, 0 * d, smallest=math.log(1.1), level=1 - 0.05 / 3)
        one = effect(found, "wall", level)
        np.testing.assert_allclose(np.log([one.ratio, one.low, one.high]), [expected.difference, *ends(expected)])
        np.testing.assert_allclose([one.marginal, one.marginal_low], [one.ratio, one.low])
    assert [e.verdict for e in found.effects] == ["worse", "alike", "worse"]
    assert found.worst.levels == ("b", "high") and found.explained > 0.98
    cell = found.cell("b", "high")
    part = y[:, :, 1, 1]
    half = max(half_widths(part))
    np.testing.assert_allclose(np.log([cell.error, cell.low, cell.high]), part.mean() + half * np.array([0, -1, 1]))


def ends(verdict):
    return verdict.low, verdict.high


def test_one_seed_is_least_squares_with_the_sandwich_over_clusters():
    sm = pytest.importorskip("statsmodels.api")
    from scipy.stats import t

    errors, factors, field = planted(np.random.default_rng(1), seeds=1)
    keep = np.random.default_rng(2).random(errors.shape[1]) < 0.6
    y, field = np.log(errors[0, keep]), field[keep]
    wall, contrast = factors["wall"][keep], factors["contrast"][keep]
    order = {"wall": "a", "contrast": "low"}
    found = regime_errors(np.exp(y), {"wall": wall, "contrast": contrast}, cluster=field, references=order)
    x = np.stack([np.ones(len(y)), wall == "b", wall == "c", contrast == "high"], axis=1).astype(float)
    fit = sm.OLS(y, x).fit(cov_type="cluster", cov_kwds={"groups": field, "use_correction": False})
    clusters = len(np.unique(field))
    for place, key in enumerate((("wall", "b"), ("wall", "c"), ("contrast", "high")), start=1):
        one = effect(found, *key)
        half = t.ppf(1 - 0.05 / 6, clusters - 1) * fit.bse[place] * math.sqrt(clusters / (clusters - 1))
        np.testing.assert_allclose(
            np.log([one.ratio, one.low, one.high]), fit.params[place] + half * np.array([0, -1, 1])
        )
        assert one.verdict == "too few seeds"
    assert any("One seed" in note for note in found.notes)


def test_order_of_rows_and_scale_of_errors_do_not_matter():
    errors, factors, field = planted(np.random.default_rng(3))
    order = np.random.default_rng(4).permutation(errors.shape[1])
    references = {"wall": "a", "contrast": "low"}
    one = regime_errors(errors, factors, cluster=field, references=references)
    moved = {name: values[order] for name, values in factors.items()}
    two = regime_errors(torch.tensor(7 * errors[:, order]), moved, cluster=field[order], references=references)
    for e in one.effects:
        other = effect(two, e.factor, e.level)
        for key in ("ratio", "low", "high", "marginal"):
            np.testing.assert_allclose(getattr(e, key), getattr(other, key))
    for cell in one.cells:
        np.testing.assert_allclose(7 * cell.shrunken, two.cell(*cell.levels).shrunken)


def test_adjustment_blames_the_factor_that_acts():
    """Contrast acts, the wall does not; high contrast comes mostly with wall b."""
    rng = np.random.default_rng(5)
    contrast = np.where(rng.random(300) < 0.5, "high", "low")
    wall = np.where(rng.random(300) < np.where(contrast == "high", 0.9, 0.1), "b", "a")
    errors = np.where(contrast == "high", 0.1, 0.02) * np.exp(0.1 * rng.standard_normal((5, 300)))
    found = regime_errors(errors, {"wall": wall, "contrast": contrast}, references={"wall": "a", "contrast": "low"})
    one = effect(found, "wall", "b")
    assert one.marginal > 2 and one.verdict == "alike" and one.low < 1 < one.high
    assert effect(found, "contrast", "high").verdict == "worse"
    assert any("mix of the other factors" in note for note in found.notes)


def test_the_additive_model_misses_an_interaction():
    found = regime_errors(*planted(np.random.default_rng(6), interaction=1.0)[:2])
    cell = found.cell("b", "high")
    assert cell.error > 1.2 * cell.additive and found.explained < 0.95


def test_intervals_of_a_null_factor_cover():
    """Of 200 experiments without an effect, verdicts of "worse" or "better" than 1 are about 5 %."""
    wrong = 0
    for k in range(200):
        rng = np.random.default_rng(k)
        field = np.arange(12).repeat(2)
        wall = np.tile(["a", "b"], 12)
        y = 0.2 * rng.standard_normal((5, 1)) + 0.3 * rng.standard_normal((12, 2)).ravel()
        y = y + 0.2 * rng.standard_normal((5, 2))[:, np.tile([0, 1], 12)] + 0.1 * rng.standard_normal((5, 24))
        wrong += regime_errors(np.exp(y), {"wall": wall}, cluster=field, smallest=1.0).effects[0].verdict in (
            "worse",
            "better",
        )
    assert wrong <= 20


def test_cells_with_few_clusters_are_marked_and_shrunk():
    errors, factors, field = planted(np.random.default_rng(7))
    keep = ~((factors["wall"] == "c") & (factors["contrast"] == "high") & (field > 0))
    errors = errors.copy()
    lone = (factors["wall"] == "c") & (factors["contrast"] == "high")
    errors[:, lone] *= 3
    found = regime_errors(errors[:, keep], {n: v[keep] for n, v in factors.items()}, cluster=field[keep])
    cell = found.cell("c", "high")
    assert (
        cell.suppressed and cell.clusters == 1 and cell.high == math.inf and cell.additive < cell.shrunken < cell.error
    )
    assert found.worst.levels == ("b", "high")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"errors": [0.1, 0.0, 0.2, 0.1]}, r"errors\[0, 1\] = 0: expected positive"),
        ({"errors": [0.1, math.nan, 0.2, 0.1]}, r"errors\[0, 1\] = nan"),
        ({"errors": [[[0.1]]]}, "expected .rows,. or .seeds, rows."),
        ({"factors": {}}, "at least one"),
        ({"factors": {"wall": ["a", "a", "a", "a"]}}, "one level, a"),
        ({"factors": {"wall": ["a", "b"]}}, r"expected \(4,\)"),
        ({"factors": {"wall": list("aabb"), "side": list("xxyy")}}, "say the same"),
        ({"cluster": [1, 1, 1, 1]}, "one cluster"),
        ({"references": {"wall": "z"}}, "wall has the levels a, b, not z"),
        ({"references": {"door": "z"}}, "'door' is not a factor"),
        ({"smallest": 0.5}, "at least 1"),
        ({"level": 95}, "between 0 and 1"),
    ],
)
def test_wrong_inputs_are_refused_in_one_line(change, says):
    given = {"errors": [0.1, 0.2, 0.2, 0.1], "factors": {"wall": list("abab")}, "cluster": [0, 0, 1, 1]} | change
    with pytest.raises(ValueError, match=says) as error:
        regime_errors(given.pop("errors"), given.pop("factors"), **given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_the_mean_over_subsets_is_bias_plus_variance_over_members(kind):
    rng = np.random.default_rng(8)
    grid = Grid((5, 4))
    u = rng.standard_normal((3, 1, 5, 4))
    p = u + 0.2 + 0.3 * rng.standard_normal((5, 3, 1, 5, 4))
    split = seed_split(kind(p), kind(u), grid)
    for k in (1, 2, 3, 5):
        means = [p[list(some)].mean(0) for some in itertools.combinations(range(5), k)]
        expected = np.mean([relative_l2(mean, u, grid) ** 2 for mean in means], axis=0)
        np.testing.assert_allclose(split.ensemble(k), expected, rtol=1e-12)
    np.testing.assert_allclose(split.single(), split.ensemble(1), rtol=1e-15)


def test_bias_and_variance_are_unbiased():
    rng = np.random.default_rng(9)
    u = np.ones((4000, 6))
    split = seed_split(u + 0.1 + 0.3 * rng.standard_normal((3, 4000, 6)), u)
    for found, expected in ((split.bias, 0.01), (split.variance, 0.09)):
        assert abs(found.mean() - expected) < 4 * found.std() / math.sqrt(len(found))


@pytest.mark.parametrize(
    ("p", "u", "says"),
    [
        (np.ones((2, 3, 4)), np.ones((3, 5)), "expected .seeds, samples"),
        (np.ones((1, 3, 4)), np.ones((3, 4)), "one seed"),
        (np.full((2, 3, 4), np.nan), np.ones((3, 4)), "NaN"),
        (np.ones((2, 3, 4)), np.zeros((3, 4)), "target 0 is zero"),
    ],
)
def test_what_cannot_be_split_is_refused(p, u, says):
    with pytest.raises(ValueError, match=says):
        seed_split(p, u)


def test_each_call_of_a_shared_module_is_kept():
    from sciops.evaluation.probes import hidden_states

    class Shared(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.block(torch.relu(self.block(x)))

    net, x = Shared(), torch.randn(5, 3)
    found = hidden_states(net, x, layers=["block"], each_call=True, batch_size=2)
    assert list(found) == ["block:0", "block:1"]
    torch.testing.assert_close(found["block:0"], net.block(x).detach())
    torch.testing.assert_close(found["block:1"], net(x).detach())
    assert list(hidden_states(net, x, layers=["block"])) == ["block"]


def test_many_rows_take_little_memory():
    """Every row its own cluster: no array of rows × clusters is made."""
    import tracemalloc

    rng = np.random.default_rng(10)
    wall = np.tile(["a", "b"], 10_000)
    tracemalloc.start()
    found = regime_errors(np.exp(0.1 * rng.standard_normal((2, 20_000))), {"wall": wall})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.clusters == 20_000 and peak < 100e6
