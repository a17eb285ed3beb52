"""What modules take and return during forward passes: the one place where outputs are caught by hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from torch import Tensor, nn


@contextmanager
def caught(
    model: nn.Module, names: Sequence[str], side: Literal["output", "input"] = "output"
) -> Iterator[dict[str, list[Any]]]:
    """Within the block every call of a named module appends its output, or its first input, to the list of its name.

    Tensors are copied when they are caught, with their graph: a later operation in place (``x += f(x)``) does not
    change what was kept. Of a tuple or list its first entry counts. The hooks are removed at the end of the block.

    Parameters
    ----------
    model : torch module
    names : module paths, as in ``named_modules``
    side : {"output", "input"}

    Yields
    ------
    name → list of values, in the order of the calls; lists may be emptied between forward passes
    """
    modules = dict(model.named_modules())
    held: dict[str, list[Any]] = {name: [] for name in names}
    handles = []
    try:
        for name in names:
            if side == "output":
                handles.append(modules[name].register_forward_hook(_output_hook(held[name])))
            else:
                handles.append(modules[name].register_forward_pre_hook(_input_hook(held[name]), with_kwargs=True))
        yield held
    finally:
        for handle in handles:
            handle.remove()


def _output_hook(kept: list[Any]) -> Callable[..., None]:
    def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
        kept.append(_first(output))

    return keep


def _input_hook(kept: list[Any]) -> Callable[..., None]:
    def keep(_module: nn.Module, inputs: Any, named: Any) -> None:
        kept.append(_first((*inputs, *named.values())))

    return keep


def _first(value: Any) -> Any:
    value = value[0] if isinstance(value, tuple | list) and value else value
    return value.clone() if isinstance(value, Tensor) else value
