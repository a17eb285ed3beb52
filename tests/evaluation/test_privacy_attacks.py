"""Scores of generators against plain loops, and the bound from one training against the mechanism it audits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sciops.evaluation.privacy import (
    bootstrap_area,
    deterministic_error_score,
    diffusion_loss_score,
    discriminator_score,
    membership_scores,
    nearest_sample_score,
    one_training_epsilon,
    reconstruction_score,
    roc,
    shadow_masks,
)
from sciops.models.generative import AdversarialNetworks, DiffusionNetworks

RECORDS = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_nearest_sample_is_that_of_a_loop():
    samples = torch.randn(2, 7, 3, generator=generator(1), dtype=torch.float64)
    found = nearest_sample_score(samples, RECORDS)
    for m in range(2):
        for i, z in enumerate(RECORDS):
            assert found[m, i].item() == pytest.approx(-math.log(min(float((z - x).norm()) for x in samples[m])))


def test_losses_are_those_of_the_noise_up_to_a_constant_and_share_their_noises():
    networks = DiffusionNetworks(2, 3, width=4, depth=1, generator=generator()).double()
    found = diffusion_loss_score(networks, RECORDS, times=(0.2, 0.6), draws=3, seed=5)
    e = torch.randn(2, 3, 3, generator=generator(5), dtype=torch.float64)
    for i, z in enumerate(RECORDS):
        value = torch.zeros(2, dtype=torch.float64)
        for t, noises in zip((0.2, 0.6), e):
            alpha, sigma = math.cos(math.pi * t / 2), math.sin(math.pi * t / 2)
            noisy = (alpha * z + sigma * noises).expand(2, 3, 3)
            times = torch.full((2, 3), t, dtype=torch.float64)
            predicted = sigma * noisy + alpha * networks.velocity(noisy, times)
            value -= ((predicted - noises).square().mean(-1).mean(-1) / alpha**2).log() / 2
        torch.testing.assert_close(found[:, i], value)
    torch.testing.assert_close(
        found[:, 2:], diffusion_loss_score(networks, RECORDS[2:], times=(0.2, 0.6), draws=3, seed=5)
    )


def test_the_deterministic_error_is_that_of_steps_by_hand():
    networks = DiffusionNetworks(1, 3, width=4, depth=1, classes=2, generator=generator()).double()
    labels = torch.tensor([0, 1, 1, 0, 1])
    found = deterministic_error_score(networks, RECORDS, labels, time=0.4, step=0.2, before=2)

    def moved(x, now, then):
        v = networks.velocity(x, torch.full(x.shape[:-1], now, dtype=x.dtype), labels[None])
        clean = math.cos(math.pi * now / 2) * x - math.sin(math.pi * now / 2) * v
        noise = math.sin(math.pi * now / 2) * x + math.cos(math.pi * now / 2) * v
        return math.cos(math.pi * then / 2) * clean + math.sin(math.pi * then / 2) * noise

    x = moved(moved(RECORDS[None], 0.0, 0.2), 0.2, 0.4)
    error = (moved(moved(x, 0.4, 0.6), 0.6, 0.4) - x).norm(dim=-1)
    torch.testing.assert_close(found, -error.log())


def test_the_generator_finds_what_it_can_make_and_the_judge_is_asked_as_it_is():
    networks = AdversarialNetworks(2, 3, latent=3, width=8, depth=1, classes=2, generator=generator()).double()
    labels = torch.tensor([0, 1, 1, 0, 1])
    with torch.no_grad():
        w = torch.randn(2, 5, 3, generator=generator(3), dtype=torch.float64)
        made = networks.generated(w, labels.expand(2, -1))[0]
    before, after = (
        reconstruction_score(networks, made, labels, starts=20, steps=steps, learning_rate=0.1) for steps in (0, 400)
    )
    assert (after >= before).all() and (after[0] > before[0] + 1).all(), "the first model made these"
    wanted = networks.judged(RECORDS.expand(2, -1, -1), labels.expand(2, -1))
    torch.testing.assert_close(discriminator_score(networks, RECORDS, labels), wanted.detach())


@pytest.mark.parametrize(("mu", "delta"), [(0.0, 0.0), (1.0, 1e-5), (2.5, 1e-5)])
def test_one_training_rules_out_too_much_in_at_most_a_twentieth(mu, delta):
    """Each coin's Gaussian mechanism has ε(δ) of its own, which the bound must stay below."""
    from sciops.evaluation.privacy import gaussian_epsilon

    rng = np.random.default_rng(0)
    epsilon = gaussian_epsilon(max(delta, 1e-12), mu) if mu else 0.0
    bounds = []
    for _ in range(60):
        coins = rng.random(1000) < 0.5
        bounds.append(one_training_epsilon(rng.standard_normal(1000) + mu * coins, coins, delta=delta))
    assert np.mean(np.array(bounds) > epsilon) <= 0.1
    assert np.median(bounds) >= 0.1 * epsilon


def test_all_right_guesses_have_a_closed_form():
    """P(B = r) = p^r: ε̂ = logit of risk^(1/r)."""
    coins = np.arange(200) < 100
    found = one_training_epsilon(coins.astype(float), coins, shares=(1.0,))
    p = 0.05 ** (1 / 200)
    assert found == pytest.approx(math.log(p / (1 - p)), rel=1e-6)
    assert one_training_epsilon(coins.astype(float), ~coins) == 0.0
    assert one_training_epsilon(coins.astype(float), coins, shares=(1.0,), delta=1e-3) < found


def test_the_complement_of_the_target_is_no_shadow():
    """Offsets of models say nothing of records: without a signal each model has an AUC of a half."""
    masks = shadow_masks(8, 4000, coins=True, seed=0)
    assert abs(masks[0].mean() - 0.5) < 0.04 and (masks[0] ^ masks[1]).all()
    rng = np.random.default_rng(1)
    phi = rng.standard_normal((8, 4000)) + 3 * rng.standard_normal((8, 1))
    for attack in ("online", "offline", "relative", "relative_online"):
        found = membership_scores(phi, masks, attack=attack)
        for m in range(8):
            assert roc(found[m], masks[m]).area == pytest.approx(0.5, abs=0.03)
    moved = phi.copy()
    moved[1] += 100.0
    np.testing.assert_array_equal(membership_scores(moved, masks)[0], membership_scores(phi, masks)[0])


def test_relative_scores_order_as_their_formula():
    rng = np.random.default_rng(1)
    masks = shadow_masks(8, 40, seed=0)
    phi = rng.standard_normal((8, 40)) + masks
    found = membership_scores(phi, masks, attack="relative_online")
    others = np.arange(8) > 1  # without the target and its complement
    mean = [np.mean(phi[others & (masks[:, i] == kind), i]) for kind in (True, False) for i in range(40)]
    excess = phi[0] - np.reshape(mean, (2, 40)).mean(0)
    np.testing.assert_allclose(found[0], [(excess <= e).mean() for e in excess])


def test_pools_narrow_the_interval():
    rng = np.random.default_rng(0)
    masks = np.stack([shadow_masks(4, 60, seed=i) for i in range(6)])
    scores = rng.standard_normal(masks.shape) + masks
    one = np.diff(bootstrap_area(scores[0], masks[0], draws=80))
    low, high = bootstrap_area(scores, masks, draws=80)
    assert high - low < 0.7 * one and low < 0.76 < high + 0.03


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: one_training_epsilon([1.0], [True, False]), "expected equal"),
        (lambda: one_training_epsilon([math.nan, 1.0], [True, False]), "1 of 2 are NaN"),
        (lambda: one_training_epsilon([0.0, 1.0], [True, False], shares=(2.0,)), "out of range"),
        (lambda: nearest_sample_score(torch.zeros(1, 2, 3), torch.zeros(3)), "expected"),
        (lambda: nearest_sample_score(torch.zeros(1, 2, 3), torch.full((1, 3), math.nan)), "1 records are not finite"),
        (lambda: deterministic_error_score(DiffusionNetworks(1, 3), RECORDS.float(), time=0.95), "time=0.95"),
        (lambda: bootstrap_area(np.zeros(3), np.zeros(3)), "expected equal"),
    ],
)
def test_one_line_for_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
