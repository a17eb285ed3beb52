"""The spine of models of sequences: mixers that go on from a state, in residual blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers import MIXERS, options_by_mixer, resolved_options
from sciops.mixers.sequence import SequenceMixer, lengths_of, only_tokens, tail
from sciops.models.spine.blocks import hidden_width
from sciops.models.spine.norms import make_norm


class BlockState(NamedTuple):
    """State of a block: of its mixer, and the last inputs of its convolution (batch, size − 1, channels) or None."""

    mixer: Any
    local: Tensor | None


class DepthwiseConvolution(nn.Module):
    """y_i = Σ_j w_j ⊙ x_{i+j} + b along a sequence (batch, n, channels), j from 1 − size to 0 where causal, and centred
    else; beyond the ends, and at padding, x is 0.

    With a `state`, (batch, size − 1, channels), a causal one goes on after earlier inputs. Raises ValueError for a size
    below 1 and for an even one that is not causal.
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
    """x ← x + mixer(n₁x);  x ← x + conv(n₂x), where `local` > 0;  x ← x + W₂(W₀n₃x ⊙ GELU(W₁n₃x)).

    Shapes (batch, n, channels). `dropout` zeroes entries of every branch in training.
    """

    def __init__(
        self,
        channels: int,
        mixer: SequenceMixer,
        *,
        causal: bool,
        norm: str = "rms",
        mlp_ratio: float = 2.0,
        local: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout={dropout}: expected a probability in 0 ≤ p < 1")
        self.norm1, self.mixer = make_norm(norm, channels), mixer
        self.norm2 = make_norm(norm, channels) if local else None
        self.local = DepthwiseConvolution(channels, local, causal=causal) if local else None
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
            before = z.new_zeros(z.shape[0], self.local.size - 1, z.shape[-1]) if state is None else state.local
            x = x + self.dropout(self.local(z, mask, before))
            of_local = tail(before, z, lengths_of(z, mask))
        return x + self._fed_forward(x), BlockState(of_mixer, of_local)

    def step(self, x: Tensor, state: BlockState | None = None) -> tuple[Tensor, BlockState]:
        """One token, (batch, channels) → same."""
        mixed, of_mixer = self.mixer.step(self.norm1(x), state and state.mixer)
        x, of_local = x + self.dropout(mixed), None
        if self.local is not None:
            z = self.norm2(x).unsqueeze(1)
            before = z.new_zeros(z.shape[0], self.local.size - 1, z.shape[-1]) if state is None else state.local
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


class SequenceStack(nn.Module):
    """norm ∘ B_depth ∘ … ∘ B_1 on sequences (batch, n, width), each B a `SequenceBlock`.

    mixer : a name in `MIXERS` whose class is a `SequenceMixer`, or several that alternate block by block
    mixer_options : keyword options of the mixer; for several, options by name; `causal` comes from the stack
    causal : every output depends on earlier tokens alone; gives `prefill` and `step`
    norm, mlp_ratio, local, dropout : see `SequenceBlock`; a norm of "instance" would mix tokens and is refused
    depth : 0 leaves the norm alone

    forward(x, mask=None); prefill(x, states=None, *, mask=None) → y, states; step(x, states=None) → y, states, with the
    meaning they have in `SequenceMixer` and a list of states, one a block; what comes out at padding means nothing.

    Raises ValueError for unknown names and sizes that do not fit, TypeError for unknown options.
    """

    def __init__(
        self,
        width: int,
        depth: int,
        *,
        mixer: str | Sequence[str] = "self_attention",
        mixer_options: Mapping[str, Any] | None = None,
        causal: bool = False,
        norm: str = "rms",
        mlp_ratio: float = 2.0,
        local: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        names = (mixer,) if isinstance(mixer, str) else tuple(mixer)
        sequential = [name for name, kind in MIXERS.items() if issubclass(kind, SequenceMixer)]
        for name in names or [()]:
            if name not in sequential:
                raise ValueError(f"mixer={name!r}: expected one for sequences, {', '.join(sequential)}")
        if norm == "instance":
            raise ValueError("norm='instance' has moments over the sequence: expected 'rms', 'layer' or 'none'")
        options = options_by_mixer(names, mixer_options or {})
        # kept spelled out, so that a saved model does not change when a default does
        self.mixer_options = {name: {**resolved_options(name, options[name], 1), "causal": causal} for name in options}
        for name, given in options.items():
            if given.get("causal", causal) != causal:
                raise ValueError(f"mixer_options of {name!r} say causal={given['causal']}, the stack causal={causal}")
        self.causal = causal
        self.blocks = nn.ModuleList(
            SequenceBlock(
                width,
                MIXERS[name](width, **self.mixer_options[name]),
                causal=causal,
                norm=norm,
                mlp_ratio=mlp_ratio,
                local=local,
                dropout=dropout,
            )
            for name in (names[i % len(names)] for i in range(depth))
        )
        self.norm = make_norm(norm, width)

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
