"""Y = A X + B Y: one triangular system for every causal linear mixer, dense or along links (arXiv:2605.31367)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sciops.mixers.checks import check_choice
from sciops.mixers.precision import full_precision, working_dtype
from sciops.mixers.recurrence.linked import linked_solve

Method = Literal["solve", "powers"]


def solve_mixing(a: Tensor, b: Tensor, x: Tensor, *, method: Method = "solve", diagonal: bool = False) -> Tensor:
    """Solves Y = A X + B Y, that is y_i = Σ_j α_{ij} x_j + Σ_{j<i} β_{ij} y_j, for Y = (I − B)^{-1} A X.

    Parameters
    ----------
    a : Tensor
        (…, n, n), or with diagonal=True the diagonal of A, (…, n).
    b : Tensor
        (…, n, n); entries on and above the diagonal are not read.
    x : Tensor
        (…, n, d).
    method : {"solve", "powers"}
        "solve", one triangular solve; "powers", (I − B)^{-1} = Π_s (I + B^{2^s}) over 2^s < n, exact since B^n = 0:
        matrix products alone, for short sequences.
    diagonal : bool
        A is diagonal.

    Returns
    -------
    Tensor
        Y, like x. Half precision is solved in float32.

    Raises
    ------
    ValueError
        For shapes that do not fit and other methods.
    TypeError
        For complex a or b with a real x.

    Notes
    -----
    Softmax attention has a = softmax(QKᵀ), b = 0; a gated recurrence has a diagonal and b on the first subdiagonal;
    ChaCAL (arXiv:2410.05565) has a = (1 − γ)P/(1 − γp_ii), b = γP/(1 − γp_ii).
    """
    n = x.shape[-2] if x.ndim > 1 else -1
    if b.shape[-2:] != (n, n) or a.shape[-1:] != (n,) or (not diagonal and a.shape[-2:] != (n, n)):
        raise ValueError(
            f"a {tuple(a.shape)}, b {tuple(b.shape)}, x {tuple(x.shape)}: expected b (…, n, n) for x (…, n, d), and a "
            "(…, n, n), or (…, n) with diagonal=True"
        )
    check_choice("method", method, Method)
    if (a.is_complex() or b.is_complex()) and not x.is_complex():
        both = torch.promote_types(a.dtype, b.dtype)
        raise TypeError(f"a of {a.dtype} and b of {b.dtype} with x of {x.dtype}: expected a complex x, x.to({both})")
    dtype = x.dtype if x.is_complex() else working_dtype(x)
    with full_precision(x):
        a, b, wide = a.to(dtype), b.to(dtype), x.to(dtype)
        rhs = a.unsqueeze(-1) * wide if diagonal else a @ wide
        if method == "solve":
            y = torch.linalg.solve_triangular(-b, rhs, upper=False, unitriangular=True)
        else:
            y, power = rhs, b.tril(-1)
            for s in range(max(0, (n - 1).bit_length())):
                y = y + power @ y
                power = power @ power if 2 ** (s + 1) < n else power
        return y.to(x.dtype)


def solve_links(alpha: Tensor, weights: Tensor, links: Tensor, x: Tensor, *, chunk: int = 64) -> Tensor:
    """Solves y_i = α_i x_i + Σ_k w_{ik} y_{links(i,k)}: `solve_mixing` with a diagonal A and r entries per row of B.

    Parameters
    ----------
    alpha : Tensor
        (batch, heads, n).
    weights : Tensor
        (batch, heads, n, r).
    links : Tensor
        (n, r) or (batch, n, r) int64, positions below i; −1 stands for a missing link, whatever its weight.
    x : Tensor
        (batch, heads, n, d).
    chunk : int
        Number of tokens solved at once: n/chunk sequential steps, O(n (r + chunk) d) work, O(n r) memory. The result
        depends on it by round-off only.

    Returns
    -------
    Tensor
        y, like x. Half precision is solved in float32; gradients of first order, of any order under torch.func.

    Raises
    ------
    ValueError
        For shapes that do not fit, for links at or after their token, and for a chunk below 1.
    TypeError
        For links that are not int64.
    """
    batch = x.shape[:1] if links.ndim == 3 else ()
    table = (*batch, *weights.shape[2:])
    if x.ndim != 4 or alpha.shape != x.shape[:3] or weights.shape[:-1] != x.shape[:3] or links.shape != table:
        raise ValueError(
            f"alpha {tuple(alpha.shape)}, weights {tuple(weights.shape)}, links {tuple(links.shape)}, x "
            f"{tuple(x.shape)}: expected (batch, heads, n), (batch, heads, n, r), ([batch,] n, r), (batch, heads, n, d)"
        )
    if links.dtype != torch.int64:
        raise TypeError(f"links of {links.dtype}: expected torch.int64")
    if chunk < 1:
        raise ValueError(f"chunk={chunk}: expected at least 1 token")
    if (links >= torch.arange(x.shape[2], device=links.device)[:, None]).any():
        raise ValueError("links at or after their own token: expected links(i, k) < i, or −1 for none")
    return linked_solution(alpha, weights, links, x, chunk)


def linked_solution(alpha: Tensor, weights: Tensor, links: Tensor, x: Tensor, chunk: int = 64) -> Tensor:
    """`solve_links` of arguments that are known to fit."""
    dtype = working_dtype(x)
    with full_precision(x):
        return linked_solve(alpha.to(dtype), weights.to(dtype), links, x.to(dtype), chunk).to(x.dtype)
