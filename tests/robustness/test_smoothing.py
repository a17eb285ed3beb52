"""Certificates meet the analytic distance, hold at their level, and depend on the data and the generator alone."""

import math
from typing import get_args

import numpy as np
import pytest
import torch
from scipy import stats

from sciops.robustness import certify, predict
from sciops.robustness.smoothing.certificate import Interval
from sciops.robustness.smoothing.radii import cohen_radius, lipschitz_radius
from sciops.robustness.smoothing.simplex_maps import SimplexMap

INTERVALS = get_args(Interval)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


A = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
NORM = float(A.norm())


def linear(x):
    """Two classes, parted by the plane a·x = 0."""
    score = x @ A.to(x)
    return torch.stack([score, -score], 1)


def ramp(x):
    """f = clip(a·x + 0.3, 0, 1) and 1 − f."""
    f = (x @ A.to(x) + 0.3).clip(0, 1)
    return torch.stack([f, 1 - f], 1)


def three(x):
    """Three classes by the largest coordinate, the first ahead by 0.1."""
    return x + torch.tensor([0.1, 0.0, 0.0], dtype=x.dtype, device=x.device)


def at_distance(distance, inputs):
    return (distance * A / NORM).repeat(inputs, 1)


@pytest.mark.parametrize("sigma", [0.05, 0.5, 3.0])
def test_a_linear_classifier_has_its_distance_exactly_at_exact_probabilities(sigma):
    for distance in (0.01, 0.4, 1.7):
        if distance / sigma > 7:  # p is 1 to a few roundings
            continue
        p = stats.norm.cdf(distance / sigma)
        assert cohen_radius(p, sigma=sigma) == pytest.approx(distance, rel=1e-6)


@pytest.mark.parametrize("interval", INTERVALS)
def test_sampled_radii_exceed_a_linear_classifier_s_distance_no_more_often_than_alpha(interval):
    inputs, alpha = 400, 0.1
    found = certify(
        linear,
        at_distance(0.3, inputs),
        sigma=0.5,
        samples=300,
        alpha=alpha,
        interval=interval,
        selection_samples=20,
        generator=seeded(),
    )
    wrong = (found.radius > 0.3) | (found.label == 1)
    assert int(wrong.sum()) <= stats.binom.ppf(0.9999, inputs, alpha)
    assert found.radius.mean() > 0.15 and found.intervals[0].startswith(interval)
    assert (found.counts.sum(1) == found.samples).all() and (found.selection.sum(1) == 20).all()


@pytest.mark.parametrize("interval", ["auto", "clopper_pearson", "empirical_bernstein"])
def test_on_a_ramp_the_radius_comes_up_to_the_middle_and_not_beyond(interval):
    sigma, distance = 0.2, 0.25
    x = at_distance(distance, 40) + 0.2 * A / NORM**2  # from the middle of the ramp
    common = {
        "sigma": sigma, "samples": 20_000, "alpha": 0.01, "interval": interval,
        "simplex": "probabilities", "lipschitz": NORM,
    }  # fmt: skip
    exact = certify(ramp, x, generator=seeded(1), **common)
    assert int((exact.radius > distance).sum()) <= stats.binom.ppf(0.9999, 40, 0.01)
    assert exact.radius.mean() > 0.93 * distance
    paper, cohen = (certify(ramp, x[:4], generator=seeded(1), radius=kind, **common) for kind in ("paper", "cohen"))
    assert (exact.radius[:4] > paper.radius).all() and (paper.radius > cohen.radius).all()
    np.testing.assert_allclose(
        exact.radius,
        lipschitz_radius(exact.lower.numpy(), exact.upper.numpy(), sigma=sigma, lipschitz=NORM),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    ("interval", "simplex"),
    [(name, simplex) for name in INTERVALS for simplex in ("argmax", SimplexMap("softmax", 3.0))]
    + [("auto", "choose"), ("randomized", "choose")],
)
def test_neither_batches_nor_neighbours_change_a_result(interval, simplex):
    x = torch.randn(7, 3, generator=seeded(2), dtype=torch.float64) * 0.3
    common = {
        "sigma": 0.4, "samples": 700, "alpha": 0.05, "interval": interval, "selection_samples": 60,
        "simplex": simplex, "lipschitz": 1.0, "held_out": 0.1 * torch.ones(2, 3) if simplex == "choose" else None,
    }  # fmt: skip
    whole = certify(three, x, generator=seeded(3), **common)
    for batch_size in (13, 2000):
        again = certify(three, x, generator=seeded(3), batch_size=batch_size, **common)
        assert torch.equal(whole.counts, again.counts) and torch.equal(whole.radius, again.radius)
        assert whole.intervals == again.intervals and whole.simplex == again.simplex
    generator = seeded(3)
    parts = [certify(three, part, generator=generator, **common) for part in x.split([2, 4, 1])]
    assert torch.equal(whole.counts, torch.cat([part.counts for part in parts]))
    assert torch.equal(whole.radius, torch.cat([part.radius for part in parts]))
    assert not torch.equal(whole.counts, certify(three, x, generator=seeded(4), **common).counts)


def test_counts_are_votes_of_the_same_noise_counted_plainly():
    x = torch.tensor([[0.1, 0.0, 0.0]], dtype=torch.float64)
    found = certify(three, x, sigma=0.7, samples=900, alpha=0.05, selection_samples=50, generator=seeded(5))
    seeds = [int(torch.randint(1 << 62, (1,), generator=g)) for g in [seeded(5)] for _ in range(3)]
    stream = torch.Generator().manual_seed(seeds[1])
    noise = torch.cat([torch.randn(size, 3, generator=stream, dtype=torch.float64) for size in (512, 388)])
    votes = three(x + 0.7 * noise).argmax(1)
    assert found.counts[0].tolist() == votes.bincount(minlength=3).tolist()


def test_a_soft_classifier_is_counted_by_labels_with_its_probabilities():
    simplex = SimplexMap("softmax", 2.0)
    found = certify(
        three, torch.zeros(1, 3, dtype=torch.float64), sigma=0.3, samples=40_000, interval="cpm",
        simplex=simplex, generator=seeded(6),
    )  # fmt: skip
    noise = 0.3 * torch.randn(400_000, 3, generator=seeded(7), dtype=torch.float64)
    mean = simplex(three(noise)).mean(0)
    spread = (mean * (1 - mean) / 40_000).sqrt()
    assert ((found.counts[0] / 40_000 - mean).abs() < 5 * spread).all()
    sure = certify(
        lambda x: torch.tensor([[0.0, 1.0, 0.0]]).expand(len(x), 3), torch.zeros(1, 3), sigma=1.0, samples=5000,
        simplex="probabilities", interval="bonferroni", generator=seeded(8),
    )  # fmt: skip
    assert sure.counts.tolist() == [[0, 5000, 0]]


def test_bernstein_wins_for_a_soft_classifier_that_hardly_varies_and_auto_sees_it():
    x = at_distance(0.1, 5)
    common = {"sigma": 0.05, "samples": 5000, "simplex": SimplexMap("softmax", 1.0), "lipschitz": math.sqrt(2) * NORM}
    radii = {
        name: certify(linear, x, interval=name, generator=seeded(9), **common)
        for name in ("auto", "cpm", "empirical_bernstein")
    }
    assert (radii["empirical_bernstein"].radius > radii["cpm"].radius).all()
    assert torch.equal(radii["auto"].radius, radii["empirical_bernstein"].radius)
    assert all("empirical_bernstein" in name for name in radii["auto"].intervals)


def test_sequences_stop_early_decide_rightly_and_keep_their_level():
    inputs, alpha = 100, 0.1
    near, far, beyond = (certify(
        linear, at_distance(distance, inputs), sigma=0.5, samples=4000, alpha=alpha, interval="sequence",
        target=0.25, generator=seeded(10),
    ) for distance in (0.25, 0.9, 0.02))  # fmt: skip
    assert int((near.radius >= 0.25).sum()) <= stats.binom.ppf(0.9999, inputs, alpha)
    assert (far.radius >= 0.25).all() and far.samples.double().mean() < 1000
    assert (beyond.radius < 0.25).all() and beyond.samples.double().mean() < 1000
    assert near.samples.double().mean() > 3000
    assert (far.counts.sum(1) == far.samples).all()


def test_it_abstains_on_the_boundary_and_where_votes_tie():
    found = certify(linear, at_distance(0.0, 50), sigma=0.5, samples=500, alpha=0.01, generator=seeded(11))
    assert int((found.label != -1).sum()) <= stats.binom.ppf(0.9999, 50, 0.01)
    assert (found.radius[found.label == -1] == 0).all()
    constant = certify(lambda x: torch.zeros(len(x), 4), torch.zeros(1, 2), sigma=1.0, samples=100, alpha=0.01)
    assert constant.label.tolist() == [0] and constant.counts.tolist() == [[100, 0, 0, 0]]  # first of equal outputs


def test_predict_is_the_two_sided_binomial_test_of_the_top_two():
    x = torch.cat([at_distance(d, 1) for d in (0.0, 0.02, 0.1, 0.5)] + [at_distance(-0.5, 1)])
    found = predict(linear, x, sigma=0.5, samples=600, alpha=0.01, generator=seeded(12))
    for label, counts, p_value in zip(found.label.tolist(), found.counts.tolist(), found.p_value.tolist()):
        expected = stats.binomtest(max(counts), 600, 0.5).pvalue
        assert p_value == pytest.approx(expected, rel=1e-9)
        assert label == (counts.index(max(counts)) if expected <= 0.01 else -1)
    assert found.label[3:].tolist() == [0, 1]
    for batch_size in (1, 50):
        again = predict(linear, x, sigma=0.5, samples=600, alpha=0.01, batch_size=batch_size, generator=seeded(12))
        assert torch.equal(found.counts, again.counts)


def test_a_model_of_any_dtype_and_shape_of_input():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5)).eval()
    x = torch.rand(3, 1, 8, 8)
    found = certify(model, x, sigma=0.1, samples=600, generator=seeded(13))
    assert found.radius.dtype == torch.float64 and found.radius.max() <= 0.1 * stats.norm.ppf(0.001 ** (1 / 600)) * 1.6
    assert (found.candidate == found.selection.argmax(1)).all()


@pytest.mark.gpu
def test_on_a_gpu_with_either_generator():
    x = at_distance(0.3, 50).cuda()
    host = certify(linear, x.cpu(), sigma=0.5, samples=2000, alpha=0.01, generator=seeded(14))
    same = certify(linear, x, sigma=0.5, samples=2000, alpha=0.01, generator=seeded(14))
    assert torch.equal(host.counts, same.counts.cpu()) and same.radius.is_cuda
    own = certify(linear, x, sigma=0.5, samples=2000, alpha=0.01, generator=torch.Generator("cuda").manual_seed(0))
    assert int((own.radius > 0.3).sum()) <= 5 and own.radius.mean() > 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"interval": "wald"}, "interval='wald': expected 'auto', 'clopper_pearson'"),
        ({"radius": "best"}, "radius='best'"),
        ({"simplex": "hard"}, "simplex='hard'"),
        ({"target": 0.5}, "expected a radius > 0 and interval='sequence'"),
        ({"sigma": 0.0}, "sigma=0.0"),
        ({"alpha": 1.0}, "alpha=1.0"),
        ({"samples": 1}, "samples=1: expected a whole number of at least 2"),
        ({"samples": 100.0}, "samples=100.0: expected a whole number of at least 2, such as 100$"),
        ({"samples": True}, "samples=True"),
        ({"selection_samples": 0.5}, "selection_samples=0.5: expected a whole number of at least 1"),
        ({"batch_size": -3}, "batch_size=-3"),
        ({"sigma": math.nan}, "sigma=nan"),
        ({"alpha": math.nan}, "alpha=nan"),
        ({"lipschitz": math.nan}, "lipschitz=nan"),
        ({"interval": "sequence", "target": math.nan}, "target=nan"),
        ({"simplex": "choose"}, "needs held_out, inputs that are not certified, to choose one map for all of x"),
        ({"held_out": torch.zeros(2, 3)}, "held_out with simplex='argmax'"),
        ({"simplex": "choose", "held_out": torch.zeros(0, 3)}, "held_out is torch.float32 of shape"),
        ({"x": torch.full((2, 3), math.nan)}, "x holds nan or inf"),
        ({"lipschitz": -1.0}, "lipschitz=-1.0"),
        ({"x": torch.zeros(3, dtype=torch.int64)}, "x is torch.int64 of shape"),
        ({"classifier": torch.nn.Linear(3, 2)}, r"in training mode.*\.eval"),
        ({"classifier": lambda x: x[:, 0]}, "expected \\(inputs, classes\\)"),
        ({"classifier": lambda x: x * math.nan}, "returned nan"),
    ],
)
def test_refusals(change, message):
    arguments = {"classifier": linear, "x": torch.zeros(2, 3), "sigma": 0.5, "samples": 50} | change
    with pytest.raises(ValueError, match=message):
        certify(arguments.pop("classifier"), arguments.pop("x"), **arguments)
