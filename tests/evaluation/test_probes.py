"""Layers and groups: closed-form populations, scales that disagree, and bias told from variance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from torch import nn

import sciops
from sciops.evaluation.probes import (
    balanced_weights,
    common_classes,
    depth_curves,
    error_type,
    group_shift,
    hidden_states,
    neighbour_purity,
    pooled,
    probe_errors,
    rank_correlation,
    relative_scatter,
    remedy,
    scatter,
    shuffled,
    split_gap,
    squared_shift,
    tap_names,
    transfer_matrix,
    upstream,
)

pytest.importorskip("sklearn")


def planted(rng, *, shift=0.0, spread=1.0, samples=6000, features=16, clusters=40):
    """Two classes at ±1 on the first axis; group B shifted along it and with its own spread."""
    y = rng.integers(0, 2, samples)
    cluster = rng.integers(0, clusters, samples)
    group = np.where(cluster % 2 == 0, "A", "B")
    h = rng.standard_normal((samples, features))
    h[group == "B"] *= spread
    h[:, 0] += 2 * y - 1 + shift * (group == "B")
    return h, y, group, cluster


@pytest.mark.parametrize(
    ("shift", "spread", "to_b", "own", "verdict"),
    [
        (0.0, 1.0, 0.841, 0.841, "none"),
        (1.0, 1.0, 0.739, 0.841, "systematic, removed by centring"),
        (0.0, 2.0, 0.691, 0.691, "random"),
        (1.0, 2.0, 0.671, 0.691, "both"),
    ],
)
def test_planted_groups_have_the_accuracies_and_the_verdicts_of_theory(shift, spread, to_b, own, verdict):
    rng = np.random.default_rng(0)
    h, y, group, cluster = planted(rng, shift=shift, spread=spread, samples=24_000, features=6)
    a, b = group == "A", group == "B"
    half = cluster % 4 < 2
    theory = 0.5 * ndtr((1 + shift) / spread) + 0.5 * ndtr((1 - shift) / spread)
    assert (theory, ndtr(1 / spread)) == pytest.approx((to_b, own), abs=6e-4)
    for train, expected in ((a, to_b), (b, own)):
        errors = probe_errors({"l": h[train & half]}, y[train & half], {"l": h[b & ~half]}, y[b & ~half])["l"]
        assert 1 - errors.mean() == pytest.approx(expected, abs=0.015)
    found = split_gap(h, y, group, cluster, reference="A", group="B", rule="reference", repeats=1, draws=300)
    assert found.gap == pytest.approx(found.irreducible + found.systematic, abs=1e-12)
    assert found.verdict == verdict, found
    b2 = squared_shift(h[a & (y == 0)], h[b & (y == 0)])
    assert b2 == pytest.approx(shift**2, abs=0.12)


def test_a_balanced_rule_shares_the_cost_of_a_shift():
    rng = np.random.default_rng(7)
    h, y, _, cluster = planted(rng, samples=16_000, features=4, clusters=50)
    group = np.where(cluster % 5 == 0, "B", "A")
    h[group == "B", 0] += 1
    options = {"reference": "A", "group": "B", "repeats": 1, "draws": 200}
    natural, balanced = (split_gap(h, y, group, cluster, rule=rule, **options) for rule in ("natural", "balanced"))
    assert 1 - natural.errors["rule", "B"] == pytest.approx(0.774, abs=0.02)
    assert natural.verdict == "systematic, removed by centring" and balanced.verdict == "none"
    # both groups pay under the balanced one
    assert min(balanced.errors["rule", g] - balanced.errors[g, g] for g in "AB") > 0.01


def test_a_rotated_group_is_structural():
    rng = np.random.default_rng(1)
    h, y, group, cluster = planted(rng, samples=8000, features=4)
    turned = group == "B"
    angle = 1.2
    h[turned, :2] = h[turned, :2] @ np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    found = split_gap(h, y, group, cluster, reference="A", group="B", rule="reference", repeats=1, draws=300)
    assert found.verdict == "systematic, structural"
    shift = group_shift(h, y, group, reference="A", group="B")
    # m_p turns from ∓1: the part of the way to the other class is (1 − cos)/2
    assert shift.toward[0, 1] == pytest.approx((1 - math.cos(angle)) / 2, abs=0.04)


def test_squared_shift_is_unbiased():
    rng = np.random.default_rng(2)
    raw, corrected = [], []
    for _ in range(400):
        first, second = rng.standard_normal((30, 64)), 1.5 * rng.standard_normal((20, 64))
        second[:, 0] += 1
        raw.append(((first.mean(0) - second.mean(0)) ** 2).sum())
        corrected.append(squared_shift(first, second))
    assert np.mean(raw) == pytest.approx(1 + 64 / 30 + 2.25 * 64 / 20, rel=0.02)
    assert np.mean(corrected) == pytest.approx(1.0, abs=4 * np.std(corrected) / 20)


def test_squared_shift_takes_clusters_for_members():
    rng = np.random.default_rng(3)
    found = []
    for _ in range(300):
        sides = []
        for _side in range(2):
            centers = rng.standard_normal((10, 8))
            label = np.arange(40) % 10
            sides.append((centers[label] + 0.3 * rng.standard_normal((40, 8)), label))
        (a, la), (b, lb) = sides
        found.append(squared_shift(a, b, first_clusters=la, second_clusters=lb))
    assert abs(np.mean(found)) < 4 * np.std(found) / math.sqrt(300)


def test_scatter_between_and_within_is_unbiased():
    rng = np.random.default_rng(4)
    between, within = [], []
    for _ in range(500):
        label = np.repeat(np.arange(8), rng.integers(2, 9, 8))
        h = 0.7 * rng.standard_normal((8, 5))[label] + 1.3 * rng.standard_normal((len(label), 5))
        found = scatter(h, label)
        between.append(found.between)
        within.append(found.within)
    for values, truth in ((between, 5 * 0.49), (within, 5 * 1.69)):
        assert abs(np.mean(values) - truth) < 4 * np.std(values) / math.sqrt(500)


def test_separation_does_not_change_under_a_linear_map():
    rng = np.random.default_rng(5)
    h, y, group, _ = planted(rng, shift=0.5, samples=800, features=5)
    maps = rng.standard_normal((5, 5))
    one, two = (group_shift(x, y, group, reference="A", group="B", ridge=0.0) for x in (h, h @ maps))
    np.testing.assert_allclose(one.separation, two.separation, rtol=1e-8)
    np.testing.assert_allclose(one.toward, two.toward, rtol=1e-7)
    np.testing.assert_allclose(
        one.common + one.specific,
        [h[(group == "B") & (y == c)].mean(0) - h[(group == "A") & (y == c)].mean(0) for c in (0, 1)],
    )


def handicap(base: list[float], b: float, clusters: int, rng) -> tuple[dict, np.ndarray, np.ndarray]:
    group = np.array(["A", "B"])[np.arange(clusters) % 2]
    odds = np.log(np.array(base) / (1 - np.array(base)))[:, None] + b * (group == "B")
    return (
        {f"l{i}": 1 / (1 + np.exp(-row - 0.15 * rng.standard_normal(clusters))) for i, row in enumerate(odds)},
        np.arange(clusters),
        group,
    )


def test_a_constant_handicap_has_a_humped_gap_and_a_rising_ratio():
    base = [0.9, 0.7, 0.5, 0.3, 0.1, 0.03, 0.01]
    expected = [1 / (1 + math.exp(-math.log(e / (1 - e)) - 0.8)) for e in base]
    assert [round(e, 3) for e in expected] == [0.952, 0.839, 0.690, 0.488, 0.198, 0.064, 0.022]
    errors, cluster, group = handicap(base, 0.8, 400, np.random.default_rng(0))
    curves = depth_curves(errors, cluster, group, reference="A", group="B", draws=400)
    np.testing.assert_allclose(curves.bias["ratio"], [1.06, 1.20, 1.38, 1.63, 1.98, 2.15, 2.20], rtol=0.04)
    np.testing.assert_allclose(curves.bias["difference"], [0.052, 0.138, 0.190, 0.188, 0.098, 0.034, 0.012], rtol=0.1)
    np.testing.assert_allclose(curves.bias["log odds"], 0.8, atol=0.06)
    assert curves.trend["ratio"] < -0.95 and "a constant handicap" in curves.warning
    assert curves.emergence == "l0" and (curves.low["log odds"] > 0).all()


def test_a_gap_emerges_where_it_was_planted():
    onset, hits, early = 3, 0, 0
    for repeat in range(40):
        rng = np.random.default_rng(repeat)
        group = np.array(["A", "B"])[np.arange(60) % 2]
        errors = {
            f"l{i}": np.clip(0.4 + 0.06 * rng.standard_normal(60) + 0.12 * (group == "B") * (i >= onset), 0, 1)
            for i in range(6)
        }
        found = depth_curves(errors, np.arange(60), group, reference="A", group="B", draws=400, seed=repeat)
        hits += found.emergence == "l3"
        early += found.emergence in ("l0", "l1", "l2")
    assert hits >= 36 and early <= 4


def test_probes_read_the_scale_of_a_layer_as_nothing():
    rng = np.random.default_rng(6)
    h, y, _, _ = planted(rng, samples=600, features=4)
    one = probe_errors({"a": h[:400]}, y[:400], {"a": h[400:]}, y[400:])["a"]
    two = probe_errors({"a": 1e6 * h[:400] + 3e6}, y[:400], {"a": 1e6 * h[400:] + 3e6}, y[400:])["a"]
    np.testing.assert_array_equal(one, two)
    chance = probe_errors({"a": h[:400]}, shuffled(y[:400], seed=0), {"a": h[400:]}, shuffled(y[400:], seed=1))["a"]
    assert chance.mean() == pytest.approx(0.5, abs=0.1)
    real = probe_errors(
        {"a": h[:400]}, h[:400, :2] @ np.ones(2), {"a": h[400:]}, h[400:, :2] @ np.ones(2), strength=1e-9
    )
    assert real["a"].max() < 1e-10
    assert balanced_weights(["a", "a", "a", "b"]).tolist() == pytest.approx([2 / 3] * 3 + [2])


def test_hidden_states_are_those_of_the_truncated_model_and_leave_it_as_it_was():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh()) for _ in range(3))).train()
    x = torch.randn(10, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = hidden_states(model, x, batch_size=4)
    assert list(found) == ["0", "1", "2"] and model.training and not model[0]._forward_hooks
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    model.eval()
    # batches of the same size, so that the sums are taken alike
    parts = [model[1](model[0](x[i : i + 4])) for i in (0, 4, 8)]
    assert torch.equal(found["1"], torch.cat(parts))


def test_the_layers_of_an_operator_are_its_blocks():
    grid = sciops.Grid((8, 8))
    model = sciops.build_model("fno", in_channels=1, out_channels=1, width=4, depth=3, modes=(2, 2), grid=grid)
    assert tap_names(model) == ["blocks.0", "blocks.1", "blocks.2"]
    found = hidden_states(model, torch.randn(5, 1, 8, 8), pool=pooled, batch_size=2)
    assert [tuple(value.shape) for value in found.values()] == [(5, 8)] * 3
    whole = hidden_states(model, torch.randn(2, 1, 8, 8), layers=["blocks.*.mixer"])
    assert len(whole) == 3


def test_padding_does_not_count():
    states, mask = torch.randn(2, 5, 3), torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    assert torch.allclose(pooled(states, mask=mask)[1:], pooled(states[1:, :2]))
    assert torch.equal(pooled(states.transpose(1, 2), channels="first"), pooled(states))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tap_names(nn.Linear(2, 2)), "no stack of equal blocks"),
        (lambda: tap_names(nn.Sequential(nn.Linear(2, 2)), ["blocks.*"]), "names no module"),
        (lambda: hidden_states(nn.Sequential(nn.Linear(2, 2)), torch.zeros(0, 2)), "there are no samples"),
        (lambda: pooled(torch.zeros(2, 3)), "expected \\(batch, positions"),
        (
            lambda: probe_errors({"a": np.zeros((3, 2))}, [0, 0, 0], {"a": np.zeros((3, 2))}, [0, 0, 1]),
            "have the class 0",
        ),
        (lambda: probe_errors({"a": np.full((2, 2), np.nan)}, [0, 1], {"a": np.zeros((2, 2))}, [0, 1]), "not finite"),
        (
            lambda: probe_errors({"a": np.zeros((3, 2))}, [0, 0, 1], {"a": np.zeros((3, 2))}, [0, 0, 1], probe="svm"),
            "svm",
        ),
        (
            lambda: probe_errors(
                {"a": np.zeros((3, 2))}, [0, 0, 1], {"a": np.zeros((3, 2))}, [0] * 3, probe="discriminant", strength=0.0
            ),
            "singular; pass strength=1.0",
        ),
        (lambda: transfer_matrix(np.zeros((3, 2)), [0, 1, 0], ["A", "B", "B"], [0, 1, 2]), "'A' has 1 clusters"),
        (lambda: transfer_matrix(np.zeros((3, 2)), [0, 1, 0], ["A"] * 3, [0, 1, 2]), "one group, A"),
        (lambda: transfer_matrix(np.zeros((1, 2)), [0], ["A"], [0], rules=()), "expected some of balanced"),
        (lambda: rank_correlation([1.0, 2.0], [1.0, 2.0]), "2 members: expected at least 5"),
        (lambda: relative_scatter(np.zeros((2, 2)), [0, 1], [0, 1]), "2 samples in 2 cells"),
        (lambda: neighbour_purity(np.zeros((4, 2)), [0] * 4, ["A"] * 4, [0, 0, 1, 1]), "has fewer outside"),
        (lambda: scatter(np.zeros((3, 2)), [0, 1, 2]), "3 samples in 3 clusters"),
        (lambda: squared_shift(np.zeros((1, 2)), np.zeros((3, 2))), "first: 1 independent members"),
        (
            lambda: depth_curves({"a": [0.1] * 8}, range(8), ["A"] * 5 + ["B"] * 3, reference="A", group="B"),
            "'B' has 3 clusters",
        ),
        (lambda: group_shift(np.zeros((2, 2)), [0, 1], ["A", "A"], reference="A", group="B"), "'B' is not a group"),
    ],
)
def test_one_line_for_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_upstream_returns_the_input_of_the_first_layer_and_every_output():
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(*[nn.Linear(4, 4) for _ in range(3)])).double()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    found = upstream(model, x)
    states = [model[0](x)]
    for layer in model[1]:
        states.append(layer(states[-1]))
    assert len(found["hidden_states"]) == 4 and found["last_hidden_state"] is found["hidden_states"][-1]
    for i, expected in enumerate(states):
        torch.testing.assert_close(found[f"hidden_state_{i}"], expected, rtol=0, atol=0)
    assert found["last_hidden_state"].requires_grad
    twice = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).double()
    twice[1] = twice[0]  # one module, two calls
    with pytest.raises(ValueError, match="ran 2 times"):
        upstream(twice, x, layers=["0"])


def test_an_upstream_of_recordings_does_not_depend_on_their_padding():
    torch.manual_seed(0)
    model = sciops.build_model("speech_encoder", in_channels=1, out_channels=16, depth=2, bins=20, updates=0).eval()
    recordings = [torch.randn(4000), torch.randn(2400)]
    both, alone = upstream(model, recordings), upstream(model, recordings[1:])
    assert len(both["hidden_states"]) == 3
    n = alone["last_hidden_state"].shape[1]
    for a, b in zip(both["hidden_states"], alone["hidden_states"]):
        torch.testing.assert_close(a[1:, :n], b, rtol=1e-4, atol=1e-5)
    for bad in ([], [torch.zeros(2, 3)]):
        with pytest.raises(ValueError, match="expected"):
            upstream(model, bad)


def test_an_operation_in_place_after_a_layer_does_not_change_what_was_kept():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
                x += 1.0
            return x

    model, x = Residual(), torch.randn(4, 3)
    expected = model.blocks[0](x)
    torch.testing.assert_close(hidden_states(model, x)["blocks.0"], expected.detach(), rtol=0, atol=0)


def test_the_trend_over_layers_is_the_rank_correlation_of_scipy():
    from scipy.stats import spearmanr

    rng = np.random.default_rng(1)
    cluster = np.repeat(np.arange(20), 5)
    errors = {f"l{i}": (rng.uniform(size=100) < p).astype(float) for i, p in enumerate((0.2, 0.5, 0.4, 0.4, 0.7))}
    found = depth_curves(errors, cluster, np.where(cluster % 2, "B", "A"), reference="A", group="B", draws=50)
    for scale, values in found.bias.items():
        assert found.trend[scale] == pytest.approx(spearmanr(values, found.errors.mean(axis=0)).statistic, abs=1e-12)


def stretched(rng, factor, samples=9000, clusters=60):
    """Three classes on the first axis; group B has that axis stretched, noise and all."""
    y = rng.integers(0, 3, samples)
    cluster = rng.integers(0, clusters, samples)
    group = np.where(cluster % 2 == 0, "A", "B")
    h = rng.standard_normal((samples, 4))
    h[:, 0] += 2.0 * (y - 1)
    h[group == "B", 0] *= factor
    return h, y, group, cluster


def test_whitening_removes_what_centring_cannot():
    h, y, group, cluster = stretched(np.random.default_rng(0), 3.0)
    options = {"reference": "A", "group": "B", "rule": "reference", "probe": "discriminant", "repeats": 2, "draws": 200}
    found = split_gap(h, y, group, cluster, **options)
    # thresholds at ±1 of classes at −6, 0 and 6 with a deviation of 3, and at ±3
    to_b = 1 - (2 * ndtr(5 / 3) + 2 * ndtr(1 / 3) - 1) / 3
    own = 1 - (2 * ndtr(1) + 2 * ndtr(1) - 1) / 3
    assert found.errors["rule", "B"] == pytest.approx(to_b, abs=0.015)
    assert found.errors["B", "B"] == pytest.approx(own, abs=0.015)
    assert found.verdict == "systematic, removed by whitening" and found.removed_by == "whitening"
    assert found.centred_interval[0] > 0 and abs(found.whitened) < 0.02


@pytest.mark.parametrize(
    ("parts", "steps", "verdict"),
    [
        ((False, False), ("no", "no"), "none"),
        ((True, False), ("no", "no"), "random"),
        ((False, True), ("yes", "no"), "systematic, removed by centring"),
        ((False, True), ("no", "yes"), "systematic, removed by whitening"),
        ((False, True), ("no", "no"), "systematic, structural"),
        ((False, True), ("unknown", "no"), "systematic, removal undecided"),
        ((True, True), ("yes", "yes"), "both"),
    ],
)
def test_types_of_errors(parts, steps, verdict):
    assert error_type(*parts, remedy(*steps)) == verdict


def test_the_discriminant_is_that_of_scikit_learn_and_blind_to_linear_maps():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, 400)
    h = rng.standard_normal((400, 5)) + 0.8 * rng.standard_normal((4, 5))[y]
    train, test = np.arange(400) < 250, np.arange(400) >= 250
    options = {"probe": "discriminant", "strength": 0.0}
    ours = probe_errors({"l": h[train]}, y[train], {"l": h[test]}, y[test], **options)["l"]
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(h[train], y[train]).predict(h[test]) != y[test]
    np.testing.assert_array_equal(ours, theirs)
    moved = h @ rng.standard_normal((5, 5)) + 3.0
    again = probe_errors({"l": moved[train]}, y[train], {"l": moved[test]}, y[test], **options)["l"]
    np.testing.assert_array_equal(ours, again)
    doubled = np.concatenate([h[train], h[train][:50]]), np.concatenate([y[train], y[train][:50]])
    weighted = probe_errors(
        {"l": h[train]}, y[train], {"l": h[test]}, y[test], weights=np.r_[np.full(50, 2.0), np.ones(200)], **options
    )
    np.testing.assert_array_equal(
        weighted["l"], probe_errors({"l": doubled[0]}, doubled[1], {"l": h[test]}, y[test], **options)["l"]
    )


def test_a_transfer_matrix_holds_the_errors_of_its_probes():
    rng = np.random.default_rng(2)
    h, y, group, cluster = planted(rng, shift=1.0, samples=1200, features=3)
    train = cluster < 20
    options = {"train": train, "probe": "discriminant", "repeats": 1, "draws": 50}
    found = transfer_matrix(h, y, group, cluster, rules=("balanced", "natural"), **options)
    assert found.trained == ("balanced", "natural", "A", "B") and found.groups == ("A", "B")
    np.testing.assert_allclose(
        found.gains, [found.errors[0, 0] - found.errors[2, 0], found.errors[0, 1] - found.errors[3, 1]]
    )
    # the smaller group is not cut: its own probe is known
    small = min("AB", key=lambda g: (train & (group == g)).sum())
    own = train & (group == small)
    assert found.samples == own.sum()
    for j, g in enumerate("AB"):
        test = ~train & (group == g)
        wrong = probe_errors({"": h[own]}, y[own], {"": h[test]}, y[test], probe="discriminant")[""]
        per_cluster = [wrong[cluster[test] == c].mean() for c in np.unique(cluster[test])]
        assert found.errors[found.trained.index(small), j] == pytest.approx(np.mean(per_cluster), abs=1e-12)
        names = [str(c) for c in np.unique(cluster[test])]
        assert [found.by_cluster[small][name] for name in names] == pytest.approx(per_cluster)
    assert (found.low <= found.errors).all() and (found.errors <= found.high).all()
    # other names of the groups permute the matrix
    swapped = transfer_matrix(h, y, np.where(group == "A", "Z", "B"), cluster, **options)
    one = transfer_matrix(h, y, group, cluster, **options)
    assert swapped.groups == ("B", "Z")
    np.testing.assert_allclose(swapped.errors[1:, ::-1][::-1], one.errors[1:], atol=0.06)


def test_units_and_folds_hold_out_what_a_probe_knows_by_heart():
    """A class that is a function of the voice: read from voices that the probe knows, and not from others."""
    rng = np.random.default_rng(3)
    voice, item = np.repeat(np.arange(16), 60), np.tile(np.arange(60), 16)
    group = np.where(item % 2 == 0, "A", "B")
    y, place = rng.integers(0, 2, 16)[voice], 3 * rng.standard_normal((16, 12))
    h = place[voice] + 0.1 * rng.standard_normal((960, 12))
    speaker = np.char.add(group, voice.astype(str))
    options = {"probe": "discriminant", "draws": 20}
    piece = np.char.add(speaker, np.char.add("-", item.astype(str)))
    known = transfer_matrix(h, y, group, piece, train=item < 30, units=item, **options)
    held = transfer_matrix(h, y, group, speaker, units=voice, repeats=8, **options)
    assert known.errors.max() < 0.05 and held.errors.min() > 0.25
    folds = np.stack([voice < 8, voice >= 8])
    both = transfer_matrix(h, y, group, speaker, units=voice, train=folds, test=~folds, repeats=1, **options)
    assert len(both.by_cluster["A"]) == 32  # every speaker is tested
    with pytest.raises(ValueError, match="a unit is in training and test"):
        transfer_matrix(h, y, group, speaker, units=voice, train=item < 30, **options)


def test_matched_clusters_leave_the_shared_probe_no_more_speakers_than_the_others():
    rng = np.random.default_rng(4)
    cluster = np.repeat(np.arange(24), 80)
    y = rng.integers(0, 2, len(cluster))
    h = rng.standard_normal((len(cluster), 6)) + 1.5 * rng.standard_normal((24, 6))[cluster]
    h[:, 0] += 2 * y - 1
    args = (h, y, np.where(cluster < 12, "A", "B"), cluster)
    options = {"probe": "discriminant", "repeats": 6, "draws": 20}
    matched, free = (transfer_matrix(*args, match_clusters=m, **options) for m in (True, False))
    assert matched.errors[0].mean() > free.errors[0].mean() + 0.01
    np.testing.assert_allclose(matched.errors[1:].mean(), free.errors[1:].mean(), atol=0.02)


def test_classes_can_weigh_alike():
    rng = np.random.default_rng(5)
    h, _, group, cluster = planted(rng, samples=2000, features=2, clusters=8)
    y = (rng.random(2000) < 0.1).astype(int)
    h[:, 0] += 1.5 * y
    options = {"probe": "discriminant", "repeats": 1, "draws": 20, "train": cluster < 4}
    samples, classes = (transfer_matrix(h, y, group, cluster, average=a, **options) for a in ("samples", "classes"))
    # nearly all are said to be of the frequent class: few errors, and nearly half of them where classes weigh alike
    assert samples.errors.max() < 0.2 and classes.errors.min() > 0.3
    kept = common_classes(["a"] * 30 + ["b"] * 30 + ["c"] * 12, ["A", "B"] * 30 + ["A"] * 12, fewest=10)
    assert kept.sum() == 60
    with pytest.raises(ValueError, match="0 classes have 20 samples"):
        common_classes(["a", "b"], ["A", "B"])


def test_relative_scatter_is_that_of_the_cluster_and_not_of_its_classes():
    rng = np.random.default_rng(6)
    cluster = np.repeat(np.arange(3), 1500)
    # cluster 0 has mostly the class that scatters twice as far, cluster 2 scatters by √2 in both
    y = (rng.random(4500) < np.array([0.8, 0.2, 0.2])[cluster]).astype(int)
    deviation = np.array([1.0, 2.0])[y] * np.array([1.0, 1.0, math.sqrt(2)])[cluster]
    h = rng.standard_normal((4500, 3)) * deviation[:, None] + rng.standard_normal((3, 2, 3))[cluster, y]
    names, found = relative_scatter(h, y, cluster, whiten=False)
    assert names.tolist() == ["0", "1", "2"]
    assert found[2] / found[1] == pytest.approx(2.0, rel=0.1) and found[0] / found[1] == pytest.approx(1.0, rel=0.15)
    moved = h @ rng.standard_normal((3, 3))
    white = [relative_scatter(x, y, cluster)[1] for x in (h, moved)]
    np.testing.assert_allclose(*white, rtol=1e-6)
    assert np.isnan(relative_scatter(h[:3000], y[:3000], np.r_[np.zeros(2999), 1])[1][1])


def test_a_rank_correlation_and_what_is_held():
    from scipy.stats import spearmanr

    rng = np.random.default_rng(7)
    x, z = rng.standard_normal((2, 60))
    y = x + rng.standard_normal(60)
    found = rank_correlation(x, y, draws=200)
    assert found.value == pytest.approx(spearmanr(x, y).statistic, abs=1e-12) and found.low < found.value < found.high
    r = spearmanr(np.stack([x, y, z], axis=1)).statistic
    partial = (r[0, 1] - r[0, 2] * r[1, 2]) / math.sqrt((1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2))
    assert rank_correlation(x, y, given=z, draws=10).value == pytest.approx(partial, abs=1e-12)
    # two groups that differ in both, and nothing within them
    group = np.repeat([0, 1], 30)
    a, b = rng.standard_normal((2, 60)) + 4 * group
    assert (
        rank_correlation(a, b, draws=10).value > 0.6
        and abs(rank_correlation(a, b, groups=group, draws=10).value) < 0.35
    )
    assert math.isnan(rank_correlation(np.ones(6), np.arange(6.0), draws=10).value)


def test_neighbours_are_alike_where_classes_are_apart():
    rng = np.random.default_rng(8)
    y, cluster = rng.integers(0, 2, 400), np.arange(400) % 8
    group = np.where(cluster < 4, "A", "B")
    h = rng.standard_normal((400, 2))
    h[group == "A", 0] += 20 * y[group == "A"]
    found = neighbour_purity(h, y, group, cluster)
    assert found["A"] == 1.0 and found["B"] == pytest.approx(0.5, abs=0.08)


def test_a_ratio_of_no_errors_is_undefined():
    groups = np.array(["A", "B"])[np.arange(20) % 2]
    errors = {"none": np.zeros(20), "reference": np.where(groups == "B", 0.5, 0.0), "some": np.full(20, 0.25)}
    found = depth_curves(errors, np.arange(20), groups, reference="A", group="B", draws=50)
    ratio = found.bias["ratio"]
    assert np.isnan(ratio[0]) and np.isinf(ratio[1]) and ratio[2] == 1.0
    assert (found.low["ratio"][0], found.high["ratio"][0]) == (0.0, np.inf)
    assert math.isnan(found.trend["ratio"]) and "ratio" not in found.warning
