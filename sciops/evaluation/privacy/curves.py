"""How well an attack tells members from others: ROC curves, and what they prove about ε."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Roc:
    """Rates of an attack "score ≥ threshold means member" at every threshold.

    false_positive, true_positive : (thresholds + 1,) shares, from (0, 0) to (1, 1)
    thresholds : (thresholds + 1,), falling; +inf first
    members, others : how many were scored
    """

    false_positive: np.ndarray
    true_positive: np.ndarray
    thresholds: np.ndarray
    members: int
    others: int

    @property
    def area(self) -> float:
        """AUC: probability that a member scores above another record, ties counted half."""
        return float(np.trapezoid(self.true_positive, self.false_positive))

    @property
    def advantage(self) -> float:
        """max (TPR − FPR)."""
        return float((self.true_positive - self.false_positive).max())

    def true_positive_at(self, rate: float) -> float:
        """Largest TPR at an FPR of at most `rate`.

        Raises ValueError where fewer than 1/rate other records were scored: the rate could not be told from 0.
        """
        if not 0 < rate <= 1:
            raise ValueError(f"rate={rate}: expected a share above 0 and at most 1")
        if self.others * rate < 1 - 1e-9:
            raise ValueError(
                f"an FPR of {rate:g} needs at least {math.ceil(1 / rate)} other records: got {self.others}"
            )
        return float(self.true_positive[self.false_positive <= rate + 1e-12].max())


def roc(scores: Any, member: Any) -> Roc:
    """The curve of an attack.

    Parameters
    ----------
    scores : (…,) large where the attack believes in membership
    member : (…,) booleans of the same shape

    Raises
    ------
    ValueError
        Shapes differ, a score is NaN, or one of the two kinds is missing.
    """
    s, m = np.asarray(scores, dtype=float).ravel(), np.asarray(member, dtype=bool).ravel()
    if np.shape(scores) != np.shape(member):
        raise ValueError(
            f"scores of shape {np.shape(scores)}, member of shape {np.shape(member)}: expected equal shapes"
        )
    if np.isnan(s).any():
        raise ValueError(f"scores: {int(np.isnan(s).sum())} of {s.size} are NaN")
    if m.all() or not m.any():
        raise ValueError(f"{int(m.sum())} members among {m.size} records: expected members and others")
    order = np.argsort(-s, kind="stable")
    s, m = s[order], m[order]
    last = np.append(np.flatnonzero(np.diff(s) != 0), s.size - 1)  # of each run of equal scores
    hits, misses = np.cumsum(m)[last], np.cumsum(~m)[last]
    return Roc(
        false_positive=np.append(0.0, misses / misses[-1]),
        true_positive=np.append(0.0, hits / hits[-1]),
        thresholds=np.append(np.inf, s[last]),
        members=int(hits[-1]),
        others=int(misses[-1]),
    )


def epsilon_lower_bound(
    scores: Any, member: Any, *, delta: float = 0.0, level: float = 0.95, thresholds: int = 20
) -> float:
    """The largest ε that an attack rules out, with exact intervals: a lower bound on the ε of the training.

    (ε, δ)-differential privacy implies TPR ≤ e^ε FPR + δ and 1 − FPR ≤ e^ε (1 − TPR) + δ for every attack, so that::

        ε̂ = max over thresholds of ln((TPR_low − δ) / FPR_high) and ln((1 − FPR_high − δ) / (1 − TPR_low))

    with ends of Clopper and Pearson, whose error (1 − level) is shared by all thresholds (Bonferroni).

    Parameters
    ----------
    scores, member : as for `roc`, records independent of each other: one audited training
    delta : δ
    level : confidence of the bound
    thresholds : how many are tried, spread over the ranks of the other records

    Returns
    -------
    float, at least 0

    Raises
    ------
    ValueError
        As `roc`; δ or the level is out of range.

    Notes
    -----
    The bound holds for records that were put into the training independently, each with probability ½, as if each had
    been audited in a training of its own. Many records of one training make it approximate.
    """
    from scipy.stats import beta

    if not 0 <= delta < 1 or not 0 < level < 1 or thresholds < 1:
        raise ValueError(f"delta={delta}, level={level}, thresholds={thresholds}: out of range")
    curve = roc(scores, member)
    places = np.unique(np.geomspace(1, max(curve.others - 1, 1), thresholds).round().astype(int)) / curve.others
    places = np.unique(np.concatenate([[0.0], places, 1 - places]))
    risk = (1 - level) / (2 * len(places))  # one end of each of two intervals per threshold
    best = 0.0
    for place in places:
        at = int(np.flatnonzero(curve.false_positive <= place + 1e-12)[-1])
        hits = round(float(curve.true_positive[at]) * curve.members)
        misses = round(float(curve.false_positive[at]) * curve.others)
        low = float(beta.ppf(risk, hits, curve.members - hits + 1)) if hits else 0.0
        high = float(beta.ppf(1 - risk, misses + 1, curve.others - misses)) if misses < curve.others else 1.0
        for top, bottom in ((low - delta, high), (1 - high - delta, 1 - low)):
            if top > 0 and bottom > 0:
                best = max(best, math.log(top / bottom))
    return best


def largest_advantage(epsilon: float, delta: float = 0.0) -> float:
    """The most TPR − FPR that any attack reaches against (ε, δ): (e^ε − 1 + 2δ) / (e^ε + 1)."""
    return math.tanh(epsilon / 2) + 2 * delta / (math.exp(min(epsilon, 700.0)) + 1)


def gaussian_roc(false_positive: Any, mu: float) -> np.ndarray:
    """TPR = Φ(Φ⁻¹(FPR) + μ): the best attack where members score N(μ, 1) and others N(0, 1), and the limit of μ-GDP."""
    from scipy.special import ndtr, ndtri

    return ndtr(ndtri(np.asarray(false_positive, dtype=float)) + mu)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) of μ-GDP: the Gaussian mechanism of noise σ has μ = 1/σ."""
    from scipy.special import log_ndtr, ndtr

    if mu <= 0:
        return 0.0
    return max(float(ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon + float(log_ndtr(-epsilon / mu - mu / 2)))), 0.0)


def gaussian_epsilon(delta: float, mu: float) -> float:
    """ε(δ) of μ-GDP, the inverse of `gaussian_delta`."""
    from scipy.optimize import brentq

    if not 0 < delta < 1:
        raise ValueError(f"delta={delta}: expected a number between 0 and 1")
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    top = 1.0
    while gaussian_delta(top, mu) > delta:
        top *= 2
    return float(brentq(lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0.0, top))


def mean_release_mu(records: int, dimension: int, noise: float = 0.0) -> float:
    """μ of the attack ⟨z, θ⟩ on θ = mean(S) + N(0, s²I), S a random half of 2n records N(0, I_d), n and d large.

    μ = (√d / n) / √(1/(2n) + s²). The curve is `gaussian_roc`, the AUC Φ(μ/√2).
    """
    return math.sqrt(dimension) / records / math.sqrt(1 / (2 * records) + noise**2)
