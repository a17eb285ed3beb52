"""Which form takes the time steps: torch's operations, or compiled loops without Python between the steps."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.compiling import transformed

__all__ = ["Backend", "compiled_steps"]

Backend = Literal["auto", "numba", "torch"]

_CALL = 2**24  # numbers of the state times steps in a call: Ctrl-C is heard between two of them
COMPILING = "the time stepper (once; about 10 s)"


def compiled_steps(backend: Backend, nonlinear: Callable, linear: Tensor, field: Tensor, order: int) -> bool:
    """Whether steps are compiled: with "auto" where they can be.

    They can be on the CPU, of order 4, without gradients, for terms with a compiled form (`advance`), where numba and
    rocket-fft are installed.

    Raises ValueError for an unknown backend, or one that cannot do what is asked for, saying why; ImportError without
    the packages.
    """
    if backend not in ("auto", "numba", "torch"):
        raise ValueError(f"backend={backend!r}: expected 'auto', 'numba', 'torch'")
    if backend == "torch":
        return False
    why = _obstacle(nonlinear, linear, field, order)
    if backend == "auto":
        return not why and _installed()
    if why:
        raise ValueError(f"backend='numba' {why}; pass backend='torch'")
    if not _installed():
        raise ImportError("backend='numba' needs numba and rocket-fft: pip install 'sciops[fast]'")
    return True


def _obstacle(nonlinear: Any, linear: Tensor, field: Tensor, order: int) -> str:
    """Why steps cannot be compiled, or an empty string."""
    if not hasattr(nonlinear, "advance"):
        return "has no compiled form of this equation"
    if order != 4:
        return f"steps with order 4, not {order}"
    if field.device.type != "cpu":
        return f"runs on the CPU and the field is on {field.device}"
    tensors = (field, linear, *nonlinear.tensors)
    if transformed() or (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
        return "has no derivatives"
    return ""


@cache
def _installed() -> bool:
    """Whether numba compiles here, and with rocket-fft."""
    if any(importlib.util.find_spec(name) is None for name in ("numba", "rocket_fft")):
        return False
    import numba

    return not getattr(numba.config, "DISABLE_JIT", 0)


def advance(
    nonlinear: Any, v: Tensor, table: Sequence[Tensor], count: int, look: Callable[[Tensor, int], None] | None
) -> Tensor:
    """v after `count` compiled steps; look(v, steps taken) is called after every so many.

    table : `etdrk.coefficients` in the state's precision, broadcasting over v (batch, *spectrum)
    """
    from sciops.pde.announcement import announced
    from sciops.pde.evolution import compiled

    state = v.detach().clone(memory_format=torch.contiguous_format)
    rows = [_rows(entry, state) for entry in table]
    each = max(1, min(count, _CALL // max(1, state.numel())))
    with announced({compiled.convection, compiled.vorticity}, COMPILING):
        for first in range(0, count, each):
            taken = min(each, count - first)
            nonlinear.advance(state.numpy(), taken, rows)
            if look is not None:
                look(state, first + taken)
    return state


def _rows(entry: Tensor, state: Tensor) -> np.ndarray:
    """(1 or batch, modes) of a symbol that broadcasts over the state (batch, *spectrum)."""
    batch = entry.shape[0] if entry.ndim == state.ndim else 1
    return entry.detach().expand(batch, *state.shape[1:]).reshape(batch, -1).contiguous().numpy()
