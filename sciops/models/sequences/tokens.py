"""Input check and embedding of tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sciops.models.apply import check_tensor


def embedded(embedding: nn.Embedding, tokens: Tensor, mask: Tensor | None) -> Tensor:
    """The rows of `embedding` for tokens (batch, n); padding is not read, and has the row of token 0.

    mask : (batch, n), True where there is a token; None where there is no padding

    Raises ValueError for tokens that are not whole numbers (batch, n) or, on the CPU, that the embedding does not have;
    and for a mask of another shape or kind, or with padding before a token.
    """
    check_tensor(tokens)
    if tokens.ndim != 2 or tokens.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"tokens of {tokens.dtype} and shape {tuple(tokens.shape)}: expected whole numbers (batch, n), int64"
        )
    if mask is not None:
        if mask.shape != tokens.shape or mask.dtype != torch.bool:
            raise ValueError(
                f"mask of {mask.dtype} and shape {tuple(mask.shape)} for tokens of shape {tuple(tokens.shape)}: "
                "expected booleans of the same shape"
            )
        if (mask[:, 1:] > mask[:, :-1]).any():
            raise ValueError("mask has tokens after padding: put the padding at the end of every sequence")
        tokens = tokens.masked_fill(~mask, 0)
    try:
        return embedding(tokens)
    except IndexError:  # a check beforehand would make a GPU wait
        raise ValueError(
            f"tokens from {int(tokens.min())} to {int(tokens.max())}: expected 0 … {embedding.num_embeddings - 1}; "
            "pass symbols, the number of different tokens, to the model"
        ) from None


def of_last(h: Tensor, mask: Tensor | None) -> Tensor:
    """(batch, …): the entry of h (batch, n, …) at the last token of each sequence; of one without tokens any other.

    Raises ValueError for n = 0.
    """
    if not h.shape[1]:
        raise ValueError("last=True with no tokens: expected at least one, whose logits are the last")
    if mask is None:
        return h[:, -1]
    return h[torch.arange(h.shape[0], device=h.device), (mask.sum(1) - 1).clamp(min=0)]
