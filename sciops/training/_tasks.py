"""What differs between training on fields and on labels, in one place: how samples are drawn, moved, and judged.

A task is made from a config; the rest of the loop is the same for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops import metrics
from sciops.grids import Grid
from sciops.training.image_augmentation import IMAGE_AUGMENTATIONS, augmented, draw, mixed
from sciops.training.objectives import LABEL_OBJECTIVES, OBJECTIVES, error_rate, relative_gradient
from sciops.training.objectives.classification import smoothed
from sciops.training.symmetry import apply_symmetry, check_symmetric

FIELD_AUGMENTATIONS = ("none", "transpose", "square")


class Fields:
    """Inputs and targets are fields on one grid; symmetries move both; the error is the relative L2."""

    normalized = ("x", "y")  # what normalisers are fitted on

    def __init__(self, config: Any) -> None:
        self.config, self.objective = config, OBJECTIVES[config.objective]

    def check_config(self) -> None:
        """Raises ValueError for options that are for labels."""
        config = self.config
        for name, idle in (("label_smoothing", 0.0), ("mixup", 0.0), ("crop_padding", None)):
            if getattr(config, name) != idle:
                raise ValueError(
                    f"{name}={getattr(config, name)!r} is for labels, objective={config.objective!r} for fields; "
                    "pass objective='cross_entropy'"
                )
        if config.augment not in FIELD_AUGMENTATIONS:
            raise ValueError(
                f"augment={config.augment!r} moves images but not what they are the input of; for fields expected one "
                f"of {', '.join(FIELD_AUGMENTATIONS)}"
            )

    def check_data(self, dataset: Any) -> None:
        check_symmetric(dataset.grid, self.config.augment)

    def draw(self, random: np.random.Generator, indices: np.ndarray) -> np.ndarray:
        """What happens to each sample of a step; the first axis is that of the samples."""
        return random.integers(0, 8, len(indices))

    def reads(self, indices: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The samples that a piece of a step needs."""
        return indices

    def moved(self, x: Tensor, y: Tensor, codes: np.ndarray, grid: Grid) -> tuple[Tensor, Tensor]:
        """(x, y) of what `reads` named, as the model is to see them."""
        return tuple(apply_symmetry(side, codes, grid, self.config.augment) for side in (x, y))

    def losses(self, prediction: Tensor, target: Tensor, grid: Grid) -> Tensor:
        losses = self.objective(prediction, target, grid)
        if self.config.gradient_weight:
            losses = losses + self.config.gradient_weight * relative_gradient(prediction, target, grid)
        return losses

    def errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        """(batch,): what validation averages and the best epoch has least of."""
        return metrics.relative_l2(prediction, target)


class Labels:
    """Targets are distributions over classes; images are cropped, mirrored and mixed; the error is the error rate."""

    normalized = ("x",)

    def __init__(self, config: Any) -> None:
        self.config, self.objective = config, OBJECTIVES[config.objective]

    def check_config(self) -> None:
        """Raises ValueError for options that are for fields, or without effect."""
        config = self.config
        if config.gradient_weight:
            raise ValueError(
                f"gradient_weight={config.gradient_weight!r}: labels have no gradient; pass 0, or a field objective"
            )
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

    def moved(self, x: Tensor, y: Tensor, codes: np.ndarray, grid: Grid) -> tuple[Tensor, Tensor]:
        if self.config.mixup:
            x, y = mixed(x, codes), mixed(y, codes)
        return augmented(x, codes, self.config.augment, self.config.crop_padding), y

    def losses(self, prediction: Tensor, target: Tensor, grid: Grid) -> Tensor:
        return self.objective(prediction, smoothed(target, self.config.label_smoothing), grid)

    def errors(self, prediction: Tensor, target: Tensor) -> Tensor:
        return error_rate(prediction, target)


def task_of(config: Any) -> Fields | Labels:
    """The task that the config's objective belongs to."""
    return (Labels if config.objective in LABEL_OBJECTIVES else Fields)(config)
