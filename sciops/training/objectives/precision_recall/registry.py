"""The losses by name, and how a name and options become an objective or a loss with a fixed model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import apply_model
from sciops.options import names_of, read_options
from sciops.training.objectives.precision_recall.focal import Focal
from sciops.training.objectives.precision_recall.gold import Gold
from sciops.training.objectives.precision_recall.lambda_pr import LambdaPR
from sciops.training.objectives.precision_recall.likelihoods import LIKELIHOODS, Likelihood
from sciops.training.objectives.precision_recall.power import Power
from sciops.training.objectives.precision_recall.tailr import TaiLr, TaiLrRecall
from sciops.training.objectives.precision_recall.truncation import Truncation, TruncationRecall
from sciops.training.objectives.precision_recall.weighting import NegativeLogLikelihood, Weighting

WEIGHTINGS: dict[str, type[Weighting]] = {
    "nll": NegativeLogLikelihood,
    "truncation": Truncation,
    "truncation_recall": TruncationRecall,
    "gold": Gold,
    "tailr": TaiLr,
    "tailr_recall": TaiLrRecall,
    "power": Power,
    "focal": Focal,
    "lambda_pr": LambdaPR,
}


def read_objective(name: str, options: Mapping[str, Any]) -> tuple[Likelihood, Weighting]:
    """(likelihood, weighting) of a name and its options, "likelihood" and those of the two.

    Raises ValueError for an unknown name or option, naming those there are, and for values out of range.
    """
    if name not in WEIGHTINGS:
        raise ValueError(f"objective {name!r}: expected one of {', '.join(WEIGHTINGS)}")
    given = dict(options)
    chosen = given.pop("likelihood", "tokens")
    if chosen not in LIKELIHOODS:
        raise ValueError(f"likelihood={chosen!r}: expected one of {', '.join(LIKELIHOODS)}")
    weighting, likelihood = WEIGHTINGS[name], LIKELIHOODS[chosen]
    own, its = names_of(weighting), names_of(likelihood)
    for option in given:
        if option not in own + its:
            known = ", ".join((*own, "likelihood", *its))
            raise ValueError(
                f"objective {name!r} with likelihood={chosen!r} has no option {option!r}; it takes {known}"
            )
    try:
        return (
            read_options(likelihood, f"likelihood={chosen!r}", {k: v for k, v in given.items() if k in its}),
            read_options(weighting, f"objective {name!r}", {k: v for k, v in given.items() if k in own}),
        )
    except TypeError as error:  # an option without a default that is not given
        raise ValueError(str(error)) from None


def _objective(name: str) -> Callable[..., Tensor]:
    """The objective ``(prediction, target, grid=None, *, reference=None, **options)`` of a name."""

    def objective(
        prediction: Tensor,
        target: Tensor,
        grid: Grid | None = None,
        *,
        reference: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        likelihood, weighting = read_objective(name, options)
        scores = likelihood.scores(prediction, target)
        if reference is not None:
            if not weighting.takes_reference:
                raise ValueError(f"objective {name!r} takes no reference; leave it out")
            scores = replace(scores, reference=_like(reference, scores.log_q).detach())
        return weighting.losses(scores)

    objective.__name__ = objective.__qualname__ = name
    objective.__doc__ = WEIGHTINGS[name].__doc__
    return objective


PRECISION_RECALL = {name: _objective(name) for name in WEIGHTINGS}


def with_reference(name: str, reference: nn.Module, **options: Any) -> Callable[[nn.Module, Any], Tensor]:
    """A loss for ``fit(…, loss=…)`` whose weights use the likelihoods of a fixed model, usually trained by "nll".

    Parameters
    ----------
    name : str
        "gold" or "lambda_pr".
    reference : nn.Module
        Called like the model, in evaluation mode and without gradients.
    **options
        As of the objective.

    Returns
    -------
    function (model, batch) → mean loss of the batch
        batch : `sciops.training.Batch`, or anything with ``.x``, ``.y`` and ``.grid``
    """
    likelihood, weighting = read_objective(name, options)
    if not weighting.takes_reference:
        raise ValueError(f"objective {name!r} takes no reference; train with objective={name!r}")
    reference.eval()

    def loss(model: nn.Module, batch: Any) -> Tensor:
        with torch.no_grad():
            fixed = likelihood.scores(apply_model(reference, batch.x, batch.grid), batch.y).log_q
        scores = likelihood.scores(apply_model(model, batch.x, batch.grid), batch.y)
        return weighting.losses(replace(scores, reference=fixed)).mean()

    return loss


def _like(reference: Tensor, log_q: Tensor) -> Tensor:
    reference = reference.flatten(1)
    if reference.shape != log_q.shape:
        raise ValueError(
            f"reference has shape {tuple(reference.shape)}: expected {tuple(log_q.shape)}, one log-likelihood a target"
        )
    return reference.to(log_q.dtype)
