"""A batch of 0 goes through every model, objective and error, and backwards with gradients of 0."""

from __future__ import annotations

import pytest
import torch

from sciops import metrics
from sciops.datasets import Normalizer
from sciops.grids import Grid
from sciops.mixers import MIXERS
from sciops.models import Latent, Normalized, Stepper, SymmetryAveraged, build_model
from sciops.models.apply import apply_model
from sciops.symmetry import Symmetry
from sciops.training.objectives import OBJECTIVES, TOKEN_OBJECTIVES

GRID, SMALL = Grid((8, 8)), dict(width=8, depth=2)
OPTIONS = {
    "spectral": dict(modes=2),
    "multipole": dict(heads=2, window=3),
    "window": dict(heads=2, window=3),
    "slices": dict(heads=2, slices=3),
    "state_space": dict(state=4),
}
CLASSES = dict(widths=(8, 8), depths=(1, 2), out_channels=3, patch=2, drop_path=0.2)
THEIRS = dict(image_size=8, patch=2, width=8, heads=2, out_channels=3)


def on_nodes():
    return build_model("fno", modes=2, grid=GRID, **SMALL)


def fields(batch, *shape):
    return torch.rand(batch, 1, *(shape or (8, 8)), generator=torch.Generator().manual_seed(1)) + 1


def signals(batch):
    return fields(batch, 7)


def tokens(batch):
    return torch.ones(batch, 6, dtype=torch.int64)


def audio(batch):
    return fields(batch, 2000)[:, 0]


MODELS = {
    **{
        name: (
            lambda name=name: build_model(
                "operator", mixer=name, mixer_options=OPTIONS.get(name, {}), grid=GRID, **SMALL
            ),
            fields,
        )
        for name in MIXERS
    },
    "classic": (
        lambda: build_model("fno", modes=2, block="classic", local=True, norm="instance", grid=GRID, **SMALL),
        fields,
    ),
    "dealiased": (
        lambda: build_model("fno", modes=2, basis="sine", dealias=2, wall="zero", local=True, grid=GRID, **SMALL),
        fields,
    ),
    "corrector": (lambda: build_model("corrector", modes=2, grid=GRID, **SMALL), fields),
    "effective_coefficient": (lambda: build_model("effective_coefficient", grid=GRID, **SMALL), fields),
    **{
        f"recurrent {rule}": (lambda rule=rule: build_model("recurrent", width=4, backward=rule), signals)
        for rule in ("exact", "loop", "truncated", "state_feedback", "highway")
    },
    **{
        f"classifier {name}": (lambda name=name: build_model("classifier", mixer=name, **CLASSES), fields)
        for name in ("multipole", "window", "spectral", "attention", "slices")
    },
    "ViT": (lambda: build_model("transformers:ViT", depth=1, **THEIRS), fields),
    "SwinV2": (lambda: build_model("transformers:SwinV2", depths=(1, 1), window=2, **THEIRS), fields),
    "language": (lambda: build_model("language", symbols=5, **SMALL), tokens),
    "encoder_decoder": (lambda: build_model("encoder_decoder", symbols=5, width=8, heads=2), tokens),
    "speech": (lambda: build_model("speech", out_channels=5, depth=1, width=8, bins=8), audio),
    "dense": (lambda: build_model("orthogonal", kind="dense", shape=(8, 8), width=8), fields),
    "convolution": (lambda: build_model("orthogonal", kind="convolution", shape=(8, 8), depth=2), fields),
    "unitary": (lambda: build_model("orthogonal", kind="spectral", modes=(2, 2), width=8), fields),
    "normalized": (lambda: Normalized(on_nodes(), Normalizer(1), Normalizer(1)), fields),
    "latent": (lambda: Latent(on_nodes(), grid=Grid((6, 6))), fields),
    "averaged": (lambda: SymmetryAveraged(on_nodes(), "square", symmetry=Symmetry.of_scalars(1, 1)), fields),
    "stepper": (lambda: Stepper(on_nodes(), channels=1, steps=2), fields),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    if name in ("ViT", "SwinV2"):
        pytest.importorskip("transformers")
    make, drawn = MODELS[name]
    torch.manual_seed(0)
    model = make()

    def called(batch):
        x = drawn(batch)
        y = model(x, x) if name == "encoder_decoder" else apply_model(model, x)
        return y[0] if isinstance(y, tuple) else y

    for training in (True, False):
        model.train(training)
        none = called(0)
        assert none.shape == (0, *called(1).shape[1:])
        none.sum().backward()
        assert not any(p.grad is not None and p.grad.any() for p in model.parameters())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives(name):
    shapes = {"cross_entropy": ((0, 3), (0, 3)), **dict.fromkeys(TOKEN_OBJECTIVES, ((0, 6, 5), (0, 6)))}
    prediction, target = (torch.zeros(shape) for shape in shapes.get(name, ((0, 1, 8, 8), (0, 1, 8, 8))))
    prediction.requires_grad_()
    loss = OBJECTIVES[name](prediction, target.long() if name in TOKEN_OBJECTIVES else target, GRID)
    assert loss.shape == (0,)
    loss.sum().backward()
    assert prediction.grad.shape == prediction.shape


@pytest.mark.parametrize("name", metrics.METRICS)
def test_errors(name):
    assert metrics.METRICS[name](fields(0), fields(0), GRID).shape == (0,)
