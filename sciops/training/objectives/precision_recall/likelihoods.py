"""What a model's output says about its target: tokens, fields in bins, Gaussian fields; log-likelihoods and samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.arrays.scale import widened
from sciops.training.objectives.tokens import NOT_ASKED, token_losses
from sciops.values import NONNEGATIVE, WHOLE

__all__ = ["LIKELIHOODS", "Bins", "Gaussian", "Likelihood", "Scores", "Tokens"]


@dataclass(frozen=True)
class Scores:
    """Log-likelihoods of the targets of a batch, one row a sample.

    log_q : (batch, n), with gradients; 0 where no target is asked for
    log_share : (batch, n) without gradients, the logarithm of q over its largest possible value, in (−∞, 0]: of tokens
        and bins log q itself, of a density log(q/max q), which does not depend on the units of the field
    asked : (batch, n) bool, where there is a target
    reference : (batch, n) without gradients, log-likelihoods of the same targets by a fixed model, or None
    ordered : whether the targets of a row follow one another, as tokens do
    """

    log_q: Tensor
    log_share: Tensor
    asked: Tensor
    reference: Tensor | None = None
    ordered: bool = True

    def mean(self, values: Tensor) -> Tensor:
        """The mean of values (batch, n) over the asked targets of each sample; 0 for a sample without any."""
        return values.masked_fill(~self.asked, 0).sum(1) / self.asked.sum(1).clamp(min=1)


class Likelihood:
    """Base class: how many numbers a target channel needs, and the log-likelihood of a target."""

    name: ClassVar[str]

    def outputs(self, channels: int) -> int | None:
        """Number of channels that a model of `channels` target channels returns; None for tokens."""
        raise NotImplementedError

    def scores(self, prediction: Tensor, target: Tensor) -> Scores:
        raise NotImplementedError


@dataclass(frozen=True)
class Tokens(Likelihood):
    """Tokens: logits (batch, n, symbols), and targets (batch, n) with −100 where none is asked for."""

    name = "tokens"

    def outputs(self, channels: int) -> None:
        return None

    def scores(self, prediction: Tensor, target: Tensor) -> Scores:
        log_q = -token_losses(prediction, target)
        return Scores(log_q, log_q.detach(), target != NOT_ASKED)


@dataclass(frozen=True)
class Bins(Likelihood):
    """Fields in bins: each value is one of `bins` equal intervals of [low, high]; values beyond are in the last ones.

    The model returns (batch, channels·bins, *grid), the logits of the bins of the first channel first.
    """

    bins: int
    low: float
    high: float

    name = "bins"

    def __post_init__(self) -> None:
        WHOLE("bins", self.bins)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low={self.low!r}, high={self.high!r}: expected two finite numbers, low below high")

    def outputs(self, channels: int) -> int:
        return channels * self.bins

    def indices(self, field: Tensor) -> Tensor:
        """The number of the bin of each value, int64; of NaN the last one."""
        places = torch.arange(1, self.bins, device=field.device, dtype=torch.float64) / self.bins
        edges = (self.low + (self.high - self.low) * places).to(widened(field).dtype)
        return torch.bucketize(widened(field).contiguous(), edges, right=True)

    def logits(self, prediction: Tensor) -> Tensor:
        """The prediction with the bins last, (batch, channels, *grid, bins), in float32 at least."""
        if prediction.ndim < 3 or prediction.shape[1] % self.bins:
            raise ValueError(
                f"a prediction of shape {tuple(prediction.shape)}: expected (batch, channels·{self.bins}, *grid)"
            )
        return widened(prediction).unflatten(1, (-1, self.bins)).movedim(2, -1)

    def scores(self, prediction: Tensor, target: Tensor) -> Scores:
        logits = _matching(self, prediction, target, self.logits(prediction))
        losses = F.cross_entropy(logits.flatten(0, -2), self.indices(target).flatten(), reduction="none")
        missing = target.isnan().flatten(1)
        log_q = -losses.view(len(target), -1).masked_fill(missing, torch.nan)
        return Scores(log_q, log_q.detach(), torch.ones_like(missing), ordered=False)

    def sample(
        self, prediction: Tensor, *, temperature: float = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """Fields (batch, channels, *grid): the centre of a bin drawn from softmax(z/temperature) at each point."""
        logits = self.logits(prediction)
        if temperature <= 0:
            drawn = logits.argmax(-1)
        else:
            p = (logits / temperature).softmax(-1)
            drawn = torch.multinomial(p.flatten(0, -2), 1, generator=generator).view(p.shape[:-1])
        return self.low + (self.high - self.low) / self.bins * (drawn.to(logits.dtype) + 0.5)


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Gaussian fields: the model returns (batch, 2·channels, *grid), all means m, then all log σ, in the field's units.

    log q = −z²/2 − log σ − log(2π)/2 with z = (u − m)/σ, at each point by itself; q/max q is exp(−z²/2).

    floor : least deviation, in the units of the field: σ² = exp(2s) + floor² for an output s
    """

    floor: float = 0.0

    name = "gaussian"

    def __post_init__(self) -> None:
        NONNEGATIVE("floor", self.floor)

    def outputs(self, channels: int) -> int:
        return 2 * channels

    def moments(self, prediction: Tensor) -> tuple[Tensor, Tensor]:
        """(m, log σ), each (batch, channels, *grid), in float32 at least."""
        if prediction.ndim < 3 or prediction.shape[1] % 2:
            raise ValueError(f"a prediction of shape {tuple(prediction.shape)}: expected (batch, 2·channels, *grid)")
        mean, log_sigma = widened(prediction).chunk(2, 1)
        if self.floor:
            log_sigma = torch.logaddexp(2 * log_sigma, log_sigma.new_tensor(2 * math.log(self.floor))) / 2
        return mean, log_sigma

    def scores(self, prediction: Tensor, target: Tensor) -> Scores:
        mean, log_sigma = self.moments(prediction)
        z = (_matching(self, prediction, target, widened(target)) - mean) * torch.exp(-log_sigma)
        shape = -z.square().flatten(1) / 2
        log_q = shape - log_sigma.flatten(1) - math.log(2 * math.pi) / 2
        return Scores(log_q, shape.detach(), torch.ones_like(log_q, dtype=torch.bool), ordered=False)

    def sample(
        self, prediction: Tensor, *, temperature: float = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """Fields (batch, channels, *grid) drawn from N(m, temperature·σ²), the density q^{1/temperature} normalised."""
        mean, log_sigma = self.moments(prediction)
        noise = torch.randn(mean.shape, dtype=mean.dtype, device=mean.device, generator=generator)
        return mean + math.sqrt(temperature) * torch.exp(log_sigma) * noise


LIKELIHOODS: dict[str, type[Likelihood]] = {"tokens": Tokens, "bins": Bins, "gaussian": Gaussian}


def _matching(likelihood: Likelihood, prediction: Tensor, target: Tensor, checked: Tensor) -> Tensor:
    """`checked`, after checking that the prediction has the channels and the grid that the target needs."""
    if target.ndim >= 3:
        expected = (len(target), likelihood.outputs(target.shape[1]), *target.shape[2:])
        if tuple(prediction.shape) == expected:
            return checked
        needed = f"expected {expected}"
    else:
        needed = "expected targets (batch, channels, *grid)"
    raise ValueError(
        f"a prediction of shape {tuple(prediction.shape)} for targets of shape {tuple(target.shape)} with "
        f"likelihood={likelihood.name!r}: {needed}"
    )
