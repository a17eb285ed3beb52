"""Precision, recall, density and coverage against plain loops, exact identities, and planted clouds."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
import torch

from sciops.evaluation import expected_coverage, in_support, prdc, sample_floor

NAMES = ("precision", "recall", "density", "coverage")
ROUGH = {"splits": 0, "resolution": 0.4}


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def naive(x, y, k, ball):
    """The definitions, sample by sample; closed balls share a ball's weight among the others that it really holds."""
    holds = (lambda d, r: d <= r) if ball == "closed" else (lambda d, r: d < r)

    def balls(cloud):
        radii, members = [], []
        for i, a in enumerate(cloud):
            others = sorted(math.dist(a, b) for j, b in enumerate(cloud) if j != i)
            radii.append(others[k - 1])
            members.append(sum(d <= radii[-1] for d in others) if ball == "closed" else k)
        return radii, members

    (rx, kx), (ry, _) = balls(x), balls(y)
    d = [[math.dist(a, b) for b in y] for a in x]
    n, m = len(x), len(y)
    return {
        "precision": sum(any(holds(d[i][j], rx[i]) for i in range(n)) for j in range(m)) / m,
        "recall": sum(any(holds(d[i][j], ry[j]) for j in range(m)) for i in range(n)) / n,
        "density": sum(holds(d[i][j], rx[i]) / kx[i] for i in range(n) for j in range(m)) / m,
        "coverage": sum(any(holds(d[i][j], rx[i]) for j in range(m)) for i in range(n)) / n,
    }


def scores(found):
    return [getattr(found, name) for name in NAMES]


@pytest.mark.parametrize("ball", ["closed", "open"])
@pytest.mark.parametrize("chunk", [None, 1, 7])
def test_plain_loops_give_the_same(ball, chunk):
    for seed, k in ((0, 1), (1, 3), (2, 6)):
        x, y = normal(seed, 24, 3), 0.7 * normal(seed + 10, 24, 3) + 0.3
        lattice = [np.random.default_rng(seed + s).integers(0, 3, (24, 2)).astype(float) for s in (20, 30)]
        for a, b in ((x, y), lattice):  # the lattice has equal samples and equal distances
            got = prdc(a, b, k=k, ball=ball, chunk=chunk, **ROUGH)
            expected = naive(a.tolist(), b.tolist(), k, ball)
            assert scores(got) == pytest.approx([expected[name] for name in NAMES], abs=1e-14)


def test_numbers_are_those_of_the_package_prdc():
    oracle = pytest.importorskip("prdc").compute_prdc
    for seed, k in ((0, 1), (1, 5), (2, 10)):
        x, y = normal(seed, 80, 5), normal(seed + 5, 80, 5) + 0.5
        expected = oracle(x, y, nearest_k=k)
        for ball in ("open", "closed"):
            assert scores(prdc(x, y, k=k, ball=ball, **ROUGH)) == pytest.approx([expected[name] for name in NAMES])


def test_a_cloud_against_itself_and_far_away():
    x = normal(0, 60, 4)
    found = prdc(x, x, **ROUGH)
    assert (found.precision, found.recall, found.coverage) == (1, 1, 1)
    assert scores(prdc(x, x + 1e3, **ROUGH)) == [0, 0, 0, 0]


def test_exchanged_clouds_exchange_precision_and_recall():
    x, y = normal(0, 200, 6), 0.5 * normal(1, 200, 6)
    one, other = prdc(x, y, **ROUGH), prdc(y, x, **ROUGH)
    assert (one.precision, one.recall) == (other.recall, other.precision) and one.precision != one.recall


def test_motions_scales_and_orders_change_nothing():
    x, y = normal(0, 150, 5), normal(1, 150, 5) + 0.4
    expected = scores(prdc(x, y, **ROUGH))
    turn = np.linalg.qr(normal(2, 5, 5))[0]
    rows = np.random.default_rng(3).permutation(150)
    for move in (lambda v: v @ turn, lambda v: v + 1e4, lambda v: v[rows]):
        assert scores(prdc(move(x), move(y), **ROUGH)) == pytest.approx(expected, abs=1e-12)
    for factor in (3e-180, 7e180, 1e-305):
        assert scores(prdc(factor * x, factor * y, **ROUGH)) == pytest.approx(expected, abs=1e-12)
    lower = [torch.from_numpy(v).float() for v in (x, y)]
    assert scores(prdc(*lower, **ROUGH)) == pytest.approx(expected, abs=0.02)
    half = [v.half() for v in lower]
    assert scores(prdc(*half, **ROUGH)) == scores(prdc(*(v.float() for v in half), **ROUGH))


def test_coverage_under_equal_laws():
    """Against all orders of the other samples, the published limits, and draws in any dimension."""
    for n, m, k in ((3, 2, 1), (3, 2, 2), (4, 3, 2), (2, 4, 1)):
        others = ["x"] * (n - 1) + ["y"] * m
        orders = list(permutations(others))
        assert expected_coverage(n, m, k) == pytest.approx(np.mean(["y" in order[:k] for order in orders]))
    table = {1: 0.5005, 2: 0.7508, 3: 0.8758, 4: 0.9381, 5: 0.9692, 10: 0.9991}
    for k, value in table.items():
        assert expected_coverage(500, 500, k) == pytest.approx(value, abs=5e-5)
    for d, k in ((1, 1), (2, 4), (16, 2)):
        found = [prdc(normal(s, 60, d), normal(s + 99, 60, d), k=k, **ROUGH) for s in range(60)]
        assert found[0].expected == {"density": 1.0, "coverage": expected_coverage(60, 60, k)}
        for name, expected in found[0].expected.items():
            values = [getattr(one, name) for one in found]
            assert abs(np.mean(values) - expected) < 3.5 * np.std(values) / np.sqrt(60), (d, k, name)


X = normal(0, 1000, 8)
Z = normal(1, 1000, 8)
LADDER = {  # means of ten draws, and three of their standard deviations
    "same": (Z, (0.92, 0.92, 1.00, 0.93), (0.04, 0.03, 0.09, 0.02)),
    "shift 0.5": (Z + 0.5, (0.85, 0.85, 0.78, 0.72), (0.05, 0.05, 0.08, 0.07)),
    "shift 1": (Z + 1, (0.60, 0.60, 0.36, 0.30), (0.13, 0.18, 0.07, 0.05)),
    "shift 2": (Z + 2, (0.08, 0.08, 0.02, 0.014), (0.2, 0.2, 0.05, 0.012)),
    "scale 0.5": (0.5 * Z, (1.00, 0.21, 1.86, 0.72), (0.001, 0.03, 0.17, 0.04)),
    "scale 2": (2 * Z, (0.20, 1.00, 0.10, 0.26), (0.03, 0.001, 0.03, 0.07)),
}


@pytest.mark.parametrize("name", LADDER)
def test_the_ladder_of_normal_clouds(name):
    """Shifts are alike for both clouds, so that precision and recall have one expectation; they vary by outliers."""
    y, expected, within = LADDER[name]
    assert (abs(np.subtract(scores(prdc(X, y, splits=0)), expected)) <= within).all()


@pytest.mark.parametrize("kept, recall, coverage", [(1, 0.11, 0.12), (2, 0.18, 0.20), (5, 0.45, 0.48), (8, 0.72, 0.77)])
def test_a_model_that_drops_modes_keeps_its_precision(kept, recall, coverage):
    random = np.random.default_rng(kept)
    centres = 30 * random.standard_normal((10, 8))
    x = centres[np.arange(1000) % 10] + X
    found = prdc(x, centres[np.arange(1000) % kept] + Z, splits=0)
    assert (found.recall, found.coverage) == pytest.approx((recall, coverage), abs=0.035)
    assert found.precision == pytest.approx(0.9, abs=0.04) and found.density == pytest.approx(1, abs=0.15)


def test_repeated_samples():
    """Two equal clouds of one sample are alike in closed balls; open balls of radius 0 are empty."""
    same = np.full((30, 3), 7.1)
    assert scores(prdc(same, same, **ROUGH)) == pytest.approx([1, 1, 30 / 29, 1])
    assert prdc(same, same, **ROUGH).twins == (1, 1)
    assert scores(prdc(same, same, ball="open", **ROUGH)) == [0, 0, 0, 0]
    assert scores(prdc(same, same + 1, **ROUGH)) == [0, 0, 0, 0]
    x = normal(0, 30, 3)
    parrot = np.repeat(x[:1], 30, 0)
    found = prdc(x, parrot, **ROUGH)
    assert (found.precision, found.recall, found.twins) == (1, pytest.approx(1 / 30), (0, 1))
    assert "equal to another sample: 100.0% of the generated samples" in str(found)
    blind = prdc(x, parrot, ball="open", **ROUGH)
    assert (blind.precision, blind.recall) == (1, 0)


def test_round_off_does_not_part_equal_samples():
    for dtype in (np.float32, np.float64):
        x = normal(0, 40, 6).astype(dtype)
        parrots = np.repeat(x[:4], 10, 0)
        unit = np.finfo(dtype).eps * np.abs(parrots)
        noisy = (parrots + unit * np.random.default_rng(1).uniform(-2, 2, parrots.shape)).astype(dtype)
        found = prdc(x, noisy, **ROUGH)
        assert (found.precision, found.recall, found.twins[1]) == (1, pytest.approx(0.1), 1)


def test_which_samples_lie_outside():
    x, y = normal(0, 90, 2), 2 * normal(1, 50, 2)
    inside = in_support(x, y)
    assert inside.dtype == bool and inside.shape == (50,)
    radii = np.sort(np.linalg.norm(x[:, None] - x, axis=-1), 1)[:, 4]
    np.testing.assert_array_equal(inside, (np.linalg.norm(x[:, None] - y, axis=-1) <= radii[:, None]).any(0))
    tensors = [torch.from_numpy(v) for v in (x[:50], y)]
    found = prdc(*tensors, **ROUGH)
    assert isinstance(in_support(*tensors), torch.Tensor)
    assert float(in_support(*tensors).double().mean()) == found.precision
    assert float(in_support(*tensors[::-1], chunk=3).double().mean()) == found.recall


def test_ceilings_are_those_of_halves():
    x = normal(0, 400, 16)
    found = prdc(x, normal(1, 400, 16), splits=6)
    assert found.ceiling_samples == 200 and found.samples == 400
    for name in NAMES:
        assert found.ceiling[name].seeds == 6
        assert getattr(found, name) == pytest.approx(found.ceiling[name].mean, abs=0.09)
    random = np.random.default_rng([0, 1])
    first = random.permutation(400)
    by_hand = prdc(x[first[:200]], x[first[200:]], **ROUGH)
    assert found.ceiling["precision"].low <= by_hand.precision <= found.ceiling["precision"].high
    few = prdc(x, normal(1, 150, 16), splits=2, resolution=0.09)
    assert few.ceiling_samples == few.samples == 150  # a reference of twice the size has halves of the full size
    again = prdc(x, normal(1, 150, 16), splits=2, resolution=0.09)
    assert again == few and prdc(x, normal(1, 150, 16), splits=2, resolution=0.09, seed=1) != few


def test_larger_clouds_are_cut_to_equal_sizes():
    x, y = normal(0, 90, 3), normal(1, 40, 3)
    found = prdc(x, y, **ROUGH)
    rows = np.sort(np.random.default_rng([0, 0]).permutation(90)[:40])
    assert found.samples == 40 and scores(found) == scores(prdc(x[rows], y, **ROUGH))


def test_the_table_says_how_many_samples_are_needed():
    x, y = normal(0, 400, 2), normal(1, 400, 2)
    found = prdc(x, y, splits=3)
    lines = str(found).splitlines()
    assert lines[0].split() == ["score", "value", "ceiling", "needed"] and len(lines) == 6 and repr(found) == str(found)
    value = f"{found.precision:.3f} ± {found.deviation['precision']:.3f}"
    assert lines[1].split("  ") == ["precision", value, f"{found.ceiling['precision']:.3f}", "385"]
    assert lines[-1] == "k = 4; 400 samples of each cloud, ceilings of 200; needed: samples for ±0.05"
    assert [row["score"] for row in found.rows()] == list(NAMES) and found.rows()[1]["value"] == found.recall
    assert "<table>" in found._repr_html_()
    for name in NAMES:
        measured = 400 * (1.959964 * found.deviation[name] / 0.05) ** 2
        assert found.needed[name] == max(385, math.ceil(measured)) == found.rows()[NAMES.index(name)]["needed"]
    with pytest.warns(
        RuntimeWarning, match=r"100 samples of each cloud give a share to ±0.10 at best; ±0.05 needs 385"
    ):
        few = prdc(x[:100], y[:100], splits=0)
    assert few.needed["recall"] == 385 and few.deviation == {} and "–" in str(few)
    assert sample_floor(0.1) == math.ceil((1.959964 / 0.2) ** 2) == 97


@pytest.mark.parametrize("d, shift", [(2, 0.0), (32, 0.0), (6, 1.2)])
def test_standard_errors_are_those_of_new_draws(d, shift):
    """In 32 dimensions and for shifted clouds scores vary more than shares of independent samples would."""
    found = [prdc(normal(s, 100, d), normal(s + 500, 100, d) + shift, splits=4, resolution=0.1) for s in range(25)]
    for name in NAMES:
        true = np.std([getattr(one, name) for one in found], ddof=1)
        estimated = np.sqrt(np.mean([one.deviation[name] ** 2 for one in found]))
        assert 0.6 * true - 0.004 < estimated < 1.6 * true + 0.004, (name, true, estimated)
    if d == 32:
        assert true > 0 and np.mean([one.needed["precision"] for one in found]) > 97


BAD = {
    "expected (samples, features)": lambda: prdc(np.ones(5), np.ones((5, 1))),
    "features, generated 3": lambda: prdc(np.ones((9, 2)), np.ones((9, 3))),
    "generated: 1 of 9 samples hold NaN or infinity, the first is sample 2": lambda: prdc(
        np.ones((9, 2)), np.where(np.arange(9)[:, None] == 2, np.nan, np.ones((9, 2)))
    ),
    "reference has shape (0, 2)": lambda: prdc(np.ones((0, 2)), np.ones((9, 2))),
    "4 samples have no neighbour number 4": lambda: prdc(np.ones((4, 2)), np.ones((9, 2))),
    "two halves need 10": lambda: prdc(np.ones((9, 2)), np.ones((9, 2)), resolution=0.4),
    "splits=1": lambda: prdc(np.ones((9, 2)), np.ones((9, 2)), splits=1, resolution=0.4),
    "k=0": lambda: prdc(np.ones((9, 2)), np.ones((9, 2)), k=0),
    "ball='half'": lambda: prdc(np.ones((9, 2)), np.ones((9, 2)), ball="half"),
    "chunk=0": lambda: prdc(np.ones((9, 2)), np.ones((9, 2)), chunk=0),
    "resolution=0": lambda: prdc(np.ones((9, 2)), np.ones((9, 2)), resolution=0),
    "reference is complex128": lambda: prdc(1j * np.ones((9, 2)), np.ones((9, 2))),
    "1 of 18 values are masked": lambda: prdc(np.ma.masked_less(np.arange(18.0).reshape(9, 2), 1), np.ones((9, 2))),
    "level=1": lambda: sample_floor(level=1),
    "expected 1 ≤ k < reference": lambda: expected_coverage(4, 4, 4),
}


@pytest.mark.parametrize("message", BAD)
def test_one_line_says_what_is_wrong(message):
    with pytest.raises(ValueError) as error:
        BAD[message]()
    assert message in str(error.value) and "\n" not in str(error.value)
