"""The validation of an epoch, shared between the processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch
from torch import nn

from sciops.models import apply_model
from sciops.training.config import TrainConfig
from sciops.training.data.checks import name_of
from sciops.training.data.loader import Loader
from sciops.training.parallel import Processes
from sciops.training.setup import autocast
from sciops.training.tasks.tasks import task_of
from sciops.uncertainty import has_own_losses, validation_errors


def validate(
    model: nn.Module, validation: Sequence[Any], first: int, loader: Loader, config: TrainConfig, processes: Processes
) -> dict[str, Any]:
    """The task's mean error, over all validation sets and of each by its grid: of fields the relative L2 in physical
    units, every point alike; of labels the error rate; of tokens the negative log-probability, each sequence alike. Of
    a model of a distribution `sciops.uncertainty.validation_errors`.

    first : number of the first validation set in `loader`
    """
    model.eval()
    task, own = task_of(config), has_own_losses(model)
    means: dict[str, float] = {}
    for number, dataset in enumerate(validation, first):
        total = torch.zeros((), dtype=processes.wide, device=processes.device)
        parts = _parts(len(dataset), 4 * config.batch_size, processes)  # without a graph more fits
        with closing(loader.batches([(number, part) for part, _ in parts])) as batches:
            for (_, counts), fields in zip(parts, batches):
                x, y = task.placed(fields["x"], fields["y"], processes.device)
                with torch.no_grad(), autocast(config, processes.device):
                    if own:
                        errors = validation_errors(model, x, y, dataset.grid)
                    else:
                        errors = task.errors(apply_model(model, x, dataset.grid).to(config.dtype), y)
                if counts:
                    total += errors.to(processes.wide).sum()
        name = name_of(dataset.grid)
        while name in means:
            name += "'"
        means[name] = processes.sum(total).item() / len(dataset)
    record: dict[str, Any] = {"validation": sum(means.values()) / len(means)}
    return record | ({"validation_by_grid": means} if len(means) > 1 else {})


def _parts(samples: int, size: int, processes: Processes) -> list[tuple[np.ndarray, bool]]:
    """(samples of each of this process's batches, whether they count).

    Every process gets as many batches as the others, as a forward pass may be an exchange; one that would be empty is
    the first sample of the round, and does not count.
    """
    parts = []
    for start in range(0, samples, size * processes.count):
        everyone = np.arange(start, min(start + size * processes.count, samples))
        mine = everyone[processes.rank :: processes.count]
        parts.append((mine, True) if len(mine) else (everyone[:1], False))
    return parts
