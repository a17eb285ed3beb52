"""The exponential moving average of a model's parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sciops.training.parallel import is_sharded, like

_PREFIX = "raw/"


class Average:
    """The exponential moving average of the trained parameters of a model.

        ā ← d ā + (1 − d) p after every step, d = min(decay, (1 + step)/(10 + step)), ā = p after the first

    The average remembers some 1/(1 − decay) steps. The rising decay keeps that memory a share of the steps done so far,
    so that the first parameters are forgotten in short trainings too.

    names : the trained parameters and their names; a parameter that is sharded is averaged shard by shard
    decay : in (0, 1); None averages nothing, and every method then does nothing

    Buffers are not averaged: the model has one set, as it is at the time.
    """

    def __init__(self, names: Mapping[nn.Parameter, str], decay: float | None) -> None:
        self.decay = decay
        self.names = dict(names) if decay is not None else {}
        self.tensors: list[Tensor] = []  # none before the first step: processes may still be given the same parameters

    def update(self, step: int) -> None:
        """Takes in the parameters after `step` steps."""
        if self.decay is not None and not self.tensors:
            self._begin()
        elif self.decay is not None:
            decay = min(self.decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(_local(self.tensors), _local(self.names), 1.0 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model holds the average and this object the raw parameters; bit for bit as before at the end."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def raw_tensors(self) -> dict[str, Tensor]:
        """The raw parameters as ``raw/<parameter>``, inside `in_place`; sharded ones as they are."""
        return {_PREFIX + name: tensor for name, tensor in zip(self.names.values(), self.tensors)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes the average from the model and gives it the raw parameters that `raw_tensors` named."""
        self._begin()
        for parameter, name in self.names.items():
            parameter.detach().copy_(like(tensors[_PREFIX + name], parameter))

    def _begin(self) -> None:
        self.tensors = [p.detach().clone() for p in self.names]

    def _exchange(self) -> None:
        for parameter, average in zip(_local(self.names), _local(self.tensors)):
            kept = parameter.clone()
            parameter.copy_(average)
            average.copy_(kept)


def _local(tensors: Mapping[nn.Parameter, str] | list[Tensor]) -> list[Tensor]:
    """Views of what this process holds of each; recreated each time, as FSDP may move a shard before its first use."""
    return [t.detach().to_local() if is_sharded(t) else t.detach() for t in tensors]
