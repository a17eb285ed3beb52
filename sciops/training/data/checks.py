"""Input checks of `fit` for data sets; statistics and a checksum of the training fields."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.kinds import refuse_complex
from sciops.datasets import Normalizer
from sciops.grids import Grid
from sciops.training.config import TrainConfig
from sciops.training.data.loader import Loader
from sciops.training.tasks.tasks import task_of

_BLOCK = 2**21  # bytes of fields read at a time; with what is computed of them in float64, some 15 times as much


def training_sets(data: Any) -> tuple[list[Any], list[Any]]:
    """(training sets, validation sets) of ``data.train`` and ``data.validation``: each a dataset, several, or None."""
    if not hasattr(data, "train"):
        raise TypeError(
            f"data is {type(data).__name__}; expected .train and .validation, of sciops.datasets.load_splits(path) "
            "or Splits(train=TensorFields(x, y, grid))"
        )
    train, validation = _as_list(data.train), _as_list(getattr(data, "validation", None))
    for dataset in (*train, *validation):
        if not (hasattr(dataset, "batch") and hasattr(dataset, "grid")):
            raise TypeError(
                f"a data set is {type(dataset).__name__}, which has no .batch(indices) or no .grid; pass "
                "sciops.datasets.TensorFields(x, y, grid), also of the tensors of a TensorDataset"
            )
    if not train or any(len(dataset) == 0 for dataset in train):
        raise ValueError("the training split is empty; check the splits with sciops info FILE")
    return train, [dataset for dataset in validation if len(dataset)]


def examine(
    train: Sequence[Any], config: TrainConfig, loader: Loader, *, normalize: bool
) -> tuple[str, tuple[Normalizer | None, ...] | None]:
    """(a checksum of the training fields and grids, their (input, output) normalisers or None), in one pass. Labels
    have no output normaliser, tokens none at all.

    The fields go by in blocks, each read while the one before is looked at, so that they need not fit in memory; the
    checksum does not depend on the blocks. `loader` has the training sets as its first.

    Raises ValueError for what cannot be trained on: values that are complex or (naming the sample) not finite, targets
    that are zero where the objective divides by their size, sets that differ in channels, shares that do not match the
    sets, and what the task refuses, such as an augmentation that is not a symmetry of the problem.
    """
    task = task_of(config)
    for dataset in train:
        task.check_data(dataset)
    if config.grid_shares is not None and len(config.grid_shares) != len(train):
        raise ValueError(
            f"grid_shares={config.grid_shares!r}: expected one share for each of {len(train)} training sets"
        )
    checksums = {"x": 0, "y": 0}
    for dataset in train:
        checksums["x"] = zlib.crc32(json.dumps(dataset.grid.to_dict()).encode(), checksums["x"])
        if getattr(dataset, "fresh", False):  # only the samples of the first epoch are looked at
            checksums["x"] = zlib.crc32(f"{len(dataset)} {dataset.first} {dataset.about}".encode(), checksums["x"])
    channels: list[int] = []
    blocks = _checked(train, loader, checksums, channels, task)
    both = Normalizer.fit(blocks) if normalize else None
    for _ in blocks:
        pass
    fingerprint = f"{checksums['x']:08x}{checksums['y']:08x}"
    if both is None:
        return fingerprint, None
    parts = (slice(None, channels[0]), slice(channels[0], None))
    return fingerprint, tuple(
        both.of_channels(part) if side in task.normalized else None for side, part in zip(("x", "y"), parts)
    )


def check_validation(validation: Sequence[Any], config: TrainConfig, loader: Loader, *, first: int) -> None:
    """Raises ValueError naming a validation sample that would make every epoch's error infinite or NaN.

    first : number of the first validation set in `loader`
    """
    task, plan = task_of(config), _plan(validation, first)
    with closing(loader.batches(plan)) as blocks:
        for (number, indices), block in zip(plan, blocks):
            _check_block(block, indices, validation[number - first].grid, task, trained=False)


def fingerprints(sets: Sequence[Any]) -> list[str]:
    """Of each data set its size, and a checksum of its grid and first sample: enough to tell splits and files apart."""
    found = []
    for dataset in sets:
        checksum = zlib.crc32(json.dumps(dataset.grid.to_dict()).encode())
        one = dataset.batch(np.arange(1))
        for key in ("x", "y"):
            checksum = zlib.crc32(np.ascontiguousarray(one[key].detach().cpu().numpy()).data, checksum)
        found.append(f"{len(dataset)} {checksum:08x}")
    return found


def name_of(grid: Grid) -> str:
    """ "16x16" for a 16×16 grid: how records name it."""
    return "x".join(map(str, grid.shape))


def _checked(
    train: Sequence[Any], loader: Loader, checksums: dict[str, int], channels: list[int], task: Any
) -> Iterator[Tensor]:
    """Blocks of the sides that are normalised, next to each other along the channel axis, after adding all to the
    checksums."""
    plan, sides = _plan(train), task.normalized
    with closing(loader.batches(plan)) as blocks:
        for (number, indices), block in zip(plan, blocks):
            now = [block["x"].shape[1], block["y"].shape[1]]
            channels += [] if channels else now
            if sides and now != channels:
                raise ValueError(
                    f"training set {number} has (in, out) channels {tuple(now)}, the first {tuple(channels)}"
                )
            _check_block(block, indices, train[number].grid, task, trained=True)
            for key in checksums:
                values = block[key].detach()
                checksums[key] = zlib.crc32(np.ascontiguousarray(values.cpu().numpy()).data, checksums[key])
            yield torch.cat([block[side] for side in sides or ("x",)], 1)


def _plan(sets: Sequence[Any], first: int = 0) -> list[tuple[int, np.ndarray]]:
    """(number of the set in the loader, samples) of blocks of about `_BLOCK` bytes."""
    plan = []
    for number, dataset in enumerate(sets, first):
        one = dataset.batch(np.arange(1))
        step = max(1, _BLOCK // max(1, sum(one[key].nbytes for key in ("x", "y"))))
        plan += [(number, np.arange(a, min(a + step, len(dataset)))) for a in range(0, len(dataset), step)]
    return plan


def _check_block(block: Any, indices: np.ndarray, grid: Grid, task: Any, *, trained: bool) -> None:
    """Raises ValueError naming the first sample with values that are not finite, or whose target is zero to an error
    that divides by its size."""
    part = "train" if trained else "validation"
    sample = "training sample" if trained else "validation sample"
    for key in ("x", "y"):
        refuse_complex(block[key], key)
        finite = torch.isfinite(block[key].detach()).flatten(1).all(1)
        if not finite.all():
            raise ValueError(
                f"{sample} {int(indices[(~finite).nonzero()[0].cpu()])} of grid {grid.shape} holds values that are not "
                f"finite in {key!r}; sciops validate FILE lists such samples, load_splits({part}=…) leaves them out"
            )
    vanishing = task.vanishing(block["y"].detach(), grid, trained=trained)
    if vanishing.any():
        number = int(indices[vanishing.nonzero()[0].cpu()])
        divides = f"objective={task.config.objective!r}" if trained else "the relative error of validation"
        of_gradient = task.config.objective == "relative_gradient" or task.config.gradient_weight
        constant = " or constant" if trained and of_gradient else ""
        other = ", or take objective='mse'" if trained else ""
        raise ValueError(
            f"{sample} {number} of grid {grid.shape} has a target that is zero{constant}, and {divides} divides by its "
            f"size; load_splits({part}=…) or dataset.subset(…) leave it out{other}"
        )


def _as_list(part: Any) -> list[Any]:
    if part is None:
        return []
    return list(part) if isinstance(part, (list, tuple)) else [part]
