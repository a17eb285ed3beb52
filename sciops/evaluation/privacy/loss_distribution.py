"""What many private steps spend, by the distribution of their privacy loss: the tight count, without Rényi's slack."""

from __future__ import annotations

import math

import numpy as np
from scipy import fft, optimize
from scipy.special import ndtr, ndtri

_SHARE = 1e-3  # of δ, set aside for each of three things that are cut off: tails of a step, tails of the sum, rounding


def composed_epsilon(*, noise: float, rate: float, steps: int, delta: float, error: float = 0.01) -> float:
    """ε of `steps` Gaussian mechanisms on Poisson batches: an upper bound, at most about 2·error above the least one.

    With P = (1 − q) N(0, σ²) + q N(1, σ²) and Q = N(0, σ²), a step has the privacy loss L = log(P/Q)(x), x ~ P, where a
    record is removed, and log(Q/P)(x), x ~ Q, where it is added. Losses of steps add up, and

        δ(ε) = E[(1 − e^(ε − ΣL))₊].

    L is rounded to a lattice, shifted so that its mean stays, and its distribution is raised to the power of the steps
    by a Fourier transform. Rounding moves the sum by at most h √(T log(2/η)/2) but for a probability η (Hoeffding),
    which determines the spacing h; η, and the tails that are cut off (Chernoff), are taken from δ. The larger ε of both
    is returned.

    Parameters
    ----------
    noise : σ, in units of the clip
    rate : q, the probability with which a record is in a batch
    steps : T
    delta : δ
    error : largest error of ε that comes from rounding

    Raises
    ------
    ValueError
        A number is out of range, or the noise is so small that the lattice would have more than 2²⁶ points.

    References
    ----------
    S. Gopi, Y. T. Lee, L. Wutschitz, "Numerical composition of differential privacy", NeurIPS 2021.
    A. Koskela, J. Jälkö, A. Honkela, "Computing tight differential privacy guarantees using FFT", AISTATS 2020.
    """
    if not noise > 0 or not 0 < rate <= 1 or steps < 1 or not 0 < delta < 1 or not error > 0:
        raise ValueError(f"noise={noise}, rate={rate}, steps={steps}, delta={delta}, error={error}: out of range")
    ways = ("remove",) if rate == 1 else ("remove", "add")  # without sampling they are mirror images
    return max(_epsilon(noise, rate, steps, delta, error, way) for way in ways)


def _epsilon(noise: float, rate: float, steps: int, delta: float, error: float, way: str) -> float:
    share = _SHARE * delta
    h = error / math.sqrt(0.5 * steps * math.log(2 / share))
    reach = -float(ndtri(share / (2 * steps))) * noise  # x beyond it: less than share/(2 steps) on either side
    low, high = sorted((_loss(-reach, noise, rate, way), _loss(1 + reach, noise, rate, way)))
    points = np.arange(math.floor(low / h), math.ceil(high / h) + 1)
    if len(points) > 2**26:
        raise ValueError(f"noise={noise}, steps={steps}: too little noise for error={error}; pass a larger error")
    edges = np.append(points - 0.5, points[-1] + 0.5) * h
    p = np.diff(_distribution(edges, noise, rate, way))
    p /= p.sum()
    mean = _mean(edges, p, noise, rate, way)
    shift = mean - h * float(p @ points)
    top, bottom = (_tail(sign * h * points, p, steps, share) for sign in (1.0, -1.0))
    size = fft.next_fast_len(math.ceil((top + max(bottom, 0.0)) / h) + len(points) + 2, real=True)
    if size > 2**26:
        raise ValueError(f"noise={noise}, steps={steps}: too little noise for error={error}; pass a larger error")
    wrapped = np.zeros(size)
    np.add.at(wrapped, points % size, p)
    total = fft.irfft(fft.rfft(wrapped) ** steps, size).clip(min=0)
    first = -math.floor(max(bottom, 0.0) / h) - 1  # the lattice is a ring: it is cut open below the lower tail
    losses = h * (first + np.arange(size)) + steps * shift
    total = np.roll(total, -(first % size))
    allowed = delta * (1 - 3 * _SHARE)

    def excess(epsilon: float) -> float:
        above = losses > epsilon
        return float(total[above] @ -np.expm1(epsilon - losses[above])) - allowed

    if excess(0.0) <= 0:
        return 0.0
    return float(optimize.brentq(excess, 0.0, losses[-1], xtol=1e-6)) + error


def _loss(x: float, noise: float, rate: float, way: str) -> float:
    """The privacy loss of an output x."""
    exponent = (2 * x - 1) / (2 * noise**2) + math.log(rate)
    loss = float(np.logaddexp(math.log1p(-rate), exponent)) if rate < 1 else exponent
    return loss if way == "remove" else -loss


def _distribution(losses: np.ndarray, noise: float, rate: float, way: str) -> np.ndarray:
    """P(L ≤ l)."""
    of_removal = losses if way == "remove" else -losses
    rest = 0.0 if rate == 1 else math.log1p(-rate)
    with np.errstate(invalid="ignore", divide="ignore"):
        if rate == 1:
            log_ratio = of_removal
        else:  # log(e^l − (1 − q)), −∞ below the least loss
            log_ratio = np.where(of_removal > rest, of_removal + np.log(-np.expm1(rest - of_removal)), -np.inf)
        x = noise**2 * (log_ratio - math.log(rate)) + 0.5
    if way == "remove":
        return (1 - rate) * ndtr(x / noise) + rate * ndtr((x - 1) / noise)
    return ndtr(-x / noise)


def _mean(edges: np.ndarray, p: np.ndarray, noise: float, rate: float, way: str) -> float:
    """Mean of the loss within the edges: ∫ l dF by parts, the trapezoid rule on a finer lattice."""
    finer = np.linspace(edges[0], edges[-1], min(4 * len(edges), 2**22) + 1)
    below = _distribution(finer, noise, rate, way)
    inside = below[-1] - below[0]
    below = (below - below[0]) / inside
    return float(finer[-1] - np.trapezoid(below, finer))


def _tail(losses: np.ndarray, p: np.ndarray, steps: int, share: float) -> float:
    """w with P(sum of the steps' losses > w) ≤ share, by Chernoff: the least (T log E e^(λL) + log(1/share))/λ."""

    def bound(log_rate: float) -> float:
        slope = math.exp(log_rate)
        most = slope * losses.max()
        return (steps * (most + math.log(float(p @ np.exp(slope * losses - most)))) - math.log(share)) / slope

    found = optimize.minimize_scalar(bound, bounds=(-8.0, 8.0), method="bounded")
    return float(bound(float(found.x)))
