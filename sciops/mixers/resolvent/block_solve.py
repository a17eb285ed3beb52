"""Solving with structured attention A_s = D + N + E W: tiles on the diagonal, the tiles before them, and summaries."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from sciops.arrays.compiling import transformed
from sciops.mixers.precision import full_precision
from sciops.mixers.resolvent.dense import one_minus, solve


class Routes(NamedTuple):
    """A_s of K blocks of m tokens, with leading axes (batch, heads).

    tiles : D (…, K, m, m), what tokens give to their own block
    near : N (…, K, m, m), to the block before theirs; None where D is all that is seen in full
    far : E (…, K, m, K) to the summary of every block; or, with `lift`, C (…, K, K) from block to block
    lift : ρ (…, K, m), E_{i c} = ρ_i C_{block(i) c}
    weights : W (…, K, m), of the tokens in the summary of their block
    """

    tiles: Tensor
    near: Tensor | None
    far: Tensor
    lift: Tensor | None
    weights: Tensor


def applied(routes: Routes, x: Tensor) -> Tensor:
    """A_s X, x : (…, K, m, d)."""
    y = routes.tiles @ x
    if routes.near is not None:
        y = y + routes.near @ torch.cat([torch.zeros_like(x[..., :1, :, :]), x[..., :-1, :, :]], -3)
    return y + spread(routes, summaries(routes.weights, x))


def summaries(weights: Tensor, x: Tensor) -> Tensor:
    """W X (…, K, d)."""
    return (weights.unsqueeze(-2) @ x).squeeze(-2)


def spread(routes: Routes, s: Tensor) -> Tensor:
    """E s (…, K, m, d) of summaries s (…, K, d)."""
    if routes.lift is not None:
        return lifted(routes.lift, routes.far @ s)
    return (routes.far.flatten(-3, -2) @ s).unflatten(-2, routes.far.shape[-3:-1])


def lifted(lift: Tensor | None, f: Tensor) -> Tensor:
    """ρ_i f_{block(i)} (…, K, m, d) of what blocks gain, (…, K, d); what tokens gain without gates as it is."""
    return f if lift is None else lift.unsqueeze(-1) * f.unsqueeze(-2)


def gathered(routes: Routes, x: Tensor) -> Tensor:
    """Eᵀ X (…, K, d)."""
    if routes.lift is not None:
        return routes.far.mT @ summaries(routes.lift, x)
    return routes.far.flatten(-3, -2).mT @ x.flatten(-3, -2)


def reduced(routes: Routes, t: Tensor) -> Tensor:
    """t E (…, K, K) of rows t (…, K, m) a block."""
    if routes.lift is not None:
        return (t * routes.lift).sum(-1, keepdim=True) * routes.far
    return (t.unsqueeze(-2) @ routes.far).squeeze(-2)


def structured_solve(routes: Routes, r: Tensor, gamma: Tensor | float, how: str | int) -> Tensor:
    """X = (I − γA_s)⁻¹ R, r : (…, K, m, d).

    gamma : number, or tensor that broadcasts with (…, K, m, d)
    how : "lower", tiles are lower and C, E strictly lower by blocks; otherwise the tiles are full, and how the K×K
        system is solved: "dense", or a number of iterations (`solve`)

    With T = (I − γD)⁻¹ and no N: s = (I − γWTE)⁻¹ WTR, X = T(R + γEs), Woodbury's formula. With N, block after block.
    The backward pass solves with the transpose and keeps nothing but the routes and X. Under torch.func and compilers
    torch's own operations are differentiated.
    """
    if transformed():
        return _solved(routes, r, gamma, how)
    return _StructuredSolve.apply(how, r, gamma, *routes)


class _StructuredSolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: str | int, r: Tensor, gamma: Tensor | float, *parts: Tensor | None) -> Tensor:
        routes = Routes(*parts)
        x = _solved(routes, r, gamma, how)
        ctx.how, ctx.gamma = how, None if isinstance(gamma, Tensor) else gamma
        ctx.save_for_backward(x, gamma if isinstance(gamma, Tensor) else None, *parts)
        return x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, gamma, *parts = ctx.saved_tensors
        gamma = ctx.gamma if gamma is None else gamma
        needed = ctx.needs_input_grad[2:]
        leaves = [z.detach().requires_grad_(n) if isinstance(z, Tensor) else z for z, n in zip((gamma, *parts), needed)]
        asked = [z for z, n in zip(leaves, needed) if n]
        grads: Any = iter(())
        with full_precision(g):
            dual = _solved_transposed(Routes(*parts), g, gamma, ctx.how)
            if asked:  # X = R + γA_sX: what moves A_s or γ moves X as it would move R
                with torch.enable_grad():
                    moved = leaves[0] * applied(Routes(*leaves[1:]), x)
                grads = iter(torch.autograd.grad(moved, asked, dual))
        return None, dual, *(next(grads) if n else None for n in needed)


def _solved(routes: Routes, r: Tensor, gamma: Tensor | float, how: str | int) -> Tensor:
    tiles = _Tiles(routes.tiles, gamma, how)
    if routes.near is not None:
        return _forwards(routes, tiles, r, gamma)
    t = tiles.rows(routes.weights)
    s = solve(reduced(routes, t), summaries(t, r), _of_blocks(gamma), how)
    return tiles.solve(r + gamma * spread(routes, s))


def _solved_transposed(routes: Routes, g: Tensor, gamma: Tensor | float, how: str | int) -> Tensor:
    tiles = _Tiles(routes.tiles, gamma, how)
    if routes.near is not None:
        return _backwards(routes, tiles, g, gamma)
    t, g = tiles.rows(routes.weights), tiles.transposed(g)
    e = solve(reduced(routes, t).mT, gathered(routes, g), _of_blocks(gamma), "upper" if how == "lower" else how)
    return g + gamma * t.unsqueeze(-1) * e.unsqueeze(-2)


def _forwards(routes: Routes, tiles: _Tiles, r: Tensor, gamma: Tensor | float) -> Tensor:
    """Block after block: X_b = T_b (R_b + γ(N_b X_{b−1} + E_b s)), s_b = W_b X_b."""
    x: list[Tensor] = []
    s: list[Tensor] = []
    gamma = _of_blocks(gamma)
    for b in range(r.shape[-3]):
        known = r[..., b, :, :]
        if b:
            before = torch.stack(s, -2)
            if routes.lift is not None:
                f = routes.lift[..., b, :, None] * (routes.far[..., b, None, :b] @ before)
            else:
                f = routes.far[..., b, :, :b] @ before
            known = known + gamma * (f + routes.near[..., b, :, :] @ x[-1])
        x.append(tiles.solve(known, b))
        s.append((routes.weights[..., b, None, :] @ x[-1]).squeeze(-2))
    return torch.stack(x, -3) if x else torch.empty_like(r)


def _backwards(routes: Routes, tiles: _Tiles, g: Tensor, gamma: Tensor | float) -> Tensor:
    """Block before block: Λ_b = T_bᵀ (G_b + γ(N_{b+1}ᵀ Λ_{b+1} + W_bᵀ e_b)), e_b the row b of EᵀΛ."""
    dual, gamma, last = torch.empty_like(g), _of_blocks(gamma), g.shape[-3] - 1
    lifted = torch.zeros_like(g[..., 0, :])
    for b in range(last, -1, -1):
        known = g[..., b, :, :]
        if b < last:
            if routes.lift is not None:
                e = routes.far[..., b + 1 :, b].unsqueeze(-2) @ lifted[..., b + 1 :, :]
            else:
                e = routes.far[..., b + 1 :, :, b].flatten(-2).unsqueeze(-2) @ dual[..., b + 1 :, :, :].flatten(-3, -2)
            back = routes.near[..., b + 1, :, :].mT @ dual[..., b + 1, :, :]
            known = known + gamma * (back + routes.weights[..., b, :, None] * e)
        dual[..., b, :, :] = tiles.transposed(known, b)
        if routes.lift is not None:
            lifted[..., b, :] = (routes.lift[..., b, None, :] @ dual[..., b, :, :]).squeeze(-2)
    return dual


class _Tiles:
    """T = (I − γD)⁻¹ by tiles, (…, K, m, m), applied to the left and to the right; `at` picks one tile."""

    def __init__(self, tiles: Tensor, gamma: Tensor | float, how: str | int) -> None:
        system = one_minus(tiles, gamma)
        self.inverted = how != "lower"
        # batched triangular solves beat the product (I + N)(I + N²)… of the nilpotent part at every size of tile
        self.system = torch.linalg.inv(system) if self.inverted else system

    def solve(self, r: Tensor, at: int | None = None) -> Tensor:
        system = self.system if at is None else self.system[..., at, :, :]
        return system @ r if self.inverted else torch.linalg.solve_triangular(system, r, upper=False)

    def transposed(self, g: Tensor, at: int | None = None) -> Tensor:
        system = (self.system if at is None else self.system[..., at, :, :]).mT
        return system @ g if self.inverted else torch.linalg.solve_triangular(system, g, upper=True)

    def rows(self, w: Tensor) -> Tensor:
        """w T (…, K, m) of one row w a tile."""
        return self.transposed(w.unsqueeze(-1)).squeeze(-1)


def _of_blocks(gamma: Tensor | float) -> Tensor | float:
    """γ that broadcast with (…, K, m, d), for (…, K, d)."""
    return gamma.squeeze(-1) if isinstance(gamma, Tensor) else gamma
