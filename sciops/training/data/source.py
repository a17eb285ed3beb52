"""Where the batches of a training come from: the one interface that `sciops.training.fit` knows of."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import Tensor, nn
from torch.amp import GradScaler

Loss = Callable[[nn.Module, Any], Tensor]  # (model, batch) → a tensor of one number
Rule = Callable[[nn.Module, Any], Tensor]  # (model, batch) → the detached loss, its gradient being added to .grad
Step = Iterable[tuple[Any, int]]  # the micro-batches of a step, numbered so that the last one has number 0


class Source(AbstractContextManager["Source"], Protocol):
    """Batches for `fit`, and the loss on them; a context manager, which closes what it opened.

    epochs, total : epochs and steps of the whole training; a total of 0 where only a clock ends it
    sizes : numbers of samples of the data sets, alike on all processes
    identity : what a resumed run has to have in common with the one before (after `prepare`)
    """

    epochs: int
    total: int
    sizes: Sequence[int]
    identity: Mapping[str, Any]

    def __exit__(self, *error: Any) -> None:
        """Closes what was opened."""
        return None

    def prepare(self, model: nn.Module) -> nn.Module:
        """Checks the data; the model in its precision, wrapped in what it needs."""
        return model

    def front(self, model: nn.Module) -> nn.Module:
        """What the rule is called with: the trained model, or a wrapper."""
        return model

    def rule(self, done: float, scaler: GradScaler, name: str | None = None) -> Rule:
        """What fills the gradients when the share `done` of the training is over: the config's rule, or the one named
        `name`."""

    def steps(self, front: nn.Module, epoch: int, first: int, done: float | None) -> tuple[int, Generator[Step]]:
        """(number of steps, the steps) of epoch number `epoch` (from 0), the first of which is number `first` of all.

        done : share of a time budget that is spent
        """

    def validate(self, model: nn.Module) -> dict[str, Any]:
        """The entries of an epoch's record; none without validation data."""
        return {}
