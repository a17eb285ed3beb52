"""Weights fitted again: the points stay, the loss is that of the stated weights, and it falls to the entropy."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from sciops import Grid, build_model
from sciops.uncertainty import law_of, nearest, refit_weights

GRID = Grid((9,))


def model(seed: int = 0, kind: str = "quantized"):
    torch.manual_seed(seed)
    options = {"points": 2} if kind == "quantized" else {"members": 2}
    return build_model(f"{kind}:fno", in_channels=1, out_channels=1, width=4, depth=1, modes=3, grid=GRID, **options)


def data(net, count: int, seed: int):
    """Fields of one amplitude a each; the output is the first point with probability a, else the second."""
    random = torch.Generator().manual_seed(seed)
    a = 0.2 + 0.6 * torch.rand(count, generator=random)
    x = a[:, None, None].expand(count, 1, 9).contiguous()
    points = law_of(net, x, GRID).points
    second = (torch.rand(count, generator=random) >= a).long()
    return x, points[torch.arange(count), second], a


def log_loss(net, x, y) -> float:
    law = law_of(net, x, GRID)
    winner = nearest(y, law.points, GRID)
    return -float(law.weights.double()[torch.arange(len(x)), winner].log().mean())


def test_the_weights_become_the_probabilities_and_nothing_else_changes():
    net = model()
    (x, y, _), (v, w, _), (t, _, a) = (data(net, n, seed) for n, seed in ((2000, 1), (500, 2), (100, 3)))
    old, law, naive = deepcopy(net.state_dict()), law_of(net, t, GRID), log_loss(net, v, w)
    before, after = refit_weights(net, (x, y), (v, w), GRID, generator=torch.Generator().manual_seed(0))
    assert before == pytest.approx(naive, rel=1e-6) and after == pytest.approx(log_loss(net, v, w), rel=1e-6)
    assert after < before - 0.01
    new = law_of(net, t, GRID)
    assert torch.equal(law.points, new.points) and torch.equal(law.spread, new.spread)
    assert float((new.weights[:, 0] - a).abs().mean()) < 0.05
    changed = [name for name, value in net.state_dict().items() if not torch.equal(old[name], value)]
    assert changed and all("weight_features" in name or "weight_head" in name for name in changed)
    assert all(p.grad is None and p.requires_grad for p in net.parameters())


def test_weights_that_would_be_worse_on_validation_fields_are_not_taken():
    net = model()
    x, y, _ = data(net, 200, 1)
    other = law_of(net, x, GRID).points.flip(1)[:, 0]  # validation: the second point alone
    refit_weights(net, (x, other), (x, other), GRID, generator=torch.Generator().manual_seed(0))
    old = deepcopy(net.state_dict())
    first = law_of(net, x, GRID).points[:, 0]
    before, after = refit_weights(net, (x, first), (x, other), GRID, generator=torch.Generator().manual_seed(0))
    assert before == after and all(torch.equal(old[name], value) for name, value in net.state_dict().items())


def test_what_cannot_be_refitted():
    net, (x, y, _) = model(), data(model(), 4, 0)
    random = torch.Generator()
    with pytest.raises(TypeError, match="Ensemble has no weights of points"):
        refit_weights(model(kind="ensemble"), (x, y), (x, y), GRID, generator=random)
    with pytest.raises(ValueError, match="validation: 0 inputs, 0 outputs"):
        refit_weights(net, (x, y), (x[:0], y[:0]), GRID, generator=random)
    with pytest.raises(ValueError, match="steps=0"):
        refit_weights(net, (x, y), (x, y), GRID, generator=random, steps=0)
