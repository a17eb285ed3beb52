"""Private gradients: those of a loop, cut and hidden; and what they spend."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sciops
from sciops.training.private import (
    PrivateGradients,
    noise_for,
    poisson_batch,
    private_gradients,
    sample_gradients,
    spent_epsilon,
)

GRID = sciops.Grid((8, 8))


def mean_square(call, record):
    x, y = record
    return F.mse_loss(call(x), y)


def looped(model, batch):
    found = []
    for x, y in zip(*batch):
        model.zero_grad()
        F.mse_loss(model(x[None]), y[None]).backward()
        found.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    model.zero_grad()
    return {
        name: torch.stack([one.get(name, torch.zeros_like(p)) for one in found]) for name, p in model.named_parameters()
    }


OPERATORS = {
    "fourier": ("fno", {"modes": (2, 2)}),
    "sine-cosine": ("fno", {"modes": (2, 2), "basis": "sine-cosine"}),
    "multipole": ("mano", {"levels": 2}),
}


@pytest.mark.parametrize("case", OPERATORS)
def test_gradients_of_records_are_those_of_a_loop(case):
    torch.manual_seed(0)
    name, options = OPERATORS[case]
    model = sciops.build_model(name, in_channels=1, out_channels=1, width=4, depth=2, grid=GRID, **options).double()
    batch = torch.randn(3, 1, 8, 8).double(), torch.randn(3, 1, 8, 8).double()
    found = sample_gradients(model, mean_square, batch)
    for parameter, wanted in looped(model, batch).items():
        torch.testing.assert_close(found[parameter], wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", sciops.zoo.names())
def test_gradients_of_records_of_every_model_of_the_zoo(name):
    """Trained weights, in float64, on fields of another size; labels of digits."""
    torch.manual_seed(0)
    model = sciops.load_model(f"zoo:{name}").double().eval()
    if name.startswith("digits"):
        batch = torch.rand(3, 1, 8, 8).double(), torch.tensor([1, 7, 3])
        loss = F.cross_entropy
    elif name.startswith("burgers"):
        batch, loss = tuple(torch.randn(2, 3, 1, 32).double()), F.mse_loss
    elif name.startswith("navier"):
        batch, loss = tuple(torch.randn(2, 3, 1, 32, 32).double()), F.mse_loss
    else:
        batch, loss = (
            (3.0 + 9.0 * (torch.rand(3, 1, 33, 33) > 0.5).double(), torch.randn(3, 1, 33, 33).double()),
            F.mse_loss,
        )
    found = sample_gradients(model, lambda call, record: loss(call(record[0]), record[1]), batch)
    for i in range(3):
        model.zero_grad()
        loss(model(batch[0][i : i + 1]), batch[1][i : i + 1]).backward()
        for parameter, p in model.named_parameters():
            if p.grad is not None:
                scale = max(1.0, p.grad.abs().max().item())
                torch.testing.assert_close(found[parameter][i], p.grad, rtol=0, atol=1e-10 * scale)


def test_without_noise_and_cut_it_is_plain_descent_and_cut_norms_stay_below_the_cut():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    batch = torch.randn(6, 3).double(), 9 * torch.randn(6, 2).double()
    norms = private_gradients(model, mean_square, batch, private=PrivateGradients(0.0, math.inf, 6))
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    F.mse_loss(model(batch[0]), batch[1]).backward()
    for a, b in zip(found, model.parameters()):
        torch.testing.assert_close(a, b.grad, rtol=1e-10, atol=1e-12)
    each = looped(model, batch)
    wanted = torch.stack([g.flatten(1).square().sum(1) for g in each.values()]).sum(0).sqrt()
    torch.testing.assert_close(norms, wanted)
    clip = float(norms.median()) * 0.7
    one = [tensor[:1] for tensor in batch]
    private_gradients(model, mean_square, tuple(one), private=PrivateGradients(0.0, clip, 1))
    total = torch.stack([p.grad.square().sum() for p in model.parameters()]).sum().sqrt()
    assert total.item() == pytest.approx(min(clip, norms[0].item()), rel=1e-9)
    private_gradients(model, mean_square, batch, private=PrivateGradients(0.0, clip, 6))
    scaled = {n: (g * (clip / norms).clamp_max(1).view(-1, *[1] * (g.ndim - 1))).sum(0) / 6 for n, g in each.items()}
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, scaled[name], rtol=1e-9, atol=1e-12)


def test_an_empty_batch_is_noise_and_chunks_change_nothing():
    model = nn.Linear(40, 40).double()
    empty = torch.zeros(0, 40).double(), torch.zeros(0, 40).double()
    generator = torch.Generator().manual_seed(0)
    norms = private_gradients(model, mean_square, empty, private=PrivateGradients(2.0, 0.5, 8), generator=generator)
    assert len(norms) == 0 and model.weight.grad.std().item() == pytest.approx(2.0 * 0.5 / 8, rel=0.08)
    batch = torch.randn(5, 40).double(), torch.randn(5, 40).double()
    grads = []
    for chunk in (None, 2):
        private_gradients(model, mean_square, batch, private=PrivateGradients(0.0, 0.1, 5, chunk=chunk))
        grads.append(model.weight.grad.clone())
    torch.testing.assert_close(*grads)


def test_what_was_frozen_stays_and_what_is_shared_counts_once():
    model = nn.Sequential(
        nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    ).double()
    model[1].weight = model[0].weight
    model[2].weight.requires_grad_(False)
    batch = torch.randn(2, 3).double(), torch.randn(2, 3).double()
    found = sample_gradients(model, mean_square, batch)
    assert list(found) == ["0.weight"]
    torch.testing.assert_close(found["0.weight"], looped(model, batch)["0.weight"])


ACCOUNTED = [(1.1, 0.02, 2000, 1e-5), (0.8, 0.01, 1000, 1e-5), (2.0, 0.1, 500, 1e-6), (0.6, 0.004, 3000, 1e-5)]


@pytest.mark.parametrize("numbers", ACCOUNTED)
def test_accountants_agree(numbers):
    """Ours with opacus' count of privacy random variables to 2 %; Rényi's lies above both."""
    pytest.importorskip("opacus")
    options = dict(zip(("noise", "rate", "steps", "delta"), numbers))
    pld, prv, rdp = (spent_epsilon(**options, accountant=name) for name in ("pld", "prv", "rdp"))
    assert pld == pytest.approx(prv, rel=0.02) and pld < rdp < 1.25 * pld


def test_the_least_noise_for_a_budget():
    pytest.importorskip("opacus")
    options = {"rate": 0.02, "steps": 2000, "delta": 1e-5}
    sigma = noise_for(epsilon=4.0, **options)
    assert 3.95 < spent_epsilon(noise=sigma, **options) <= 4.0
    assert spent_epsilon(noise=1.1, accountant="gdp", **options) == pytest.approx(4.708, rel=0.1)
    assert spent_epsilon(noise=0.0, rate=0.5, steps=1, delta=1e-5) == math.inf


def test_batches_are_drawn_record_by_record():
    sizes = [len(poisson_batch(200, 0.05, generator=torch.Generator().manual_seed(i))) for i in range(300)]
    assert 9 < sum(sizes) / 300 < 11 and 2.6 < torch.tensor(sizes).float().std().item() < 3.6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PrivateGradients(-1, 1, 1), "expected a noise of at least 0"),
        (lambda: PrivateGradients(1, math.inf, 1), "protects nothing"),
        (
            lambda: sample_gradients(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), mean_square, torch.zeros(2, 2)),
            "1 is a BatchNorm",
        ),
        (lambda: poisson_batch(3, 0.0), "expected a probability"),
        (lambda: spent_epsilon(noise=1, rate=2, steps=1, delta=0.1), "out of range"),
        (
            lambda: private_gradients(
                nn.Linear(2, 2),
                mean_square,
                (torch.full((2, 2), math.nan), torch.zeros(2, 2)),
                private=PrivateGradients(1, 1, 2),
            ),
            "not finite",
        ),
    ],
)
def test_one_line_for_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
