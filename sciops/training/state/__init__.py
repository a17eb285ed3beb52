"""What a training run keeps: its last good and best parameters, its numbers."""

from __future__ import annotations

from sciops.training.state.finite import NonFiniteLoss, StepNumbers
from sciops.training.state.memory import Memory
from sciops.training.state.run import Callback, Run

__all__ = ["Callback", "Memory", "NonFiniteLoss", "Run", "StepNumbers"]
