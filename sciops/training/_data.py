"""The door of `fit` for data: what it accepts, what it refuses, statistics and a fingerprint of the training fields."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from sciops.grids import Grid
from sciops.training.config import TrainConfig
from sciops.training.symmetry import check_symmetric

_POINTS = 2**24  # read at a time


def training_sets(data: Any) -> tuple[list[Any], list[Any]]:
    """(training sets, validation sets) of ``data.train`` and ``data.validation``: each a dataset, several, or None."""
    if not hasattr(data, "train"):
        raise TypeError(
            f"data is {type(data).__name__}; expected .train and .validation, such as sciops.datasets.load_splits(path)"
        )
    train, validation = _as_list(data.train), _as_list(getattr(data, "validation", None))
    if not train or any(len(dataset) == 0 for dataset in train):
        raise ValueError("the training split is empty; check the splits with sciops info FILE")
    return train, [dataset for dataset in validation if len(dataset)]


def check_training_data(train: Sequence[Any], config: TrainConfig) -> str:
    """A checksum of the training fields and grids; raises ValueError for what cannot be trained on.

    Refused: values that are not finite (naming the sample), sets that differ in channels, a grid without the symmetry
    that `augment` names, shares that do not match the sets.
    """
    checksum, channels = 0, None
    for number, dataset in enumerate(train):
        check_symmetric(dataset.grid, config.augment)
        checksum = zlib.crc32(json.dumps(dataset.grid.to_dict()).encode(), checksum)
        for start, block in _blocks(dataset):
            for key in ("x", "y"):
                values = block[key]
                finite = torch.isfinite(values).flatten(1).all(1)
                if not finite.all():
                    sample = start + int((~finite).nonzero()[0])
                    raise ValueError(
                        f"training sample {sample} of grid {dataset.grid.shape} holds values that are not finite in "
                        f"{key!r}; sciops validate FILE lists such samples, load_splits(train=…) leaves them out"
                    )
                checksum = zlib.crc32(np.ascontiguousarray(values.detach().cpu().numpy()).data, checksum)
            now = (block["x"].shape[1], block["y"].shape[1])
            channels = channels or now
            if now != channels:
                raise ValueError(f"training set {number} has (in, out) channels {now}, the first {channels}")
    if config.grid_shares is not None and len(config.grid_shares) != len(train):
        raise ValueError(
            f"grid_shares={config.grid_shares!r}: expected one share for each of {len(train)} training sets"
        )
    return f"{checksum:08x}"


def fit_normalizers(train: Sequence[Any]) -> tuple[Any, Any]:
    """(input, output) `Normalizer` over all training sets, block by block."""
    from sciops.datasets import Normalizer

    return tuple(Normalizer.fit(block[key] for dataset in train for _, block in _blocks(dataset)) for key in ("x", "y"))


def name_of(grid: Grid) -> str:
    """ "16x16" for a 16×16 grid: how records name it."""
    return "x".join(map(str, grid.shape))


def _blocks(dataset: Any) -> Iterator[tuple[int, dict[str, torch.Tensor]]]:
    chunk = max(1, _POINTS // dataset.grid.size)
    for start in range(0, len(dataset), chunk):
        yield start, dataset.batch(np.arange(start, min(start + chunk, len(dataset))))


def _as_list(part: Any) -> list[Any]:
    if part is None:
        return []
    return list(part) if isinstance(part, (list, tuple)) else [part]
