"""Certificates are of one smoothed classifier: none says more than the truth, and no two contradict each other."""

import functools
import math
from typing import get_args

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import optimize, stats
from torch import nn

from sciops.robustness import SimplexMap, certify, choose_map, predict
from sciops.robustness.smoothing.certificate import Interval
from sciops.robustness.smoothing.map_choice import expected_radii
from sciops.robustness.smoothing.simplex_maps import default_maps

SIGMA, SLOPE = 1.0, math.hypot(2.0, 0.8)  # of the ramp below, ℓ₂ of its two logits


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def jump(x):
    """Votes for class 1 in more places; means of a soft map favour class 0, which is surer where it wins."""
    far = x[..., 0] > 0.1
    return torch.stack([torch.where(far, 8.0, 0.0), torch.where(far, 0.0, 0.8)], -1)


def ramp(x):
    """The same with logits that change over a length of 1."""
    rise = (x[..., 0] - 0.1).clip(0, 1)
    return torch.stack([2 * rise, 0.8 * (1 - rise)], -1)


@functools.cache
def boundary(base, simplex):
    """Where p_0 = p_1, by quadrature; p_0 grows with x."""
    z = torch.from_numpy(np.linspace(-9, 9, 4001))
    weight = np.exp(-(z.numpy() ** 2) / 2)
    weight /= weight.sum()
    margin = lambda at: float(simplex(base((at + SIGMA * z)[:, None]))[:, 0].numpy() @ weight - 0.5)  # noqa: E731
    return optimize.brentq(margin, -8.0, 8.0, xtol=1e-9)


def distances(base, simplex, x):
    """x − boundary: positive where class 0 is right, and in size the true radius."""
    return x[:, 0].numpy() - boundary(base, simplex)


def contradictions(x, found):
    """Pairs of certified balls with different labels that share a point, at any inputs of any calls."""
    at, label, radius = (
        np.concatenate([np.asarray(part) for part in parts])
        for parts in ([p[:, 0] for p in x], [c.label for c in found], [c.radius for c in found])
    )
    sure = label >= 0
    near = np.abs(at[:, None] - at) < radius[:, None] + radius
    return int((near & (label[:, None] != label) & sure[:, None] & sure).sum()) // 2


def softened(x, base):
    return base(x).softmax(-1)


PROBABILITIES = {base: functools.partial(softened, base=base) for base in (jump, ramp)}
POINTS = torch.tensor([[-0.2], [0.0], [0.2], [-1.0], [0.9], [-3.0], [4.0]], dtype=torch.float64)
HELD_OUT = torch.tensor([[-0.5], [0.7]], dtype=torch.float64)


def test_the_published_choice_by_input_contradicts_itself_and_one_map_does_not():
    common = {"sigma": SIGMA, "samples": 20_000, "selection_samples": 1000}
    x = torch.tensor([[0.2], [-0.2], [0.0]])
    parts = x.split(1)
    by_input = [certify(jump, p, simplex=choose_map(jump, p, **common), generator=seeded(), **common) for p in parts]
    assert contradictions(parts, by_input) > 0 and len({c.simplex for c in by_input}) > 1
    for held_out in (HELD_OUT.float(), x - 0.05, x[:1] + 2):
        chosen = [certify(jump, p, simplex="choose", held_out=held_out, generator=seeded(i), **common)
                  for i, p in enumerate([x, *parts])]  # fmt: skip
        assert len({c.simplex for c in chosen}) == 1  # the calls agree on the classifier
        assert contradictions([x, *parts], chosen) == 0
        assert (chosen[0].radius.numpy() <= np.abs(distances(jump, chosen[0].simplex, x))).all()


@pytest.mark.parametrize("interval", get_args(Interval))
@pytest.mark.parametrize(
    "simplex", ["argmax", "probabilities", "choose", SimplexMap("softmax", 2.0), SimplexMap("sparsemax", 3.0)]
)
def test_no_certificate_says_more_than_the_truth_and_none_contradicts_another(interval, simplex):
    """All intervals, maps and radii, with and without a Lipschitz constant, inputs together and one by one."""
    rows = [(jump, math.inf, "exact"), *((ramp, SLOPE, radius) for radius in ("exact", "paper", "cohen"))]
    targets = (None, 0.3) if interval == "sequence" else (None,)
    certified = 0
    for (base, lipschitz, radius), target in ((row, target) for row in rows for target in targets):
        classifier, name = base, simplex
        if simplex == "probabilities":
            classifier = PROBABILITIES[base]
            lipschitz *= math.sqrt(2) / 4
        common = {
            "sigma": SIGMA, "samples": 1000, "alpha": 1e-5, "interval": interval, "selection_samples": 100,
            "simplex": name, "lipschitz": lipschitz, "radius": radius, "target": target,
            "held_out": HELD_OUT if simplex == "choose" else None,
        }  # fmt: skip
        parts = [POINTS, POINTS[1:4]]
        found = [certify(classifier, p, generator=seeded(i), **common) for i, p in enumerate(parts)]
        assert contradictions(parts, found) == 0
        for part, certificate in zip(parts, found):
            truth = distances(classifier, certificate.simplex, part)
            sure = certificate.label.numpy() >= 0
            assert (certificate.label.numpy() == (truth < 0))[sure].all()
            assert (certificate.radius.numpy() <= np.abs(truth)).all()
            certified += int(sure.sum())
    assert certified >= 4 * len(rows)


def test_a_soft_map_is_chosen_where_it_promises_more_and_only_with_the_votes_class():
    noise = 0.02 * torch.randn(1000, 3, generator=seeded(3), dtype=torch.float64)
    outputs = torch.tensor([0.30, 0.1, 0.0], dtype=torch.float64) + noise
    common = {"sigma": 0.02, "samples": 10_000, "alpha": 1e-3}
    maps = default_maps()
    assert len(set(maps)) == len(maps) and maps[0] == SimplexMap()
    radii = expected_radii(outputs, maps, lipschitz=1.0, **common)
    assert radii.argmax() != 0 and radii[0] > 0  # all votes agree, so that argmax is stuck at its ceiling of 3.2 σ
    assert maps[int(expected_radii(outputs, maps, **common).argmax())].scale in (1.0, 500.0)  # nothing beats a vote
    # means favour class 1, votes class 0: maps that follow the means count as 0
    skewed = torch.tensor([[0.1, 0.0], [0.1, 0.0], [0.0, 5.0]], dtype=torch.float64).repeat(100, 1)
    for simplex, radius in zip(maps, expected_radii(skewed, maps, lipschitz=1.0, **common)):
        assert radius == 0 or int(simplex(skewed).sum(0).argmax()) == 0


def test_the_map_is_the_best_mean_over_held_out_inputs_and_a_function_of_its_arguments():
    common = {"sigma": SIGMA, "samples": 5000, "alpha": 1e-3, "selection_samples": 300, "lipschitz": SLOPE}
    maps = (SimplexMap(), SimplexMap("softmax", 2.0), SimplexMap("softmax", 20.0))
    held_out = torch.linspace(-2, 2, 5, dtype=torch.float64)[:, None]
    alone = [choose_map(ramp, held_out, maps=[simplex], **common) for simplex in maps]
    assert alone == [*maps]
    chosen = choose_map(ramp, held_out, maps=maps, **common)
    torch.manual_seed(1)
    assert choose_map(ramp, held_out, maps=maps, batch_size=70, **common) == chosen
    # by hand, on noise of another seed
    radii = sum(
        expected_radii(
            ramp(x + SIGMA * torch.randn(20_000, 1, generator=seeded(i), dtype=torch.float64)), maps,
            **{k: common[k] for k in ("sigma", "samples", "alpha", "lipschitz")},
        )
        for i, x in enumerate(held_out)
    )  # fmt: skip
    assert radii[maps.index(chosen)] > 0.97 * max(radii) and min(radii) < 0.9 * max(radii)
    assert choose_map(lambda x: torch.zeros(len(x), 2), held_out, maps=maps[1:], **common) == SimplexMap()
    with pytest.raises(ValueError, match="maps is empty"):
        choose_map(ramp, held_out, maps=[], **common)
    with pytest.raises(ValueError, match="held_out is torch.int64"):
        choose_map(ramp, torch.zeros(2, 1, dtype=torch.int64), **common)


def test_predict_is_of_the_classifier_that_was_certified():
    x, soft = torch.full((1, 1), -0.1, dtype=torch.float64), SimplexMap("softmax", 1.0)
    assert distances(jump, SimplexMap(), x)[0] < -0.1 < 0.1 < distances(jump, soft, x)[0]  # the two disagree at x
    for simplex, label in ((soft, 0), (SimplexMap(), 1)):
        certificate = certify(jump, x, sigma=SIGMA, samples=20_000, simplex=simplex, generator=seeded())
        prediction = predict(jump, x, sigma=SIGMA, samples=20_000, simplex=certificate.simplex, generator=seeded(1))
        assert certificate.label.tolist() == prediction.label.tolist() == [label]
        p = stats.norm.cdf(-0.2) if label else float(soft(jump(torch.ones(1, 1)))[0, 0])
        assert prediction.counts.sum() == 20_000 and 0 < p < 1
    with pytest.raises(ValueError, match="simplex='choose': expected a SimplexMap, 'argmax' or"):
        predict(jump, x, sigma=SIGMA, simplex="choose")


class Careless(nn.Module):
    """Dropout that no evaluation mode turns off."""

    def forward(self, x):
        return F.dropout(x, 0.5)


def test_a_part_in_training_mode_at_any_depth_is_refused_by_name():
    model = nn.Sequential(nn.Linear(3, 8), nn.Sequential(nn.Dropout(0.5)), nn.Linear(8, 2)).eval()
    x = torch.zeros(2, 3)
    ask = lambda f: certify(f, x, sigma=0.5, samples=50, generator=seeded())  # noqa: E731
    assert ask(model).samples.tolist() == [50, 50]
    model[1][0].train()
    seen = (model, model.forward, functools.partial(model), functools.partial(lambda m, z: m(z), model))
    for f in seen:
        for call in (ask, lambda f: predict(f, x, sigma=0.5), lambda f: choose_map(f, x, sigma=0.5)):
            with pytest.raises(ValueError, match=r"'1.0' of the classifier \(Dropout\) is in training mode.*\.eval"):
                call(f)
    model.eval()
    model[2].train()  # does nothing in training mode, but nobody can know
    with pytest.raises(ValueError, match=r"'2' of the classifier \(Linear\)"):
        ask(model)


def test_outputs_that_do_not_repeat_are_refused_wherever_the_chance_comes_from():
    torch.manual_seed(0)
    x, wide = torch.randn(2, 3), nn.Linear(3, 200)
    for layer in (nn.Dropout(0.5), nn.BatchNorm1d(200)):
        hidden = nn.Sequential(wide, layer, nn.Linear(200, 2))  # in training mode
        with pytest.raises(ValueError, match="differ between two calls, by .*: expected a function of each row"):
            certify(lambda z, m=hidden: m(z), x, sigma=0.5, samples=50)
    with pytest.raises(ValueError, match="differ between two calls"):
        certify(nn.Sequential(wide, Careless(), nn.Linear(200, 2)).eval(), x, sigma=0.5, samples=50)
    # half precision and votes do repeat, up to rounding or a tie
    half = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 2)).eval().bfloat16()
    assert certify(half, x.bfloat16(), sigma=0.5, samples=600, batch_size=7).samples.tolist() == [600, 600]
    votes = lambda z: F.one_hot(half(z).argmax(1), 2).double() * math.inf  # noqa: E731
    with pytest.raises(ValueError, match="returned nan"):
        certify(votes, x.bfloat16(), sigma=0.5, samples=50)
