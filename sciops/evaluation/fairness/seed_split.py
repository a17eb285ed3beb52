"""Squared error of trained networks as bias and variance over training seeds: would an ensemble help?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sciops.arrays.kinds import as_tensor
from sciops.grids import Grid, check_on_grid


@dataclass(frozen=True)
class SeedSplit:
    """Squared relative errors of each sample as a sum of two parts.

    bias : (samples,) ‖E û − u‖² / ‖u‖², which no number of further trainings removes; unbiased, and may be below 0
    variance : (samples,) E‖û − E û‖² / ‖u‖², which an average over trainings removes
    seeds : number of trainings that both were estimated from
    """

    bias: np.ndarray
    variance: np.ndarray
    seeds: int

    def single(self) -> np.ndarray:
        """(samples,) mean squared relative error of one training: bias + variance."""
        return self.bias + self.variance

    def ensemble(self, members: int) -> np.ndarray:
        """(samples,) expected squared relative error of the mean of this many trainings: bias + variance / members."""
        if members < 1:
            raise ValueError(f"members={members}: expected at least 1")
        return self.bias + self.variance / members


def seed_split(predictions: Any, target: Any, grid: Grid | None = None) -> SeedSplit:
    """Splits squared errors over training seeds into bias and variance, sample by sample.

    For squared errors the split is exact, E‖û − u‖² = ‖E û − u‖² + E‖û − E û‖². With S trainings and their mean ū::

        variance = Σ_s ‖û_s − ū‖² / (S − 1),    bias = ‖ū − u‖² − variance / S

    both over ‖u‖². For every k ≤ S the mean over all subsets of k trainings of ‖ū_k − u‖² is bias + variance / k.

    Parameters
    ----------
    predictions : array_like of shape (seeds, samples, ..., *grid)
        Of the same samples by the same model, trained with different seeds; numpy or torch.
    target : array_like of shape (samples, ..., *grid)
    grid : Grid, optional
        Quadrature weights; None weighs every point alike.

    Returns
    -------
    SeedSplit
        Arrays of float64.

    Raises
    ------
    ValueError
        The shapes do not fit, there is one seed, a value is not finite, or a target vanishes.

    Notes
    -----
    Variance is over what the seeds change: initial weights and the order of the samples, if all trainings share their
    training set. What the choice of the training set adds is then part of the bias.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> u = np.ones((1, 500))
    >>> split = seed_split(u + 0.1 + 0.2 * rng.standard_normal((8, 1, 500)), u)
    >>> split.bias.round(2), split.variance.round(2)
    (array([0.01]), array([0.04]))
    """
    p, u = (
        as_tensor(values, name)[0].detach().cpu().numpy().astype(np.float64)
        for values, name in ((predictions, "predictions"), (target, "target"))
    )
    if p.ndim < 3 or p.shape[1:] != u.shape or p.size == 0:
        raise ValueError(
            f"predictions of shape {p.shape}, target {u.shape}: expected (seeds, samples, …) and (samples, …)"
        )
    if len(p) < 2:
        raise ValueError("predictions of one seed: expected at least two trainings, better five")
    if not (np.isfinite(p).all() and np.isfinite(u).all()):
        raise ValueError("predictions or target hold NaN or infinity: leave these samples out of both")
    weights = np.ones(1)
    if grid is not None:
        check_on_grid(as_tensor(target, "target")[0], grid, "target")
        weights = grid.weights()

    def squares(v: np.ndarray, first: int) -> np.ndarray:
        return np.asarray((v**2 * weights).reshape(*v.shape[:first], -1).sum(axis=-1))

    size = squares(u, 1)
    if (size == 0).any():
        raise ValueError(f"target {int(np.argmin(size))} is zero everywhere: a relative error needs one that is not")
    mean = p.mean(axis=0)
    variance = squares(p - mean, 2).sum(axis=0) / (len(p) - 1) / size
    return SeedSplit(squares(mean - u, 1) / size - variance / len(p), variance, len(p))
