"""Attention inside windows of the grid: one size of window, a pyramid of them, or one that holds the whole grid."""

from sciops.mixers.windows.full import FullAttention
from sciops.mixers.windows.multipole import MultipoleAttention
from sciops.mixers.windows.window import WindowAttention

__all__ = ["FullAttention", "MultipoleAttention", "WindowAttention"]
