"""Models that stretch as far as their bound says: all weights positive, so that every path adds up along constants.

A rule that leaves out a factor or a path lies below the Jacobian here, where random weights would hide it.
"""

import warnings

import pytest
import torch
import torch.nn.functional as F
from stretching import jacobian, stretch
from torch import nn

from sciops import Grid, build_model
from sciops.lipschitz import lipschitz_bound
from sciops.lipschitz.bounds.pointwise import GELU
from sciops.mixers import SpectralMixer
from sciops.models.operator import Operator
from sciops.models.stepper import Stepper


def aligned(model):
    """Every matrix a positive multiple of ones, spectral layers in mode 0 alone; activations far on their slope 1."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.is_complex() or name.endswith("parts.0.weight"):
                p.zero_()
            elif p.ndim > 1 and "skips" not in name and "local" not in name:
                p.fill_(4.0 / p.shape[1])
            elif "bias" in name:
                p.zero_()
            else:
                p.fill_(0.7)
        for module in model.modules():
            if isinstance(module, SpectralMixer):
                module.parts[0].weight[(0,) * len(module.modes)][:, 0] = 0.8 / module.channels
            weight = getattr(getattr(module, "weight", None), "tensor", None)
            if weight is not None:  # of neuraloperator, centred: frequency 0 in the middle of all axes but the last
                weight[(slice(None), slice(None), *(n // 2 for n in weight.shape[2:-1]), 0)] = 0.8 / weight.shape[0]
    return model


@pytest.mark.parametrize("block", ["classic", "residual"])
@pytest.mark.parametrize(
    "options", [{}, {"local": True}, {"layer_scale": 0.7, "mixer_activation": False}, {"dealias": 2}]
)
def test_the_spine(block, options):
    grid = Grid((7,), centering="periodic")
    model = Operator(
        2, 2, width=3, depth=2, block=block, norm="none", mlp="plain", ndim=1, coordinates="none",
        mixer_options={"modes": (2,)}, **options,
    )  # fmt: skip
    model = aligned(model).double()
    true = stretch(model, grid, torch.full((1, 2, 7), 100.0, dtype=torch.float64))
    bound = lipschitz_bound(model, grid).value
    activations = sum(isinstance(m, nn.GELU) for m in model.modules()) + (1 if block == "classic" else 4)
    assert true <= bound <= true * GELU**activations * (1 + 1e-6)


def test_gated_maps_in_the_ball_of_their_tokens():
    model = Operator(1, 1, width=3, depth=1, norm="none", ndim=1, coordinates="none", mixer_options={"modes": (2,)})
    model, grid = aligned(model).double(), Grid((7,), centering="periodic")
    x = torch.full((1, 1, 7), 100.0, dtype=torch.float64)
    tokens = []
    hook = model.blocks[0].mlp_in.register_forward_pre_hook(lambda _, inputs: tokens.append(inputs[0].detach()))
    true = stretch(model, grid, x)
    hook.remove()
    bound = lipschitz_bound(model, grid, radius=float(tokens[0].norm(dim=-1).max()) * (1 + 1e-12)).value
    assert true <= bound <= true * GELU**4 * (1 + 1e-3)


VARIANTS = [
    ("FNO", {}),
    ("FNO", {"fno_skip": "identity"}),
    ("FNO", {"fno_skip": "soft-gating", "channel_mlp_skip": "linear"}),
    ("FNO", {"channel_mlp_skip": None}),
    ("FNO", {"use_channel_mlp": False}),
    ("FNO", {"preactivation": True}),
    ("FNO", {"preactivation": True, "norm": "batch_norm"}),
    ("FNO", {"norm": "batch_norm"}),
    ("UNO", {"depth": 3, "lifting_channels": 4, "projection_channels": 4, "uno_scalings": [[1, 1]] * 3}),
]


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_neuralop(name, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"width": 3, "depth": 2, "modes": (4, 4), "positional_embedding": None} | options
        model = aligned(build_model(f"neuralop:{name}", **options)).eval()
        for module in model.modules():
            if hasattr(module, "non_linearity"):
                module.non_linearity = F.relu
            if isinstance(module, nn.BatchNorm2d):
                module.running_var.fill_(0.2)
        grid = Grid((8, 8), centering="periodic")
        true = stretch(model, grid, torch.ones(1, 1, 8, 8))
    bound = lipschitz_bound(model, grid).value
    # joined skips are added as if they were orthogonal, and ones of unequal halves are no singular vector
    assert true <= bound * (1 + 1e-5) and bound <= true * (1.5 if name == "UNO" else 1 + 1e-4)


@pytest.mark.parametrize(("history", "constants", "steps"), [(1, 0, 3), (1, 1, 3), (3, 0, 5), (2, 1, 4)])
@pytest.mark.parametrize("residual", [True, False])
def test_steppers(history, constants, steps, residual):
    """A step that adds up its channels: growth by ℓ a step with one frame, and by what the window holds with more."""
    inner = aligned(nn.Sequential(nn.Conv1d(history + constants, 1, 1, bias=False))).double()
    inner.config = {"name": "sum", "options": {"in_channels": history + constants}}
    stepper = Stepper(inner, channels=1, history=history, steps=steps, residual=residual)
    grid = Grid((4,), centering="periodic")
    true = stretch(stepper, grid, torch.ones(1, history + constants, 4, dtype=torch.float64))
    bound = lipschitz_bound(stepper, grid).value
    alone = history == 1 and not constants and residual
    assert true <= bound * (1 + 1e-12) and bound <= true * (1 + 1e-9 if alone else 40)


def test_the_classifier():
    """Without blocks it is linear; its mean over cells and its ways in are reached by a constant image."""
    model = build_model(
        "classifier", in_channels=1, out_channels=2, patch=2, widths=(3, 4), depths=(0, 0), norm="none", position="none"
    )
    model = aligned(model).double()
    matrix, _ = jacobian(model, torch.ones(1, 1, 8, 8, dtype=torch.float64), None)
    true = float(torch.linalg.matrix_norm(matrix, 2))
    assert true <= lipschitz_bound(model, Grid((8, 8), centering="cell")).value <= true * (1 + 1e-9)
