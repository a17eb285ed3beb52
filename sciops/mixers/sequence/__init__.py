"""Mixers along a sequence: their base class, softmax and linear attention, polynomial and state-space mixers."""

from sciops.mixers.sequence.base import SequenceMixer, copied, lengths_of, only_tokens, put, selected, tail
from sciops.mixers.sequence.linear_attention import LinearAttention
from sciops.mixers.sequence.polynomial import PolynomialMixer
from sciops.mixers.sequence.self_attention import SelfAttention
from sciops.mixers.sequence.sparse_attention import SparseAttention
from sciops.mixers.sequence.state_space import StateSpaceMixer

__all__ = [
    "LinearAttention",
    "PolynomialMixer",
    "SelfAttention",
    "SequenceMixer",
    "SparseAttention",
    "StateSpaceMixer",
    "copied",
    "lengths_of",
    "only_tokens",
    "put",
    "selected",
    "tail",
]
