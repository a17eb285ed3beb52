"""Keeping hidden layers orthogonal after every optimiser step, whatever the optimiser."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from sciops.models.apply import placed_for, unwrapped
from sciops.models.orthogonal.projection import can_be_projected, orthogonality_defect, orthogonalize_
from sciops.training.gradients.stacks.linear_stack import LinearStack, read_stack, run_stack


class Keeper:
    """Projects the hidden layers of one stack after optimiser steps whose gradient came from its rule.

    ready : set by the rule when it has looked at the layers and found or made them orthogonal
    pending : set by the rule; a step without it, of another rule, changes nothing
    feedback : what the rule keeps of an earlier step's projection; calls : how often it ran
    """

    def __init__(self) -> None:
        self.layers: list[nn.Module] = []
        self.shapes: list[tuple[int, ...] | None] = []
        self.method: Any = "none"
        self.iterations, self.every = 6, 1
        self.ready, self.pending, self.feedback = False, False, None
        self.steps = self.calls = 0
        self._versions: list[int] = []

    def watch(self, stack: LinearStack, shapes: Sequence[tuple[int, ...] | None]) -> None:
        """The layers to project, and the grids that they act on."""
        chosen = [(stack.steps[i][1], shape) for i, shape in zip(stack.hidden, shapes)]
        chosen = [(layer, shape) for layer, shape in chosen if can_be_projected(layer)]
        self.layers, self.shapes = [layer for layer, _ in chosen], [shape for _, shape in chosen]

    def is_close(self) -> bool:
        """Orthogonal to half of the digits, so that a resumed run is not projected once more."""
        return all(
            orthogonality_defect(layer, shape) <= torch.finfo(next(layer.parameters()).dtype).eps ** 0.5
            for layer, shape in zip(self.layers, self.shapes)
        )

    def project(self, method: Literal["polar", "bjorck"] = "polar", iterations: int = 6) -> None:
        orthogonalize_(self.layers, shapes=self.shapes, method=method, iterations=iterations)

    def wait(self, method: Any, iterations: int, every: int) -> None:
        """Expects a step of an optimiser, after which the layers are projected as the rule says."""
        self.method, self.iterations, self.every = method, iterations, every
        self.pending, self._versions = method != "none", self._current()

    def after_step(self, *_: Any) -> None:
        """Projects, unless the step was not the rule's."""
        if self.pending:
            self.pending = False
            self.steps += 1
            if self.steps % self.every == 0:
                self.project(self.method, self.iterations)

    def catch_up(self) -> None:
        """Projects where a step that `after_step` did not see has changed the layers since the last call."""
        if self._versions != self._current():
            self.after_step()

    def _current(self) -> list[int]:
        return [p._version for layer in self.layers for p in layer.parameters()]


_KEEPERS: weakref.WeakKeyDictionary[nn.Sequential, Keeper] = weakref.WeakKeyDictionary()


def keeper_of(stack: LinearStack) -> Keeper:
    """The `Keeper` of a stack, one for each `nn.Sequential`; created at the first call."""
    found = _KEEPERS.get(stack.sequential)
    if found is None:
        found = _KEEPERS[stack.sequential] = Keeper()
    return found


def keep_orthogonal(model: nn.Module, optimizer: torch.optim.Optimizer) -> RemovableHandle:
    """Projects the hidden layers of the model's stack after every step of the optimizer, as `forward_only` asked.

    Steps whose gradient is that of another rule are left alone. `fit` calls it; in a loop of your own call it once,
    before the first step. Without it `forward_only` projects when it is called again, so that the training is the same
    and the weights after a step are not orthogonal before the next call.

    Returns
    -------
    RemovableHandle
        Its ``remove()`` ends the projections.

    Raises
    ------
    TypeError
        For a model that is not such a stack, with the reason.
    """
    return optimizer.register_step_post_hook(keeper_of(read_stack(unwrapped(model))).after_step)


def grid_of(layer: nn.Module, shape: Sequence[int]) -> tuple[int, ...] | None:
    """The grid part of an input's shape, for layers that act on one."""
    if isinstance(layer, nn.Linear):
        return None
    last = isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) or hasattr(layer, "moves")
    return tuple(shape[2:]) if last else tuple(shape[1:-1])


def project_(
    model: nn.Module,
    *,
    method: Literal["polar", "bjorck"] = "polar",
    iterations: int = 6,
    shape: Sequence[int] | None = None,
    lift: bool | None = None,
) -> None:
    """The hidden layers of the model's stack get orthonormal rows, in place; the last layer, and a lift, stay free.

    method, iterations : "polar" or "bjorck" (`sciops.models.orthogonalize_`)
    shape : of one sample as the stack takes it, (channels, *grid) or (*grid, channels); needed for `nn.Conv` layers,
        and for spectral layers on grids with just as many points as their modes need

    For training by other rules: call it after every ``optimizer.step()``. `forward_only` does so by itself.
    """
    stack = read_stack(model, lift)
    layers = [stack.steps[i][1] for i in stack.hidden]
    grids: list[tuple[int, ...] | None] = [None] * len(layers)
    if shape is not None:
        with torch.no_grad():
            run = run_stack(stack.steps, placed_for(model, torch.zeros(1, *shape)), differentiable=False)
        grids = [grid_of(layer, run.inputs[i].shape) for i, layer in zip(stack.hidden, layers)]
    chosen = [(layer, grid) for layer, grid in zip(layers, grids) if can_be_projected(layer)]
    orthogonalize_(
        [layer for layer, _ in chosen], shapes=[grid for _, grid in chosen], method=method, iterations=iterations
    )
