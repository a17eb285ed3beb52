"""Predictions and per-sample errors of a trained model on a dataset, batch by batch and without a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.metrics import EVERY_POINT_ALIKE, METRICS
from sciops.models.apply import apply_model, evaluating, placed_for
from sciops.training.data import Loader


def predict(model: nn.Module, dataset: Any, *, batch_size: int = 64) -> Tensor:
    """Predictions of a model on every sample of a data set, in its order.

    Parameters
    ----------
    model : torch.nn.Module
        It runs in evaluation mode on the device of its parameters, to whose precision the fields are cast.
    dataset : data set with ``len``, ``.batch(indices)`` and ``.grid``
        Such as `sciops.datasets.FieldDataset` or `TensorFields`.
    batch_size : int
        Samples of a forward pass.

    Returns
    -------
    torch.Tensor of shape (samples, channel, *grid)
        On the CPU, in the units the model was trained on.

    Raises
    ------
    ValueError
        For a data set without samples.
    """
    return torch.cat([prediction.cpu() for prediction, _ in _batches(model, dataset, batch_size)])


def evaluate(
    model: nn.Module,
    dataset: Any,
    metrics: Sequence[str] | Mapping[str, Callable[..., Any]] = ("relative_l2", "relative_mse"),
    *,
    batch_size: int = 64,
    weighted: bool = False,
) -> dict[str, np.ndarray]:
    """Errors of a model on every sample of a data set, by metric.

    Parameters
    ----------
    model, dataset, batch_size
        As in `predict`.
    metrics : names in `sciops.metrics.METRICS`, or a dict of functions (prediction, target, grid) → (batch,)
    weighted : bool
        Use the grid's quadrature weights. False weighs every point alike, as published tables do; "h1", "nrmse" and
        "vrmse" need the grid and are always weighted, and functions of your own always get the grid.

    Returns
    -------
    dict of numpy.ndarray
        Metric name → (samples,) float64, in the order of the data set, not averaged.

    Raises
    ------
    ValueError
        For an unknown metric, naming the known ones.
    """
    if not isinstance(metrics, Mapping):
        for name in metrics:
            if name not in METRICS:
                raise ValueError(f"metrics has {name!r}: expected some of {', '.join(METRICS)}")
        metrics = {name: METRICS[name] for name in metrics}
    errors: dict[str, list[np.ndarray]] = {name: [] for name in metrics}
    for prediction, target in _batches(model, dataset, batch_size):
        for name, metric in metrics.items():
            grid = None if metric in EVERY_POINT_ALIKE and not weighted else dataset.grid
            errors[name].append(np.asarray(metric(prediction, target, grid).cpu(), dtype=np.float64))
    return {name: np.concatenate(parts) for name, parts in errors.items()}


def _batches(model: nn.Module, dataset: Any, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    if len(dataset) == 0:
        raise ValueError("the dataset holds no samples: there is nothing to predict")
    first = next(model.parameters(), None)
    device = first.device if first is not None else torch.device("cpu")
    plan = [(0, np.arange(a, min(a + batch_size, len(dataset)))) for a in range(0, len(dataset), batch_size)]
    with evaluating(model), torch.no_grad(), Loader([dataset]) as loader, closing(loader.batches(plan)) as batches:
        for batch in batches:
            x, y = batch["x"], batch["y"].to(device)
            tokens = x.ndim == 2 and not x.is_floating_point()  # whole numbers are what their model takes
            yield apply_model(model, x.to(device) if tokens else placed_for(model, x), dataset.grid), y
