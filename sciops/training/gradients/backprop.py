"""∂loss/∂θ by reverse accumulation over the whole graph: the exact gradient, and the reference for other rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


def backprop(model: Callable[..., Tensor], loss_fn: Callable[[Tensor, Any], Tensor], batch: Any) -> Tensor:
    """Adds ∂loss/∂θ to ``.grad`` of every parameter that the loss depends on; returns the detached loss."""
    loss = loss_fn(model(batch.x, batch.grid), batch)
    loss.backward()
    return loss.detach()
