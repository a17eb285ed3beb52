"""`LinearAttention`: attention whose scores are products of features, so that its past is one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from sciops.arrays.compiling import constant, kept, transformed
from sciops.mixers.bounds import PRODUCTS
from sciops.mixers.checks import check_choice, check_heads
from sciops.mixers.padding import padded
from sciops.mixers.precision import full_precision, working_dtype
from sciops.mixers.quadrature import quadrature
from sciops.mixers.sequence.base import SequenceMixer, lengths_of

_CHUNK = 64  # tokens whose scores with one another are computed
_SEGMENT = 64 * _CHUNK  # tokens whose chunks are computed at once

Features = Literal["elu", "identity"]


class LinearState(NamedTuple):
    """matrix (batch, heads, d, d) = Σ_j γ^{i−j} φ(k_j) v_jᵀ. norm (batch, heads, d) = Σ_j γ^{i−j} φ(k_j), or
    (batch, heads, 1) = Σ_j γ^{i−j} for identity features."""

    matrix: Tensor
    norm: Tensor


class LinearAttention(SequenceMixer):
    """Attention whose scores are products of features, so that one d×d matrix per head holds the past.

    y_i = W_o Σ_j γ^{|i−j|} (φ(q_i)·φ(k_j)) v_j / c_i, over j ≤ i where causal; x : (batch, n, channels) → same, in O(n
    d²) per head. On a grid, without causal, sums over j carry its quadrature weights.

    Parameters
    ----------
    channels : int
        Number of channels, a multiple of `heads`.
    heads : int
        Number of heads.
    features : {"elu", "identity"}
        "elu": φ = elu + 1 and c_i = Σ_j γ^{|i−j|} φ(q_i)·φ(k_j), an average of values. "identity": φ(u) = u and
        c_i = √d Σ_j γ^{|i−j|}, signed weights (Galerkin attention without its norms).
    decay : float or sequence of float, optional
        γ in 0 < γ ≤ 1, one for all heads or one each; 1 by default.
    causal : bool
        j ≤ i, with a state of one d×d matrix and one vector per head.

    Raises
    ------
    ValueError
        When heads do not divide channels, for other features, and for a decay outside 0 < γ ≤ 1.

    References
    ----------
    Linear attention, arXiv:2006.16236; Galerkin attention, arXiv:2105.14995; retention, arXiv:2307.08621.
    """

    lipschitz_rule = PRODUCTS

    def __init__(
        self,
        channels: int,
        *,
        heads: int = 4,
        features: Features = "elu",
        decay: float | Sequence[float] | None = None,
        causal: bool = False,
    ) -> None:
        super().__init__(channels, causal=causal)
        check_heads(channels, heads)
        check_choice("features", features, Features)
        decays = decay if isinstance(decay, Sequence) else (1.0 if decay is None else decay,) * heads
        if len(decays) != heads or not all(0 < gamma <= 1 for gamma in decays):
            raise ValueError(f"decay={decay}: expected a number in 0 < γ ≤ 1, or one for each of {heads} heads")
        self.heads, self.features = heads, features
        self.decays = None if decay is None else tuple(float(gamma) for gamma in decays)
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def mix(self, x: Tensor, mask: Tensor | None, grid: Any) -> Tensor:
        q, k, v, ones = self._projected(x, mask)
        with full_precision(x):
            if self.causal:
                num, norm, _ = self._scan(q, k, v, ones, None)
                return self._merged(num, norm, x.dtype)
            weights = quadrature(grid, q.dtype, q.device)
            if weights is not None:
                weights = weights.unsqueeze(-1)
                k, ones = k * weights, ones * weights
            if self.decays is None:
                num, norm = q @ (k.mT @ v), self._product(q, (k if self.features == "elu" else ones).sum(2))
            else:
                forward = self._scan(q, k, v, ones, None)
                backward = self._scan(*(part.flip(2) for part in (q, k, v, ones)), None)
                own = (q * k).sum(-1)
                num = forward[0] + backward[0].flip(2) - own.unsqueeze(-1) * v
                norm = forward[1] + backward[1].flip(2) - (own if self.features == "elu" else ones.squeeze(-1))
            return self._merged(num, norm, x.dtype)

    def extend(self, x: Tensor, state: LinearState | None, mask: Tensor | None) -> tuple[Tensor, LinearState]:
        q, k, v, ones = self._projected(x, mask)
        with full_precision(x):
            num, norm, after = self._scan(q, k, v, ones, state)
            if mask is not None and self.decays is not None:  # a sequence must not decay while longer ones continue
                after = self._at_lengths(k, v, ones, lengths_of(x, mask), state)
            return self._merged(num, norm, x.dtype), after

    def advance(self, x: Tensor, state: LinearState | None) -> tuple[Tensor, LinearState]:
        q, k, v, ones = self._projected(x.unsqueeze(1), None)
        with full_precision(x):
            s, z = self._empty(q, v) if state is None else state
            if self.decays is not None:
                gamma = self._gamma(q).unsqueeze(-1)
                s, z = gamma.unsqueeze(-1) * s, gamma * z
            s = s + k.mT @ v
            z = z + (k if self.features == "elu" else ones).squeeze(2)
            y = self._merged(q @ s, self._product(q, z), x.dtype)
        return y.squeeze(1), LinearState(s, z)

    def _projected(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """φ(q), φ(k), v (batch, heads, n, d) and ones (batch, heads, n, 1); the last three are 0 at padding."""
        dtype = working_dtype(x)
        q, k, v = self.qkv(x).to(dtype).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.features == "elu":
            # y is the same for any multiple of φ(q): one whose largest entry is at least 1 does not underflow to 0
            q, k = _positive(q, q.detach().amax(-1, keepdim=True).clamp(max=0)), _positive(k)
        else:
            q = q * q.shape[-1] ** -0.5
        ones = q.new_ones(()).expand(*q.shape[:3], 1)
        if mask is not None:
            there = mask[:, None, :, None]
            k, v, ones = (part.masked_fill(~there, 0) for part in (k, v, ones))
        return q, k, v, ones

    def _scan(
        self, q: Tensor, k: Tensor, v: Tensor, ones: Tensor, state: LinearState | None
    ) -> tuple[Tensor, Tensor, LinearState]:
        """Sums over j ≤ i of weights times values, and of the weights, segment by segment; and the state after all."""
        state = self._empty(q, v) if state is None else state
        if not q.shape[2]:
            return v, v.sum(-1), state
        gamma, numerators, norms = self._gamma(q), [], []
        # split, and no slices: the gradient of a slice is as long as the sequence
        for parts in zip(*(part.split(_SEGMENT, 2) for part in (q, k, v, ones))):
            num, norm, state = self._segment(*parts, gamma, state)
            numerators.append(num)
            norms.append(norm)
        return torch.cat(numerators, 2), torch.cat(norms, 2), state

    def _segment(
        self, q: Tensor, k: Tensor, v: Tensor, ones: Tensor, gamma: Tensor, state: LinearState
    ) -> tuple[Tensor, Tensor, LinearState]:
        """The same of one segment: by scores within its chunks, by the state before each for what came earlier."""
        # a compiler that takes the length for a symbol must not meet it in the size of a chunk
        n, c = q.shape[2], _CHUNK if transformed() else min(_CHUNK, q.shape[2])
        chunks, elu = -(-n // c), self.features == "elu"
        q, k, v, ones = (padded(part, (0, 0, 0, chunks * c - n)).unflatten(2, (chunks, c)) for part in (q, k, v, ones))
        at = torch.arange(c, device=q.device)
        ends = (c * torch.arange(chunks + 1, device=q.device)).clamp(max=n)  # of the past, and of every chunk
        decay = _powers(gamma, at[:, None] - at).unsqueeze(1)
        to_end = _powers(gamma, ends[1:, None] - 1 - (ends[:-1, None] + at)).unsqueeze(-1)
        carried = _powers(gamma, ends[:, None] - ends)
        fall = _powers(gamma, at + 1).unsqueeze(1)

        new = (to_end * k).mT @ v
        s = torch.cat([state.matrix.unsqueeze(2), new], 2).flatten(3)
        s = (carried @ s).unflatten(3, new.shape[3:])
        z = carried @ torch.cat([state.norm.unsqueeze(2), (to_end * (k if elu else ones)).sum(3)], 2)

        scores = (q @ k.mT) * decay
        num = scores @ v + fall.unsqueeze(-1) * (q @ s[:, :, :-1])
        weights = scores.sum(-1) if elu else (decay @ ones).squeeze(-1)
        before = (q * z[:, :, :-1, None]).sum(-1) if elu else z[:, :, :-1]
        norm = weights + fall * before
        return (
            num.flatten(2, 3)[:, :, :n],
            norm.flatten(2, 3)[:, :, :n],
            LinearState(s[:, :, -1].clone(), z[:, :, -1].clone()),
        )

    def _at_lengths(
        self, k: Tensor, v: Tensor, ones: Tensor, lengths: Tensor, state: LinearState | None
    ) -> LinearState:
        gamma = self._gamma(k)
        left = (lengths[:, None] - 1 - torch.arange(k.shape[2], device=k.device)).clamp(min=0)
        to_end = (gamma[:, None] ** left[:, None]).unsqueeze(-1)
        fade = (gamma ** lengths[:, None]).unsqueeze(-1)
        old = self._empty(k, v) if state is None else state
        matrix = fade.unsqueeze(-1) * old.matrix + (to_end * k).mT @ v
        return LinearState(matrix, fade * old.norm + (to_end * (k if self.features == "elu" else ones)).sum(2))

    def _empty(self, k: Tensor, v: Tensor) -> LinearState:
        size = k.shape[-1] if self.features == "elu" else 1
        return LinearState(k.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1]), k.new_zeros(*k.shape[:2], size))

    def _gamma(self, like: Tensor) -> Tensor:
        return _decays(self.decays or (1.0,) * self.heads, like.dtype, like.device)

    def _product(self, q: Tensor, z: Tensor) -> Tensor:
        """(batch, heads, n): features of the queries with a norm (batch, heads or 1, d or 1)."""
        return (q * z.unsqueeze(2)).sum(-1) if self.features == "elu" else z.expand(-1, q.shape[1], q.shape[2])

    def _merged(self, num: Tensor, norm: Tensor, dtype: torch.dtype) -> Tensor:
        # the derivative by num is 1/norm: of a smaller norm its products would overflow
        y = num / norm.clamp(min=torch.finfo(norm.dtype).tiny ** 0.6).unsqueeze(-1)
        return self.out(y.transpose(1, 2).flatten(2).to(dtype))

    def extra_repr(self) -> str:
        decay = "" if self.decays is None else f", decay={self.decays}"
        return f"{self.channels}, heads={self.heads}, features={self.features!r}{decay}, causal={self.causal}"


def _positive(u: Tensor, shift: Tensor | float = 0.0) -> Tensor:
    """elu(u) + 1, with all its digits where it is small: −1 + e^u + 1 would lose them, and is 0 from u = −17 on.

    shift : min(0, max u) gives the same divided by e^shift, whose largest entry is at least 1
    """
    return u.relu() + (u.clamp(max=0) - shift).exp()


def _powers(gamma: Tensor, e: Tensor) -> Tensor:
    """γ^e (heads, *e.shape) of γ (heads,) and whole numbers e; 0 where e < 0."""
    return torch.where(e >= 0, gamma.reshape(-1, *(1,) * e.ndim) ** e.clamp(min=0), 0)


@constant
@kept(32)
def _decays(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=device)
