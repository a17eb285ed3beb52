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
    depth_curves,
    group_shift,
    hidden_states,
    pooled,
    probe_errors,
    scatter,
    shuffled,
    split_gap,
    squared_shift,
    tap_names,
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
