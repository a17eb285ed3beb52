"""Preference training of language models."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from sciops.training.objectives.tokens import NOT_ASKED, token_cross_entropy
from sciops.training.preference.objective import Preference, read_preference
from sciops.training.preference.pairs import TokenPairs


def sequence_log_probability(logits: Tensor, targets: Tensor) -> Tensor:
    """Log-probability of each sequence, Σ_t log softmax(z_t)[w_t] over the positions whose target is not −100.

    logits : (batch, n, symbols) z; targets : (batch, n) whole numbers w, or −100 where they are ignored
    returns : (batch,) nats: a sum, not a mean, so that a longer sequence is less likely; 0 without targets
    """
    return -token_cross_entropy(logits, targets) * (targets != NOT_ASKED).sum(1)


class TokenPreference(Preference):
    """Preference loss on pairs of texts, a loss for `sciops.training.fit`: ``TokenPreference(model)``.

    The model is any that returns logits (batch, n, symbols) of tokens (batch, n), such as
    `sciops.models.LanguageModel`.

    Parameters
    ----------
    reference : nn.Module or None
        See `Preference`; a copy is taken, so that training the same model does not change it.
    **options
        The fields of `PreferenceOptions`: loss_type, beta, label_smoothing, rpo_alpha, reference_free.

    Raises
    ------
    TypeError
        For an unknown option.
    ValueError
        For a value out of range.
    """

    def __init__(self, reference: nn.Module | None = None, **options: Any) -> None:
        super().__init__(reference, read_preference(options))

    def log_probabilities(self, model: nn.Module, pairs: TokenPairs) -> Tensor:
        """(2, batch) `sequence_log_probability` of both texts, in one forward pass."""
        logits = model(pairs.tokens.flatten(0, 1))
        return sequence_log_probability(logits, pairs.targets.flatten(0, 1)).view(2, -1)

    def lengths(self, pairs: TokenPairs) -> Tensor:
        """(2, batch) numbers of tokens of the continuations, at least 1."""
        return (pairs.targets != NOT_ASKED).sum(-1).clamp(min=1)
