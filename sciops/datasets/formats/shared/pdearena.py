"""What pdearena's files share: a group named after the split, and numbers of each sample."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import RECORDS, SPLIT_ATTRS, SPLITS, parameters_of
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.shared.axes import numbers
from sciops.datasets.formats.shared.expectations import leave_out

if TYPE_CHECKING:
    import xarray as xr

MODES = ("train", "valid", "test")


def mode_of(probe: Probe, names: Iterable[str]) -> str | None:
    """The first group of train, valid and test that holds all these arrays."""
    return next((mode for mode in MODES if probe.stored(*(f"{mode}/{name}" for name in names))), None)


def split_variable(mode: str, samples: int) -> dict[str, Any]:
    """Every sample belongs to the split its group is named after."""
    return {"split": (("sample",), np.full(samples, MODES.index(mode), np.int8), dict(SPLIT_ATTRS))}


def per_sample(
    probe: Probe, stored: str, name: str, words: str, samples: int
) -> tuple[dict[str, float], dict[str, Any]]:
    """(constant where all samples agree, variable over sample where they do not) of a number a sample."""
    values = numbers(probe, stored)
    if values is None or values.shape != (samples,) or not np.isfinite(values).all():
        return {}, {}
    if (values == values[0]).all():
        return {name: float(values[0])}, {}
    about = {"units": "1", "long_name": words, "stored_as": stored}
    return {}, {name: (("sample",), values.astype(np.float64), about)}


def mode_for(dataset: xr.Dataset, layout: str) -> str:
    """The group of the one split all samples belong to; ValueError where there is none or several."""
    codes = np.unique(dataset["split"].values) if "split" in dataset else np.empty(0, int)
    if len(codes) != 1 or not 0 <= codes[0] < len(MODES):
        found = ", ".join(SPLITS[code] for code in codes if 0 <= code < len(SPLITS)) or "no split"
        raise ValueError(
            f"layout {layout!r} keeps one file a split; the data set holds {found}: write one with "
            "convert(…, split='train'), or say it with dataset.assign(split=…)"
        )
    return MODES[int(codes[0])]


def each_sample(dataset: xr.Dataset, name: str) -> np.ndarray | None:
    """A number a sample, from a variable or a common constant; None where it is not known."""
    samples = dataset.sizes["sample"]
    if name in dataset and dataset[name].dims == ("sample",):
        return np.asarray(dataset[name].values, np.float64)
    constants = parameters_of(dataset)
    return np.full(samples, constants[name]) if name in constants else None


def expect_constants(dataset: xr.Dataset, layout: str, held: tuple[str, ...]) -> None:
    """Refuses constants and numbers of samples that the layout has no place for."""
    varying = [str(n) for n, v in dataset.data_vars.items() if v.dims == ("sample",) and n not in RECORDS]
    strange = [name for name in (*parameters_of(dataset), *varying) if name not in held]
    if strange:
        raise ValueError(
            f"layout {layout!r} has no place for {', '.join(strange)}: {leave_out(strange)}, or use 'native'"
        )
