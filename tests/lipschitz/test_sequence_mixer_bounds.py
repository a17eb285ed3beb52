"""Bounds of mixers along a sequence against their Jacobians."""

from __future__ import annotations

import pytest
import torch

from sciops import Grid
from sciops.lipschitz import lipschitz_bound
from sciops.mixers import MIXERS, SequenceMixer

GRIDS = [Grid((9,)), Grid((9,), centering="cell"), Grid((3, 4))]


def made(name, **options):
    torch.manual_seed(0)
    mixer = MIXERS[name](6, **options).double()
    with torch.no_grad():
        for p in mixer.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return mixer


def stretch(mixer, grid, x):
    matrix = torch.autograd.functional.jacobian(lambda x: mixer(x, grid), x).reshape(x.numel(), x.numel())
    w = torch.from_numpy(grid.weights()).flatten().repeat_interleave(6).sqrt()
    return float(torch.linalg.matrix_norm(w[:, None] * matrix / w, 2))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize(
    "name, options, radius",
    [
        ("mean_pool", {}, None),
        ("mean_pool", {"causal": True}, None),
        ("self_attention", {"heads": 2}, 1.5),
    ],
)
def test_never_below_a_jacobian(grid, name, options, radius):
    mixer = made(name, **options)
    bound = float(lipschitz_bound(mixer, grid, radius=radius).value)
    ratios = []
    for seed in range(12):
        x = torch.randn(1, *grid.shape, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        x = x * (0.3, 3.0)[seed % 2]
        if radius is not None:
            x = radius * x / x.norm(dim=-1, keepdim=True)
        elif seed > 7:  # every GELU where it is the identity: the bound is then a product of norms
            x = x + 30 * mixer.of_summary.weight.sum(0)
        ratios.append(bound / stretch(mixer, grid, x))
    assert 1 <= min(ratios) < 20


def test_no_mixer_moves_nothing():
    assert float(lipschitz_bound(MIXERS["none"](6), GRIDS[0]).value) == 0


def test_every_mixer_along_a_sequence_has_a_bound_or_a_reason():
    for name, kind in MIXERS.items():
        if issubclass(kind, SequenceMixer):
            bound = lipschitz_bound(kind(8), GRIDS[0])
            assert bound.value is not None or "no rule for this mixer" not in str(bound), name
            assert (bound.value is None) == (name not in ("mean_pool", "none")), name
    with_window = lipschitz_bound(MIXERS["self_attention"](8, window=3), GRIDS[0], radius=1.0)
    assert with_window.value is None and "whole, bidirectional" in str(with_window)
