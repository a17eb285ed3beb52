"""Wasserstein distance between laws of fields."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.grids import Grid
from sciops.uncertainty.distances import between
from sciops.uncertainty.law import Law


def wasserstein2(first: Law, second: Law) -> Tensor:
    """W₂ between the laws of each sample: the root of the least mean squared distance over all ways to move the weight.

    W₂² = min_γ Σ_ij γ_ij ‖f_i − g_j‖² over plans γ ≥ 0 with the margins p and q, solved exactly (network simplex).

    Parameters
    ----------
    first, second : Law
        With equal numbers of samples, fields of one shape, and one grid; their numbers of points may differ.

    Returns
    -------
    Tensor
        (batch,) float64, in the unit of the norm.

    Raises
    ------
    ImportError
        Without pot, naming the command that installs it.
    ValueError
        For laws that do not fit each other.
    """
    if first.points.shape[2:] != second.points.shape[2:] or len(first.points) != len(second.points):
        raise ValueError(
            f"laws of {tuple(first.points.shape)} and {tuple(second.points.shape)}: expected (batch, n, channels, "
            "*grid) and (batch, m, channels, *grid) of one batch"
        )
    if first.grid != second.grid:
        raise ValueError(f"laws on {first.grid} and {second.grid}: expected one grid")
    transport = _pot()
    costs = []
    for f, p, g, q in zip(first.points, first.weights, second.points, second.weights):
        squared = between(f.double().cpu(), g.double().cpu(), first.grid)
        p, q = (w.double().cpu() / w.double().sum().cpu() for w in (p, q))
        costs.append(max(0.0, float(transport.emd2(p.numpy(), q.numpy(), squared.numpy(), numItermax=10**7))))
    return torch.tensor(costs, dtype=torch.float64).sqrt()


def empirical(samples: Any, grid: Grid | None = None) -> Law:
    """The law of samples (count, channels, *grid) of one input, all of one weight, as a batch of one."""
    fields = as_tensor(samples, "samples")[0]
    return Law(fields[None], fields.new_full((1, len(fields)), 1 / max(1, len(fields))), None, grid)


def repeated(x: Any) -> list[list[int]]:
    """Numbers of the samples that have the same input, bit for bit, in groups of at least two; in order.

    Of such inputs the samples of a data set are draws of one conditional law, with which a law can be compared.

    x : (samples, channels, *grid), numpy or torch
    """
    groups: dict[bytes, list[int]] = {}
    for number, row in enumerate(as_tensor(x, "x")[0].detach().cpu().contiguous()):
        groups.setdefault(row.numpy().tobytes(), []).append(number)
    return [group for group in groups.values() if len(group) > 1]


def _pot() -> Any:
    try:
        import ot
    except ImportError:
        raise ImportError("the Wasserstein distance needs pot: pip install 'sciops[audit]'") from None
    return ot
