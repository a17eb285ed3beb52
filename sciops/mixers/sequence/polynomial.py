"""`PolynomialMixer`: every token reads one average of polynomial features of all through a gate of its own."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.mixers.bounds import PRODUCTS
from sciops.mixers.checks import check_choice
from sciops.mixers.padding import padded
from sciops.mixers.precision import full_precision, working_dtype
from sciops.mixers.quadrature import token_weights
from sciops.mixers.sequence.base import SequenceMixer, lengths_of, only_tokens
from sciops.mixers.sequence.polynomial_features import Activation, PolynomialFeatures, Variant
from sciops.mixers.sequence.running_means import running_means
from sciops.mixers.sequence.segments import in_segments
from sciops.mixers.sequence.self_attention import rotated
from sciops.values import check_whole

# torch's own hardsigmoid has no second derivative
_GATES = {"sigmoid": torch.sigmoid, "hardsigmoid": lambda x: (x / 6 + 0.5).clamp(0, 1)}
_LEAST = 256  # tokens of a segment, however large the batch

Gate = Literal["sigmoid", "hardsigmoid"]


class PolynomialState(NamedTuple):
    """total : (batch, features) Σ_j F(x_j), float32 or wider; count : (batch,) tokens in it, int64."""

    total: Tensor
    count: Tensor


class PolynomialMixer(SequenceMixer):
    """Every token reads one mean of polynomial features of all tokens through a gate of its own.

    y_i = W_o (S_i ⊙ H_i) + b_o,  S_i = σ(W_s x_i + b_s),  H_i = Σ_j w_ij F(x_j) / Σ_j w_ij; x : (batch, n, channels) →
    same, in O(n) time and memory. Sums are taken in float32 at least. `cross` reads another sequence.

    Parameters
    ----------
    channels : int
        Number of channels.
    degree : int
        Degree k of F.
    expansion : float
        m = expansion·channels features per degree.
    variant : {"branch", "coefficients"}
        "branch": g = φ(W_p x + b_p) is cut into g_1 … g_k of m channels each, F = (g_1, g_1 g_2, …, g_1 ⋯ g_k) of k·m
        channels, φ = GELU. "coefficients": z = φ(W_h x) of m channels, F = Σ_p α_p ⊙ z^p, φ = leaky ReLU clamped to
        −0.1 … 6, no b_o; α starts within ±0.001 and b_s at 0, so that the mixer starts near 0.
    causal : bool
        j ≤ i, all tokens weighing alike on any grid. Otherwise w is the quadrature of the grid: H is a mean over the
        domain on any grid of any number of axes, and the order of the points does not matter.
    block : int, optional
        With causal=True, i also reads the rest of its own block, tokens q·block … (q + 1)·block − 1: frames. Segments
        given to `prefill` then start where a block does, so all but the last hold whole blocks, and `step` is not
        available.
    activation : {"gelu", "clipped", "identity"}, optional
        φ; by default that of the variant.
    gate : {"sigmoid", "hardsigmoid"}
        σ; hardsigmoid is clamp(x/6 + ½, 0, 1).
    gate_heads : int, optional
        Number of gates S per token, each for a group of neighbouring features; by default one per feature.
    groups : int
        Number of diagonal blocks of W_p or W_h.
    rope : bool
        Rotates F(x_j), features c and c + half a pair, by angles that grow with j − i. The mean is rotated back by i
        before the gate, so that y depends on j − i alone; a gate rotated by i, as in the authors' code, does so only if
        W_o weighs both of a pair alike. Positions count tokens, so x has one axis.
    chunk : int, optional
        Number of tokens of a batch that are processed at a time (256 per sequence at least). For longer input, training
        keeps only the inputs and recomputes the features in the backward pass. None: everything at once, which
        `torch.func` needs.

    Raises
    ------
    ValueError
        For sizes below 1, gate_heads that do not divide the features, groups that do not divide channels and m, an odd
        number of features with rope, and a block without causal.

    Notes
    -----
    The causal state is (ΣF, count), of O(channels) numbers for any number of tokens.

    References
    ----------
    "branch", arXiv:2411.12663 and arXiv:2603.00683; "coefficients", arXiv:2604.06129; rotary positions,
    arXiv:2104.09864.
    """

    lipschitz_rule = PRODUCTS

    def __init__(
        self,
        channels: int,
        *,
        degree: int = 2,
        expansion: float = 2,
        variant: Variant = "branch",
        causal: bool = False,
        block: int | None = None,
        activation: Activation = None,
        gate: Gate = "sigmoid",
        gate_heads: int | None = None,
        groups: int = 1,
        rope: bool = False,
        chunk: int | None = 1024,
    ) -> None:
        super().__init__(channels, causal=causal)
        given = dict(degree=degree, block=block, gate_heads=gate_heads, groups=groups, chunk=chunk)
        check_whole(**{name: value for name, value in given.items() if value is not None})
        if block is not None and not causal:
            raise ValueError(f"block={block}: blocks follow one another in time, pass causal=True")
        check_choice("gate", gate, Gate)
        width = round(expansion * channels)
        self.polynomial = PolynomialFeatures(
            channels, width, degree=degree, variant=variant, activation=activation, groups=groups
        )
        self.features = self.polynomial.features
        self.gate_heads = self.features if gate_heads is None else gate_heads
        if self.features % self.gate_heads:
            raise ValueError(f"gate_heads={gate_heads} do not divide the {self.features} features: pass one that does")
        if rope and self.features % 2:
            raise ValueError(f"rope=True turns pairs of features: {self.features} is odd")
        self.block, self.gate, self.rope, self.chunk = block, gate, rope, chunk
        self.to_gate = nn.Linear(channels, self.gate_heads)
        self.out = nn.Linear(self.features, channels, bias=variant == "branch")
        if variant == "coefficients":
            nn.init.zeros_(self.to_gate.bias)

    def mix(self, x: Tensor, mask: Tensor | None, grid: Grid | None) -> Tensor:
        if self.causal:
            return self.extend(x, None, mask)[0]
        return self._read(x, self._means(x, token_weights(x, mask, grid, working_dtype(x)).unsqueeze(1)))

    def mix_grid(self, x: Tensor, grid: Grid | None) -> Tensor:
        if self.rope:
            raise ValueError(f"rope=True counts tokens along one axis; x has shape {tuple(x.shape)}: pass rope=False")
        return super().mix_grid(x, grid)

    def cross(self, x: Tensor, context: Tensor, mask: Tensor | None = None) -> Tensor:
        """Each token of x (batch, m, channels) reads the mean over the part of context (batch, n, channels) that it may
        read.

        Parameters
        ----------
        x, context : Tensor
            The tokens that read, and those that are read.
        mask : Tensor, optional
            Booleans (batch, m, n), or (batch, 1, n) for a mask that all tokens of x share. It alone decides what is
            read, causal or not; a token that reads nothing has H = 0. Work is O(m + n), and O(mn) where the mask
            differs by token.

        Raises
        ------
        ValueError
            For shapes that do not fit.
        """
        self.check(x), self.check(context)
        shapes = [(x.shape[0], rows, context.shape[1]) for rows in (x.shape[1], 1)]
        if x.ndim != 3 or context.ndim != 3 or context.shape[0] != x.shape[0]:
            raise ValueError(
                f"context of shape {tuple(context.shape)} for x of shape {tuple(x.shape)}: expected as many sequences"
            )
        if mask is None:
            weights = context.new_ones(1, 1, context.shape[1], dtype=working_dtype(context))
        elif mask.dtype != torch.bool or mask.shape not in shapes:
            raise ValueError(
                f"mask of {mask.dtype} and shape {tuple(mask.shape)}: expected booleans {shapes[0]} or {shapes[1]}"
            )
        else:
            context = only_tokens(context, mask.any(1))
            weights = mask.to(working_dtype(context))
        return self._read(x, self._means(context, weights))

    def extend(self, x: Tensor, state: PolynomialState | None, mask: Tensor | None) -> tuple[Tensor, PolynomialState]:
        if self.block and state is not None and (state.count % self.block).any():
            within = state.count[state.count % self.block > 0][0]
            raise ValueError(
                f"a segment begins at token {int(within)}, within a block of {self.block}: end every segment but the "
                "last with a whole block"
            )
        n, block = x.shape[1], self.block or 1
        if state is None:
            total = x.new_zeros(x.shape[0], self.features, dtype=working_dtype(x))
            state = PolynomialState(total, torch.zeros(x.shape[0], dtype=torch.int64, device=x.device))
        total, count = state
        after = count + lengths_of(x, mask)
        at = torch.arange(n, device=x.device)
        # all up to the end of its block, as far as there are tokens
        seen = torch.minimum(count[:, None] + (at // block + 1) * block, after[:, None]).clamp(min=1)
        y, total = in_segments(
            self,
            self._scanned,
            x,
            size=max(1, self._segment(x) // block) * block,
            carry=total,
            along=(mask, seen, count[:, None] + at if self.rope else None),
        )
        return y, PolynomialState(total, after)

    def advance(self, x: Tensor, state: PolynomialState | None) -> tuple[Tensor, PolynomialState]:
        if self.block:
            raise ValueError(f"block={self.block} tokens see one another: pass a whole block to prefill")
        return super().advance(x, state)

    def _scanned(self, x: Tensor, total: Tensor, along: Any, shared: Any) -> tuple[Tensor, Tensor]:
        """y of a segment of whole blocks after tokens with the sum `total`, and the sum after it."""
        (mask, seen, at), block = along, self.block or 1
        f = self.polynomial.combined(self.polynomial.powers(x))
        f = f if at is None else _turned(f, at)
        f = f if mask is None else f * mask.unsqueeze(-1).to(f.dtype)
        if block > 1:
            f = padded(f, (0, 0, 0, -x.shape[1] % block)).unflatten(1, (-1, block)).sum(2)
        mean, total = running_means(f, total, seen[:, ::block])
        if block > 1:
            mean = mean.repeat_interleave(block, dim=1)[:, : x.shape[1]]
        return self._gated(x, None, (mean, at), ())[0], total

    def _means(self, x: Tensor, weights: Tensor) -> Tensor:
        """Σ_j w_rj F(x_j) / Σ_j w_rj, (batch, r, features), of weights (batch or 1, r, n); 0 where they sum to 0."""
        size = weights.sum(-1, keepdim=True)
        weights = (weights / torch.where(size > 0, size, 1.0)).mT
        start = x.new_zeros(x.shape[0], weights.shape[2], self.features, dtype=weights.dtype)
        at = _places(x) if self.rope else None
        return in_segments(self, self._averaged, x, size=self._segment(x), carry=start, along=(weights, at))[1]

    def _averaged(self, x: Tensor, before: Tensor, along: Any, shared: Any) -> tuple[None, Tensor]:
        weights, at = along
        powers = self.polynomial.powers(x)
        with full_precision(x):
            if at is not None:
                return None, before + weights.mT @ _turned(self.polynomial.combined(powers), at)
            return None, before + self.polynomial.combined([weights.mT @ power for power in powers])

    def _read(self, x: Tensor, mean: Tensor) -> Tensor:
        """y of gates of x (batch, m, channels) and means (batch, m or 1, features)."""
        at = _places(x) if self.rope else None
        if mean.shape[1] > 1 or at is not None or x.shape[1] < self.channels:
            each = mean if mean.shape[1] > 1 else None
            one = () if mean.shape[1] > 1 else (mean,)
            return in_segments(self, self._gated, x, size=self._segment(x), along=(each, at), shared=one)[0]
        # W_o (S ⊙ H) = (W_o diag H) S spares an array of the features of every token
        heads = mean.unflatten(-1, (self.gate_heads, -1)).squeeze(1)
        with full_precision(mean):
            read = torch.einsum("bgc,ogc->bgo", heads, self.out.weight.to(heads.dtype).unflatten(1, heads.shape[1:]))
        return in_segments(self, self._folded, x, size=self._segment(x), shared=(read,))[0]

    def _folded(self, x: Tensor, carry: None, along: Any, shared: Any) -> tuple[Tensor, None]:
        gates = self._gates(x)
        y = gates @ shared[0].to(gates.dtype)
        return (y if self.out.bias is None else y + self.out.bias.to(y.dtype)), None

    def _gated(self, x: Tensor, carry: None, along: Any, shared: Any) -> tuple[Tensor, None]:
        gates, (mean, at) = self._gates(x), along
        mean = shared[0] if mean is None else mean
        mean = mean if at is None else _turned(mean, -at)
        heads = mean.to(gates.dtype).unflatten(-1, (self.gate_heads, -1))
        return self.out((gates.unsqueeze(-1) * heads).flatten(-2)), None

    def _gates(self, x: Tensor) -> Tensor:
        return _GATES[self.gate](self.to_gate(x))

    def _segment(self, x: Tensor) -> int:
        return max(1, x.shape[1]) if self.chunk is None else max(_LEAST, self.chunk // max(1, x.shape[0]))

    def extra_repr(self) -> str:
        block = "" if self.block is None else f", block={self.block}"
        return f"{self.channels}, causal={self.causal}{block}, gate_heads={self.gate_heads}, rope={self.rope}"


def _places(x: Tensor) -> Tensor:
    """(1, n) positions of the tokens of x."""
    return torch.arange(x.shape[1], device=x.device)[None]


def _turned(f: Tensor, at: Tensor) -> Tensor:
    """f (batch, n, features) turned to the positions `at`, (batch or 1, n)."""
    return rotated(f.unsqueeze(-2), at).squeeze(-2)
