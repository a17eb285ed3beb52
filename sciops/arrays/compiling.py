"""What torch.compile, torch.export and torch.func must not look into, and whether one of them looks at all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from threading import Thread
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable)


def functional() -> bool:
    """Whether torch.func (vmap, grad, jvp, …) or forward-mode derivatives work through the operations."""
    return torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0


def exporting() -> bool:
    """Whether torch.export, on which ONNX rests, looks at the operations."""
    # torch before 2.7 cannot tell it from a compiler
    return getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)()


def symbolic() -> bool:
    """Whether the operations see neither values nor, in an exported program, the number of samples.

    Then what tensors hold cannot be checked, and code does not depend on it.
    """
    return functional() or exporting()


def transformed() -> bool:
    """Whether torch.func, forward-mode derivatives, torch.export or torch.compile work through the operations.

    They need torch's own operations, each with its own rule. Eager calls and plain autograd may use kernels that work
    in place or that keep less for the backward pass.
    """
    return torch.compiler.is_compiling() or functional()


def refuse_functional(what: str, instead: str) -> None:
    """Raises NotImplementedError inside of torch.func and forward-mode derivatives: `what` does not work there."""
    if functional():
        raise NotImplementedError(f"{what} does not work inside of torch.func.grad, vmap and jvp: {instead}")


def refuse_exporting(what: str, instead: str) -> None:
    """Raises NotImplementedError inside of torch.export: `what` is no fixed sequence of operations."""
    if exporting() and not torch.compiler.is_dynamo_compiling():
        raise NotImplementedError(f"{what} is not a fixed sequence of operations, which torch.export needs: {instead}")


def one_by_one(f: Callable, size: int, axes: Sequence[int | None], arguments: Sequence[Any]) -> tuple[Any, Any]:
    """The `vmap` of an autograd.Function that works on values: f at each of `size` entries, results stacked.

    Returns (results, out_dims) as `torch.autograd.Function.vmap` has to.
    """
    found = []
    for i in range(size):
        found.append(f(*(x.select(axis, i) if isinstance(axis, int) else x for x, axis in zip(arguments, axes))))
    if isinstance(found[0], torch.Tensor):
        return torch.stack(found), 0
    columns = [None if column[0] is None else torch.stack(column) for column in zip(*found)]
    return tuple(columns), tuple(None if column is None else 0 for column in columns)


def kept(maxsize: int) -> Callable[[F], F]:
    """`functools.lru_cache` for functions that return tensors: every kept tensor is a plain one with values.

    What is being traced, batched or differentiated by torch.func, and inference mode, the default device and a mode of
    fake tensors are all properties of a thread. The function runs in a thread of its own, so that a table made first
    inside of `torch.export` or `torch.func.vmap` serves every later call as well. It works on the CPU, and its final
    `.to(device)` waits for the copy, whatever stream the caller uses.
    """

    def decorate(f: F) -> F:
        @lru_cache(maxsize)
        @wraps(f)
        def table(*args):
            return _in_a_plain_thread(f, args)

        return table

    return decorate


def _in_a_plain_thread(f: Callable, args: tuple) -> Any:
    outcome: list[tuple[Any, BaseException | None]] = []

    def work() -> None:
        try:
            outcome.append((f(*args), None))
        except BaseException as error:  # raised again where the table was asked for
            outcome.append((None, error))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    ((result, error),) = outcome
    if error is not None:
        raise error
    return result


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
