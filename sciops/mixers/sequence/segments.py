"""Processes a sequence segment by segment; training keeps only the inputs and recomputes the rest backwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sciops.arrays.compiling import transformed

# (x, carry, along, shared) → (y or None, carry or None)
Step = Callable[[Tensor, Tensor | None, Sequence[Tensor | None], Sequence[Tensor]], tuple[Tensor | None, Tensor | None]]


def in_segments(
    module: nn.Module,
    step: Step,
    x: Tensor,
    *,
    size: int,
    carry: Tensor | None = None,
    along: Sequence[Tensor | None] = (),
    shared: Sequence[Tensor] = (),
) -> tuple[Tensor | None, Tensor | None]:
    """The y of all segments in turn, and the last carry, of step(x, carry, along, shared) → y, carry.

    step : reads no parameters but those of `module`
    x : (batch, n, …), cut into segments of `size` tokens, together with the tensors `along`, each with n on axis 1
    shared : tensors that every step gets whole

    With several segments the backward pass keeps the arguments and carries, and repeats each step (arXiv:1604.06174);
    gradients of second order, torch.func and compiled graphs keep everything. torch's own checkpoint loads the compiler
    at its first call.
    """
    if x.shape[1] <= size:
        return step(x, carry, along, shared)
    if transformed():
        return _recorded(step, size, x, carry, along, shared)
    if not torch.is_grad_enabled():
        return _run(step, size, x, carry, along, shared)[:2]
    counts = (len(along), len(shared))
    return _Segments.apply(module, step, size, counts, x, carry, *along, *shared, *module.parameters())


def _cut(values: Sequence[Tensor | None], here: slice) -> list[Tensor | None]:
    return [None if value is None else value[:, here] for value in values]


def _slices(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _run(
    step: Step, size: int, x: Tensor, carry: Any, along: Sequence[Any], shared: Sequence[Tensor]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """y, the last carry and the carry before each segment, without a graph."""
    slices = _slices(x.shape[1], size)
    # one array for all: small ones among the large that come and go would leave holes that nothing fits into
    y, carries = None, None if carry is None else carry.new_empty(len(slices), *carry.shape)
    for i, here in enumerate(slices):
        if carries is not None:
            carries[i] = carry
        part, carry = step(x[:, here], carry, _cut(along, here), shared)
        if part is not None:
            y = part.new_empty(x.shape[0], x.shape[1], *part.shape[2:]) if y is None else y
            y[:, here] = part
    return y, carry, carries


def _recorded(
    step: Step, size: int, x: Tensor, carry: Any, along: Sequence[Any], shared: Sequence[Tensor]
) -> tuple[Tensor | None, Tensor | None]:
    """y and the last carry, by operations that autograd records."""
    parts = []
    for here in _slices(x.shape[1], size):
        part, carry = step(x[:, here], carry, _cut(along, here), shared)
        parts.append(part)
    return (None if parts[0] is None else torch.cat(parts, dim=1)), carry


class _Segments(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, module: nn.Module, step: Step, size: int, counts: tuple[int, int], *tensors: Any
    ) -> tuple[Any, Any]:
        ctx.module, ctx.step, ctx.size, ctx.counts, ctx.given = module, step, size, counts, len(tensors)
        ctx.autocast = _autocast(tensors[0])
        x, carry, along, shared = _named(tensors, counts)
        y, last, carries = _run(step, size, x, carry, along, shared)
        ctx.save_for_backward(*tensors, carries)
        ctx.set_materialize_grads(False)
        return y, last

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dcarry: Tensor | None) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        tensors, carries = saved[: ctx.given], saved[ctx.given]
        wanted = [i for i in range(ctx.given) if ctx.needs_input_grad[4 + i]]
        gradients: list[Tensor | None] = [None] * ctx.given
        if (dy is None and dcarry is None) or not wanted:
            return None, None, None, None, *gradients
        if torch.is_grad_enabled():  # of second order: recorded as a whole
            # by other names: what is shared may itself depend on x and on the parameters
            named = [None if t is None else t.view_as(t) for t in tensors]
            with ctx.autocast():
                outputs = _recorded(_with(ctx, named), ctx.size, *_named(named, ctx.counts))
            found = _gradients(outputs, [named[i] for i in wanted], (dy, dcarry), create_graph=True)
            for i, gradient in zip(wanted, found):
                gradients[i] = gradient
            return None, None, None, None, *gradients
        cut, step = {0, *range(2, 2 + ctx.counts[0])}, _with(ctx, tensors)
        for i in wanted:
            if i in cut:
                gradients[i] = torch.zeros_like(tensors[i])
        for number, here in reversed([*enumerate(_slices(tensors[0].shape[1], ctx.size))]):
            leaves = list(tensors)
            for i in range(2 + sum(ctx.counts)):  # parameters go in as they are
                leaf = tensors[i] if i != 1 or carries is None else carries[number]
                leaf = leaf[:, here] if i in cut and leaf is not None else leaf
                leaves[i] = leaf if leaf is None else leaf.detach().requires_grad_(leaf.is_floating_point())
            with torch.enable_grad(), ctx.autocast():
                outputs = step(*_named(leaves, ctx.counts))
            # the carry of a segment passes the gradient on, whether the first one needs it or not
            asked = [i for i in wanted if i != 1] + ([] if carries is None else [1])
            found = dict(zip(asked, _gradients(outputs, [leaves[i] for i in asked], (_at(dy, here), dcarry))))
            dcarry = found.pop(1, None)
            for i, gradient in found.items():
                if gradient is None:
                    continue
                if i in cut:
                    gradients[i][:, here] = gradient
                else:
                    gradients[i] = gradient if gradients[i] is None else gradients[i].add_(gradient)
        if 1 in wanted:
            gradients[1] = dcarry
        return None, None, None, None, *gradients


class _Called(nn.Module):
    """A step as a module, whose parameters `functional_call` can replace."""

    def __init__(self, module: nn.Module, step: Step) -> None:
        super().__init__()
        self.module, self.step = module, step

    def forward(self, *arguments: Any) -> Any:
        return self.step(*arguments)


def _with(ctx: Any, tensors: Sequence[Any]) -> Callable[..., Any]:
    """The step with the parameters in `tensors`: in the backward pass the module may hold others, as after
    `torch.func.functional_call`."""
    whole = _Called(ctx.module, ctx.step)
    names = [name for name, _ in whole.named_parameters()]
    values = dict(zip(names, tensors[ctx.given - len(names) :]))
    return lambda *arguments: functional_call(whole, values, arguments)


def _named(tensors: Sequence[Any], counts: tuple[int, int]) -> tuple[Any, Any, Sequence[Any], Sequence[Any]]:
    middle = 2 + counts[0]
    return tensors[0], tensors[1], tensors[2:middle], tensors[middle : middle + counts[1]]


def _at(gradient: Tensor | None, here: slice) -> Tensor | None:
    return None if gradient is None else gradient[:, here]


def _gradients(
    outputs: Sequence[Tensor | None], inputs: list[Tensor], given: Sequence[Tensor | None], create_graph: bool = False
) -> Sequence[Tensor | None]:
    pairs = [(o, g) for o, g in zip(outputs, given) if o is not None and g is not None and o.requires_grad]
    if not pairs:
        return [None] * len(inputs)
    outs, gradients = zip(*pairs)
    return torch.autograd.grad(outs, inputs, gradients, allow_unused=True, create_graph=create_graph)


def _autocast(x: Tensor) -> Callable[[], AbstractContextManager]:
    """Makes the autocast that is on now."""
    kind = x.device.type
    if not torch.amp.is_autocast_available(kind):
        return torch.enable_grad
    enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    return lambda: torch.autocast(kind, dtype=dtype, enabled=enabled)
