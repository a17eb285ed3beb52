"""Samples of a generator for a training that never sees one twice, without a file."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from data_gen.kit import evolution
from data_gen.kit.configuration import GenerationConfig, essence, normalized
from sciops.datasets import FreshFields
from sciops.datasets.native import group_name
from sciops.grids import Grid
from sciops.pde.darcy import SolverError
from sciops.symmetry import Symmetry

__all__ = ["FIRST", "fresh_fields"]

FIRST = 2**40
"""Number of a stream's first sample: beyond those of every file, so that no sample of a test set is trained on."""
_OF_FILES = {"samples", "validation", "test", "dtype"}  # what a stream does not depend on


def fresh_fields(
    config: GenerationConfig,
    grid: Grid,
    *,
    length: int = 1000,
    inputs: Sequence[str] = ("a",),
    outputs: Sequence[str] = ("u",),
    first: int = FIRST,
    symmetry: Symmetry | None = None,
    dtype: torch.dtype = torch.float32,
) -> FreshFields:
    """An endless stream of the samples that a generator of steady fields writes with this configuration.

    Sample i is number `first` + i of the generator: where a file of the same law and seed holds the samples 0, 1, …,
    the stream holds none of them.

    Parameters
    ----------
    config : GenerationConfig
        Of `data_gen.darcy` or another generator whose fields are (sample, *grid); its `samples`, splits and output play
        no part. With ``labels="nested"`` a sample is solved on the finest of ``config.resolutions``.
    grid : Grid
        Of the fields; its points per axis are one of the resolutions.
    length : int
        Samples of an epoch.
    inputs, outputs : tuple of str
        Fields that become channels.
    first : int
        Number of the first sample.
    symmetry, dtype
        As in `sciops.datasets.FreshFields`.

    Returns
    -------
    sciops.datasets.FreshFields

    Raises
    ------
    ValueError
        For an invalid configuration, a grid that it does not have, and fields that the generator does not make.

    Examples
    --------
    >>> from data_gen.darcy import DarcyConfig
    >>> from data_gen.kit.fresh import fresh_fields
    >>> from sciops import Grid
    >>> fresh_fields(DarcyConfig(resolutions=(22,), modes=32), Grid((22, 22)), length=500)
    FreshFields(darcy, seed 0, law b1bf8b9d, 500 samples an epoch from number 1099511627776 on, Grid((22, 22)))
    """
    config = replace(normalized(config), threads=config.threads or 1)
    group = group_name(grid.shape)
    if len(set(grid.shape)) > 1 or grid.shape[0] not in config.resolutions:
        known = ", ".join(map(str, config.resolutions))
        raise ValueError(f"grid {grid.shape}: the configuration has {known} points per axis")
    equation = type(config).__module__.rpartition(".")[2]
    make = partial(_made, config, group, tuple(inputs), tuple(outputs), grid.ndim)
    law = sorted((key, value) for key, value in essence(config).items() if key not in _OF_FILES)
    about = f"{equation}, seed {config.seed}, law {zlib.crc32(repr(law).encode()):08x}"
    return FreshFields(make, grid, length=length, first=first, about=about, symmetry=symmetry, dtype=dtype)


def _made(
    config: GenerationConfig,
    group: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    axes: int,
    numbers: np.ndarray,
) -> dict[str, np.ndarray]:
    breaks = np.flatnonzero(np.diff(numbers) > 1) + 1
    ranges = [(int(part[0]), int(part[-1]) + 1) for part in np.split(numbers, breaks) if len(part)]
    generator = sys.modules[type(config).__module__]
    made: Mapping[str, Any] = generator.make(config, ranges)
    words = getattr(generator, "STATUS", evolution.STATUS)
    failed = np.flatnonzero(np.asarray(made.get(f"{group}/status", ())) == words.index("failed"))
    if failed.size:
        raise SolverError(f"sample {int(numbers[failed[0]])} of the stream: its solve did not reach the tolerance")

    def stacked(names: tuple[str, ...]) -> np.ndarray:
        fields = []
        for name in names:
            field = made.get(f"{group}/{name}")
            if field is None or field.ndim != axes + 1:
                known = [key.partition("/")[2] for key, value in made.items() if value.ndim == axes + 1]
                raise ValueError(
                    f"field {name!r}: the generator's steady fields are {', '.join(sorted({*known})) or 'none'}"
                )
            fields.append(field)
        return np.stack(fields, 1)

    return {"x": stacked(inputs), "y": stacked(outputs)}
