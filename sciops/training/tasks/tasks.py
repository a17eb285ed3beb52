"""What differs between training on fields, labels and tokens, in one place: how samples are drawn, moved, judged.

A task is made from a config; the rest of the loop is the same for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops import metrics
from sciops.datasets import Normalizer
from sciops.grids import Grid
from sciops.models.apply import wall_of
from sciops.training.objectives import (
    LABEL_OBJECTIVES,
    OBJECTIVES,
    PRECISION_RECALL,
    TOKEN_OBJECTIVES,
    error_rate,
    relative_gradient,
    token_cross_entropy,
)
from sciops.training.objectives.classification import smoothed
from sciops.training.objectives.precision_recall import Gaussian, read_objective
from sciops.training.tasks.image_augmentation import IMAGE_AUGMENTATIONS, augmented, draw, mixed
from sciops.training.tasks.symmetry import DRAWN, Moves, moves_of

_IMMENSE = 1e30  # of a relative error whose denominator vanishes, where the error itself is about 1
FIELD_AUGMENTATIONS = ("none", "transpose", "square", "allowed")


class Task:
    """What tasks share."""

    kind: str  # of the data, as the options of `TrainConfig` name it
    compares = False  # whether the loss of a sample depends on the rest of the batch, which then stays in one piece
    normalized: tuple[str, ...] = ()  # what normalisers are fitted on, which then is alike in all training sets

    def __init__(self, config: Any) -> None:
        self.config, self.objective = config, OBJECTIVES[config.objective]

    def check_config(self) -> None:
        """Raises ValueError for options that do nothing to this kind of data, or mean nothing."""
        self.config.check_used(self.kind, f"{self.kind} (objective={self.config.objective!r})")

    def placed(self, x: Tensor, y: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """(x, y) of a batch on the device of the model, in the kind of numbers it computes with."""
        return x.to(device, self.config.dtype), y.to(device, self.config.dtype)

    def check_data(self, dataset: Any) -> None:
        """Raises ValueError for samples that the task cannot train on."""

    def check_model(self, model: Any) -> None:
        """Raises ValueError for a model that the task cannot train."""

    def output_normalizer(self, target: Normalizer | None) -> Normalizer | None:
        """The statistics of the model's output, of those of the target."""
        return target

    def moves(self, dataset: Any) -> Moves | None:
        """The symmetries that samples of a data set are moved by; ValueError where the problem lacks them."""
        return None

    def draw(self, random: np.random.Generator, indices: np.ndarray) -> np.ndarray:
        """What happens to each sample of a step; the first axis is that of the samples."""
        return np.zeros(len(indices), np.int64)

    def reads(self, indices: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The samples that a piece of a step needs."""
        return indices

    def moved(self, x: Tensor, y: Tensor, codes: np.ndarray, moves: Moves | None) -> tuple[Tensor, Tensor]:
        """(x, y) of what `reads` named, as the model is to see them."""
        return x, y

    def vanishing(self, y: Tensor, grid: Grid, *, trained: bool) -> Tensor:
        """(batch,) whether a target is zero to what divides by its size, the objective or the error of validation."""
        return torch.zeros(len(y), dtype=torch.bool, device=y.device)

    def expected(self, target: Tensor) -> tuple[int | None, ...]:
        """The shape of the prediction of `target`; None where any size will do."""
        return tuple(target.shape)

    def losses(self, prediction: Tensor, target: Tensor, grid: Grid) -> Tensor:
        """(batch,): what is minimised."""
        return self.objective(prediction, target, grid)

    def errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        """(batch,): what validation averages and the best epoch has least of."""
        raise NotImplementedError


class Fields(Task):
    """Inputs and targets are fields on one grid; symmetries move both; the error is the relative L2, and with objective
    "nrmse" that of each channel, so that the largest variable does not choose the epoch alone."""

    kind = "fields"
    normalized: tuple[str, ...] = ("x", "y")

    def check_config(self) -> None:
        super().check_config()
        if self.config.augment not in FIELD_AUGMENTATIONS:
            raise ValueError(
                f"augment={self.config.augment!r} moves images but not what they are the input of; for fields expected "
                f"one of {', '.join(FIELD_AUGMENTATIONS)}"
            )

    def moves(self, dataset: Any) -> Moves | None:
        return moves_of(dataset, self.config.augment)

    def draw(self, random: np.random.Generator, indices: np.ndarray) -> np.ndarray:
        return random.integers(0, DRAWN[self.config.augment], len(indices))

    def moved(self, x: Tensor, y: Tensor, codes: np.ndarray, moves: Moves | None) -> tuple[Tensor, Tensor]:
        return (x, y) if moves is None else moves.apply(x, y, codes)

    def vanishing(self, y: Tensor, grid: Grid, *, trained: bool) -> Tensor:
        # an error that varies everywhere and is about as large as the targets: whatever divides by zero is found
        size = y.abs().amax()
        y = (y / torch.where(size > 0, size, 1.0)).to(self.config.dtype)
        off = y + torch.arange(y[0].numel(), device=y.device, dtype=y.dtype).cos().view(y.shape[1:])
        errors = self.losses(off, y, grid) if trained else self.errors(off, y)
        return ~(errors < _IMMENSE)

    def losses(self, prediction: Tensor, target: Tensor, grid: Grid) -> Tensor:
        losses = super().losses(prediction, target, grid)
        if self.config.gradient_weight:
            losses = losses + self.config.gradient_weight * relative_gradient(prediction, target, grid)
        return losses

    def errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        if self.config.objective == "nrmse":
            return self.objective(prediction, target, None)
        return metrics.relative_l2(prediction, target)


class Labels(Task):
    """Targets are distributions over classes; images are cropped, mirrored and mixed; the error is the error rate."""

    kind, normalized = "labels", ("x",)

    def check_config(self) -> None:
        super().check_config()
        config = self.config
        if config.augment not in IMAGE_AUGMENTATIONS:
            raise ValueError(
                f"augment={config.augment!r} moves fields with their targets; with objective={config.objective!r} "
                f"expected one of {', '.join(IMAGE_AUGMENTATIONS)}"
            )
        if config.crop_padding is not None and "crop" not in config.augment:
            raise ValueError(f"crop_padding={config.crop_padding!r} needs augment='crop' or 'crop_flip'")

    def check_data(self, dataset: Any) -> None:
        one = dataset.batch(np.arange(1))
        x, y = one["x"], one["y"]
        if y.ndim != 2 or not y.is_floating_point():
            raise ValueError(
                f"y of one sample is {y.dtype} {tuple(y.shape)}; objective={self.config.objective!r} expects "
                "probabilities (1, classes): torch.nn.functional.one_hot(labels, classes).float()"
            )
        if not torch.allclose(y.sum(1), y.new_ones(1), atol=1e-4) or (y < 0).any():
            raise ValueError(
                f"y of the first sample sums to {float(y.sum()):.4g}: expected probabilities of the classes"
            )
        if x.ndim != 4 and self.config.augment != "none":
            raise ValueError(f"augment={self.config.augment!r} is for images, x of one sample is {tuple(x.shape)}")

    def draw(self, random: np.random.Generator, indices: np.ndarray) -> np.ndarray:
        return draw(random, indices, self.config.mixup)

    def reads(self, indices: np.ndarray, codes: np.ndarray) -> np.ndarray:
        # a partner may be in another process's or micro-batch's piece: it is read again, so that the step is the same
        return np.concatenate([indices, codes["partner"]]) if self.config.mixup else indices

    def moved(self, x: Tensor, y: Tensor, codes: np.ndarray, moves: Moves | None) -> tuple[Tensor, Tensor]:
        if self.config.mixup:
            x, y = mixed(x, codes), mixed(y, codes)
        return augmented(x, codes, self.config.augment, self.config.crop_padding), y

    def losses(self, prediction: Tensor, target: Tensor, grid: Grid) -> Tensor:
        return self.objective(prediction, smoothed(target, self.config.label_smoothing), grid)

    def errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        return error_rate(prediction, target)


class Tokens(Task):
    """Inputs and targets are whole numbers, (batch, n); the error is the mean negative log-probability, in nats."""

    kind = "tokens"

    def check_data(self, dataset: Any) -> None:
        one = dataset.batch(np.arange(1))
        for name in ("x", "y"):
            if one[name].ndim != 2 or one[name].is_floating_point() or one[name].shape != one["x"].shape:
                raise ValueError(
                    f"{name} of one sample is {one[name].dtype} {tuple(one[name].shape)}; "
                    f"objective={self.config.objective!r} expects whole numbers (1, n) in x and y: "
                    "sciops.datasets.TokenWindows, TokenSequences"
                )

    def placed(self, x: Tensor, y: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        return x.to(device, torch.int64), y.to(device, torch.int64)

    def expected(self, target: Tensor) -> tuple[int | None, ...]:
        return (*target.shape, None)

    def losses(self, prediction: Tensor, target: Tensor, grid: Grid) -> Tensor:
        return self.objective(prediction, target, grid, smoothing=self.config.label_smoothing)

    def errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        return token_cross_entropy(prediction, target)


class WeightedTokens(Tokens):
    """Tokens by one of the losses of `PRECISION_RECALL`; validation is by the likelihood."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.likelihood, self.weighting = read_objective(config.objective, config.objective_options)
        self.compares = self.weighting.compares

    def check_config(self) -> None:
        super().check_config()
        if self.config.label_smoothing:
            raise ValueError(
                f"label_smoothing={self.config.label_smoothing!r} would change the weights of "
                f"objective={self.config.objective!r}; leave it out"
            )
        _check_whole_batches(self)

    def losses(self, prediction: Tensor, target: Tensor, grid: Grid) -> Tensor:
        return self.weighting.losses(self.likelihood.scores(prediction, target))


class LikelihoodFields(Fields):
    """Fields of which the model returns a distribution, in bins or Gaussian, by one of the losses of
    `PRECISION_RECALL`; the error of validation is the mean negative log-likelihood, in nats."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.likelihood, self.weighting = read_objective(config.objective, config.objective_options)
        self.compares = self.weighting.compares
        self.normalized = ("x", "y") if isinstance(self.likelihood, Gaussian) else ("x",)

    def check_config(self) -> None:
        super().check_config()
        if self.config.gradient_weight:
            raise ValueError(
                f"gradient_weight={self.config.gradient_weight!r} is for models that return the field itself, "
                f"objective={self.config.objective!r} is of its distribution; leave it out"
            )
        _check_whole_batches(self)

    def check_model(self, model: Any) -> None:
        if wall_of(model) == "zero":
            raise ValueError(
                "the model's output is zero on the wall, where a distribution has a width; take another basis"
            )

    def output_normalizer(self, target: Normalizer | None) -> Normalizer | None:
        """Of a Gaussian output: the mean has those of the field, log σ is shifted by the log of its deviation."""
        if target is None:
            return None
        whole = Normalizer(2 * len(target.mean))
        whole.mean.copy_(torch.cat([target.mean, target.std.log()]))
        whole.std.copy_(torch.cat([target.std, torch.ones_like(target.std)]))
        return whole

    def vanishing(self, y: Tensor, grid: Grid, *, trained: bool) -> Tensor:
        return Task.vanishing(self, y, grid, trained=trained)

    def expected(self, target: Tensor) -> tuple[int | None, ...]:
        return (len(target), self.likelihood.outputs(target.shape[1]), *target.shape[2:])

    def losses(self, prediction: Tensor, target: Tensor, grid: Grid) -> Tensor:
        return self.weighting.losses(self.likelihood.scores(prediction, target))

    def errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        scores = self.likelihood.scores(prediction, target)
        return scores.mean(-scores.log_q)


def _check_whole_batches(task: Task) -> None:
    if task.compares and task.config.accumulate > 1:
        raise ValueError(
            f"accumulate={task.config.accumulate!r}: objective={task.config.objective!r} compares the samples of a "
            "batch; take accumulate=1, or its option threshold"
        )


def task_of(config: Any) -> Task:
    """The task that the config's objective belongs to."""
    if config.objective in PRECISION_RECALL:
        tokens = config.objective_options.get("likelihood", "tokens") == "tokens"
        return WeightedTokens(config) if tokens else LikelihoodFields(config)
    kinds = dict.fromkeys(LABEL_OBJECTIVES, Labels) | dict.fromkeys(TOKEN_OBJECTIVES, Tokens)
    return kinds.get(config.objective, Fields)(config)
