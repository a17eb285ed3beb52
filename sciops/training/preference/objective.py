"""A preference loss as `sciops.training.fit` takes it: a function of the model and of a batch of pairs."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from sciops.models.apply import evaluating
from sciops.options import check_options, names_of
from sciops.training.preference.losses import PreferenceOptions, Ratios, preference_loss


def frozen(model: nn.Module) -> nn.Module:
    """A copy of the model in evaluation mode, whose parameters are not trained."""
    return copy.deepcopy(model).eval().requires_grad_(False)


class Preference(ABC):
    """Base class of preference objectives, ``objective(model, pairs)`` → the mean loss over the pairs.

    A subclass says what the log-probabilities of both outputs of a pair are. They are computed in evaluation mode,
    without dropout, so that a model that equals its reference has log-ratios of exactly 0.

    Parameters
    ----------
    reference : nn.Module or None
        The model before the preference training, of which a frozen copy is kept. None where the pairs hold its
        log-probabilities (`with_reference`), or with ``reference_free=True``.
    options : PreferenceOptions
    """

    def __init__(self, reference: nn.Module | None, options: PreferenceOptions) -> None:
        if reference is not None and options.reference_free:
            raise ValueError("reference_free=True with a reference: pass None, or leave reference_free out")
        self.reference = None if reference is None else frozen(reference)
        self.options = options

    @abstractmethod
    def log_probabilities(self, model: nn.Module, pairs: Any) -> Tensor:
        """(2, batch): log-probabilities of the preferred and of the rejected outputs."""

    @abstractmethod
    def lengths(self, pairs: Any) -> Tensor:
        """(2, batch): numbers of tokens, 1 for fields."""

    @torch.no_grad()
    def log_ratios(self, model: nn.Module, pairs: Any) -> Ratios:
        """Log-ratios of the pairs, for a look at how the training goes; `Ratios.margin` should rise. No gradients."""
        pairs = _placed(pairs, model)
        return self._ratios(self._of(model, pairs), pairs)

    def with_reference(self, pairs: Any, *, batch_size: int = 256) -> Any:
        """The pairs with the log-probabilities of the reference, which then are not computed in every step."""
        starts = range(0, len(pairs), batch_size)
        parts = [pairs.rows(torch.arange(i, min(i + batch_size, len(pairs)))) for i in starts]
        return replace(pairs, reference=torch.cat([self._of_reference(part) for part in parts], dim=1))

    def __call__(self, model: nn.Module, pairs: Any) -> Tensor:
        pairs = _placed(pairs, model)
        log_p = self._of(model, pairs)
        ratios = self._ratios(log_p, pairs)
        loss = preference_loss(ratios, self.options)
        if self.options.rpo_alpha:
            loss = loss - self.options.rpo_alpha * log_p[0] / ratios.chosen_length
        return loss.mean()

    def _of(self, model: nn.Module, pairs: Any) -> Tensor:
        with evaluating(model):
            return self.log_probabilities(model, pairs)

    def _of_reference(self, pairs: Any) -> Tensor:
        if self.reference is None:
            raise ValueError(
                f"{type(self).__name__} has no reference: pass the model before this training, pairs of "
                "with_reference, or reference_free=True"
            )
        device = self.lengths(pairs).device
        with torch.no_grad():
            return self._of(self.reference.to(device), pairs)

    def _ratios(self, log_p: Tensor, pairs: Any) -> Ratios:
        if not self.options.reference_free:
            log_p = log_p - (self._of_reference(pairs) if pairs.reference is None else pairs.reference)
        return Ratios(*log_p, *self.lengths(pairs))


def _placed(pairs: Any, model: nn.Module) -> Any:
    """The pairs on the device of the model."""
    first = next(model.parameters(), None)
    tensors = {f.name: getattr(pairs, f.name) for f in fields(pairs) if isinstance(getattr(pairs, f.name), Tensor)}
    if first is None or all(v.device == first.device for v in tensors.values()):
        return pairs
    return replace(pairs, **{name: v.to(first.device) for name, v in tensors.items()})


def read_preference(given: dict[str, Any]) -> PreferenceOptions:
    """The options of a preference loss from keywords; raises TypeError for an unknown one, naming the nearest."""
    check_options("preference", given, names_of(PreferenceOptions))
    return PreferenceOptions(**given)
