"""The rate against torch's own one-cycle schedule, and its values at the ends."""

from __future__ import annotations

import math

import pytest
import torch

from sciops.training import TrainConfig, rate_factor
from sciops.training.schedule import cycled_beta1


def test_onecycle_follows_torchs_scheduler_to_the_length_of_a_step():
    steps = 4000
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([weight], lr=1.0)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=steps, pct_start=0.3)
    for step in range(steps):
        done = step / steps
        # a step moves the rate by at most π/(2·0.3·steps) < 6/steps; the two count their steps from ends one apart
        assert abs(rate_factor("onecycle", done, warmup=0.3) - optimizer.param_groups[0]["lr"]) < 6 / steps
        assert abs(cycled_beta1(done, warmup=0.3) - optimizer.param_groups[0]["betas"][0]) < 0.6 / steps
        optimizer.step()
        scheduler.step()


def test_values_at_the_ends_and_the_peak():
    assert rate_factor("onecycle", 0.0, warmup=0.25) == pytest.approx(1 / 25)
    assert rate_factor("onecycle", 0.25, warmup=0.25) == 1
    assert rate_factor("onecycle", 1.0, warmup=0.25) == pytest.approx(1 / 250_000)
    assert rate_factor("onecycle", 0.0, warmup=0.0) == 1
    assert [rate_factor("cosine", t) for t in (0, 0.5, 1)] == pytest.approx([1, 0.5, 0], abs=1e-15)
    assert {rate_factor("constant", t) for t in (0, 0.3, 1)} == {1.0}


def test_onecycle_rises_over_the_warmup_and_falls_after_without_a_jump():
    values = [rate_factor("onecycle", i / 1000, warmup=0.3) for i in range(1001)]
    peak = values.index(max(values))
    assert peak == 300
    assert all(a < b for a, b in zip(values[:peak], values[1 : peak + 1]))
    assert all(a > b for a, b in zip(values[peak:], values[peak + 1 :]))
    assert max(abs(a - b) for a, b in zip(values, values[1:])) < math.pi / 2 / 300


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epochs", 0),
        ("batch_size", 1.5),
        ("learning_rate", -1.0),
        ("learning_rate", math.nan),
        ("clip", 0.0),
        ("weight_decay", -0.1),
        ("betas", (0.9, 1.0)),
        ("warmup", 1.0),
        ("schedule", "linear"),
        ("precision", "float16"),
        ("augment", "rotate"),
        ("objective", "l3"),
        ("gradients", "guess"),
        ("seed", -1),
        ("grid_shares", (0.0, 0.0)),
    ],
)
def test_a_config_that_makes_no_sense_is_refused_naming_the_field(field, value):
    with pytest.raises(ValueError, match=rf"^{field}=.*expected"):
        TrainConfig(**{field: value})
