"""Losses: each a function ``objective(prediction, target, grid) -> (batch,)``, one value per sample, in physical units.

prediction, target : (batch, channel, *grid) tensors; of ``cross_entropy`` (batch, classes) logits and probabilities; of
    ``token_cross_entropy`` (batch, n, symbols) logits and (batch, n) tokens; of the losses of `precision_recall` what
    their option ``likelihood`` says
grid : `sciops.Grid`; its spacing scales the derivatives

Reduction over samples happens in one place, `sciops.training.fit`: the mean over the batch. Unlike
`sciops.metrics`, these are smooth to differentiate: a sample that is met exactly has gradient zero, not NaN.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from sciops.training.objectives.classification import cross_entropy, error_rate
from sciops.training.objectives.gradient import difference_energy, h1, relative_gradient
from sciops.training.objectives.norms import mse, nrmse, relative_l2, relative_mse
from sciops.training.objectives.precision_recall import PRECISION_RECALL, with_reference
from sciops.training.objectives.tokens import token_cross_entropy

OBJECTIVES: dict[str, Callable[..., Tensor]] = {
    "relative_l2": relative_l2,
    "h1": h1,
    "relative_gradient": relative_gradient,
    "relative_mse": relative_mse,
    "nrmse": nrmse,
    "mse": mse,
    "cross_entropy": cross_entropy,
    "token_cross_entropy": token_cross_entropy,
    **PRECISION_RECALL,
}
LABEL_OBJECTIVES = ("cross_entropy",)  # their targets are probabilities of classes, not fields
# inputs and targets are whole numbers, one a position; of the latter ones by default, see their option ``likelihood``
TOKEN_OBJECTIVES = ("token_cross_entropy", *PRECISION_RECALL)

__all__ = [
    "LABEL_OBJECTIVES",
    "OBJECTIVES",
    "PRECISION_RECALL",
    "TOKEN_OBJECTIVES",
    "cross_entropy",
    "difference_energy",
    "error_rate",
    "h1",
    "mse",
    "nrmse",
    "relative_gradient",
    "relative_l2",
    "relative_mse",
    "token_cross_entropy",
    "with_reference",
]
