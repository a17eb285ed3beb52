"""Preference losses: functions of how much more likely a preferred and a rejected output have become, one value a pair.

With the log-ratios c = log p_θ(y⁺)/p_ref(y⁺) and r = log p_θ(y⁻)/p_ref(y⁻), h = c − r, lengths n⁺ and n⁻, and ε the
label smoothing:

================  ==========================================  =====================================================
loss_type         loss                                        source
================  ==========================================  =====================================================
``sigmoid``       −(1−ε) log σ(βh) − ε log σ(−βh)             DPO (arXiv:2305.18290); with ε conservative DPO
``robust``        [−(1−ε) log σ(βh) + ε log σ(−βh)]/(1−2ε)    arXiv:2403.00409
``hinge``         max(0, 1 − βh)                              SLiC (arXiv:2305.10425)
``ipo``           (c/n⁺ − r/n⁻ − 1/(2β))²                     IPO (arXiv:2310.12036), per token
``sigmoid_norm``  −log σ(β(c/n⁺ − r/n⁻))                      length-normalised DPO
``apo_zero``      σ(−βc) + σ(βr)                              anchored, y⁺ better than the model (arXiv:2408.06266)
``apo_down``      σ(βc) + σ(−βh)                              anchored, y⁺ worse than the model
================  ==========================================  =====================================================

The names and formulas are those of the library TRL, except that its "sigmoid" ignores ε since version 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from sciops.values import NONNEGATIVE, POSITIVE, Check, one_of


class Ratios(NamedTuple):
    """Log-ratios of pairs, log p_θ − log p_ref.

    chosen, rejected : (batch,)
    chosen_length, rejected_length : (batch,) number of tokens; 1 where the outputs are fields
    """

    chosen: Tensor
    rejected: Tensor
    chosen_length: Tensor | float = 1.0
    rejected_length: Tensor | float = 1.0

    @property
    def margin(self) -> Tensor:
        """h = c − r: by how much the preferred output has gained on the rejected one, in nats."""
        return self.chosen - self.rejected

    @property
    def mean_margin(self) -> Tensor:
        """c/n⁺ − r/n⁻, in nats a token."""
        return self.chosen / self.chosen_length - self.rejected / self.rejected_length


def _sigmoid(ratios: Ratios, o: PreferenceOptions) -> Tensor:
    h = o.beta * ratios.margin
    return -(1 - o.label_smoothing) * F.logsigmoid(h) - o.label_smoothing * F.logsigmoid(-h)


def _robust(ratios: Ratios, o: PreferenceOptions) -> Tensor:
    h = o.beta * ratios.margin
    loss = -(1 - o.label_smoothing) * F.logsigmoid(h) + o.label_smoothing * F.logsigmoid(-h)
    return loss / (1 - 2 * o.label_smoothing)


def _hinge(ratios: Ratios, o: PreferenceOptions) -> Tensor:
    return (1 - o.beta * ratios.margin).relu()


def _ipo(ratios: Ratios, o: PreferenceOptions) -> Tensor:
    return (ratios.mean_margin - 1 / (2 * o.beta)).square()


def _sigmoid_norm(ratios: Ratios, o: PreferenceOptions) -> Tensor:
    return -F.logsigmoid(o.beta * ratios.mean_margin)


def _apo_zero(ratios: Ratios, o: PreferenceOptions) -> Tensor:
    return (-o.beta * ratios.chosen).sigmoid() + (o.beta * ratios.rejected).sigmoid()


def _apo_down(ratios: Ratios, o: PreferenceOptions) -> Tensor:
    return (o.beta * ratios.chosen).sigmoid() + (-o.beta * ratios.margin).sigmoid()


PREFERENCE_LOSSES: dict[str, Callable[[Ratios, PreferenceOptions], Tensor]] = {
    "sigmoid": _sigmoid,
    "robust": _robust,
    "hinge": _hinge,
    "ipo": _ipo,
    "sigmoid_norm": _sigmoid_norm,
    "apo_zero": _apo_zero,
    "apo_down": _apo_down,
}
SMOOTHED = ("sigmoid", "robust")  # those that label_smoothing does something to

_SMOOTHING = Check("the share of wrong preferences, 0 ≤ ε < 0.5", lambda value: 0 <= value < 0.5)


@dataclass(frozen=True, kw_only=True)
class PreferenceOptions:
    """Options of a preference loss; the values are checked when the object is made.

    Parameters
    ----------
    loss_type : str
        A name in `PREFERENCE_LOSSES`.
    beta : float
        β > 0: how strongly the model is kept near its reference; of "ipo" the τ of its paper.
    label_smoothing : float
        ε, the share of pairs whose preference is wrong, 0 ≤ ε < 0.5; for "sigmoid" and "robust".
    rpo_alpha : float
        Weight of the negative log-likelihood of the preferred output (nats a token) that is added to the loss, and
        which keeps it likely (arXiv:2404.19733).
    reference_free : bool
        Log-ratios without a reference: log-probabilities themselves.

    Raises
    ------
    ValueError
        Naming the option, its value and what was expected; also for label smoothing that the loss would ignore.
    """

    loss_type: str = "sigmoid"
    beta: float = 0.1
    label_smoothing: float = 0.0
    rpo_alpha: float = 0.0
    reference_free: bool = False

    def __post_init__(self) -> None:
        one_of(PREFERENCE_LOSSES)("loss_type", self.loss_type)
        POSITIVE("beta", self.beta)
        _SMOOTHING("label_smoothing", self.label_smoothing)
        NONNEGATIVE("rpo_alpha", self.rpo_alpha)
        if self.label_smoothing and self.loss_type not in SMOOTHED:
            raise ValueError(
                f"label_smoothing={self.label_smoothing!r} does nothing to loss_type={self.loss_type!r}: it is for "
                f"{' and '.join(SMOOTHED)}; leave it out"
            )


def preference_loss(ratios: Ratios, options: PreferenceOptions | None = None) -> Tensor:
    """The preference loss of each pair, (batch,), as the table of this module defines it.

    Parameters
    ----------
    ratios : Ratios
        Log-ratios of the model and its reference.
    options : PreferenceOptions, optional
        By default DPO with β = 0.1. ``rpo_alpha`` is for the objectives `TokenPreference` and `FieldPreference`, which
        know the likelihood of the preferred output.

    Returns
    -------
    Tensor
        (batch,); where the model is its reference, log 2 for "sigmoid".

    Raises
    ------
    ValueError
        For log-ratios of different shapes.
    """
    if ratios.chosen.shape != ratios.rejected.shape:
        raise ValueError(
            f"log-ratios of shapes {tuple(ratios.chosen.shape)} and {tuple(ratios.rejected.shape)}: expected (batch,) "
            "of each, a preferred and a rejected output a pair"
        )
    options = options or PreferenceOptions()
    return PREFERENCE_LOSSES[options.loss_type](ratios, options)
