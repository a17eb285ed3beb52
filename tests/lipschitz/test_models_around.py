"""Models around models: parts of the spine that were exchanged, steppers, averages over symmetries, classifiers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import LINE, SQUARE, Residual, Standardised, hooked, reason, spine, stretched
from stretching import jacobian
from torch import nn

from sciops import Grid, build_model
from sciops.lipschitz import lipschitz_bound, log_lipschitz_penalty
from sciops.models.wrappers.stepper import Stepper
from sciops.models.wrappers.symmetry import SymmetryAveraged
from sciops.symmetry import Symmetry


def test_swapped_parts_of_the_spine():
    grid = Grid((6,), centering="cell")

    def swap(model, path, part):
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, part)
        return model

    for path, part, why in (
        ("blocks.0.mlp_in", Standardised(3, 6), "mlp_in"),
        ("blocks.0.after_mixer", Standardised(3, 3), "after_mixer"),
        ("blocks.0.norm1", nn.Sequential(nn.Identity()), "no finite bound"),
        ("blocks.0.mixer", nn.Bilinear(3, 3, 3), "no rule for Bilinear"),
        ("lift", Residual(*spine().lift), "Residual as a pointwise map"),
        ("lift.1", nn.CELU(-1.0), "alpha"),
        ("project.2", Standardised(6, 1), "no rule for Standardised"),
        ("norm", nn.Hardtanh(), "no finite bound"),
        ("blocks.0", nn.Linear(3, 3), "no rule for a block"),
    ):
        assert why in reason(swap(spine(), path, part), grid), path
    plain = lipschitz_bound(spine(), grid).value
    sharper = lipschitz_bound(swap(spine(), "lift.1", nn.LeakyReLU(7.0)), grid)
    assert plain is not None and [b for b in sharper.blocks if b.name == "lift"][0].value is not None


def test_in_place_layers_on_an_input_that_is_used_again():
    first = nn.Sequential(nn.LeakyReLU(-3.0, inplace=True), nn.Conv1d(1, 1, 1))
    assert lipschitz_bound(first, LINE).value is not None
    assert "in place" in reason(Stepper(first, channels=1))
    image = nn.Sequential(nn.Identity(), nn.LeakyReLU(-3.0, inplace=True), nn.Conv2d(1, 1, 1))
    assert "in place" in reason(SymmetryAveraged(image, symmetry=Symmetry.of_scalars()), SQUARE)
    for view in (nn.AlphaDropout(0.3).eval(), nn.FeatureAlphaDropout(0.3).eval(), nn.ChannelShuffle(1)):
        behind = nn.Sequential(view, nn.LeakyReLU(3.0, inplace=True), nn.Conv1d(1, 1, 1, bias=False)).double()
        model, x = Stepper(behind, channels=1), torch.randn(1, 1, 4, dtype=torch.float64)
        bound, kept = lipschitz_bound(model, LINE).value, x.clone()
        view(x).mul_(2.0)
        if not torch.equal(x, kept):  # the layer gave its input itself
            assert bound is None, view
        elif bound is not None:
            assert stretched(model, LINE, kept)[0] == pytest.approx(bound)
    later = nn.Sequential(nn.Conv1d(1, 1, 1), nn.LeakyReLU(-3.0, inplace=True), nn.Conv1d(1, 1, 1))
    assert lipschitz_bound(Stepper(later, channels=1), LINE).value is not None


def test_a_stepper_that_draws_its_number_of_steps():
    """A network that shrinks what it sees: fewer steps leave more."""
    conv = nn.Conv1d(1, 1, 1, bias=False).double()
    nn.init.constant_(conv.weight, 0.5)
    stepper = Stepper(nn.Sequential(conv), channels=1, steps=3, residual=False, gradient="random").train()
    for stepper.drawn in (1, 2, 3):
        assert lipschitz_bound(stepper, LINE).value == pytest.approx(0.5**stepper.drawn, rel=1e-9)
    assert lipschitz_bound(stepper.eval(), LINE).value == pytest.approx((0.25 + 0.0625 + 0.015625) ** 0.5, rel=1e-9)


def test_the_description_of_a_model_is_not_a_proof():
    """Constants beside the frames stay from step to step, whatever `.config` says of the channels."""
    inner = nn.Sequential(nn.Conv1d(2, 1, 1, bias=False)).double()
    with torch.no_grad():
        inner[0].weight.copy_(torch.tensor([0.1, 1.0])[None, :, None])
    inner.config = {"name": "sum", "options": {"in_channels": 1}}
    stepper = Stepper(inner, channels=1, steps=3, residual=False)
    matrix, _ = jacobian(stepper, torch.ones(1, 2, 4, dtype=torch.float64), LINE)
    assert float(np.linalg.norm(matrix.numpy(), 2)) <= lipschitz_bound(stepper, LINE).value


@pytest.mark.parametrize("size", [(1, 1), (3, 3)])
def test_classifiers_of_images_smaller_than_their_stages(size):
    """Stages continue a grid that is too coarse for their mixer by zeros."""
    torch.manual_seed(0)
    model = build_model(
        "classifier", in_channels=1, out_channels=3, mixer="spectral", patch=2, widths=(4, 4), depths=(1, 1),
        norm="none", mixer_options={"modes": (2, 2)},
    )  # fmt: skip
    x = torch.randn(1, 1, *size, dtype=torch.float64)
    bound, true = lipschitz_bound(model, Grid(size, centering="cell")).value, None
    true = float(np.linalg.norm(jacobian(model.double(), x, None)[0].numpy(), 2))
    assert true <= bound


def test_penalties_name_what_was_changed():
    model = spine()
    hooked(model.blocks[0].mlp_in)
    with pytest.raises(ValueError, match="block 0 has no finite bound.*mlp_in: nothing as a forward hook"):
        log_lipschitz_penalty(model, Grid((6,), centering="cell"))
