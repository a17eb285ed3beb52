"""Products and triangular solves along links: tables (n, r) of positions in place of n×n matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sciops.arrays.compiling import transformed
from sciops.mixers.precision import full_precision

_TILE = 64  # keys up to which all products are cheaper than those along links, column by column


def _all_are_cheaper(keys: Tensor, links: Tensor) -> bool:
    return keys.shape[2] <= max(_TILE, 2 * links.shape[-1])


def linked_products(q: Tensor, keys: Tensor, links: Tensor) -> Tensor:
    """s_{ik} = q_i · key_{links(i, k)}, 0 where a link is −1.

    q (batch, heads, n, d), keys (batch, heads, m, d), links (n, r) or (batch, n, r) → (batch, heads, n, r)
    """
    return products(q, keys, links) if transformed() else _LinkedProducts.apply(q, keys, links)


def linked_solve(alpha: Tensor, weights: Tensor, links: Tensor, x: Tensor, chunk: int) -> Tensor:
    """y_i = α_i x_i + Σ_k w_{ik} y_{links(i, k)}: (I − B)^{-1} diag(α) x, chunk by chunk.

    α (batch, heads, n), w (batch, heads, n, r), links (n, r) or (batch, n, r) below i or −1, x (batch, heads, n, d)
    """
    if not transformed():
        return _LinkedSolve.apply(alpha, weights, links, x, chunk)
    weights = weights.masked_fill(_per_head(links < 0), 0)
    rhs = alpha.unsqueeze(-1) * x
    y = rhs[:, :, :0]
    for start in range(0, x.shape[2], chunk):
        part = slice(start, start + chunk)
        y = torch.cat([y, _chunk(weights, links, part, rhs[:, :, part], y)], 2)
    return y


class _LinkedProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, keys: Tensor, links: Tensor) -> Tensor:
        ctx.save_for_backward(q, keys, links)
        return products(q, keys, links)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        q, keys, links = ctx.saved_tensors
        weights = gradient.masked_fill(_per_head(links < 0), 0)
        if _all_are_cheaper(keys, links):
            whole = q.new_zeros(*q.shape[:3], keys.shape[2])
            whole.scatter_add_(-1, _per_head(links.clamp(min=0)).expand_as(weights), weights)
            with full_precision(q):
                return whole @ keys, whole.mT @ q, None
        of_q, of_keys = torch.zeros_like(q), torch.zeros_like(keys)
        for k in range(links.shape[-1]):
            weight = weights[..., k, None]
            of_q.addcmul_(weight, gathered(keys, links[..., k]))
            add_at(of_keys, links[..., k], weight * q)
        return of_q, of_keys, None


class _LinkedSolve(torch.autograd.Function):
    """The gradient is the transposed system, solved from the last chunk to the first: λ = (I − B)^{-T} g, then
    ∂x = α λ, ∂α_i = λ_i·x_i and ∂w_{ik} = λ_i·y_{links(i, k)}.
    """

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, weights: Tensor, links: Tensor, x: Tensor, chunk: int) -> Tensor:
        weights = weights.masked_fill(_per_head(links < 0), 0)
        y = alpha.unsqueeze(-1) * x
        for start in range(0, x.shape[2], chunk):
            part = slice(start, start + chunk)
            y[:, :, part] = _chunk(weights, links, part, y[:, :, part], y[:, :, :start])
        ctx.save_for_backward(alpha, weights, links, x, y)
        ctx.chunk = chunk
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, Tensor, None]:
        alpha, weights, links, x, y = ctx.saved_tensors
        adjoint = gradient.clone(memory_format=torch.contiguous_format)
        for start in reversed(range(0, x.shape[2], ctx.chunk)):
            part = slice(start, start + ctx.chunk)
            tile, outer, old = _tile(weights, links, part)
            here = torch.linalg.solve_triangular(tile.mT, adjoint[:, :, part], upper=True, unitriangular=True)
            adjoint[:, :, part] = here
            if start:
                spread = (outer.unsqueeze(-1) * here.unsqueeze(-2)).flatten(2, 3)
                add_at(adjoint[:, :, :start], old.flatten(-2), spread)
        of_alpha = (adjoint * x).sum(-1)
        with full_precision(x):
            of_weights = products(adjoint, y, links)
        return of_alpha, of_weights, None, alpha.unsqueeze(-1) * adjoint, None


def products(q: Tensor, keys: Tensor, links: Tensor) -> Tensor:
    """What `linked_products` gives, column by column, so that no (n, r, d) array is made."""
    missing = _per_head(links < 0)
    if _all_are_cheaper(keys, links):
        at = _per_head(links.clamp(min=0)).expand(*q.shape[:3], -1)
        return (q @ keys.mT).gather(-1, at).masked_fill(missing, 0)
    columns = [(q * gathered(keys, links[..., k])).sum(-1) for k in range(links.shape[-1])]
    return torch.stack(columns, -1).masked_fill(missing, 0)


def gathered(values: Tensor, at: Tensor) -> Tensor:
    """values (batch, heads, m, d) at positions (k,) or (batch, k), −1 read as 0: (batch, heads, k, d)."""
    if not values.shape[2]:  # all that can be asked for is −1
        return values.new_zeros(*values.shape[:2], at.shape[-1], values.shape[3])
    at = at.clamp(min=0)
    if at.ndim == 1:
        return values.index_select(2, at)
    return values.gather(2, at[:, None, :, None].expand(-1, values.shape[1], -1, values.shape[3]))


def add_at(values: Tensor, at: Tensor, new: Tensor) -> None:
    """Adds new (batch, heads, k, d) to values (batch, heads, m, d) at positions as `gathered` reads them."""
    at = at.clamp(min=0)
    if at.ndim == 1:
        values.index_add_(2, at, new)
    else:
        values.scatter_add_(2, at[:, None, :, None].expand_as(new), new)


def _chunk(weights: Tensor, links: Tensor, part: slice, rhs: Tensor, before: Tensor) -> Tensor:
    """y of the tokens `part` (batch, heads, c, d) after those before; weights are 0 where a link is −1."""
    tile, outer, old = _tile(weights, links, part)
    if before.shape[2]:
        earlier = gathered(before, old.flatten(-2)).unflatten(2, old.shape[-2:])
        rhs = rhs + (outer.unsqueeze(-2) @ earlier).squeeze(-2)
    return torch.linalg.solve_triangular(tile, rhs, upper=False, unitriangular=True)


def _tile(weights: Tensor, links: Tensor, part: slice) -> tuple[Tensor, Tensor, Tensor]:
    """(I − B inside a chunk, weights of links to before it and 0 else, those links with −1 else)."""
    links, weights, start = links[..., part, :], weights[:, :, part], part.start
    inside = links >= start
    n = links.shape[-2]
    tile = weights.new_zeros(*weights.shape[:2], n, n)
    at = _per_head((links - start).clamp(min=0)).expand_as(weights)
    tile.scatter_add_(-1, at, -weights.masked_fill(_per_head(~inside), 0))
    return tile, weights.masked_fill(_per_head(inside), 0), links.masked_fill(inside, -1)


def _per_head(table: Tensor) -> Tensor:
    """(n, r) as it is, (batch, n, r) as (batch, 1, n, r)."""
    return table if table.ndim == 2 else table.unsqueeze(1)
