"""Texts that a blind prior takes over at random tokens: the rejected side of a pair, made without labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sciops.models.sequences.generation import generate
from sciops.values import check_whole

__all__ = ["NoisyText", "noisy_generate"]


class NoisyText(NamedTuple):
    """Continuations of prompts in which some tokens are a blind model's.

    tokens : (batch, tokens) int64, zeros after a `stop` token, which is included
    lengths : (batch,) number of generated tokens
    log_probabilities : (batch, tokens), log p of each under the model it was drawn from; 0 after the end
    blind : (batch, tokens) bool, which tokens the blind model gave
    """

    tokens: Tensor
    lengths: Tensor
    log_probabilities: Tensor
    blind: Tensor

    def texts(self) -> list[list[int]]:
        """The continuations as lists of tokens."""
        return [row[:n].tolist() for row, n in zip(self.tokens, self.lengths.tolist())]


def noisy_generate(
    model: Any,
    blind: Any,
    prompt: Tensor | Sequence[Sequence[int]],
    *,
    blind_prompt: Sequence[int] | Tensor,
    tokens: int,
    alpha: float,
    untouched: int = 0,
    banned: Sequence[int] = (),
    mask: Tensor | None = None,
    generator: torch.Generator | None = None,
    **options: Any,
) -> NoisyText:
    """Samples continuations in which a model that does not see the prompt draws a token with probability α.

    At each token t of each sequence, with its own switch s_t ~ Bernoulli(α),

        y_t ~ p(· | prompt, y_<t) if s_t = 0,   q(· | blind prompt, y_<t) if s_t = 1

    Both models are fed the same y_t, whichever drew it. Temperature and filters act on the model that was drawn:
    without filters the law of a token is the mixture (1 − α) p + α q, with top_p it is the mixture of the two truncated
    laws.

    Parameters
    ----------
    model, blind : nn.Module
        The conditional model p and the prior q, with `prefill` and `step` and the same symbols. The prior is best the
        model before it was fine-tuned; both may be one model.
    prompt : Tensor or list of sequences
        As in `sciops.models.generate`.
    blind_prompt : sequence of int
        Tokens that stand for the prompt before the prior, (n,) for all sequences: at least one, such as the token that
        begins a text, or a general instruction.
    tokens : int
        Largest number of tokens generated for each prompt.
    alpha : float
        0 ≤ α ≤ 1. With 0 the texts are those of `sciops.models.generate` with the same generator, with 1 and nothing
        untouched they do not depend on the prompt.
    untouched : int
        Number of first tokens that are the conditional model's, so that a text does not open off-topic.
    banned : sequence of int
        Tokens that neither model may draw.
    mask, generator
        As in `sciops.models.generate`.
    **options
        temperature, top_k, top_p and stop, as in `sciops.models.generate`.

    Returns
    -------
    NoisyText

    Raises
    ------
    ValueError
        For an α or numbers out of range, models of different symbols, and as `sciops.models.generate`.

    References
    ----------
    Duong et al., SCOPE: A Self-supervised Framework for Improving Faithfulness in Conditional Text Generation
    (arXiv:2502.13674), section 3.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha={alpha!r}: expected the probability of a blind token, 0 ≤ α ≤ 1")
    check_whole(0, untouched=untouched)
    switched = _Switched(model, blind, torch.as_tensor(blind_prompt), alpha, int(untouched), banned, generator)
    found = generate(switched, prompt, tokens=tokens, mask=mask, generator=generator, **options)
    marks = torch.zeros_like(found.tokens, dtype=torch.bool)
    for t, (rows, used) in enumerate(switched.drawn):
        marks[rows, t] = used
    return NoisyText(*found, marks)


class _State(NamedTuple):
    """States of both models, and the numbers of the sequences that have not ended."""

    conditional: Any
    blind: Any
    rows: Tensor


class _Switched(nn.Module):
    """Two models as one, whose logits are at each token and sequence those of one of them.

    drawn : by token, (numbers of sequences, which were the blind model's)
    """

    def __init__(
        self,
        conditional: nn.Module,
        blind: nn.Module,
        blind_prompt: Tensor,
        alpha: float,
        untouched: int,
        banned: Sequence[int],
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        if blind_prompt.ndim != 1 or not len(blind_prompt) or blind_prompt.is_floating_point():
            raise ValueError(
                f"blind_prompt of shape {tuple(blind_prompt.shape)} and {blind_prompt.dtype}: expected at least one "
                "token, (n,) whole numbers"
            )
        self.conditional: Any = conditional
        self.blind: Any = blind
        self.blind_prompt, self.alpha, self.untouched = blind_prompt.long(), alpha, untouched
        self.banned, self.generator = list(banned), generator
        self.drawn: list[tuple[Tensor, Tensor]] = []

    def prefill(self, tokens: Tensor, *, mask: Tensor | None = None, last: bool = True) -> tuple[Tensor, _State]:
        z, conditional = self.conditional.prefill(tokens, mask=mask, last=last)
        prompt = self.blind_prompt.to(tokens.device).expand(len(tokens), -1)
        z_blind, blind = self.blind.prefill(prompt, last=last)
        rows = torch.arange(len(tokens), device=tokens.device)
        return self._chosen(z, z_blind, rows), _State(conditional, blind, rows)

    def step(self, tokens: Tensor, state: _State) -> tuple[Tensor, _State]:
        z, conditional = self.conditional.step(tokens, state.conditional)
        z_blind, blind = self.blind.step(tokens, state.blind)
        return self._chosen(z, z_blind, state.rows), _State(conditional, blind, state.rows)

    def _chosen(self, z: Tensor, z_blind: Tensor, rows: Tensor) -> Tensor:
        if z.shape != z_blind.shape:
            raise ValueError(f"models of {z.shape[-1]} and of {z_blind.shape[-1]} symbols: expected as many of both")
        if self.banned:
            if not all(0 <= token < z.shape[-1] for token in self.banned):
                raise ValueError(f"banned={self.banned}: expected tokens of 0 … {z.shape[-1] - 1}")
            if len(set(self.banned)) == z.shape[-1]:
                raise ValueError("banned: expected at least one token that may be drawn")
            z = z.index_fill(-1, torch.tensor(self.banned, device=z.device), -torch.inf)
        # what the conditional model excludes the prior may not draw either; where it has nothing else, it is not asked
        z_blind = z_blind.masked_fill(z == -torch.inf, -torch.inf)
        used = self._switches(rows) & (z_blind > -torch.inf).any(-1)
        self.drawn.append((rows, used))
        return torch.where(used[:, None], z_blind, z)

    def _switches(self, rows: Tensor) -> Tensor:
        """(batch,) one for each sequence; without a random choice no number is drawn."""
        alpha = self.alpha if len(self.drawn) >= self.untouched else 0.0
        if alpha in (0, 1):
            return torch.full_like(rows, bool(alpha), dtype=torch.bool)
        return torch.rand(len(rows), generator=self.generator, device=rows.device) < alpha
