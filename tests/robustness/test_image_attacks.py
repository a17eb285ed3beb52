"""Attacks on classifiers: exact for linear ones, and our PGD beside foolbox and AutoAttack."""

import warnings

import pytest
import torch
from torch import nn

from sciops.robustness import ImageAttack, autoattack, foolbox_attack, image_pgd, robust_accuracy


class Linear(nn.Module):
    """Logits W x + b: the distance to the boundary between y and j is (f_y − f_j)/‖w_y − w_j‖ in the dual norm."""

    def __init__(self, classes=4, shape=(1, 4, 4), dtype=torch.float32):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        n = shape[0] * shape[1] * shape[2]
        self.weight = nn.Parameter(torch.randn(classes, n, generator=generator, dtype=dtype))
        self.bias = nn.Parameter(-0.5 * self.weight.detach().sum(1))

    def forward(self, x):
        return x.flatten(1) @ self.weight.T + self.bias

    def radius(self, x, y, norm):
        logits = self(x)
        gap = logits.gather(1, y[:, None]) - logits
        difference = self.weight[y][:, None] - self.weight
        size = difference.norm(dim=2) if norm == "l2" else difference.abs().sum(2)
        return torch.where(torch.arange(4) == y[:, None], torch.inf, gap / size).amin(1).detach()


def images(count=24, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    return 0.4 + 0.2 * torch.rand(count, 1, 4, 4, generator=generator, dtype=dtype)  # the bounds are far away


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("loss", ["margin", "cross_entropy"])
def test_linear_classifiers_fall_exactly_where_the_boundary_is(norm, loss):
    model, x = Linear(dtype=torch.float64), images(dtype=torch.float64)
    y = model(x).argmax(1)
    radius = model.radius(x, y, norm)
    epsilon = float(radius.median())
    found = image_pgd(model, x, y, epsilon=epsilon, norm=norm, loss=loss, restarts=4, steps=40, seed=0)
    clear = (radius / epsilon - 1).abs() > 0.02
    assert 5 < int((radius < epsilon).sum()) < 19
    if loss == "margin":  # cross-entropy may climb towards another class than the nearest
        assert torch.equal(found.fooled[clear], (radius < epsilon)[clear])
    assert not bool((found.fooled & (radius > epsilon * (1 + 1e-9))).any())
    assert (found.size <= epsilon * (1 + 1e-9)).all() and found.images.min() >= 0 and found.images.max() <= 1
    assert torch.equal(model(found.images).argmax(1) != y, found.fooled)
    assert robust_accuracy([found]) == pytest.approx(float((~found.fooled).double().mean()))


def test_bounds_of_the_images_are_kept():
    model, x = Linear(), images() * 0 + torch.tensor([0.0, 1.0] * 8).reshape(1, 1, 4, 4)
    y = model(x).argmax(1)
    found = image_pgd(model, x, y, epsilon=3.0, seed=0)
    assert found.images.min() >= 0 and found.images.max() <= 1 and found.images.dtype == torch.float32
    with pytest.raises(ValueError, match="above upper=1"):
        image_pgd(model, x + 0.5, y, epsilon=1.0, seed=0)
    with pytest.raises(ValueError, match="loss='hinge'"):
        image_pgd(model, x, y, epsilon=1.0, loss="hinge", seed=0)


def test_wrong_images_count_as_fooled_and_modes_return():
    model, x = Linear(), images()
    y = (model(x).argmax(1) + 1) % 4
    model.train()
    found = image_pgd(model, x, y, epsilon=1e-6, steps=1, restarts=1, seed=0)
    assert found.fooled.all() and model.training and robust_accuracy([found]) == 0
    half = ImageAttack(x, torch.arange(24) < 12, torch.zeros(24))
    other = ImageAttack(x, torch.arange(24) >= 6, torch.zeros(24))
    assert robust_accuracy([half]) == 0.5 and robust_accuracy([half, other]) == 0
    with pytest.raises(ValueError, match="at least one"):
        robust_accuracy([])


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(96, 4)).eval()


@pytest.mark.parametrize("norm, epsilon", [("l2", 0.13), ("linf", 0.04)])
def test_foolbox_and_our_pgd_agree(norm, epsilon):
    pytest.importorskip("pyautoattack")
    model, x = network(), 3 * images(40) - 1
    y = model(x).argmax(1)
    ours = image_pgd(model, x, y, epsilon=epsilon, norm=norm, seed=0)
    state = torch.random.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs = foolbox_attack(model, x, y, epsilon=epsilon, norm=norm, steps=40, seed=0)
        again = foolbox_attack(model, x, y, epsilon=epsilon, norm=norm, steps=40, seed=0)
    assert torch.equal(state, torch.random.get_rng_state()) and torch.equal(theirs.images, again.images)
    assert 4 < int(theirs.fooled.sum()) < 36
    # the margin loss goes for the nearest class: never behind by more than a sample or two
    assert int(ours.fooled.sum()) >= int(theirs.fooled.sum()) and int((theirs.fooled & ~ours.fooled).sum()) <= 1
    assert (theirs.size <= epsilon * (1 + 1e-5)).all()
    small = foolbox_attack(model, x, y, epsilon=epsilon, norm=norm, attack="deepfool", seed=0)
    assert (small.size <= epsilon * (1 + 1e-4)).all() and int(small.fooled.sum()) >= 0.7 * int(ours.fooled.sum())


@pytest.mark.parametrize("norm, epsilon", [("l2", 0.13), ("linf", 0.04)])
def test_autoattack_and_our_pgd_agree(norm, epsilon):
    pytest.importorskip("pyautoattack")
    model, x = network(), 3 * images(24) - 1
    y = model(x).argmax(1)
    ours = image_pgd(model, x, y, epsilon=epsilon, norm=norm, seed=0)
    state = torch.random.get_rng_state()
    theirs = autoattack(model, x, y, epsilon=epsilon, norm=norm, attacks=["apgd-t"], seed=0)
    assert torch.equal(state, torch.random.get_rng_state())
    assert 2 < int(theirs.fooled.sum()) < 22 and int((theirs.fooled ^ ours.fooled).sum()) <= 1
    assert (theirs.size <= epsilon * (1 + 1e-5)).all()
    with pytest.raises(ValueError, match="takes images in"):
        autoattack(model, x + 1, y, epsilon=1.0, seed=0)


def test_refusals():
    pytest.importorskip("pyautoattack")
    model, x = Linear(), images(2)
    y = model(x).argmax(1)
    for call, message in (
        (lambda: foolbox_attack(model, x, y, epsilon=1.0, norm="l1", seed=0), "norm='l1'"),
        (lambda: foolbox_attack(model, x, y, epsilon=1.0, attack="magic", seed=0), "attack='magic'"),
        (lambda: autoattack(model, x, y, epsilon=1.0, norm="l1", seed=0), "norm='l1'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
