"""Attention that follows chains of any length in one layer, by solving a linear system with its own matrix."""

from sciops.mixers.resolvent.attention import ResolventAttention
from sciops.mixers.resolvent.block_attention import BlockResolventAttention

__all__ = ["BlockResolventAttention", "ResolventAttention"]
