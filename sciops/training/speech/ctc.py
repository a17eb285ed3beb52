"""The CTC loss of every recording, and the targets for which it is defined."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.models.sequences.speech import REDUCTION


def ctc_loss(logits: Tensor, tokens: Tensor, targets: Sequence[Sequence[int]], *, blank: int = 0) -> Tensor:
    """CTC loss of every recording: −log P(target)/|target|, P summed over all paths that collapse to the target.

    logits : (batch, n, symbols), the first tokens[b] of each row; what stands behind them is not read. targets :
        symbols of each recording, none the blank
    returns : (batch,)

    Raises ValueError where a target has no path: it needs as many tokens as symbols, and one more between two that are
    the same; and for a target that is empty or holds the blank or an unknown symbol.

    References: Graves et al., Connectionist temporal classification (2006).
    """
    if len(targets) != len(logits):
        raise ValueError(f"{len(targets)} targets for {len(logits)} recordings")
    check_targets(targets, tokens.tolist(), logits.shape[-1], blank=blank)
    sizes = torch.tensor([len(target) for target in targets], device=logits.device)
    flat = torch.tensor([k for target in targets for k in target], device=logits.device)
    # padding may hold anything, and a NaN would pass through the derivative of log_softmax
    padding = torch.arange(logits.shape[1], device=logits.device) >= tokens.to(logits.device)[:, None]
    wide = logits.masked_fill(padding.unsqueeze(-1), 0).to(torch.promote_types(logits.dtype, torch.float32))
    log_p = wide.log_softmax(-1).transpose(0, 1)
    return F.ctc_loss(log_p, flat, tokens, sizes, blank=blank, reduction="none") / sizes


def needed(target: Sequence[int]) -> int:
    """Tokens of the shortest path that collapses to the target: its symbols, and a blank between two that are equal."""
    return len(target) + sum(a == b for a, b in zip(target, target[1:]))


def has_path(target: Sequence[int], frames: int) -> bool:
    """Whether a recording of `frames` frames is long enough for its target; CTC cannot learn from others.

    >>> has_path([1, 2, 2], 16), has_path([1, 2, 2], 12)
    (True, False)
    """
    return needed(target) <= -(-frames // REDUCTION)


def check_targets(targets: Sequence[Sequence[int]], tokens: Sequence[int], symbols: int, *, blank: int = 0) -> None:
    """Raises the ValueError of `ctc_loss` for the first target that has no path in its number of tokens."""
    for i, (target, count) in enumerate(zip(targets, tokens)):
        if not len(target) or min(target) < 0 or max(target) >= symbols or blank in target:
            raise ValueError(
                f"targets[{i}] {list(target)}: expected symbols of 0 … {symbols - 1}, none of them {blank}"
            )
        if count < needed(target):
            raise ValueError(
                f"targets[{i}] of {len(target)} symbols needs {needed(target)} tokens, the recording has {count}: "
                "leave it out (has_path), or slow it down"
            )
