"""Labelled images as a torch data set that `sciops.training.fit` takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

from sciops.grids import Grid

_ENOUGH = 2000  # files whose statistics stand for all
_BLOCK = 256


class ImageDataset(Dataset):
    """x = (pixels/levels, resized, − mean) / std, and y = the one-hot label.

    pixels : (samples, channels, H, W) uint8 array, or anything with such a ``.shape`` and ``pixels[indices]`` (files
        that are read on demand)
    labels : (samples,) whole numbers 0 … len(classes) − 1
    classes : the names of the classes
    levels : the value that becomes 1
    size : pixels per side that every image is resized to (bilinear, antialiased where it shrinks); None leaves them
    mean, std : per channel, subtracted from and dividing the values in [0, 1]; None leaves those as they are

    len(d) : samples
    d.batch(indices) : {"x": (batch, channels, H, W) float32, "y": (batch, classes) float32}
    d[i] : the same of one image, without the batch axis
    d.grid : H×W cells of a box whose shorter side is 1; d.labels : (samples,) int64; d.classes : names
    d.lazy : whether batches are read from a disk

    Raises ValueError in one line for pixels and labels that do not fit each other.
    """

    def __init__(
        self,
        pixels: Any,
        labels: Any,
        *,
        classes: Sequence[str],
        levels: float = 255,
        size: int | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        self.pixels, self.classes, self.levels, self.size = pixels, tuple(classes), float(levels), size
        self.labels = np.asarray(labels)
        if len(pixels.shape) != 4 or getattr(pixels, "dtype", np.uint8) != np.uint8:
            raise ValueError(
                f"pixels are {getattr(pixels, 'dtype', 'values')} of shape {tuple(pixels.shape)}; expected uint8 of "
                "shape (samples, channels, height, width)"
            )
        if self.labels.shape != (len(pixels),) or self.labels.dtype.kind not in "iu":
            raise ValueError(f"labels {self.labels.dtype} {self.labels.shape}: expected {len(pixels)} whole numbers")
        self.labels = self.labels.astype(np.int64)
        if self.labels.size and not 0 <= self.labels.min() <= self.labels.max() < len(self.classes):
            wrong = self.labels[(self.labels < 0) | (self.labels >= len(self.classes))][0]
            raise ValueError(f"a label is {wrong}: expected 0 … {len(self.classes) - 1}")
        if size is not None and size < 1:
            raise ValueError(f"size={size}: expected at least 1 pixel, or None")
        self.mean, self.std = (None if s is None else tuple(float(v) for v in s) for s in (mean, std))
        for values in (self.mean, self.std):
            if values is not None and len(values) != pixels.shape[1]:
                raise ValueError(f"mean, std of {len(values)} channels for images of {pixels.shape[1]}")
        self.lazy = not isinstance(pixels, np.ndarray)
        high, wide = pixels.shape[2:] if size is None else (size, size)
        short = min(high, wide)
        self.grid = Grid((high, wide), ((0.0, high / short), (0.0, wide / short)), centering="cell")

    @property
    def channels(self) -> int:
        return self.pixels.shape[1]

    def __repr__(self) -> str:
        size, held = "×".join(map(str, self.grid.shape)), "read on demand" if self.lazy else "in memory"
        classes = f"{self.channels} channels, {len(self.classes)} classes"
        return f"ImageDataset({len(self)} images of {size} pixels, {classes}, {held})"

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {key: value[0] for key, value in self.batch([index]).items()}

    def batch(self, indices: Any) -> dict[str, Tensor]:
        """The images at `indices` (array, list or slice), in that order."""
        indices = np.arange(len(self))[indices] if isinstance(indices, slice) else np.asarray(indices, np.int64)
        x = torch.from_numpy(np.ascontiguousarray(self.pixels[indices])).float().div_(self.levels)
        if x.shape[2:] != self.grid.shape:
            # antialiasing keeps what the smaller grid cannot hold from appearing as something else
            x = F.interpolate(x, self.grid.shape, mode="bilinear", antialias=True)
        for values, act in ((self.mean, x.sub_), (self.std, x.div_)):
            if values is not None:
                act(torch.tensor(values).view(-1, 1, 1))
        y = F.one_hot(torch.from_numpy(self.labels[indices]), len(self.classes)).float()
        return {"x": x, "y": y}

    def close(self) -> None:
        """Nothing stays open between two batches."""


def statistics(pixels: Any, levels: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(mean, std) per channel of pixels/levels, in float64; std 1 for a channel that is constant.

    Of images that are read on demand, at most 2000 that are spread evenly over all are looked at.
    """
    n = len(pixels)
    chosen = np.arange(n)
    if not isinstance(pixels, np.ndarray) and n > _ENOUGH:
        chosen = np.linspace(0, n - 1, _ENOUGH).astype(int)
    first, second, count = 0, 0, 0
    for start in range(0, len(chosen), _BLOCK):
        block = np.asarray(pixels[chosen[start : start + _BLOCK]]).astype(np.int64)
        # sums of whole numbers: exact, so that the result does not depend on blocks
        first = first + block.sum((0, 2, 3))
        second = second + np.square(block).sum((0, 2, 3))
        count += block.shape[0] * block.shape[2] * block.shape[3]
    mean = first / count
    # n Σx² − (Σx)² in whole numbers loses nothing; python's have no limit
    spread = [math.sqrt(int(b) * count - int(a) ** 2) / count for a, b in zip(first, second)]
    std = [s / levels if s > 0 else 1.0 for s in spread]
    return tuple(float(m / levels) for m in mean), tuple(std)
