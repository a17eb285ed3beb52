"""Whether a prediction depends on its input as the truth does: residuals, retrieval, sensitivity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sciops.arrays.kinds import as_tensor, like
from sciops.arrays.scale import norm_of, widened
from sciops.arrays.short import fields_text
from sciops.grids import Grid, check_on_grid

__all__ = ["Retrieval", "Sensitivity", "own_against_wrong", "retrieval", "sensitivity"]


@dataclass(frozen=True)
class Retrieval:
    """Rank of the own truth among all, by distance to the prediction.

    rank : (batch,) float64, 1 where the own truth is nearest; truths at equal distance share their ranks' mean
    hit : (batch,) float64, 1 where no other truth is as near, 1/m where m truths, the own one among them, are nearest
    truths : their number K; a prediction that ignores its input has mean hit 1/K and mean rank (K + 1)/2
    """

    rank: np.ndarray
    hit: np.ndarray
    truths: int

    __repr__ = fields_text

    @property
    def accuracy(self) -> float:
        """Share of predictions whose own truth is the nearest."""
        return float(self.hit.mean())


@dataclass(frozen=True)
class Sensitivity:
    """How the change of a prediction compares with the change of the truth, Δû with Δu.

    ratio : (batch,) ‖Δû‖/‖Δu‖; 1 wanted, 0 where the prediction ignores the change
    slope : (batch,) ⟨Δû, Δu⟩/‖Δu‖²; 1 wanted. A change of the right size in a wrong direction has ratio 1 and slope 0
    """

    ratio: Any
    slope: Any

    __repr__ = fields_text


def own_against_wrong(residual: Callable[[Any, Any], Any], prediction: Any, own: Any, wrong: Any) -> Any:
    """Residual of predictions with their own input over the residual with a wrong one, per sample.

    ‖R(û_i; a_i)‖ / ‖R(û_i; a_j)‖: below 1 where the prediction fits its own input better. It needs no labels.

    Parameters
    ----------
    residual : callable
        ``residual(prediction, input)`` → (batch,) norms, such as one made of `sciops.pde.darcy.residual`.
    prediction : array
        (batch, ...) û.
    own, wrong : arrays
        (batch, ...) the inputs a_i, and for each sample another one of the same law, such as ``own[::-1]``.

    Returns
    -------
    array
        (batch,), in the kind of the residuals; 1 where both vanish, infinite where only the wrong one does.

    Raises
    ------
    ValueError
        For inputs of different shapes, and for a wrong input that equals the own one.
    """
    a, b = (as_tensor(v, name)[0] for v, name in ((own, "own"), (wrong, "wrong")))
    if a.shape != b.shape or len(a) != len(prediction):
        raise ValueError(
            f"own {tuple(a.shape)}, wrong {tuple(b.shape)} for {len(prediction)} predictions: expected one of each"
        )
    same = (a == b).flatten(1).all(1)
    if bool(same.any()):
        raise ValueError(
            f"sample {int(same.nonzero()[0])}: the wrong input is its own; expected that of another sample"
        )
    found = [residual(prediction, v) for v in (own, wrong)]
    good, bad = (as_tensor(v, "residual")[0] for v in found)
    if good.shape != (len(prediction),) or bad.shape != good.shape:
        raise ValueError(f"residual returned shape {tuple(good.shape)}: expected ({len(prediction)},), one a sample")
    return like(found[0], torch.where((good == 0) & (bad == 0), 1.0, good / bad))


def retrieval(prediction: Any, truth: Any, grid: Grid | None = None) -> Retrieval:
    """Rank of each prediction's own truth among the truths of the batch, by their distance to the prediction.

    Parameters
    ----------
    prediction, truth : arrays
        (batch, ..., *grid), numpy or torch; all samples of the batch are candidates.
    grid : Grid, optional
        Quadrature weights of the distance; None weighs every point alike.

    Returns
    -------
    Retrieval

    Raises
    ------
    ValueError
        For different shapes, fewer than two samples, and values that are not finite.
    """
    p, u = _pair(prediction, truth, grid)
    if len(p) < 2:
        raise ValueError(f"a batch of {len(p)}: expected at least two truths to choose from")
    # differences, not |p|² − 2⟨p, u⟩ + |u|², which cancels where all are alike
    distances = torch.stack([norm_of(row - u, 1) for row in p])
    own = distances.diagonal()[:, None]
    nearer, alike = (distances < own).sum(1), (distances == own).sum(1)
    rank = nearer + (alike + 1) / 2
    hit = torch.where(nearer == 0, 1.0 / alike, 0.0)
    return Retrieval(rank.double().cpu().numpy(), hit.double().cpu().numpy(), len(u))


def sensitivity(
    prediction: Any, changed_prediction: Any, truth: Any, changed_truth: Any, grid: Grid | None = None
) -> Sensitivity:
    """Change of a prediction against that of the truth, where the input changes from a to a + δ.

    Parameters
    ----------
    prediction, changed_prediction : arrays
        (batch, ..., *grid) û(a) and û(a + δ).
    truth, changed_truth : arrays
        u(a) and u(a + δ), of the same shape.
    grid : Grid, optional
        Quadrature weights; None weighs every point alike.

    Returns
    -------
    Sensitivity
        In the kind of the prediction; NaN where the truth does not change.

    Raises
    ------
    ValueError
        For different shapes and values that are not finite.
    """
    p, u = _pair(prediction, truth, grid)
    q, v = _pair(changed_prediction, changed_truth, grid)
    if p.shape != q.shape:
        raise ValueError(f"predictions of {len(p)} samples and of {len(q)} changed ones: expected as many")
    dp, du = q - p, v - u
    size = norm_of(du, 1)
    nan = torch.full_like(size, torch.nan)
    unit = du / torch.where(size > 0, size, 1.0)[:, None]
    slope = torch.where(size > 0, (dp * unit).sum(1) / size, nan)
    ratio = torch.where(size > 0, norm_of(dp, 1) / size, nan)
    return Sensitivity(like(prediction, ratio), like(prediction, slope))


def _pair(prediction: Any, truth: Any, grid: Grid | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Both as (batch, numbers), each number weighed by the square root of its quadrature weight."""
    p, u = (as_tensor(v, name)[0] for v, name in ((prediction, "prediction"), (truth, "truth")))
    if p.shape != u.shape or p.ndim < 2:
        raise ValueError(
            f"prediction of shape {tuple(p.shape)} and truth of shape {tuple(u.shape)}: expected equal (batch, ..., "
            "*grid)"
        )
    p, u = widened(p), widened(u)
    if not (torch.isfinite(p).all() and torch.isfinite(u).all()):
        raise ValueError("prediction or truth holds NaN or infinity: leave those samples out")
    if grid is not None:
        check_on_grid(p, grid, "prediction")
        root = torch.from_numpy(grid.weights()).sqrt().to(p)
        p, u = p * root, u * root
    return p.flatten(1), u.flatten(1)
