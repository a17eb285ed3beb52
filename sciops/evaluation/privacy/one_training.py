"""A lower bound on ε from a single training, valid although its records are not independent of each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def one_training_epsilon(
    scores: Any,
    member: Any,
    *,
    delta: float = 0.0,
    level: float = 0.95,
    shares: Sequence[float] = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0),
) -> float:
    """The largest ε that guesses about many records of one training rule out.

    The highest r/2 scores are guessed to be members and the lowest r/2 not. If every record was put into the training
    by a fair coin of its own, and the training is (ε, δ)-differentially private, the number W of right guesses has::

        P(W ≥ v) ≤ P(B ≥ v) + 2 m δ max_i P(v − i ≤ B < v) / i,    B ~ Binomial(r, e^ε / (1 + e^ε))

    ε̂ is the largest ε for which this is below the risk, 1 − level over the number of shares that are tried.

    Parameters
    ----------
    scores : (records,) large where the attack believes in membership
    member : (records,) booleans, the coins
    delta : δ
    level : confidence of the bound
    shares : r over the number m of records; the best is taken, and the risk is shared by all

    Returns
    -------
    float, at least 0

    Raises
    ------
    ValueError
        Shapes differ, a score is NaN, or a number is out of range.

    Notes
    -----
    Valid for one training, whatever the records do to each other, where `epsilon_lower_bound` needs records that were
    audited independently. The scores may use anything but the coins: shadow models that were trained without them, say
    (a model on the complement is not). With r right guesses of r the bound is at most about log(r / log(1/risk)).

    References
    ----------
    Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run", arXiv:2305.08846, theorem 5.2.
    """
    s, coins = np.asarray(scores, dtype=float), np.asarray(member, dtype=bool)
    if s.ndim != 1 or s.shape != coins.shape or not s.size:
        raise ValueError(f"scores of shape {s.shape}, member of shape {coins.shape}: expected equal (records,)")
    if np.isnan(s).any():
        raise ValueError(f"scores: {int(np.isnan(s).sum())} of {s.size} are NaN")
    if not 0 <= delta < 1 or not 0 < level < 1 or not len(shares) or min(shares) <= 0 or max(shares) > 1:
        raise ValueError(f"delta={delta}, level={level}, shares={tuple(shares)}: out of range")
    # equal scores are ordered by place, which says nothing of the coins
    order = np.argsort(-s, kind="stable")
    risk, best = (1 - level) / len(shares), 0.0
    for share in shares:
        half = max(int(share * len(s) / 2), 1)
        right = int(coins[order[:half]].sum() + (~coins[order[len(s) - half :]]).sum()) if 2 * half <= len(s) else 0
        best = max(best, _ruled_out(len(s), 2 * half, right, delta, risk))
    return best


def _ruled_out(records: int, guesses: int, right: int, delta: float, risk: float) -> float:
    if 2 * right <= guesses or _probability(0.0, records, guesses, right, delta) >= risk:
        return 0.0
    low, high = 0.0, 1.0
    while _probability(high, records, guesses, right, delta) < risk:
        low, high = high, 2 * high
        if high > 64:
            return low
    for _ in range(40):
        middle = (low + high) / 2
        if _probability(middle, records, guesses, right, delta) < risk:
            low = middle
        else:
            high = middle
    return low


def _probability(epsilon: float, records: int, guesses: int, right: int, delta: float) -> float:
    from scipy.special import bdtrc, gammaln

    p, q = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    tail = float(bdtrc(right - 1, guesses, p)) if right else 1.0
    if not delta or not right:
        return tail
    k = np.arange(right - 1.0, -1.0, -1.0)
    mass = gammaln(guesses + 1) - gammaln(k + 1) - gammaln(guesses - k + 1) + k * math.log(p)
    below = np.cumsum(np.exp(mass + (guesses - k) * math.log(q)))  # P(v − i ≤ B < v), i = 1 … v
    return tail + 2 * records * delta * float((below / np.arange(1, right + 1)).max())
