"""Running means along a sequence, by products with small triangles: `torch.cumsum` along an axis that is not the last
takes ten times as long on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor

from sciops.mixers.padding import padded

_BLOCK = 32  # tokens summed by one triangle


def running_means(f: Tensor, total: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """(total + Σ_{j ≤ i} f_j) / seen_i of f (batch, n, channels), and the sum after the last, (batch, channels).

    total : (batch, channels), what came before; seen : (batch, n)

    A later f that is finite leaves earlier means as they are to the last bit; one that is not spoils some of them.
    """
    n = f.shape[1]
    size = min(_BLOCK, max(1, n))
    blocks = padded(f, (0, 0, 0, -n % size)).unflatten(1, (-1, size))
    sums = torch.cat([total.unsqueeze(1), blocks.sum(2)], dim=1).cumsum(1)
    # the sum before a block is the first of the rows that its triangle sums and divides
    rows = torch.cat([sums[:, :-1].unsqueeze(2), blocks], dim=2)
    shares = 1 / padded(seen.to(f.dtype), (0, -n % size), 1.0).unflatten(1, (-1, size))
    triangles = shares.unsqueeze(-1) * f.new_ones(size, size + 1).tril(1)
    return (triangles @ rows).flatten(1, 2)[:, :n], sums[:, -1].clone()  # a view would keep the sums of all blocks
