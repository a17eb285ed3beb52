"""Whether weights are probabilities: how often each point is the nearest, against what its weight says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sciops.arrays.kinds import as_tensor
from sciops.arrays.short import fields_text


@dataclass(frozen=True)
class WeightCalibration:
    """Reliability of weights, in bins of the stated weight.

    predicted, observed : (bins,) mean stated weight, and share of the pairs (sample, point) in which the point was the
        nearest; bins without a pair are left out
    count : (bins,) number of pairs
    error : mean of |observed − predicted| over the pairs
    log_loss : mean of −ln p of the nearest point, in nats; its least value is the entropy of the cells
    """

    predicted: np.ndarray
    observed: np.ndarray
    count: np.ndarray
    error: float
    log_loss: float

    __repr__ = fields_text


def weight_calibration(weights: Any, winners: Any, *, bins: int = 10) -> WeightCalibration:
    """Compares weights with the frequencies of the nearest point, on fields that the model was not trained on.

    Parameters
    ----------
    weights : array of numpy or torch
        (samples, n), p_i of each sample.
    winners : array
        (samples,), number of the nearest point, as `nearest` gives it.
    bins : int
        Number of bins of equal width between 0 and 1.

    Returns
    -------
    WeightCalibration

    Raises
    ------
    ValueError
        For shapes that do not fit, numbers of points that there are not, and no sample at all.
    """
    p = as_tensor(weights, "weights")[0].detach().double().cpu().numpy()
    won = np.asarray(as_tensor(winners, "winners")[0].detach().cpu().numpy())
    if p.ndim != 2 or won.shape != p.shape[:1] or not p.size:
        raise ValueError(f"weights {p.shape} and winners {won.shape}: expected (samples, n) and (samples,), not empty")
    if bins < 1 or won.min() < 0 or won.max() >= p.shape[1] or (won != won.astype(int)).any():
        raise ValueError(
            f"winners from {won.min():g} to {won.max():g}, bins={bins}: expected whole numbers below {p.shape[1]}"
        )
    hit = np.zeros_like(p)
    hit[np.arange(len(p)), won.astype(int)] = 1
    place = np.minimum((p * bins).astype(int), bins - 1).ravel()
    count = np.bincount(place, minlength=bins)
    kept = count > 0
    predicted, observed = (np.bincount(place, v.ravel(), minlength=bins)[kept] / count[kept] for v in (p, hit))
    error = float(np.average(np.abs(observed - predicted), weights=count[kept]))
    tiny = np.finfo(np.float64).tiny
    log_loss = float(-np.log(np.maximum(p[np.arange(len(p)), won.astype(int)], tiny)).mean())
    return WeightCalibration(predicted, observed, count[kept], error, log_loss)
