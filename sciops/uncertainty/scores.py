"""How good a distribution of fields is, by what came true: proper scores, the nearest point, moments."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor, refuse_complex
from sciops.metrics import relative_l2
from sciops.uncertainty.distances import per_sample, quadrature, squared_distances
from sciops.uncertainty.law import Law


def energy_score(law: Law, y: Any) -> Tensor:
    """Energy score of each sample, ES = Σ_i p_i ‖f_i − y‖ − ½ Σ_ij p_i p_j ‖f_i − f_j‖; smaller is better.

    A proper score: its mean is least for the law that the fields y come from. Norms are those of the law's grid. The
    score of one point is the distance to it.

    Parameters
    ----------
    law : Law
        Points and weights; the spread about the points does not count.
    y : array of numpy or torch
        What came true, (batch, channels, *grid).

    Returns
    -------
    Tensor
        (batch,) float64.

    Raises
    ------
    ImportError
        Without scoringrules, naming the command that installs it.
    ValueError
        For shapes that do not fit.
    """
    rules, truth, weights = _scoringrules(), _truth(law, y), law.weights.double()
    root = _measure(law).sqrt()
    observed, points = (truth * root).flatten(1).numpy(), (law.points.double().cpu() * root).flatten(2).numpy()
    # one sample at a time: all differences of its points are held at once
    rows = zip(observed, points, weights.cpu().numpy())
    scores = [float(rules.es_ensemble(o, f, ens_w=w, backend="numpy")) for o, f, w in rows]
    return torch.tensor(scores, dtype=torch.float64)


def crps(law: Law, y: Any) -> Tensor:
    """Continuous ranked probability score of every number, Σ_i p_i |f_i − y| − ½ Σ_ij p_i p_j |f_i − f_j|, averaged.

    The average is over the domain, by the weights of the law's grid, and over the channels. The score sees the margins
    alone: fields whose numbers are tied together in the wrong way have the same score.

    Parameters, returns and errors as those of `energy_score`; in the units of y.
    """
    rules, truth, weights = _scoringrules(), _truth(law, y), law.weights.double()
    measure = _measure(law).expand_as(truth[:1]).flatten()
    share = measure / measure.sum()
    observed, points = truth.flatten(1).numpy(), law.points.double().cpu().flatten(2).transpose(1, 2).numpy()
    scores = []
    for o, f, w in zip(observed, points, weights.cpu().numpy()):
        each = rules.crps_ensemble(o, f, ens_w=np.broadcast_to(w, f.shape), estimator="nrg", backend="numpy")
        scores.append(float(np.dot(each, share.numpy())))
    return torch.tensor(scores, dtype=torch.float64)


def nearest_error(law: Law, y: Any, *, relative: bool = True) -> Tensor:
    """Distance from each field to the nearest point of its law, min_i ‖y − f_i‖, over ‖y‖ where `relative`.

    The error of the best of n. It rewards n alone and says nothing about the weights: compare laws with equal numbers
    of points, and read it beside the energy score.

    Returns (batch,) float64; infinite where ‖y‖ is 0 and the distance is not.
    """
    truth = _truth(law, y)
    distance = squared_distances(truth, law.points.double().cpu(), law.grid).min(1).values.sqrt()
    if not relative:
        return distance
    size = per_sample(truth.square(), law.grid).sqrt()
    return torch.where(size > 0, distance / torch.where(size > 0, size, 1), torch.where(distance > 0, torch.inf, 0.0))


def moment_errors(law: Law, mean: Any, std: Any) -> tuple[Tensor, Tensor]:
    """Relative L2 errors of mean and standard deviation against those of the true law, each (batch,).

    mean, std : (batch, channels, *grid) of the true law. The standard deviation of `law` includes the spread about its
        points where it has one
    """
    found = law.mean.double().cpu(), law.std.double().cpu()
    truth = _truth(law, mean), _truth(law, std)
    first, second = (relative_l2(a, b, law.grid) for a, b in zip(found, truth))
    return first, second


def _truth(law: Law, y: Any) -> Tensor:
    refuse_complex(y, "y")
    truth = as_tensor(y, "y")[0].detach().double().cpu()
    expected = (len(law.points), *law.points.shape[2:])
    if tuple(truth.shape) != expected:
        raise ValueError(f"y has shape {tuple(truth.shape)}; the law is of fields {expected}: pass one for each sample")
    return truth


def _measure(law: Law) -> Tensor:
    """What each number of a field counts in a squared norm, (1, *grid) or (1,)."""
    weights = quadrature(law.grid, law.points.double().cpu())
    return torch.ones(1, dtype=torch.float64) if weights is None else weights[None]


def _scoringrules() -> Any:
    if "scoringrules" in sys.modules:
        return sys.modules["scoringrules"]
    # where numba is there, it compiles functions for four seconds at its import, of which none is used here
    numba = sys.modules.get("numba")
    sys.modules["numba"] = None  # type: ignore[assignment]
    try:
        import scoringrules
    except ImportError:
        raise ImportError("proper scores need scoringrules: pip install 'sciops[audit]'") from None
    finally:
        del sys.modules["numba"]
        if numba is not None:
            sys.modules["numba"] = numba
    return scoringrules
