"""How long a model takes for a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from sciops.datasets import TensorFields
from studies.kit.timing import interleaved


def latency(model: nn.Module, test: TensorFields, count: int = 20) -> float:
    """Milliseconds a sample of one batch of `count`, the solves of a hybrid included: the median of five."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    x = test.x[:count].to(device)

    def call() -> None:
        with torch.no_grad():
            model(x, test.grid)

    wait: Callable[[], Any] | None = torch.cuda.synchronize if device.type == "cuda" else None
    seconds = interleaved({"model": call}, rounds=5, synchronize=wait)["model"]
    return 1e3 * float(np.median(seconds)) / len(x)
