"""Losses that move a model along the precision-recall curve: weighted likelihoods of tokens and fields.

Each is an objective ``(prediction, target, grid=None, *, likelihood="tokens", reference=None, **options) → (batch,)``
whose gradient is that of Σ_t w_t·(−log q_t), with the weight w_t held fixed, over the number of targets. A weight that
grows with q sharpens the model (precision), one that falls with q widens it (recall).

likelihood : what the model returns. "tokens": logits (batch, n, symbols) for tokens (batch, n). "bins": logits of the
    bins of each value, (batch, channels·bins, *grid), with the options bins, low, high. "gaussian": means, then log σ,
    (batch, 2·channels, *grid), with the option floor
reference : log-likelihoods of the targets by a fixed model, (batch, n), for "gold" and "lambda_pr"; `with_reference`
    makes a loss for `fit` of the fixed model itself

arXiv:2508.09654 asks which of them, with the temperature of sampling, give a better trade-off than the likelihood.
"""

from __future__ import annotations

from sciops.training.objectives.precision_recall.focal import Focal
from sciops.training.objectives.precision_recall.gold import Gold
from sciops.training.objectives.precision_recall.lambda_pr import LambdaPR
from sciops.training.objectives.precision_recall.likelihoods import (
    LIKELIHOODS,
    Bins,
    Gaussian,
    Likelihood,
    Scores,
    Tokens,
)
from sciops.training.objectives.precision_recall.power import Power
from sciops.training.objectives.precision_recall.registry import (
    PRECISION_RECALL,
    WEIGHTINGS,
    read_objective,
    with_reference,
)
from sciops.training.objectives.precision_recall.tailr import TaiLr, TaiLrRecall
from sciops.training.objectives.precision_recall.truncation import LossQuantile, Truncation, TruncationRecall
from sciops.training.objectives.precision_recall.weighting import NegativeLogLikelihood, Weighting

__all__ = [
    "LIKELIHOODS",
    "PRECISION_RECALL",
    "WEIGHTINGS",
    "Bins",
    "Focal",
    "Gaussian",
    "Gold",
    "LambdaPR",
    "Likelihood",
    "LossQuantile",
    "NegativeLogLikelihood",
    "Power",
    "Scores",
    "TaiLr",
    "TaiLrRecall",
    "Tokens",
    "Truncation",
    "TruncationRecall",
    "Weighting",
    "read_objective",
    "with_reference",
]
