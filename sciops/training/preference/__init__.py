"""Preference training: pairs of a preferred and a rejected output, made without labels, and losses on them.

A conditional model that was fine-tuned from a prior still says things that its input does not contain. Its own outputs,
into which a prior that does not see the input is mixed, are the rejected side of pairs whose preferred side is the
reference (arXiv:2502.13674). For texts the mixing is by token (`noisy_generate`), for fields by tile (`mixed_tiles`),
by step of a rollout (`mixed_rollout`) or with the field of another input (`mixed_with_another`).

`TokenPreference` and `FieldPreference` are losses for ``fit(model, Batches(pairs, …), config, loss=…)``, with the names
of TRL: loss_type, beta, label_smoothing.
"""

from __future__ import annotations

from sciops.training.preference.fields import FieldPreference
from sciops.training.preference.losses import PREFERENCE_LOSSES, PreferenceOptions, Ratios, preference_loss
from sciops.training.preference.noisy_fields import (
    mask_inputs,
    mixed_rollout,
    mixed_tiles,
    mixed_with_another,
    tile_weights,
)
from sciops.training.preference.noisy_text import NoisyText, noisy_generate
from sciops.training.preference.objective import Preference, frozen
from sciops.training.preference.pairs import Batches, FieldPairs, TokenPairs, token_pairs
from sciops.training.preference.tokens import TokenPreference, sequence_log_probability

__all__ = [
    "PREFERENCE_LOSSES",
    "Batches",
    "FieldPairs",
    "FieldPreference",
    "NoisyText",
    "Preference",
    "PreferenceOptions",
    "Ratios",
    "TokenPairs",
    "TokenPreference",
    "frozen",
    "mask_inputs",
    "mixed_rollout",
    "mixed_tiles",
    "mixed_with_another",
    "noisy_generate",
    "preference_loss",
    "sequence_log_probability",
    "tile_weights",
    "token_pairs",
]
