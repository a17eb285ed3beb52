"""Training step by step: batches from shuffled rows, and `sciops.training.fit` on batches that are drawn one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from torch import nn
from torch.optim import Optimizer

from sciops.training import TrainConfig, fit


def shuffled(count: int, batch: int, permuted: Callable[[int], Any], *, whole: bool = False) -> Iterator[np.ndarray]:
    """Row numbers of batch after batch, without end, from one permutation of all rows after another.

    Parameters
    ----------
    count, batch : int
        Number of rows, and of those in a batch; at least `batch` rows are needed unless `whole`.
    permuted : callable
        ``permuted(count)`` draws a permutation, as ``numpy.random.Generator.permutation`` does.
    whole : bool
        Whether a batch ends with its permutation, so that the last one is smaller; otherwise it takes the rest of one
        and the beginning of the next.
    """
    rows = np.empty(0, dtype=np.int64)
    while True:
        rows = np.concatenate([rows, np.asarray(permuted(count))])
        while len(rows) >= batch or (whole and len(rows)):
            yield rows[:batch]
            rows = rows[batch:]


def train_by_step(
    net: nn.Module,
    draw: Callable[[int], Any],
    loss: Callable[[nn.Module, Any], Any],
    optimizer: Optimizer,
    *,
    steps: int,
    after: Callable[[Any, dict[str, Any]], Any] | None = None,
    device: str = "cpu",
    **options: Any,
) -> Any:
    """What `sciops.training.fit` returns after `steps` steps on batches that `draw` makes.

    Parameters
    ----------
    net : nn.Module
    draw : callable
        ``draw(step)`` gives the batch of a step, counted from 0.
    loss : callable
        ``loss(net, batch)`` gives the loss, or fills the gradients and gives it.
    optimizer : torch.optim.Optimizer
    steps : int
    after : callable, optional
        ``after(run, record)`` is called after every step with {"step" (from 1), "loss", …}; True ends the training.
    device : str
    **options
        Further options of `TrainConfig`; by default one cycle of the rate, gradients clipped at 1.
    """

    def each(run: Any, record: dict[str, Any]) -> Any:
        return after(run, record) if after is not None and "epoch" not in record else None

    config = TrainConfig(steps=steps, device=device, progress=False, **({"epochs": 1} | options))
    return fit(net, draw, config, loss=loss, optimizer=optimizer, callbacks=[each])
