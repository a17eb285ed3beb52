"""What torch.compile must not look into, and what it may take as given."""

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


def constant(f: F) -> F:
    """f, whose result compiled code takes as given for the arguments it was compiled with; nothing of f is traced.

    For tables of sizes, modes, dtype and device: they become constants of the graph, which stays in one piece. The
    arguments must be constants to the compiler too: sizes that it may treat as symbols go through `operator.index`
    first. Where it cannot convert an argument it calls f in between two graphs, as for `uncompiled`.
    """
    outside = uncompiled(f)
    outside._dynamo_marked_constant = True
    return outside
