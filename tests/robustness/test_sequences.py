"""Evidence is the integral it claims to be, a martingale, and its bounds hold at every sample size at once."""

import numpy as np
import pytest
from scipy import integrate, stats

from sciops.robustness.statistics.intervals import clopper_pearson_lower
from sciops.robustness.statistics.sequences import log_evidence, planned_lower, sequence_lower, sequence_upper


def crossing_probability(p, most, bad):
    """P(some n ≤ most has bad[n][k]) for Bernoulli(p) sums k, exactly: the mass that leaves the lattice of (n, k)."""
    mass, out = np.array([1.0]), 0.0
    for n in range(1, most + 1):
        mass = np.append(mass * (1 - p), 0) + np.append(0, mass * p)
        out += mass[bad[n]].sum()
        mass[bad[n]] = 0
    return out


@pytest.mark.parametrize(("s", "t", "p"), [(0, 5, 0.3), (5, 5, 0.3), (12.5, 20, 0.5), (180, 200, 0.8), (3, 40, 0.5)])
def test_evidence_is_the_averaged_likelihood_ratio(s, t, p):
    ratio = lambda q: (q / p) ** s * ((1 - q) / (1 - p)) ** (t - s)  # noqa: E731
    value = integrate.quad(ratio, p, 1, epsabs=0, epsrel=1e-11, limit=200)[0] / (1 - p)
    assert log_evidence(s, t, p) == pytest.approx(np.log(value), abs=1e-9)


@pytest.mark.parametrize("p", [0.02, 0.5, 0.93])
def test_its_mean_is_one_under_the_claim_and_less_below_it(p):
    for t in (1, 10, 60):
        k = np.arange(t + 1)
        evidence = np.exp(log_evidence(k, t, p))
        assert stats.binom.pmf(k, t, p) @ evidence == pytest.approx(1, rel=1e-10)
        assert stats.binom.pmf(k, t, 0.8 * p) @ evidence < 1
    # soft values: one more value of mean p does not raise the evidence in the mean
    rng = np.random.default_rng(0)
    values = rng.beta(2, 2 * (1 - p) / p, size=40_000)
    step = np.exp(log_evidence(6.5 + values, 11, p) - log_evidence(6.5, 10, p))
    assert step.mean() <= 1 + 4 * step.std() / np.sqrt(len(step))


MOST, ALPHA = 150, 0.1


@pytest.fixture(scope="module")
def bounds():
    """Every bound at every (n, k), one array a sample size."""
    n = np.repeat(np.arange(MOST + 1), np.arange(MOST + 1) + 1)[1:]
    k = np.concatenate([np.arange(size + 1) for size in range(1, MOST + 1)])
    found = {
        "lower": sequence_lower(k, n, ALPHA),
        "upper": 1 - sequence_upper(k, n, ALPHA),
        "planned": planned_lower(k, n, ALPHA, most=MOST),
        "fixed": clopper_pearson_lower(k, n, ALPHA),
    }
    return {name: [None, *np.split(values, np.cumsum(np.arange(2, MOST + 1)))] for name, values in found.items()}


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_bounds_hold_uniformly_by_exact_dynamic_programming(p, bounds):
    for name, mean in (("lower", p), ("planned", p), ("upper", 1 - p)):
        bad = [values if values is None else values > mean for values in bounds[name]]
        assert 0 < crossing_probability(p, MOST, bad) <= ALPHA, name
    fixed = [values if values is None else values > p for values in bounds["fixed"]]
    assert crossing_probability(p, MOST, fixed) > 1.5 * ALPHA  # what looking at every n does to a fixed-n bound


def test_the_lower_bound_is_the_first_claim_not_refuted():
    for s, t, alpha in ((45.0, 50, 0.05), (700.0, 1000, 1e-3), (3.0, 30, 0.2), (99_000.0, 100_000, 1e-3)):
        bound = sequence_lower(s, t, alpha)
        claims = np.linspace(0, s / (t + 1), 2001)[1:]
        refuted = log_evidence(s, t, claims) >= -np.log(alpha)
        assert (np.diff(refuted.astype(int)) <= 0).all()  # the search may halve
        first = claims[~refuted][0]
        assert first - claims[0] <= bound + 1e-12 and bound <= first
    assert sequence_lower(0, 10, 0.1) == 0 and sequence_upper(10, 10, 0.1) == 1
    t = np.arange(1, 500)
    assert (sequence_lower(0.8 * t, t, 0.01) <= sequence_lower(np.minimum(0.8 * t + 0.3, t), t, 0.01)).all()


def test_a_planned_end_costs_little():
    n, alpha = 10_000, 1e-3
    k = np.array([5500, 9000, 9990])
    fixed, planned = clopper_pearson_lower(k, n, alpha), planned_lower(k, n, alpha, most=n)
    assert (planned <= fixed).all() and ((k / n - planned) < 1.12 * (k / n - fixed)).all()
    assert (planned_lower(k, n, alpha, most=n + 1) == sequence_lower(k, n, alpha / 2)).all()
    with pytest.raises(ValueError, match="trials=10000: expected at most the planned 9"):
        planned_lower(k, n, alpha, most=9)
    with pytest.raises(ValueError, match="sums from 3 to 3 of 2"):
        sequence_lower(3, 2, 0.1)
