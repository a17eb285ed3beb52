"""Random crops, mirror images and mixtures of labelled images: drawn on the host, applied to whole batches."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

IMAGE_AUGMENTATIONS = ("none", "crop", "flip", "crop_flip")

_NAMES = [("partner", "i8"), ("share", "f8"), ("row", "f8"), ("column", "f8"), ("mirrored", "?")]
_DRAWS = np.dtype(_NAMES, align=True)  # torch refuses strides that are no multiple of the item


def draw(random: np.random.Generator, indices: np.ndarray, mixup: float) -> np.ndarray:
    """What happens to each of a step's images, as a structured array of (images,).

    partner : the index of the image it is mixed with, another order of the same step's
    share : λ ~ Beta(mixup, mixup), one a step; 1 without mixup
    row, column : uniform in [0, 1), where a crop lies
    mirrored : with probability ½
    """
    n = len(indices)
    drawn = np.empty(n, _DRAWS)
    drawn["partner"] = random.permutation(indices)
    drawn["share"] = random.beta(mixup, mixup) if mixup else 1.0
    drawn["row"], drawn["column"] = random.random((2, n))
    drawn["mirrored"] = random.integers(0, 2, n)
    return drawn


def mixed(values: Tensor, drawn: np.ndarray) -> Tensor:
    """Mixes values with those of their partners: λ v_i + (1 − λ) v_j (arXiv:1710.09412).

    values : (2·batch, …), first the images, then their partners in the same order; returns (batch, …)
    """
    own, partner = values[: len(drawn)], values[len(drawn) :]
    share = torch.as_tensor(drawn["share"], dtype=values.dtype, device=values.device)
    share = share.view(-1, *(1,) * (values.ndim - 1))
    return share * own + (1 - share) * partner


def augmented(x: Tensor, drawn: np.ndarray, augment: str, padding: int | None = None) -> Tensor:
    """Crops each image at random, x[…, i + r, j + c], and mirrors it left to right where drawn.

    r, c are uniform in −padding … padding.

    x : (batch, channel, H, W)
    augment : one of `IMAGE_AUGMENTATIONS`
    padding : pixels; None is an eighth of the side, rounded

    The crop is one of the image padded by its edge values: unlike padding by zeros, that does not depend on the units.
    """
    if augment == "none":
        return x
    high, wide = x.shape[-2:]
    rows, columns = (torch.arange(n, device=x.device).expand(len(x), n) for n in (high, wide))
    if "crop" in augment:
        rows = _shifted(rows, drawn["row"], padding)
        columns = _shifted(columns, drawn["column"], padding)
    if "flip" in augment:
        mirrored = torch.as_tensor(drawn["mirrored"], device=x.device)[:, None]
        columns = torch.where(mirrored, columns.flip(1), columns)
    sample = torch.arange(len(x), device=x.device)[:, None, None]
    # indices of samples, rows and columns on both sides of the channels put these last
    return x[sample, :, rows[:, :, None], columns[:, None, :]].movedim(-1, 1).contiguous()


def _shifted(positions: Tensor, where: np.ndarray, padding: int | None) -> Tensor:
    n = positions.shape[1]
    padding = round(n / 8) if padding is None else padding
    shift = np.floor(where * (2 * padding + 1)).astype(np.int64) - padding
    return (positions + torch.as_tensor(shift, device=positions.device)[:, None]).clamp(0, n - 1)
