"""What torch.compile must not look into."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

F = TypeVar("F", bound=Callable)


def uncompiled(f: F) -> F:
    """f, called by compiled code as it is: its cache is used and nothing of it is traced.

    For tables that depend on the grid alone. `torch.compiler.disable` does the same, but imports the compiler at once,
    which takes longer than the import of this package; here it is used from the moment that the compiler is there.
    """
    disabled: list[Callable] = []

    @wraps(f)
    def outside(*args):
        if "torch._dynamo" not in sys.modules:
            return f(*args)
        if not disabled:
            import torch

            disabled.append(torch.compiler.disable(f))
        return disabled[0](*args)

    outside._torchdynamo_disable = True
    return outside
