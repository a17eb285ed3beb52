"""The privacy loss distribution against closed forms."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from sciops.evaluation.privacy import composed_epsilon, gaussian_epsilon


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (5.0, 20), (30.0, 900)])
@pytest.mark.parametrize("delta", [1e-3, 1e-7])
def test_without_sampling_it_is_the_gaussian_mechanism(noise, steps, delta):
    """T steps are one Gaussian mechanism with μ = √T/σ; never below it, at most about the rounding above."""
    exact = gaussian_epsilon(delta, math.sqrt(steps) / noise)
    found = composed_epsilon(noise=noise, rate=1.0, steps=steps, delta=delta, error=0.005)
    assert exact <= found <= exact + 0.012


@pytest.mark.parametrize(("noise", "rate"), [(0.7, 0.05), (2.0, 0.4)])
def test_one_sampled_step_has_a_closed_form(noise, rate):
    """δ(ε) = P(L > ε) − e^ε Q(L > ε), the larger of removing and adding a record."""

    def remove(epsilon):
        x = noise**2 * math.log((math.exp(epsilon) - 1 + rate) / rate) + 0.5
        below = (1 - rate) * ndtr(-x / noise) + rate * ndtr((1 - x) / noise)
        return below - math.exp(epsilon) * ndtr(-x / noise)

    def add(epsilon):
        y = math.exp(-epsilon) - 1 + rate
        if y <= 0:
            return 0.0
        x = noise**2 * math.log(y / rate) + 0.5
        return ndtr(x / noise) - math.exp(epsilon) * ((1 - rate) * ndtr(x / noise) + rate * ndtr((x - 1) / noise))

    delta = 1e-4
    exact = brentq(lambda epsilon: max(remove(epsilon), add(epsilon)) - delta, 1e-6, 20)
    found = composed_epsilon(noise=noise, rate=rate, steps=1, delta=delta, error=0.005)
    assert exact <= found <= exact + 0.012


def test_it_grows_with_steps_and_rate_and_is_zero_where_delta_allows_everything():
    values = [composed_epsilon(noise=1.0, rate=0.05, steps=n, delta=1e-5) for n in (10, 100, 1000)]
    assert values == sorted(values) and values[0] < values[2] / 3
    rates = [composed_epsilon(noise=1.0, rate=q, steps=50, delta=1e-5) for q in (0.01, 0.1, 0.5)]
    assert rates == sorted(rates)
    assert composed_epsilon(noise=50.0, rate=0.01, steps=1, delta=0.1) == 0.0


@pytest.mark.parametrize(
    "wrong", [{"noise": 0.0}, {"rate": 0.0}, {"rate": 1.1}, {"steps": 0}, {"delta": 1.0}, {"error": 0.0}]
)
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="out of range"):
        composed_epsilon(**{"noise": 1.0, "rate": 0.1, "steps": 10, "delta": 1e-5} | wrong)
