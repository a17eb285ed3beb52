"""Order statistics of n samples that bound quantiles of their law, by exact binomial probabilities."""

from __future__ import annotations


def lower_index(n: int, p: float, alpha: float) -> int:
    """The order statistic that bounds the p-quantile from below: the largest k ≥ 0 with P(Bin(n, p) ≤ k − 1) ≤ α.

    P(X_(k) > Q_p) ≤ α. It is 0 where no sample is low enough.
    """

    from scipy.stats import binom

    # ppf starts next to the answer; the two loops make it exact whatever it rounds
    k = int(max(binom.ppf(alpha, n, p), 0)) if 0 < p < 1 else (n if p >= 1 else 0)
    k = min(max(k, 0), n)
    while k < n and binom.cdf(k, n, p) <= alpha:
        k += 1
    while k > 0 and binom.cdf(k - 1, n, p) > alpha:
        k -= 1
    return k


def upper_index(n: int, p: float, alpha: float) -> int:
    """The order statistic that bounds the p-quantile from above: the smallest k with P(Bin(n, p) ≥ k) ≤ α.

    P(X_(k) < Q_p) ≤ α. It is n + 1 where no sample is high enough.
    """
    return n + 1 - lower_index(n, 1 - p, alpha)  # Bin(n, p) ≥ k exactly when the misses Bin(n, 1 − p) are ≤ n − k


def shifted(p: float, shift: float) -> float:
    """The largest probability of an event of probability p after the mean moved by `shift` standard deviations.

    Φ(Φ^{−1}(p) + shift).
    """

    from scipy.stats import norm

    return float(norm.cdf(norm.ppf(p) + shift))
