"""The loss and the error of classifiers; targets are distributions over the classes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.grids import Grid


def cross_entropy(prediction: Tensor, target: Tensor, grid: Grid | None = None) -> Tensor:
    """Cross-entropy of class probabilities, −Σ_k q_k log softmax(z)_k, per sample.

    prediction : (batch, classes) logits z; target : (batch, classes) probabilities q, a one-hot label where it is sure
    returns : (batch,), of logits in half precision in float32; a class of q = 0 adds 0 even where its logit is −∞
    """
    log_p = F.log_softmax(prediction.to(torch.promote_types(prediction.dtype, torch.float32)), 1)
    return -(target * log_p.masked_fill(target == 0, 0)).sum(1)


def error_rate(prediction: Tensor, target: Tensor, grid: Grid | None = None) -> Tensor:
    """1 for each misclassified sample, argmax z ≠ argmax q or a logit not finite, and 0 elsewhere: (batch,) float64."""
    wrong = prediction.argmax(1) != target.argmax(1)
    return (wrong | ~torch.isfinite(prediction).all(1)).double()


def smoothed(target: Tensor, smoothing: float) -> Tensor:
    """Smoothed labels, (1 − ε) q + ε/K for K classes (arXiv:1512.00567, section 7)."""
    return (1.0 - smoothing) * target + smoothing / target.shape[1]
