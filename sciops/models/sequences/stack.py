"""The spine of models of sequences: residual blocks with mixers that can resume from a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers import MIXERS, options_by_mixer, resolved_options
from sciops.mixers.sequence import SequenceMixer, lengths_of, only_tokens, tail
from sciops.models.spine import hidden_width, make_norm
from sciops.options import CountOrZero, Probability, read_options


class BlockState(NamedTuple):
    """State of a block: of its mixer, and the last inputs of its convolution (batch, size − 1, channels) or None."""

    mixer: Any
    local: Any


class DepthwiseConvolution(nn.Module):
    """Depthwise convolution y_i = Σ_j w_j ⊙ x_{i+j} + b along a sequence (batch, n, channels).

    j runs from 1 − size to 0 if causal and is centred otherwise; x is 0 beyond the ends and at padding. A `state`,
    (batch, size − 1, channels), holds the inputs before a causal one. Raises ValueError for a size below 1, and for an
    even size that is not causal.
    """

    def __init__(self, channels: int, size: int, *, causal: bool) -> None:
        super().__init__()
        if size < 1 or (size % 2 == 0 and not causal):
            raise ValueError(f"local={size}: expected at least 1 token, and an odd number where it is not causal")
        self.size, self.causal = size, causal
        self.weight = nn.Parameter(torch.empty(channels, 1, size).uniform_(-(size**-0.5), size**-0.5))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Tensor | None = None) -> Tensor:
        x = only_tokens(x, mask)
        z = x if state is None else torch.cat([state, x], dim=1)
        before = 0 if state is not None else self.size - 1 if self.causal else self.size // 2
        after = 0 if self.causal else self.size // 2
        z = F.pad(z.mT, (before, after))
        return F.conv1d(z, self.weight.to(z.dtype), self.bias.to(z.dtype), groups=z.shape[1]).mT


class SequenceBlock(nn.Module):
    """Residual branches x ← x + mixer(n₁x), x ← x + conv(n₂x) if `local` > 0, x ← x + W₂(W₀n₃x ⊙ GELU(W₁n₃x)).

    Shapes are (batch, n, channels). `dropout` zeroes entries of every branch in training.
    """

    def __init__(
        self,
        channels: int,
        mixer: Any,
        *,
        causal: bool,
        norm: str = "rms",
        mlp_ratio: float = 2.0,
        local: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm1, self.mixer = make_norm(norm, channels), mixer
        self.norm2: Any = make_norm(norm, channels) if local else None
        self.local: Any = DepthwiseConvolution(channels, local, causal=causal) if local else None
        self.norm3 = make_norm(norm, channels)
        hidden = hidden_width(mlp_ratio, channels)
        self.mlp_in, self.mlp_gate = nn.Linear(channels, hidden), nn.Linear(channels, hidden)
        self.mlp_out = nn.Linear(hidden, channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for g, _ in self.layers(mask):
            x = x + g(x)
        return x

    def layers(self, mask: Tensor | None = None) -> list[tuple[Any, None]]:
        """The steps h ← h + g(h) that forward takes, each as (g, None)."""
        steps = [lambda x: self._mixed(x, mask), lambda x: self._convolved(x, mask), self._fed_forward]
        return [(g, None) for i, g in enumerate(steps) if i != 1 or self.local is not None]

    def prefill(
        self, x: Tensor, state: BlockState | None = None, *, mask: Tensor | None = None
    ) -> tuple[Tensor, BlockState]:
        mixed, of_mixer = self.mixer.prefill(self.norm1(x), state and state.mixer, mask=mask)
        x, of_local = x + self.dropout(mixed), None
        if self.local is not None:
            z = self.norm2(x)
            before: Any = z.new_zeros(z.shape[0], self.local.size - 1, z.shape[-1]) if state is None else state.local
            x = x + self.dropout(self.local(z, mask, before))
            of_local = tail(before, z, lengths_of(z, mask))
        return x + self._fed_forward(x), BlockState(of_mixer, of_local)

    def step(self, x: Tensor, state: BlockState | None = None) -> tuple[Tensor, BlockState]:
        """One token, (batch, channels) → same."""
        mixed, of_mixer = self.mixer.step(self.norm1(x), state and state.mixer)
        x, of_local = x + self.dropout(mixed), None
        if self.local is not None:
            z = self.norm2(x).unsqueeze(1)
            before: Any = z.new_zeros(z.shape[0], self.local.size - 1, z.shape[-1]) if state is None else state.local
            x = x + self.dropout(self.local(z, None, before)).squeeze(1)
            of_local = torch.cat([before, z], dim=1)[:, 1:]
        return x + self._fed_forward(x), BlockState(of_mixer, of_local)

    def _mixed(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.dropout(self.mixer(self.norm1(x), mask=mask))

    def _convolved(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.dropout(self.local(self.norm2(x), mask))

    def _fed_forward(self, x: Tensor) -> Tensor:
        z = self.norm3(x)
        return self.dropout(self.mlp_out(self.mlp_in(z) * F.gelu(self.mlp_gate(z))))


@dataclass(frozen=True, kw_only=True)
class StackOptions:
    """Options of `SequenceStack`, and of the models on it.

    Parameters
    ----------
    mixer : str or sequence of str
        A name in `MIXERS` whose class is a `SequenceMixer`, or several that alternate block by block.
    mixer_options : mapping, optional
        Options of the mixer; for several mixers, options by mixer name. `causal` is set by the stack.
    norm : str
        "rms", "layer" or "none"; "instance" would mix tokens.
    mlp_ratio : float
        Hidden width of the feed-forward maps over the width.
    local : int
        Length of a depthwise convolution in every block; 0 leaves it out. It makes mixers without
        positions order-aware.
    dropout : float
        Probability of zeroing an entry of a branch in training.
    """

    mixer: str | Sequence[str] = "self_attention"
    mixer_options: Mapping[str, Any] | None = None
    norm: Literal["rms", "layer", "none"] = "rms"
    mlp_ratio: float = 2.0
    local: CountOrZero = 0
    dropout: Probability = 0.0


class SequenceStack(nn.Module):
    """Blocks on sequences (batch, n, width), norm ∘ B_depth ∘ … ∘ B_1, each B a `SequenceBlock`.

    ``forward(x, mask=None)``; ``prefill(x, states=None, *, mask=None)`` → y, states; ``step(x, states=None)`` → y,
    states, as in `SequenceMixer`, with a list of states, one per block. The output at padding is undefined.

    Parameters
    ----------
    width, depth : int
        Number of channels and of blocks; depth 0 leaves the norm alone.
    causal : bool
        Every output depends only on earlier tokens; required for `prefill` and `step`.
    **options
        The fields of `StackOptions`.

    Raises
    ------
    TypeError
        For an unknown option.
    ValueError
        For unknown names and sizes that do not fit.
    """

    def __init__(self, width: int, depth: int, *, causal: bool = False, **options: Any) -> None:
        super().__init__()
        o = read_options(StackOptions, "sequence stack", options)
        names = (o.mixer,) if isinstance(o.mixer, str) else o.mixer
        sequential = [name for name, kind in MIXERS.items() if issubclass(kind, SequenceMixer)]
        if not names or not set(names) <= set(sequential):
            wrong = next((name for name in names if name not in sequential), names)
            raise ValueError(f"mixer={wrong!r}: expected one for sequences, {', '.join(sequential)}")
        given = options_by_mixer(names, o.mixer_options or {})
        for name, one in given.items():
            if one.get("causal", causal) != causal:
                raise ValueError(f"mixer_options of {name!r} say causal={one['causal']}, the stack causal={causal}")
        by_mixer = {name: {**resolved_options(name, given[name], 1), "causal": causal} for name in given}
        without_causal = {name: {k: v for k, v in one.items() if k != "causal"} for name, one in by_mixer.items()}
        # the value of every option, so that a saved model does not change when a default does
        self.options = replace(
            o,
            mixer=names[0] if len(names) == 1 else names,
            mixer_options=without_causal[names[0]] if len(set(names)) == 1 else without_causal,
        )
        self.causal = causal
        block: dict[str, Any] = {k: v for k, v in vars(o).items() if k not in ("mixer", "mixer_options")}
        self.blocks: Any = nn.ModuleList(
            SequenceBlock(width, MIXERS[name](width, **by_mixer[name]), causal=causal, **block)
            for name in (names[i % len(names)] for i in range(depth))
        )
        self.norm = make_norm(o.norm, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.norm(self.run_blocks(x, mask))

    def run_blocks(self, h: Tensor, mask: Tensor | None = None) -> Tensor:
        """B_depth ∘ … ∘ B_1 of h (batch, n, width); what rules for the gradient replace."""
        h = only_tokens(h, mask)  # the norms' weights have gradients from padding too, of 0 where it is finite
        for block in self.blocks:
            h = block(h, mask)
        return h

    def prefill(
        self, x: Tensor, states: Sequence[BlockState] | None = None, *, mask: Tensor | None = None
    ) -> tuple[Tensor, list[BlockState]]:
        x, after = only_tokens(x, mask), []
        for i, block in enumerate(self.blocks):
            x, state = block.prefill(x, None if states is None else states[i], mask=mask)
            after.append(state)
        return self.norm(x), after

    def step(self, x: Tensor, states: Sequence[BlockState] | None = None) -> tuple[Tensor, list[BlockState]]:
        after = []
        for i, block in enumerate(self.blocks):
            x, state = block.step(x, None if states is None else states[i])
            after.append(state)
        return self.norm(x), after
