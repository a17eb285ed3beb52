"""Confidence sequences for a mean of values in [0, 1]: bounds that hold at every sample size at once.

Against a claim "the mean is at most p₀", t values with sum s make the evidence

    E_t(p₀) = (1/(1 − p₀)) ∫_{p₀}^1 (q/p₀)^s ((1 − q)/(1 − p₀))^{t−s} dq

the likelihood ratio averaged over all larger means q. Where the claim is true E_t is a supermartingale that starts
at 1 (for values in [0, 1] because a^x b^{1−x} ≤ xa + (1 − x)b), so that it ever reaches 1/α with probability at most α
(Ville). A certifier may therefore look after every sample and stop when it likes. Confidence sequences for smoothing:
arXiv:2406.17830; mixtures: Robbins 1970.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sciops.robustness.statistics.intervals import bisected, clopper_pearson_lower, levels_of


def log_evidence(total: Any, samples: Any, claim: Any) -> np.ndarray:
    """The logarithm of the evidence E_t(p₀) against "the mean is at most p₀".

    Above log(1/α) the claim is refuted at level α, whenever it is looked at.

    total : s, sum of the values so far (successes, or soft outputs in [0, 1]); samples : t; claim : p₀ ∈ [0, 1]
    returns : float64, broadcast; ∞ for p₀ = 0 and s > 0, −∞ for p₀ = 1

    Raises ValueError where s lies outside 0 … t.
    """

    from scipy import special

    s, t = _sums(total, samples)
    p = np.asarray(claim, dtype=np.float64)
    a, b = s + 1, t - s + 1
    with np.errstate(divide="ignore"):
        # the whole Beta integral times the share of it above p₀
        upper = special.betaln(a, b) + np.log(special.betaincc(a, b, p))
        value = upper - np.log1p(-p) - special.xlogy(s, p) - special.xlog1py(t - s, -p)
    return np.where(p == 1, -np.inf, np.where((p == 0) & (s > 0), np.inf, value))


def sequence_lower(total: Any, samples: Any, alpha: Any) -> np.ndarray:
    """A lower bound on the mean that holds for all t at once with probability 1 − α.

    It is the smallest p₀ with E_t(p₀) < 1/α.

    E_t decreases in p₀ up to s/(t + 1), where the search ends; the bound is rounded down.
    """
    s, t = _sums(total, samples)
    with np.errstate(divide="ignore"):
        goal = -np.log(levels_of(alpha))
    s, t, goal = np.broadcast_arrays(s, t, goal)
    return bisected(lambda p: (p > 0) & (log_evidence(s, t, p) >= goal), s / (t + 1))


def sequence_upper(total: Any, samples: Any, alpha: Any) -> np.ndarray:
    """An upper bound on the mean that holds for all t at once with probability 1 − α: 1 − `sequence_lower` of t − s."""
    s, t = _sums(total, samples)
    return 1 - sequence_lower(t - s, t, alpha)


def planned_lower(successes: Any, trials: Any, alpha: float, *, most: int, share: float = 0.5) -> np.ndarray:
    """A lower bound that is valid at every n ≤ `most`, and close to Clopper–Pearson's at n = `most`.

    successes : integers; trials : n, up to `most`
    share : of α for the sequence; the rest is for one Clopper–Pearson bound that is used only at n = `most`. The larger
    of
        the two is returned, by the union bound.
    """
    k, n = _sums(successes, trials)
    bound = sequence_lower(k, n, share * alpha)
    if (n > most).any():
        raise ValueError(f"trials={n.max():g}: expected at most the planned {most}")
    return np.where(n == most, np.maximum(bound, clopper_pearson_lower(k, n, (1 - share) * alpha)), bound)


def _sums(total: Any, samples: Any) -> tuple[np.ndarray, np.ndarray]:
    s, t = np.asarray(total, dtype=np.float64), np.asarray(samples, dtype=np.float64)
    if not ((s >= 0) & (s <= t)).all():
        raise ValueError(f"sums from {s.min():g} to {s.max():g} of {t.min():g} values: expected values in [0, 1]")
    return s, t
