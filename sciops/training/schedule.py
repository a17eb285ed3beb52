"""The learning rate as a function of how much of the training is done."""

from __future__ import annotations

import math

_START = 1 / 25  # of the peak rate, before the warm-up
_END = 1 / 250_000  # of the peak rate, when all is done


def rate_factor(schedule: str, done: float, *, warmup: float = 0.3) -> float:
    """Learning rate ÷ peak learning rate, as a function of the share of the training that is over.

    Parameters
    ----------
    schedule : "onecycle", "cosine" or "constant"
        "onecycle" is half a cosine from 1/25 up to 1 over the share `warmup`, then half a cosine down to 1/250 000
        (arXiv:1708.07120, with the constants of torch's OneCycleLR); "cosine" half a cosine from 1 to 0; "constant" 1.
    done : float
        Share of the training that is over; values outside [0, 1] are clipped.
    warmup : float
        Share of the training in which the rate of "onecycle" rises.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        For an unknown schedule.

    Notes
    -----
    The rate has no state of its own, so that a resumed run has the rates of an uninterrupted one.
    """
    done = min(max(done, 0.0), 1.0)
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        return _half_cosine(1.0, 0.0, done)
    if schedule == "onecycle":
        if done < warmup:
            return _half_cosine(_START, 1.0, done / warmup)
        return _half_cosine(1.0, _END, (done - warmup) / (1.0 - warmup))
    raise ValueError(f"schedule={schedule!r}: expected 'onecycle', 'cosine' or 'constant'")


def cycled_beta1(done: float, *, warmup: float = 0.3) -> float:
    """AdamW's β₁ moving against the one-cycle rate: 0.95 → 0.85 over the warm-up, and back by the end."""
    done = min(max(done, 0.0), 1.0)
    if done < warmup:
        return _half_cosine(0.95, 0.85, done / warmup)
    return _half_cosine(0.85, 0.95, (done - warmup) / (1.0 - warmup))


def _half_cosine(start: float, end: float, t: float) -> float:
    return end + (start - end) * 0.5 * (1.0 + math.cos(math.pi * t))
