"""The loss of models that predict tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.grids import Grid

NOT_ASKED = -100


def token_cross_entropy(
    prediction: Tensor, target: Tensor, grid: Grid | None = None, *, smoothing: float = 0.0
) -> Tensor:
    """Mean cross-entropy of the tokens of each sequence, in nats.

    −Σ_t log softmax(z_t)[w_t] / (number of t), over the positions t whose target is not −100.

    prediction : (batch, n, symbols) logits z; target : (batch, n) whole numbers w, or −100 where it is ignored
    smoothing : ε of the targets (1 − ε)·δ_w + ε/symbols (arXiv:1512.00567, section 7)
    returns : (batch,); 0 for a sequence without targets. Sequences with more targets do not weigh more. In float32 for
        logits in half precision

    Raises ValueError for shapes that differ.
    """
    losses = token_losses(prediction, target, smoothing=smoothing)
    asked = (target != NOT_ASKED).sum(1)
    return losses.sum(1) / asked.clamp(min=1)


def token_losses(prediction: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """The cross-entropy of each token, (batch, n), 0 where none is asked; arguments as of `token_cross_entropy`."""
    if prediction.shape[:-1] != target.shape or target.ndim != 2:
        raise ValueError(
            f"logits of shape {tuple(prediction.shape)} for targets of shape {tuple(target.shape)}: expected "
            "(batch, n, symbols) and (batch, n)"
        )
    # padding may hold NaN, and then its derivative would be NaN too
    prediction = prediction.masked_fill((target == NOT_ASKED).unsqueeze(-1), 0)
    prediction = prediction.to(torch.promote_types(prediction.dtype, torch.float32))
    losses = F.cross_entropy(
        prediction.flatten(0, 1), target.flatten(), reduction="none", ignore_index=NOT_ASKED, label_smoothing=smoothing
    )
    return losses.view(target.shape)
