"""Feedback alignment is its formula, written out with dense matrices in float64; with B = W it is backpropagation."""

import sys
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import sciops
from sciops.datasets import Splits, TensorFields
from sciops.models import OrthogonalConvolution, OrthogonalNet
from sciops.training import TrainConfig, fit
from sciops.training.gradients import feedback_alignment as rule

EXACT = 1e-12
module = sys.modules["sciops.training.gradients.feedback_alignment"]


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def squares(prediction, batch):
    return ((prediction - batch.y) ** 2).sum() / (2 * len(prediction))


def batch_of(x, y):
    return SimpleNamespace(x=x, y=y, grid=None)


def vectors(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def worst(found, expected):
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, expected, strict=True))


def learnt(model, data, **options):
    model.zero_grad()
    loss = rule(model, squares, data, **options)
    assert torch.allclose(loss, squares(model(data.x), data), rtol=1e-12)
    return [p.grad.clone() for p in model.parameters()]


def by_hand(layers, x, y, back, *, direct):
    """Sample by sample and layer by layer, for tanh layers and a linear head under ½ squared error."""
    weights = [torch.zeros_like(layer.weight) for layer in layers]
    biases = [torch.zeros_like(layer.bias) for layer in layers]
    with torch.no_grad():
        for one, target in zip(x, y):
            h = [one]
            for layer in layers[:-1]:
                h.append(torch.tanh(layer.weight @ h[-1] + layer.bias))
            e = delta = layers[-1].weight @ h[-1] + layers[-1].bias - target
            for l in reversed(range(len(layers))):
                weights[l] += torch.outer(delta, h[l]) / len(x)
                biases[l] += delta / len(x)
                if l:
                    delta = (1 - h[l] ** 2) * (back[l - 1] @ e if direct else back[l].T @ delta)
    return [value for pair in zip(weights, biases) for value in pair]


def mlp(*widths):
    parts = [part for a, b in zip(widths, widths[1:]) for part in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*parts[:-1]).double()


@pytest.mark.parametrize("law", ["orthonormal", "gaussian"])
@pytest.mark.parametrize("direct", [False, True])
def test_both_are_their_formulas(law, direct):
    model, x, y = mlp(6, 9, 7, 7, 4), vectors(5, 6), vectors(5, 4)
    layers = [m for m in model if isinstance(m, nn.Linear)]
    method = "direct" if direct else "layerwise"
    found = learnt(model, batch_of(x, y), method=method, law=law, scale=0.7, seed=3)
    drawn = module._REDRAWN[model][1]
    if direct:
        back = [0.7 * drawn[i] for i in (0, 2, 4)]
        assert [b.shape for b in back] == [(9, 4), (7, 4), (7, 4)]
    else:
        back = [None, *(0.7 * drawn[i].weight for i in (2, 4, 6))]
        assert all(b.shape == layer.weight.shape for b, layer in zip(back[1:], layers[1:]))
    assert worst(found, by_hand(layers, x, y, back, direct=direct)) < EXACT
    if law == "orthonormal":
        for b in back[1:]:
            small = b.T @ b if b.shape[0] > b.shape[1] else b @ b.T
            assert torch.allclose(small, 0.49 * torch.eye(len(small), dtype=b.dtype), atol=1e-12)
    again = learnt(model, batch_of(x, y), method=method, law=law, scale=0.7, seed=3)
    other = learnt(model, batch_of(x, y), method=method, law=law, scale=0.7, seed=4)
    assert all(torch.equal(a, b) for a, b in zip(found, again)) and worst(other, found) > 0.1
    assert torch.equal(found[-2], other[-2])  # the head has its true gradient


def stacks():
    dense = mlp(6, 8, 4)
    yield dense, vectors(5, 6), vectors(5, 4)
    convolution = nn.Sequential(
        OrthogonalConvolution(4, size=3), nn.LeakyReLU(0.5), nn.PixelUnshuffle(2), nn.Conv2d(16, 3, 1), nn.GELU()
    )
    convolution.append(nn.Flatten()).append(nn.Linear(12, 2))
    yield convolution.double(), vectors(3, 4, 4, 4), vectors(3, 2)
    spectral = OrthogonalNet(2, 3, kind="spectral", width=4, depth=2, modes=(2, 3)).double()
    yield spectral, vectors(3, 2, 6, 7), vectors(3, 3, 6, 7)


@pytest.mark.parametrize("case", range(3))
def test_with_the_layers_themselves_it_is_backpropagation(case, monkeypatch):
    model, x, y = [*stacks()][case]
    monkeypatch.setattr(module, "_layerwise", lambda stack, *_: {i: stack.steps[i][1] for i in stack.linear})
    found = learnt(model, batch_of(x, y))
    expected = torch.autograd.grad(squares(model(x), batch_of(x, y)), list(model.parameters()))
    assert worst(found, expected) < EXACT


@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize("method", ["layerwise", "direct"])
def test_every_kind_of_layer_has_a_random_one(case, method):
    model, x, y = [*stacks()][case]
    found = learnt(model, batch_of(x, y), method=method)
    expected = torch.autograd.grad(squares(model(x), batch_of(x, y)), list(model.parameters()))
    assert worst(found[-2:], expected[-2:]) < EXACT and worst(found[:1], expected[:1]) > 0.05


def test_dropout_uses_the_mask_of_the_pass(monkeypatch):
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3)).double()
    monkeypatch.setattr(module, "_layerwise", lambda stack, *_: {i: stack.steps[i][1] for i in stack.linear})
    data = batch_of(vectors(5, 6), vectors(5, 3))
    torch.manual_seed(1)
    rule(model, squares, data)
    found = [p.grad.clone() for p in model.parameters()]
    torch.manual_seed(1)
    mask = F.dropout(torch.ones(5, 8, dtype=torch.float64), 0.5)
    out = model[3](mask * torch.tanh(model[0](data.x)))
    assert worst(found, torch.autograd.grad(squares(out, data), list(model.parameters()))) < EXACT


def test_layers_come_to_agree_with_the_random_ones():
    """The angle between ∂W_1 and the true gradient closes in training: what the method is named for."""
    model, x = mlp(8, 16, 4), vectors(200, 8)
    y = x @ vectors(8, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    cosines = []
    for step in range(150):
        optimizer.zero_grad()
        rule(model, squares, batch_of(x, y))
        if step in (0, 149):
            true = torch.autograd.grad(squares(model(x), batch_of(x, y)), model[0].weight)[0]
            cosines.append(float(F.cosine_similarity(model[0].weight.grad.flatten(), true.flatten(), dim=0)))
        optimizer.step()
    assert abs(cosines[0]) < 0.4 < 0.6 < cosines[1], cosines


def test_fit_trains_by_it_and_goes_on_bit_for_bit(tmp_path):
    x = torch.randn(32, 1, 8)
    data = Splits(TensorFields(x, x.roll(2, 2), sciops.Grid((8,), centering="periodic")))
    how = {"gradients": "feedback_alignment", "batch_size": 8, "learning_rate": 0.02, "progress": False}

    def net():
        torch.manual_seed(1)
        return sciops.build_model("orthogonal", kind="spectral", width=4, depth=2, modes=[4])

    run = fit(net(), data, TrainConfig(epochs=4, **how))
    fit(net(), data, TrainConfig(epochs=4, stop_after=2, folder=tmp_path, **how))
    again = fit(net(), data, TrainConfig(epochs=4, resume=True, folder=tmp_path, **how))
    assert all(torch.equal(a, b) for a, b in zip(again.model.parameters(), run.model.parameters()))


def test_refusals():
    model, data = mlp(6, 8, 4), batch_of(vectors(5, 6), vectors(5, 4))
    for option in ({"method": "both"}, {"law": "x"}, {"scale": 0.0}):
        with pytest.raises(ValueError, match=f"feedback_alignment: {next(iter(option))}="):
            rule(model, squares, data, **option)
    convolution, x, y = [*stacks()][1]
    with pytest.raises(TypeError, match="Conv2d, cannot be redrawn with law='gaussian'; pass method='direct'"):
        rule(convolution, squares, batch_of(x, y), law="gaussian")
