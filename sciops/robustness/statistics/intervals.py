"""One-sided bounds on a mean at level α: Clopper–Pearson, randomised Clopper–Pearson, empirical Bernstein.

All take and return numpy float64 and broadcast. A lower and an upper bound hold together at level 2α.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_HALVINGS = 60  # of [0, 1]: to 1e-18, below the spacing of doubles


def clopper_pearson_lower(successes: Any, trials: Any, alpha: Any) -> np.ndarray:
    """Clopper–Pearson lower bound on a probability: inf{p : P(Binomial(n, p) ≥ k) > α}.

    It is the α quantile of Beta(k, n − k + 1), and 0 for k = 0.

    successes, trials, alpha : broadcastable; level 0 gives 0

    Raises ValueError for successes outside 0 … trials or a level outside [0, 1). Source: Clopper & Pearson 1934.
    """

    from scipy import special

    k, n, level = _counts(successes, trials, alpha)
    quantile = special.betaincinv(np.maximum(k, 1.0), n - k + 1, level)
    return np.where((k == 0) | (level == 0), 0.0, quantile)


def clopper_pearson_upper(successes: Any, trials: Any, alpha: Any) -> np.ndarray:
    """Clopper–Pearson upper bound on a probability: sup{p : P(Binomial(n, p) ≤ k) > α}.

    It is the 1 − α quantile of Beta(k + 1, n − k), and 1 for k = n. Arguments as for `clopper_pearson_lower`.
    """

    from scipy import special

    k, n, level = _counts(successes, trials, alpha)
    quantile = special.betainccinv(k + 1, np.maximum(n - k, 1.0), level)
    return np.where((k == n) | (level == 0), 1.0, quantile)


def randomized_lower(successes: Any, trials: Any, alpha: Any, uniform: Any) -> np.ndarray:
    """Randomised lower bound on a probability, whose level is α exactly: the p with P_p(X > k) + u·P_p(X = k) = α.

    X ~ Binomial(n, p). Solved by bisection and rounded down.

    uniform : u ~ U(0, 1), drawn independently of the data, one for each count; u = 1 is Clopper–Pearson's bound, any
    other
        u gives a larger one

    Source: Stevens 1950; arXiv:2406.17830 uses it for smoothing.
    """

    from scipy import special

    k, n, level = _counts(successes, trials, alpha)
    u = np.asarray(uniform, dtype=np.float64)
    if ((u < 0) | (u > 1)).any():
        raise ValueError(f"uniform={u.min():g} … {u.max():g}: expected draws between 0 and 1")
    k, n, level, u = np.broadcast_arrays(k, n, level, u)

    def rejected(p: np.ndarray) -> np.ndarray:
        more = np.where(k < n, special.betainc(k + 1, np.maximum(n - k, 1.0), p), 0.0)
        at_least = np.where(k > 0, special.betainc(np.maximum(k, 1.0), n - k + 1, p), 1.0)
        return (1 - u) * more + u * at_least <= level

    return bisected(rejected, np.ones(k.shape))


def bisected(rejected: Callable[[np.ndarray], np.ndarray], high: np.ndarray) -> np.ndarray:
    """The end of the rejected values in [0, high], rounded down: values up to some point are rejected, others not."""
    low = np.zeros(high.shape)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        out = rejected(middle)
        low, high = np.where(out, middle, low), np.where(out, high, middle)
    return low


def empirical_bernstein_radius(variance: Any, samples: Any, alpha: Any, *, scale: float = 1.0) -> np.ndarray:
    """Empirical Bernstein bound on the one-sided error of a mean of samples in [0, b].

    √(2 V̂ ln(2/α)/n) + 7 b ln(2/α)/(3(n − 1)).

    variance : V̂, with n − 1 in the denominator
    samples : n ≥ 2; fewer raise ValueError
    scale : b

    Level 0 gives ∞. Source: Maurer & Pontil 2009 (arXiv:0907.3740), theorem 4.
    """
    n = np.asarray(samples, dtype=np.float64)
    level = levels_of(alpha)
    if (n < 2).any():
        raise ValueError(f"samples={n.min():g}: empirical Bernstein needs at least 2 for a variance")
    with np.errstate(divide="ignore"):
        log = np.log(2 / level)
    v = np.maximum(np.asarray(variance, dtype=np.float64), 0.0)
    with np.errstate(invalid="ignore"):
        spread = np.where(v > 0, np.sqrt(2 * v * log / n), 0.0)
    return spread + 7 * scale * log / (3 * (n - 1))


def sample_variance(total: Any, squares: Any, samples: Any) -> np.ndarray:
    """The sample variance (Σx² − (Σx)²/n)/(n − 1) from sums, rounded up.

    The subtraction loses digits where the spread is far below the mean. The loss, at most a few ε·Σx²/(n − 1) for n
    terms added pairwise, is added back so that bounds from this variance remain valid.
    """
    s, q, n = (np.asarray(v, dtype=np.float64) for v in (total, squares, samples))
    raw = (q - s * s / n) / (n - 1)
    exact = (q == s) & (s == np.rint(s))  # counts: the sums carry no rounding
    return np.maximum(raw, 0.0) + np.where(exact, 0.0, 1e-14 * q / (n - 1))


def _counts(successes: Any, trials: Any, alpha: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if not ((n >= 1).all() and (k >= 0).all() and (k <= n).all()):
        raise ValueError(
            f"successes={k.min():g} … {k.max():g} of trials={n.min():g}: expected 0 to trials, of 1 or more"
        )
    return k, n, levels_of(alpha)


def levels_of(alpha: Any) -> np.ndarray:
    """`alpha` as float64. Raises ValueError unless all levels lie in [0, 1)."""
    level = np.asarray(alpha, dtype=np.float64)
    if not ((level >= 0) & (level < 1)).all():
        raise ValueError(f"alpha={level.min():g} … {level.max():g}: expected levels from 0 to below 1, such as 0.001")
    return level
