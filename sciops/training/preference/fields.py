"""Preference training of surrogates that predict a field."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from sciops.models.apply import apply_model
from sciops.training.objectives.norms import mse
from sciops.training.preference.objective import Preference, read_preference
from sciops.training.preference.pairs import FieldPairs


class FieldPreference(Preference):
    """Preference loss on pairs of fields, a loss for `sciops.training.fit`: ``FieldPreference(model, deviation=σ)``.

    The prediction μ(a) is read as the mean of a Gaussian, log p(u|a) = −⟨(u − μ(a))²⟩/(2σ²) up to a constant, with ⟨·⟩
    the mean over channels and points. Then the margin is linear in the prediction,

        h = ⟨(μ_θ − μ_ref)(u⁺ − u⁻)⟩ / σ²

    and unbounded: without an anchor, "sigmoid", "robust", "apo_zero" and "apo_down" move the prediction along u⁺ − u⁻
    past the truth. With ``rpo_alpha`` = κ (default 1) "sigmoid" has its minimum at μ = u⁺ + (β/κ) σ(−βh) (u⁺ − u⁻), at
    most a share β/κ of u⁺ − u⁻ beyond u⁺. "ipo" without an anchor stops after ‖μ − μ_ref‖ = σ²/(2β‖u⁺ − u⁻‖) in root
    mean squares. "hinge" with ``reference_free=True`` is a triplet loss of squared errors of margin 2σ²/β.

    Parameters
    ----------
    reference : nn.Module or None
        See `Preference`.
    deviation : float
        σ in units of the field, fixed: the root mean square error of the reference is a good value.
    **options
        The fields of `PreferenceOptions`; ``rpo_alpha`` is 1 by default.

    Raises
    ------
    TypeError
        For an unknown option.
    ValueError
        For a value out of range, and for "sigmoid_norm", which is "sigmoid" here: fields have no length.
    """

    def __init__(self, reference: nn.Module | None = None, *, deviation: float, **options: Any) -> None:
        super().__init__(reference, read_preference({"rpo_alpha": 1.0, **options}))
        if not (deviation > 0 and math.isfinite(deviation)):
            raise ValueError(f"deviation={deviation!r}: expected a positive number in units of the field")
        if self.options.loss_type == "sigmoid_norm":
            raise ValueError("loss_type='sigmoid_norm' normalises by the number of tokens: for fields pass 'sigmoid'")
        self.deviation = float(deviation)

    def log_probabilities(self, model: nn.Module, pairs: FieldPairs) -> Tensor:
        """(2, batch) of both fields under one prediction, without the constant of the Gaussian."""
        prediction = apply_model(model, pairs.x, pairs.grid)
        if prediction.shape != pairs.chosen.shape:
            raise ValueError(
                f"the model returned {tuple(prediction.shape)} for outputs of shape {tuple(pairs.chosen.shape)}: set "
                "out_channels to the number of fields"
            )
        squares = torch.stack([mse(prediction, field) for field in (pairs.chosen, pairs.rejected)])
        return -squares / (2 * self.deviation**2)

    def lengths(self, pairs: FieldPairs) -> Tensor:
        """(2, batch) of ones."""
        return pairs.chosen.new_ones(2, len(pairs))
