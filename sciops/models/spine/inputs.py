"""The input check of models: a torch tensor in their own precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sciops.models.apply import check_tensor, real_dtype_of


def check_input(model: nn.Module, x: Any) -> None:
    """Raises TypeError unless x is a tensor of real numbers in the precision of the model's weights.

    Under autocast any real precision is accepted.
    """
    if torch.compiler.is_compiling():  # the check would break the graph
        return
    check_tensor(x)
    own = real_dtype_of(model)
    if not x.is_floating_point() or own is None or x.dtype == own or torch.is_autocast_enabled(x.device.type):
        return
    given, needed = (str(dtype).removeprefix("torch.") for dtype in (x.dtype, own))
    raise TypeError(
        f"x is {given} and the model's weights are {needed}: pass x.to(torch.{needed}), or model.to(torch.{given})"
    )
