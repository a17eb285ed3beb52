"""Reversed gradients, and what domain-adversarial training can and cannot remove."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from torch import nn
from torch.nn import functional as F

from sciops.evaluation.probes import probe_errors
from sciops.training.objectives.adversarial import DomainHead, reversal_strength, reverse_gradient


def test_values_pass_and_gradients_are_those_of_the_difference():
    torch.manual_seed(0)
    encoder, task, domain = (nn.Linear(*sizes).double() for sizes in ((3, 4), (4, 2), (4, 3)))
    x, y, d = torch.randn(6, 3).double(), torch.tensor([0, 1, 0, 1, 1, 0]), torch.tensor([0, 1, 2, 0, 1, 2])
    h = encoder(x)
    assert torch.equal(reverse_gradient(h, 0.7), h)
    (F.cross_entropy(task(h), y) + F.cross_entropy(domain(reverse_gradient(h, 0.7)), d)).backward()
    found = [p.grad.clone() for p in encoder.parameters()]
    of_domain = [p.grad.clone() for p in domain.parameters()]
    h = encoder(x)
    losses = F.cross_entropy(task(h), y), F.cross_entropy(domain(h), d)
    wanted = torch.autograd.grad(losses[0] - 0.7 * losses[1], list(encoder.parameters()), retain_graph=True)
    for a, b in zip(found, wanted):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)
    for a, b in zip(of_domain, torch.autograd.grad(losses[1], list(domain.parameters()))):
        torch.testing.assert_close(a, b)

    def both(weight):
        h = x @ weight.T
        return F.cross_entropy(task(h), y) - 0.7 * F.cross_entropy(domain(h), d)

    weight, step = encoder.weight.detach(), 1e-6
    encoder.bias.data.zero_()
    encoder.zero_grad()
    h = encoder(x)
    (F.cross_entropy(task(h), y) + F.cross_entropy(domain(reverse_gradient(h, 0.7)), d)).backward()
    moved = torch.zeros_like(weight)
    moved[1, 2] = step
    numeric = (both(weight + moved) - both(weight - moved)) / (2 * step)
    assert encoder.weight.grad[1, 2].item() == pytest.approx(numeric.item(), rel=1e-6)


def test_it_works_for_each_sample_alone():
    x = torch.randn(5, 3)
    gradients = torch.func.vmap(torch.func.grad(lambda row: reverse_gradient(row, 2.0).square().sum()))(x)
    torch.testing.assert_close(gradients, -4 * x)


def test_the_schedule_and_what_is_wrong():
    assert reversal_strength(0.0) == 0 and reversal_strength(1.0) == pytest.approx(0.9999, abs=1e-4)
    assert reversal_strength(0.1) == pytest.approx(2 / (1 + np.exp(-1)) - 1)
    for call in (
        lambda: reversal_strength(1.5),
        lambda: reverse_gradient(torch.ones(1), float("nan")),
        lambda: DomainHead(3, 1),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()


def _trained(h: torch.Tensor, y: torch.Tensor, g: torch.Tensor, *, largest: float) -> torch.Tensor:
    """Features of a linear encoder that was trained for the class, against the group."""
    torch.manual_seed(0)
    encoder, task, domain = nn.Linear(h.shape[1], 4).double(), nn.Linear(4, 2).double(), DomainHead(4, 2).double()
    modules = nn.ModuleList([encoder, task, domain])
    optimizer = torch.optim.Adam(modules.parameters(), lr=0.02)
    for step in range(250):
        f = encoder(h)
        loss = F.cross_entropy(task(f), y) + F.cross_entropy(
            domain(f, reversal_strength(step / 250, largest=largest)), g
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return encoder(h).detach()


def test_it_removes_a_shift_and_cannot_remove_scatter():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    count = 4000
    y, g = rng.integers(0, 2, count), rng.integers(0, 2, count)
    noise = rng.standard_normal((count, 6))
    half = np.arange(count) < count // 2

    def read(features, labels, rows=True):
        fit, test = half, ~half & rows
        return probe_errors({"": features[fit]}, labels[fit], {"": features[test]}, labels[test])[""].mean()

    # a shift on an axis of its own: the group is gone, the class stays
    h = noise.copy()
    h[:, 0] += 2 * y - 1
    h[:, 1] += 3 * g
    assert read(h, g) < 0.1
    features = _trained(torch.tensor(h), torch.tensor(y), torch.tensor(g), largest=1.0).numpy()
    assert read(features, g) > 0.3 and read(features, y) < 0.19
    # scatter of group 1: accuracy stays below Φ(1/2)
    h = noise.copy()
    h[g == 1] *= 2
    h[:, 0] += 2 * y - 1
    features = _trained(torch.tensor(h), torch.tensor(y), torch.tensor(g), largest=1.0).numpy()
    assert 1 - read(features, y, g == 1) < ndtr(0.5) + 0.03
