"""Running sums along a sequence, many times as fast on a CPU as `torch.cumsum` along an axis that is not the last."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

_BLOCK = 32  # tokens summed by one triangular matrix of ones


def running_sums(f: Tensor) -> Tensor:
    """S_i = Σ_{j ≤ i} f_j of f (batch, n, channels).

    A later f that is finite leaves earlier sums as they are to the last bit; one that is not spoils some of them.
    """
    n = f.shape[1]
    size = min(_BLOCK, n)
    if size <= 1:
        return f
    blocks = F.pad(f, (0, 0, 0, -n % size)).unflatten(1, (-1, size))
    inside = f.new_ones(size, size).tril() @ blocks
    before = F.pad(inside[:, :-1, -1].cumsum(1), (0, 0, 1, 0))
    return (inside + before.unsqueeze(2)).flatten(1, 2)[:, :n]
