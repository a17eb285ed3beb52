"""A Lipschitz bound of softmax attention on tokens that lie in a ball."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sciops.lipschitz.norms.bracket import Bracket
from sciops.lipschitz.norms.dense import dense_norm
from sciops.values import check_whole

_UP = 1 + 1e-12  # for the few roundings of the formula; norms arrive rounded already


def attention_bound(
    query: Any,
    key: Any,
    value: Any,
    *,
    tokens: int,
    radius: float,
    heads: int = 1,
    output: Any = None,
    scale: float | None = None,
    query_bias: Any = None,
    score_range: float = 0.0,
) -> Tensor:
    """An upper bound of the Lipschitz constant of softmax self-attention on tokens in a ball, in Frobenius norms.

    One head on N tokens with ‖x_i‖ ≤ R has

        ‖V‖ (√c + a (1 + √c)),   a = ‖A‖ R²,   A = s·QᵀK,   c = N / (1 + (N − 1) e^{−2a})

    Parameters
    ----------
    query, key, value : array (heads·d, channels)
        The maps Q, K, V of a token, heads one after the other.
    tokens : int
        N, the most tokens that attend to each other; windows side by side have the same bound.
    radius : float
        R. Outside a ball there is no bound: the constant grows like R².
    heads : int
        Number of heads.
    output : array (out, heads·d), optional
        W_o, applied after the heads are joined; the identity unless given.
    scale : float, optional
        s; 1/√d unless given.
    query_bias : array (heads·d,), optional
        b, added to the queries: a becomes a' = (‖A‖ R + s‖Kᵀb‖) R wherever keys are varied.
    score_range : float
        max − min of what is added to the scores, such as a relative bias; it adds to 2a in c.

    Returns
    -------
    Tensor
        A number, differentiable with respect to the maps.

    Raises
    ------
    ValueError
        For a negative or infinite radius, fewer than one token, and heads that do not divide the rows.

    Notes
    -----
    The derivative of y_i = V Σ_j P_ij x_j has three parts. The values: ‖P‖₂ ≤ √c, as rows of P add up to 1 and columns
    to at most c, since scores differ by at most 2a. The queries: V C_i Aᵀ dx_i with C_i the covariance of tokens under
    row i, ‖C_i‖ ≤ R². The keys: Σ_j P_ij V(x_j − x̄_i) x_iᵀA dx_j, by Cauchy and Schwarz at most ‖V‖ R ‖A‖ R (Σ_j P_ij
    ‖dx_j‖²)^½ in row i. With c = N this is nowhere above √3 ‖V‖ (‖A‖² R⁴ (4N + 1) + N)^½, and it does not grow with N
    for small a. Balls are convex: the bound holds for any two inputs. Heads add as √ΣL_h² before W_o or as ΣL_h with
    W_o inside, whichever is smaller.

    References
    ----------
    Castin, Ablin, Peyré (arXiv:2312.14820).
    """
    query, key, value = (torch.as_tensor(w) for w in (query, key, value))
    _check_tokens(query, key, value, tokens, radius, heads)
    q, k, v = (w.unflatten(0, (heads, -1)) for w in (query, key, value))
    scale = q.shape[1] ** -0.5 if scale is None else abs(scale)
    a = _norms(q.mT @ k).upper * (scale * radius**2)
    by_key = a
    if query_bias is not None:
        b = torch.as_tensor(query_bias).unflatten(0, (heads, -1))
        by_key = a + (b[:, None] @ k)[:, 0].norm(dim=1) * (scale * radius * _UP)
    share = tokens / (1 + (tokens - 1) * torch.exp(-2 * by_key - score_range))
    gain = (share.sqrt() * (1 + by_key) + a) * _UP
    return _joined(gain, v, output)


def cosine_attention_bound(
    query: Any,
    key: Any,
    value: Any,
    *,
    tokens: int,
    radius: float,
    floor: float,
    sharpness: Any,
    output: Any = None,
    score_range: float = 0.0,
) -> Tensor:
    """An upper bound of the Lipschitz constant of attention by cosines with a floor, on tokens in a ball.

    One head on N tokens with ‖x_i‖ ≤ R and scores s·n(Q x_i)·n(K x_j), n(q) = q/√(|q|² + ε²), has

        ‖V‖ (√c + s R (‖Q‖ + √c ‖K‖)/ε),   c = N / (1 + (N − 1) e^{−2s})

    Parameters
    ----------
    query, key, value, tokens, radius, output, score_range
        As in `attention_bound`. A bias of the queries changes nothing.
    floor : float
        ε > 0. Without it directions have no bounded slope near zero, and there is no bound.
    sharpness : array (heads,)
        s, of every head.

    Returns
    -------
    Tensor
        A number, differentiable with respect to the maps.

    Raises
    ------
    ValueError
        For a floor that is not positive, and as `attention_bound` does.

    Notes
    -----
    n has slopes of at most 1/ε and values of norm below 1, so that scores lie within ±s and differ by at most 2s plus
    `score_range`. The three parts are those of `attention_bound`: the values √c ‖V‖; the queries s V C_i J Q dx_i, with
    C_i the covariance of tokens and keys' directions under row i, ‖C_i‖ ≤ R; the keys
    s Σ_j P_ij V(x_j − x̄_i) n(Q x_i)·J K dx_j, by Cauchy and Schwarz at most s ‖V‖ R ‖K‖/ε (Σ_j P_ij ‖dx_j‖²)^½. The
    bound grows like R where that of scores q·k grows like R².
    """
    query, key, value = (torch.as_tensor(w) for w in (query, key, value))
    sharpness = torch.as_tensor(sharpness, dtype=query.dtype, device=query.device).reshape(-1).abs()
    heads = len(sharpness)
    if not 0 < floor < math.inf:
        raise ValueError(f"floor={floor!r}: expected a positive number; plain cosines have no bounded slope near zero")
    _check_tokens(query, key, value, tokens, radius, heads)
    q, k, v = (w.unflatten(0, (heads, -1)) for w in (query, key, value))
    share = (tokens / (1 + (tokens - 1) * torch.exp(-2 * sharpness - score_range))).sqrt()
    slopes = _norms(q).upper + share * _norms(k).upper
    return _joined((share + sharpness * (radius / floor) * slopes) * _UP, v, output)


def _check_tokens(query: Tensor, key: Tensor, value: Tensor, tokens: int, radius: float, heads: int) -> None:
    if not 0 <= radius < math.inf:
        raise ValueError(f"radius={radius!r}: expected a finite number of at least 0; without a ball there is no bound")
    check_whole(tokens=tokens)
    if heads < 1 or any(len(w) % heads for w in (query, key, value)) or query.shape != key.shape:
        raise ValueError(
            f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)} do not split into {heads} "
            "heads: expected (heads·d, channels) each"
        )


def _joined(gain: Tensor, v: Tensor, output: Any) -> Tensor:
    """The bound of all heads, each `gain` times the norm of its values v (heads, d, channels), joined by W_o."""
    heads = len(v)
    alone = (_norms(v).upper * gain).square().sum().sqrt() * _UP
    if output is None:
        return alone
    output = torch.as_tensor(output)
    together = dense_norm(output, method="svdvals").upper * alone
    inside = _norms(output.unflatten(1, (heads, -1)).movedim(1, 0) @ v).upper
    return torch.minimum(together, (inside * gain).sum()) * _UP


def _norms(batch: Tensor) -> Bracket:
    return dense_norm(batch, method="svdvals")
