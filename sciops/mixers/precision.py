"""Keeping a transform in full precision when the caller runs under autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def full_precision(x: Tensor) -> AbstractContextManager:
    """A context in which autocast is off on the device of x; costs nothing where it is off already."""
    kind = x.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def working_dtype(x: Tensor) -> torch.dtype:
    """float32 for half precisions, the dtype of x otherwise.

    Raises TypeError for integer, boolean and complex x.
    """
    if not x.is_floating_point():
        raise TypeError(f"x has dtype {x.dtype}; expected a real floating type such as torch.float32")
    return torch.promote_types(x.dtype, torch.float32)
