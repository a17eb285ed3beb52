"""What every mixer promises, whatever its method."""

from __future__ import annotations

import copy

import pytest
import torch
from safetensors.torch import load, save

from sciops.grids import Grid
from sciops.mixers import MIXERS

OPTIONS = {
    "spectral": {"modes": (3, 4)},
    "multipole": {"heads": 2, "window": 3},
    "window": {"heads": 2, "window": 4, "stride": 3},
    "attention": {"heads": 2},
    "slices": {"heads": 2, "slices": 5},
    "convolution": {"size": 3},
    "gradient_products": {"modes": (3, 3), "bank_modes": 5},
}


@pytest.mark.parametrize("name", MIXERS)
def test_samples_of_a_batch_do_not_meet(name):
    torch.manual_seed(0)
    mixer = MIXERS[name](8, **OPTIONS.get(name, {})).double()
    x = torch.randn(3, 10, 7, 8, dtype=torch.float64)
    together = mixer(x, grid=Grid((10, 7)))
    assert together.shape == x.shape
    for i in range(3):
        assert (mixer(x[i : i + 1], grid=Grid((10, 7)))[0] - together[i]).abs().max() < 1e-13


MIXING = [name for name in MIXERS if name != "none"]


@pytest.mark.parametrize("name", MIXING)
def test_information_moves_between_points(name):
    mixer = MIXERS[name](8, **OPTIONS.get(name, {})).double()
    x = torch.randn(1, 9, 9, 8, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(mixer(x)[0, 0, 0].square().sum(), x)
    assert g[0, 1, 0].abs().sum() > 0 and g[0, 0, 1].abs().sum() > 0


@pytest.mark.parametrize("name", MIXERS)
def test_any_memory_layout_gives_the_same(name):
    mixer = MIXERS[name](8, **OPTIONS.get(name, {})).double()
    x = torch.randn(2, 8, 10, 7, dtype=torch.float64).movedim(1, -1)
    assert not x.is_contiguous()
    assert (mixer(x) - mixer(x.contiguous())).abs().max() < 1e-13


@pytest.mark.parametrize("name", MIXERS)
def test_weights_survive_safetensors_and_copies(name):
    torch.manual_seed(0)
    mixer = MIXERS[name](8, **OPTIONS.get(name, {}))
    x = torch.randn(2, 10, 7, 8)
    expected = mixer(x)
    fresh = MIXERS[name](8, **OPTIONS.get(name, {}))
    fresh.load_state_dict(load(save(mixer.state_dict())))
    assert torch.equal(fresh(x), expected)
    assert torch.equal(copy.deepcopy(mixer)(x), expected)


@pytest.mark.parametrize("name", MIXING)
def test_all_weights_learn(name):
    torch.manual_seed(0)
    mixer = MIXERS[name](8, **OPTIONS.get(name, {}))
    mixer(torch.randn(2, 10, 7, 8)).square().sum().backward()
    for key, p in mixer.named_parameters():
        assert p.grad is not None and p.grad.abs().sum() > 0, key
