"""How far a map stretches at given points, from below: dense Jacobians and difference quotients, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.mixers import MIXERS
from sciops.models.apply import apply_model


@dataclass(frozen=True)
class Case:
    """A composition, and how it is run.

    model : in float64 where it can be
    grid : that its inputs lie on
    shape : of one input, with a batch of 1
    last : channels come last, otherwise first
    alone : one sample at a time, draws repeated, because samples are mixed or something is drawn
    ball : the bound is asked for in a ball that holds all tokens of the measured inputs
    vacuous : norms count
    dtype : of its inputs
    inside : what is in force wherever the model is bounded or run
    """

    model: nn.Module
    grid: Grid
    shape: tuple[int, ...]
    last: bool = False
    alone: bool = False
    ball: bool = False
    vacuous: bool = False
    dtype: torch.dtype = torch.float64
    inside: Callable[[], AbstractContextManager] = nullcontext


def inputs(case: Case, points: int, generator: torch.Generator) -> list[Tensor]:
    """Random inputs of several sizes."""
    sizes = (1.0, 0.1, 6.0, 0.01, 30.0)
    drawn = [torch.randn(case.shape, dtype=torch.float64, generator=generator) for _ in range(points)]
    return [sizes[i % len(sizes)] * x.to(case.dtype) for i, x in enumerate(drawn)]


def stretches(
    case: Case, points: Sequence[Tensor], quadrature: bool, generator: torch.Generator
) -> tuple[float, float]:
    """(largest ‖J‖₂ at the points, largest ‖f(x) − f(y)‖/‖x − y‖ of pairs), in the norms of a bound.

    quadrature : in the L² norm of the grid, and of the grid of the output; otherwise in Euclidean norms
    returns : infinity for values that are not finite, which no map with a bound has
    """
    steepest = quotient = 0.0
    for x in points:
        with torch.no_grad():
            y = _run(case, x)
        if not bool(y.isfinite().all()):
            return math.inf, math.inf
        into, out = (_roots(case, value.shape, quadrature) for value in (x, y))
        try:
            matrix, exact = jacobian(case, x, y.numel()), True
        except RuntimeError:  # layers write to what the gradient of others needs
            matrix, exact = differences(case, x, y.numel()), False
        scaled = out.flatten()[:, None] * matrix.double() / into.flatten()
        _, sigmas, right = torch.linalg.svd(scaled, full_matrices=False)
        if exact:  # otherwise the quotients decide
            steepest = max(steepest, float(sigmas[0]))
        along = (right[0].reshape(x.shape) / into).to(x)
        other = torch.randn(x.shape, dtype=torch.float64, generator=generator).to(x)
        for step in (1e-3 * along, along, -10.0 * along, other):
            with torch.no_grad():
                z = _run(case, x + step)
            if not bool((y + z).isfinite().all()):
                return math.inf, math.inf
            rounding = 8 * torch.finfo(x.dtype).eps * max(float(y.norm()), float(z.norm())) * float(out.max())
            apart = float((out * (z - y)).norm()) - rounding
            quotient = max(quotient, apart / float((into * step).norm()))
    return steepest, quotient


def jacobian(case: Case, x: Tensor, count: int) -> Tensor:
    """(outputs, inputs) at x (1, …): one backward pass over copies of x, or one per output for samples run alone."""
    copies = (x if case.alone else x.expand(count, *x.shape[1:])).clone().requires_grad_()
    y = _run(case, copies)
    if not y.requires_grad:  # a constant
        return torch.zeros(count, x.numel(), dtype=x.dtype)
    if case.alone:
        rows = [torch.autograd.grad(one, copies, retain_graph=True)[0] for one in y.flatten()]
        return torch.stack(rows).reshape(count, -1)
    return torch.autograd.grad(y.reshape(count, -1).diagonal().sum(), copies)[0].reshape(count, -1)


def differences(case: Case, x: Tensor, count: int, step: float = 1e-6) -> Tensor:
    """(outputs, inputs) at x (1, …) by central differences."""
    steps = step * torch.eye(x.numel(), dtype=x.dtype).reshape(-1, *x.shape[1:])
    with torch.no_grad():
        pairs = [(_run(case, x + one[None]), _run(case, x - one[None])) for one in steps]
    return torch.stack([(up - down).reshape(count) for up, down in pairs], dim=1) / (2 * step)


@contextmanager
def largest_token(model: nn.Module) -> Iterator[list[float]]:
    """Yields a list whose one number is the largest token so far that entered a mixer or a linear map within."""
    largest = [0.0]

    def note(_: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        largest[0] = max(largest[0], float(arguments[0].detach().norm(dim=-1).max()))

    kinds = (*MIXERS.values(), nn.Linear)
    hooks = [part.register_forward_pre_hook(note) for part in model.modules() if isinstance(part, kinds)]
    try:
        yield largest
    finally:
        for hook in hooks:
            hook.remove()


def _run(case: Case, x: Tensor) -> Tensor:
    """The model on a copy of x, since layers may write to it."""
    if case.alone:
        torch.manual_seed(0)
    return apply_model(case.model, x * 1.0, case.grid)


def _roots(case: Case, shape: Sequence[int], quadrature: bool) -> Tensor:
    """√w of every number of a field (1, …); 1 of what is no field."""
    sizes = tuple(shape[1:-1] if case.last else shape[2:])
    if not quadrature or len(sizes) != len(case.grid.shape):
        return torch.ones(tuple(shape), dtype=torch.float64)
    grid = case.grid if sizes == case.grid.shape else Grid(sizes, centering=case.grid.centering)
    weights = torch.from_numpy(np.sqrt(grid.weights()))
    return (weights[..., None] if case.last else weights).expand(tuple(shape))
