"""Arguments with which a certificate would say too much, or an attack find too little, are refused by name."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from sciops.grids import Grid
from sciops.robustness import (
    GaussianFieldNoise,
    ImageAttack,
    WhiteNoise,
    autoattack,
    bounds_from_counts,
    calibrate,
    certify_centers,
    coefficient_attack,
    coverage,
    dense_jacobian_norm,
    foolbox_attack,
    image_pgd,
    jacobian_norm,
    mean_smoothing,
    median_smoothing,
    pgd,
    phase_flip_attack,
    random_perturbations,
    robust_accuracy,
    sequence_lower,
    smooth_centers,
)

GRID = Grid((4,), centering="periodic")
A = torch.zeros(2, 1, 4)


def classifier(classes=4, shape=(1, 6, 6)):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes)).eval()


def images(count=6):
    return 0.3 + 0.4 * torch.rand(count, 1, 6, 6, generator=torch.Generator().manual_seed(0))


ATTACKS = {
    "pgd": lambda *args, **options: image_pgd(*args, steps=3, restarts=1, seed=0, **options),
    "foolbox": lambda *args, **options: foolbox_attack(*args, seed=0, steps=3, **options),
    "autoattack": lambda *args, **options: autoattack(*args, seed=0, attacks=["apgd-ce"], **options),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_image_attacks_refuse_what_would_fool_nobody(attack):
    if attack != "pgd":
        pytest.importorskip("pyautoattack")
    call, model, x = ATTACKS[attack], classifier(), images()
    y = model(x).argmax(1)
    hole, mid = x.clone(), {} if attack == "autoattack" else {"bounds": (0.4, 0.6)}
    hole[0, 0, 0, 0] = math.nan
    for epsilon in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"epsilon={epsilon}: expected a finite size of at least 0"):
            call(model, x, y, epsilon=epsilon)
    for args, options, message in (
        ((x, y), {"norm": "l1"}, "norm='l1': expected 'l2' or 'linf'"),
        ((3 * x, y), {}, "above upper=1|takes images in"),
        ((x - 0.5, y), {}, "below lower=0|takes images in"),
        ((x, y), mid, "below lower=0.4" if mid else None),
        ((x, y), {"bounds": (1.0, 0.0)}, r"bounds=\(1.0, 0.0\): expected \(lower, upper\)" if mid else None),
        ((x, y), {"bounds": (math.nan, 1.0)}, r"bounds=\(nan" if mid else None),
        ((hole, y), {}, "nan"),
        ((x, y + 10), {}, r"y from 1\d to 1\d: expected labels from 0 to 3"),
        ((x, y - 10), {}, r"y from -\d+ to -\d+: expected labels from 0 to 3"),
        ((x, y[:3]), {}, r"y is torch.int64 of shape \(3,\): expected integer labels \(6,\)"),
        ((x, y.float()), {}, r"y is torch.float32"),
        ((x.int(), y), {}, "x is torch.int32"),
    ):
        if message is not None:
            with pytest.raises(ValueError, match=message):
                call(model, *args, **{"epsilon": 0.1} | options)
    with pytest.raises(ValueError, match="expected .batch, classes. with at least two classes"):
        call(classifier(1), x, 0 * y, epsilon=0.1)
    nothing = call(model, x, y.int(), epsilon=0.0)  # any integer dtype; no perturbation fools nobody
    assert not nothing.fooled.any() and torch.equal(nothing.images, x) and (nothing.size == 0).all()


def test_attacks_return_no_image_that_is_longer_undefined_or_out_of_bounds():
    pytest.importorskip("pyautoattack")
    model, x = classifier(), images()
    y = model(x).argmax(1)
    for made in (x + 10, x * math.nan, torch.where(torch.arange(6)[:, None, None, None] < 3, x + 0.01, -0.05 + 0 * x)):
        found = foolbox_attack(model, x, y, epsilon=2.5, attack=lambda *_, made=made, **__: (made, made, None), seed=0)
        assert found.images.isfinite().all() and found.images.min() >= 0 and found.images.max() <= 1
        assert (found.size <= 2.5).all() and torch.equal(found.fooled, model(found.images).argmax(1) != y)
    broken = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    nn.init.constant_(broken[1].weight, math.nan)
    with pytest.raises(ValueError, match="objective is not finite|returned nan"):
        image_pgd(broken, x, y * 0, epsilon=0.1, seed=0)


def test_autoattack_names_what_few_classes_and_small_images_do_not_allow(monkeypatch):
    pytest.importorskip("pyautoattack")
    from pyautoattack.square import SquareAttack

    begin = SquareAttack.__init__  # a tenth of its queries: the distance is found by the others
    monkeypatch.setattr(SquareAttack, "__init__", lambda *a, **options: begin(*a, **options | {"n_queries": 500}))
    x = images()
    for classes, attacks, message in (
        (2, None, r"'apgd-t' compares 4 classes, the classifier has 2; pass attacks=\['apgd-ce', 'fab-t', 'square'\]"),
        (3, None, "'apgd-t' compares 4 classes, the classifier has 3"),
        (2, ["apgd-dlr"], "'apgd-dlr' compares 3 classes, the classifier has 2"),
        (4, ["magic"], r"attacks=\('magic',\): expected some of apgd-ce"),
        (4, [], r"attacks=\(\)"),
    ):
        model = classifier(classes)
        with pytest.raises(ValueError, match=message):
            autoattack(model, x, model(x).argmax(1), epsilon=0.1, attacks=attacks, seed=0)
    model = classifier(2)
    y = model(x).argmax(1)
    logits, weight = model(x).detach(), model[1].weight.detach()
    radius = (logits[:, 0] - logits[:, 1]).abs() / (weight[0] - weight[1]).norm()
    epsilon = float(radius.median())
    found = autoattack(model, x, y, epsilon=epsilon, attacks=["apgd-ce", "fab-t", "square"], seed=0)
    clear = (radius / epsilon - 1).abs() > 0.02  # what the message proposes runs, and finds the distance
    assert torch.equal(found.fooled[clear], (radius < epsilon)[clear]) and 0 < int(found.fooled.sum()) < 6
    small = classifier(4, (1, 4, 4))
    with pytest.raises(ValueError, match="'square' needs images of at least 5×5 points in l2, these have 4×4"):
        autoattack(small, x[..., :4, :4], y, epsilon=0.1, seed=0)
    with pytest.raises(ValueError, match="batch_size=0: expected a whole number"):
        autoattack(classifier(4), x, y, epsilon=0.1, batch_size=0, seed=0)
    lengths = [ImageAttack(x[:n], torch.zeros(n, dtype=torch.bool), torch.zeros(n)) for n in (2, 3)]
    with pytest.raises(ValueError, match="attacks on 2 and 3 images"):
        robust_accuracy(lengths)


def objective(x):
    return x.flatten(1).square().sum(1)


LAW = GaussianFieldNoise(1.0, modes=2)
TWO = torch.tensor([[[3.0, 12.0, 3.0, 12.0]]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pgd(objective, A, GRID, epsilon=-1.0, seed=0), "epsilon=-1"),
        (lambda: pgd(objective, A, GRID, epsilon=math.nan, seed=0), "epsilon=nan"),
        (lambda: pgd(objective, A, GRID, epsilon=1.0, steps=0, seed=0), "steps=0: expected a whole number"),
        (lambda: pgd(objective, A, GRID, epsilon=1.0, steps=2.0, seed=0), "steps=2.0: expected a whole number"),
        (lambda: pgd(objective, A, GRID, epsilon=1.0, restarts=-1, seed=0), "restarts=-1"),
        (lambda: pgd(objective, A, GRID, epsilon=1.0, restarts=0, seed=0), "at least one start"),
        (lambda: pgd(objective, A, GRID, epsilon=1.0, step=-0.1, seed=0), "step=-0.1: expected a positive"),
        (lambda: pgd(objective, A, GRID, epsilon=1.0, step=math.nan, seed=0), "step=nan"),
        (lambda: pgd(objective, A, GRID, epsilon=1.0, lower=math.nan, seed=0), "below lower=nan"),
        (lambda: random_perturbations(objective, A, GRID, epsilon=1.0, samples=0, seed=0), "samples=0"),
        (lambda: random_perturbations(objective, A, GRID, epsilon=1.0, samples=1.5, seed=0), "samples=1.5"),
        (lambda: coefficient_attack(objective, A, GRID, law=LAW, radius=-1.0, seed=0), "radius=-1.0"),
        (lambda: coefficient_attack(objective, A, GRID, law=LAW, radius=1.0, lower=math.nan, seed=0), "lower=nan"),
        (lambda: phase_flip_attack(objective, TWO, GRID, budget=0.5, steps=0), "steps=0"),
        (lambda: phase_flip_attack(objective, TWO, GRID, budget=0.5, swaps=-1), "swaps=-1"),
        (lambda: phase_flip_attack(objective, TWO, GRID, budget=math.nan), "budget=nan"),
        (lambda: jacobian_norm(lambda x: x, A, GRID, iterations=0, seed=0), "iterations=0"),
        (lambda: dense_jacobian_norm(lambda x: x, A, GRID, rows=0), "rows=0"),
        (lambda: GaussianFieldNoise(1.0, modes=2.0), "modes=2.0: expected a whole number"),
        (lambda: bounds_from_counts([[5, 1]], [[50, 10]], alpha=0.1, interval="wald"), "interval='wald'"),
        (lambda: bounds_from_counts([[5, 1]], [[0.8, 0.2]], alpha=0.1), "expected votes, not sums or shares"),
        (lambda: bounds_from_counts([[5, 1]], [[math.nan, 2]], alpha=0.1), "expected votes"),
        (lambda: sequence_lower(5, 10, 2.0), "alpha=2 … 2"),
        (lambda: sequence_lower(math.nan, 10, 0.1), "sums from nan"),
        (lambda: coverage(calibrate(np.arange(9.0), alpha=0.5), np.arange(3.0), probability=-0.5), "probability=-0.5"),
        (lambda: coverage(calibrate(np.arange(9.0), alpha=0.5), np.zeros(0)), "at least one"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def mean(operator, a=A, **options):
    return mean_smoothing(operator, a, GRID, noise=WhiteNoise(0.1), radius=0.1, bound=1.0, samples=9, seed=0, **options)


def median(operator, a=A, **options):
    quantity = operator if isinstance(operator, nn.Module) else lambda x: operator(x)[:, 0, 0]
    return median_smoothing(quantity, a, GRID, noise=WhiteNoise(0.1), radius=0.1, samples=9, seed=0, **options)


def centers(operator, a=A, **options):
    return smooth_centers(operator, a, GRID, noise=WhiteNoise(0.1), samples=1199, candidates=2, seed=0, **options)


@pytest.mark.parametrize("certificate", [mean, median, centers])
def test_smoothed_operators_are_functions_with_values(certificate):
    noisy = nn.Sequential(nn.Identity(), nn.Dropout(0.5))
    with pytest.raises(ValueError, match="the operator is in training mode.*eval"):
        certificate(noisy)
    noisy.eval()[1].train()
    with pytest.raises(ValueError, match=r"'1' of the operator \(Dropout\)"):
        certificate(noisy)
    with pytest.raises(ValueError, match="returned NaN on a noisy field"):
        certificate(lambda x: torch.where(x > 0, x, math.nan))
    for batch_size in (0, -5, 2.5):
        with pytest.raises(ValueError, match=f"batch_size={batch_size}"):
            certificate(lambda x: x, batch_size=batch_size)
    if certificate is mean:
        with pytest.raises(ValueError, match="returned inf on a noisy field"):
            mean(lambda x: torch.where(x > 0, x, math.inf))
    if certificate is centers:
        found = centers(lambda x: x)
        with pytest.raises(ValueError, match="2 centers for 1 fields"):
            certify_centers(lambda x: x, A[:1], found, GRID, noise=WhiteNoise(0.1), radius=0.1, samples=9, seed=0)
