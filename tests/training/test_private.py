"""Private gradients: those of a loop, cut and hidden; and what they spend."""

from __future__ import annotations

import math

import numpy as np
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


def looped(call, batch, model=None):
    found, model = [], model or call
    for x, y in zip(*batch):
        model.zero_grad()
        F.mse_loss(call(x[None]), y[None]).backward()
        found.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    model.zero_grad()
    return {
        name: torch.stack([one.get(name, torch.zeros_like(p)) for one in found]) for name, p in model.named_parameters()
    }


NODES = sciops.Grid((9, 9))
SMALL = {"width": 4, "depth": 1}
FOURIER = SMALL | {"modes": (2, 2), "grid": GRID}
ARCHITECTURES = {
    "fno": FOURIER,
    "fno, sines": FOURIER | {"basis": "sine"},
    "fno, cosines": FOURIER | {"basis": "cosine"},
    "fno, sine-cosine": FOURIER | {"basis": "sine-cosine"},
    "fno, classic": FOURIER | {"block": "classic"},
    "mano": SMALL | {"levels": 2, "grid": GRID},
    "smooth_mano": SMALL | {"window": 2, "grid": GRID},
    "linear_pyramid": SMALL | {"window": 2, "grid": GRID},
    "hybrid": FOURIER,
    "corrector": SMALL | {"modes": (2, 2), "grid": NODES},
    "effective_coefficient": {},
    "recurrent, lstm": SMALL | {"cell": "lstm"},
    "recurrent, gru": SMALL | {"cell": "gru"},
    "orthogonal, dense": {"kind": "dense", "shape": (8, 8), "width": 16, "depth": 1},
    "orthogonal, convolution": {"kind": "convolution", "shape": (8, 8), "width": 4, "depth": 1, "patch": 2},
    "orthogonal, spectral": {"kind": "spectral", "width": 1, "depth": 1, "modes": (2, 2)},
    "quantized:fno": FOURIER,
    "quantiles:fno": FOURIER,
    "dropout:fno": FOURIER,
    "ensemble:fno": FOURIER,
    "classifier": {},
    **{
        f"operator, {name}": SMALL
        | {"mixer": name, "grid": GRID}
        | ({"mixer_options": {"modes": (2, 2)}} if name == "spectral" else {})
        for name in sciops.mixers.MIXERS
    },
}


@pytest.mark.parametrize("case", ARCHITECTURES)
def test_gradients_of_records_are_those_of_a_loop(case):
    torch.manual_seed(0)
    name = case.split(",")[0]
    model = sciops.build_model(name, **ARCHITECTURES[case]).double().eval()
    solves = name in ("corrector", "effective_coefficient")
    shape = (8,) if name == "recurrent" else NODES.shape if solves else GRID.shape
    given = (NODES,) if solves else ()
    x = 3.0 + torch.rand(3, 1, *shape).double()
    y = torch.randn_like(model(x, *given).detach())
    batch = x, y

    def loss(call, record):
        return F.mse_loss(call(record[0], *given), record[1])

    fast, slow = (sample_gradients(model, loss, batch, engine=engine) for engine in ("vmap", "loop"))
    wanted = looped(lambda x: model(x, *given), batch, model)
    assert any(g.abs().max() > 1e-8 for g in wanted.values())
    for parameter, expected in wanted.items():
        for found in (fast, slow):
            scale = max(1.0, expected.abs().max().item())
            torch.testing.assert_close(found[parameter], expected, rtol=0, atol=1e-10 * scale)


def test_models_that_map_fields_are_all_tried_or_refused():
    """A new architecture of the registry has to be added above, or to the list of those that need the loop."""
    tried = {case.split(",")[0] for case in ARCHITECTURES} | {"neuralop:FNO", "neuralop:TFNO", "neuralop:UNO"}
    others = {"language", "encoder_decoder", "speech", "speech_encoder", "transformers:ViT", "transformers:SwinV2"}
    assert set(sciops.models.MODELS) == {name for name in tried if name in sciops.models.MODELS} | others
    # the forward pass of a flow is a mean over its own draws: no loop repeats them
    assert {f"{kind}:fno" for kind in sciops.models.DISTRIBUTIONS} - tried == {"flow:fno"}


@pytest.mark.parametrize("name", ["neuralop:FNO", "neuralop:TFNO", "neuralop:UNO"])
def test_models_that_cannot_be_mapped_are_refused_and_served_by_the_loop(name):
    torch.manual_seed(0)
    model = sciops.build_model(name, width=4, modes=(4, 4))  # neuraloperator computes in complex64
    batch = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)
    with pytest.raises(ValueError, match=r"torch.func cannot transform .*: pass engine='loop'"):
        sample_gradients(model, mean_square, batch)
    found = sample_gradients(model, mean_square, batch, engine="loop")
    for parameter, wanted in looped(model, batch).items():
        torch.testing.assert_close(found[parameter], wanted, rtol=1e-5, atol=1e-6)
    private_gradients(model, mean_square, batch, private=PrivateGradients(0.0, 1.0, 2, engine="loop"))
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_statistics_of_records_do_not_leave_by_a_buffer():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen += x.mean(0).detach()
            return self.layer(x)

    batch = torch.randn(2, 3), torch.randn(2, 3)
    model = Counting()
    with pytest.raises(ValueError, match="changes the buffer seen"):
        sample_gradients(model, mean_square, batch, engine="loop")
    with pytest.raises(ValueError, match="cannot transform Counting"):
        sample_gradients(model, mean_square, batch)
    assert not model.seen.any()
    model = sciops.build_model("recurrent", width=4, depth=1, cell="rnn", backward="state_feedback")
    batch = torch.randn(2, 1, 8), torch.randn(2, 1, 8)
    for engine, message in (("vmap", "torch.func cannot transform"), ("loop", "changes the buffer feedback")):
        with pytest.raises(ValueError, match=message):
            sample_gradients(model, mean_square, batch, engine=engine)


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


def test_both_parts_of_a_complex_parameter_are_cut_and_hidden():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(50, 50, dtype=torch.complex128))
            self.scale = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))  # without axes

        def forward(self, x):
            z = self.scale * (x.to(self.weight.dtype) @ self.weight)
            return z.real + 3 * z.imag

    model = Turned()
    batch = torch.randn(1, 50).double(), torch.randn(1, 50).double()
    each = looped(model, batch)
    norms = private_gradients(model, mean_square, batch, private=PrivateGradients(0.0, 0.3, 1))
    wanted = math.sqrt(sum(float(g.abs().square().sum()) for g in each.values()))
    assert norms.item() == pytest.approx(wanted) and wanted > 0.3
    left = math.sqrt(sum(float(p.grad.abs().square().sum()) for p in model.parameters()))
    assert left == pytest.approx(0.3)
    empty = torch.zeros(0, 50).double(), torch.zeros(0, 50).double()
    private_gradients(model, mean_square, empty, private=PrivateGradients(2.0, 0.3, 1))
    for part in (model.weight.grad.real, model.weight.grad.imag):
        assert part.std().item() == pytest.approx(0.6, rel=0.08)


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


# (σ, q, T, δ): ε by dp_accounting 0.6.0, of its privacy loss distribution (lattice of 1e-4) and of its Rényi accountant
ACCOUNTED = {
    (1.1, 0.02, 2000, 1e-5): (4.6977, 5.1347),
    (0.8, 0.01, 1000, 1e-5): (3.1410, 3.6956),
    (2.0, 0.1, 500, 1e-6): (6.2167, 6.6793),
    (0.6, 0.004, 3000, 1e-5): (5.1157, 6.0920),
    (4.0, 0.25, 400, 4e-3): (3.6572, 4.2318),
}


@pytest.mark.parametrize("numbers", ACCOUNTED)
def test_accountants_agree(numbers):
    """Ours, opacus' privacy random variables and dp_accounting's privacy loss distributions; Rényi's lies above."""
    pytest.importorskip("opacus")
    options = dict(zip(("noise", "rate", "steps", "delta"), numbers))
    pld, prv, rdp = (spent_epsilon(**options, accountant=name) for name in ("pld", "prv", "rdp"))
    assert pld == pytest.approx(prv, rel=0.02) and pld < rdp < 1.25 * pld
    other_pld, other_rdp = ACCOUNTED[numbers]
    assert pld == pytest.approx(other_pld, rel=0.005) and other_pld < pld, "both are upper bounds; theirs is finer"
    assert rdp == pytest.approx(other_rdp, rel=0.005)


def test_more_orders_do_not_tighten_renyi():
    """The slack is that of the conversion to (ε, δ)."""
    rdp = pytest.importorskip("opacus.accountants.analysis.rdp")
    orders = list(1 + np.geomspace(0.01, 300, 400))
    noise, rate, steps, delta = 1.1, 0.02, 2000, 1e-5
    spent = rdp.compute_rdp(q=rate, noise_multiplier=noise, steps=steps, orders=orders)
    dense, _ = rdp.get_privacy_spent(orders=orders, rdp=spent, delta=delta)
    assert dense == pytest.approx(spent_epsilon(noise=noise, rate=rate, steps=steps, delta=delta), rel=1e-3)


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
