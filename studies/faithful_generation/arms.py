"""What is compared: fine-tuning and preference training on the same data, from the same model, for as many steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from studies.kit.stepping import train_by_step

TUNED = "fine-tuning"
PREFERRED = "preference"


@dataclass(frozen=True)
class Arm:
    """The second stage of a training.

    negatives : None for plain fine-tuning; "blind" for outputs of the model into which a blind prior is mixed, "other"
        for outputs for another input, "random" for ones that have nothing to do with the input
    alpha : share of the blind prior
    rate : peak learning rate. decay : weight decay. anchor : weight of the likelihood of the preferred output
    beta : of the preference loss
    """

    name: str
    negatives: str | None = None
    alpha: float = 0.5
    rate: float = 1e-3
    decay: float = 0.0
    anchor: float = 1.0
    beta: float = 0.1


def candidates(
    *,
    rates: Sequence[float],
    decays: Sequence[float],
    noisy_rates: Sequence[float],
    alphas: Sequence[float],
    anchor: float,
    beta: float,
) -> list[Arm]:
    """The arms among which validation chooses, as many of fine-tuning as of preference training.

    Raises ValueError where they are not as many.
    """
    plain = [Arm(TUNED, rate=rate, decay=decay) for rate in rates for decay in decays]
    noisy = [Arm(PREFERRED, "blind", alpha, rate, 0.0, anchor, beta) for alpha in alphas for rate in noisy_rates]
    if len(plain) != len(noisy):
        raise ValueError(
            f"{len(plain)} candidates of fine-tuning (rates × decays) and {len(noisy)} of preference training (alphas "
            "× rates): expected as many, so that both are tuned with the same budget"
        )
    return plain + noisy


def ablations(chosen: Arm, alphas: Sequence[float], *, fields: bool) -> list[Arm]:
    """The chosen preference training with other negatives, and without its anchor; all else equal."""
    arms = [replace(chosen, name=f"α = {alpha:g}", alpha=alpha) for alpha in alphas if alpha != chosen.alpha]
    if fields:
        arms.append(replace(chosen, name="another coefficient", negatives="other", alpha=1.0))
    arms.append(replace(chosen, name="random negatives", negatives="random"))
    arms.append(replace(chosen, name="without the anchor", anchor=0.0))
    return arms


def train(
    model: nn.Module,
    batches: Callable[[int], Any],
    loss: Callable[[nn.Module, Any], Tensor],
    *,
    steps: int,
    rate: float,
    decay: float = 0.0,
    clip: float | None = 1.0,
) -> nn.Module:
    """The model after so many steps of AdamW with one cycle of the rate; it is trained in place."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    train_by_step(model, batches, loss, optimizer, steps=steps, warmup=0.1, clip=clip, on_nonfinite="stop")
    return model.eval()
