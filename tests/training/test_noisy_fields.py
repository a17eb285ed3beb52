"""Fields that ignore part of their input: tiles, another sample's field, masked inputs, rollouts."""

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.training.preference import mask_inputs, mixed_rollout, mixed_tiles, mixed_with_another, tile_weights

GRIDS = {
    "node": Grid((13, 9)),
    "cell": Grid((12, 8), centering="cell"),
    "periodic": Grid((12, 8), centering="periodic"),
    "line": Grid(17),
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def rise(t, seam):
    return 0.5 - 0.5 * np.cos(np.pi * np.clip(t / seam + 0.5, 0, 1))


@pytest.mark.parametrize("seam", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("name", GRIDS)
def test_bumps_add_up_to_one_and_the_mean_weight_is_one_minus_alpha(name, seam):
    grid, like = GRIDS[name], torch.empty(0, dtype=torch.float64)
    ones = tile_weights(2, grid, tiles=3, alpha=0.0, seam=seam, like=like)
    torch.testing.assert_close(ones, torch.ones_like(ones), rtol=0, atol=1e-14)
    weights = tile_weights(4000, grid, tiles=3, alpha=0.3, seam=seam, generator=seeded(), like=like)
    assert weights.shape == (4000, 1, *grid.shape) and weights.min() >= -1e-14 and weights.max() <= 1 + 1e-14
    assert (weights.mean(0) - 0.7).abs().max() < 4 * (0.21 / 4000) ** 0.5
    if seam == 0:
        assert set(weights.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("seam", [0.4, 1.0])
@pytest.mark.parametrize("centering", ["node", "periodic"])
def test_one_tile_has_the_shape_of_the_formula(centering, seam):
    """Bits drawn again from the same generator, bumps from their definition, point by point."""
    grid, k = Grid(24, centering=centering), 3
    found = tile_weights(5, grid, tiles=k, alpha=0.5, seam=seam, generator=seeded(1), like=torch.empty(0).double())
    bits = (torch.rand(5, k, generator=seeded(1)) < 0.5).numpy()
    s = k * grid.coordinates()[0]
    bumps = np.zeros((len(s), k))
    for tile in range(k):
        if centering == "periodic":
            for period in (-k, 0, k):
                bumps[:, tile] += rise(s - tile + period, seam) * rise(tile + 1 - s - period, seam)
        else:
            left = 1.0 if tile == 0 else rise(s - tile, seam)
            right = 1.0 if tile == k - 1 else rise(tile + 1 - s, seam)
            bumps[:, tile] = left * right
    np.testing.assert_allclose(found[:, 0].numpy(), bits @ bumps.T, atol=1e-12)


def test_a_mixed_field_is_one_or_the_other_inside_a_tile():
    grid = Grid((12, 12), centering="cell")
    conditional, blind = torch.ones(6, 2, 12, 12), torch.zeros(1, 2, 12, 12)
    field, weights = mixed_tiles(conditional, blind, grid, tiles=2, alpha=0.5, seam=0.2, generator=seeded())
    assert torch.equal(field, weights.expand_as(field))
    assert set(field[:, :, 2, 2].unique().tolist()) == {0.0, 1.0}
    same, _ = mixed_tiles(conditional, blind, grid, tiles=2, alpha=0.0)
    torch.testing.assert_close(same, conditional)
    none, _ = mixed_tiles(conditional, blind, grid, tiles=2, alpha=1.0)
    torch.testing.assert_close(none, blind.expand_as(none))


@pytest.mark.parametrize("n", [2, 3, 10])
def test_every_sample_is_mixed_with_another_and_the_mean_stays(n):
    u = torch.randn(n, 1, 5, dtype=torch.float64, generator=seeded())
    for seed in range(20):
        mixed, partner = mixed_with_another(u, alpha=0.25, generator=seeded(seed))
        assert (partner != torch.arange(n)).all() and sorted(partner.tolist()) == list(range(n))
        torch.testing.assert_close(mixed, 0.75 * u + 0.25 * u[partner])
        torch.testing.assert_close(mixed.mean(0), u.mean(0))


def test_masked_inputs_are_blank_in_the_asked_share():
    x = torch.randn(20_000, 2, 3, generator=seeded())
    blank = torch.tensor([[1.0], [2.0]])
    masked = mask_inputs(x, probability=0.15, blank=blank, generator=seeded(1))
    hidden = (masked == blank).flatten(1).all(1)
    assert float(hidden.double().mean()) == pytest.approx(0.15, abs=3 * (0.1275 / 20_000) ** 0.5)
    assert torch.equal(masked[~hidden], x[~hidden])
    assert torch.equal(mask_inputs(x, probability=0.0), x) and not mask_inputs(x, probability=1.0).any()


def test_a_mixed_rollout_takes_both_steps_from_the_same_state():
    start = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64).view(3, 1, 1)
    frames, blind = mixed_rollout(
        lambda u: 2 * u, lambda u: u + 100, start, steps=6, alpha=0.5, untouched=2, generator=seeded(2)
    )
    assert frames.shape == (3, 6, 1, 1) and not blind[:, :2].any() and 0 < blind.sum() < 12
    for i in range(3):
        u = float(start[i])
        for k in range(6):
            u = u + 100 if blind[i, k] else 2 * u
            assert float(frames[i, k]) == u
    plain, _ = mixed_rollout(lambda u: 2 * u, lambda u: 0 * u, start, steps=3, alpha=0.0)
    assert torch.equal(plain[:, -1], 8 * start)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tile_weights(1, Grid((4, 4)), tiles=5, alpha=0.5), "tiles=5: expected 1"),
        (lambda: tile_weights(1, Grid((4, 4)), tiles=(2,), alpha=0.5), "for each axis"),
        (lambda: tile_weights(1, Grid((4, 4)), tiles=2, alpha=-0.1), "alpha=-0.1: expected a number in 0 … 1"),
        (lambda: tile_weights(1, Grid((4, 4)), tiles=2, alpha=0.1, seam=2), "seam=2"),
        (lambda: mixed_with_another(torch.zeros(1, 1, 4), alpha=0.5), "at least two samples"),
        (lambda: mask_inputs(torch.zeros(1, 1, 4), probability=float("nan")), "probability=nan"),
        (
            lambda: mixed_tiles(torch.zeros(3, 1, 4), torch.zeros(2, 1, 4), Grid(4), tiles=2, alpha=0.5),
            "one blind field",
        ),
        (lambda: mixed_tiles(torch.zeros(3, 1, 5), torch.zeros(3, 1, 5), Grid(4), tiles=2, alpha=0.5), "the grid"),
        (lambda: mixed_rollout(lambda u: u, lambda u: u, torch.zeros(1, 1, 4), steps=0, alpha=0.5), "steps=0"),
        (
            lambda: mixed_rollout(lambda u: u, lambda u: u[:, :, :2], torch.zeros(1, 1, 4), steps=1, alpha=0.5),
            "expected equal shapes",
        ),
    ],
)
def test_wrong_inputs_are_refused_in_one_line(call, said):
    with pytest.raises(ValueError, match=said) as error:
        call()
    assert "\n" not in str(error.value)
