"""The checks of `validate` on what a data set is made of: readable variables, names, positions and splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.arrays.dimensions import LEADING
from sciops.datasets.checks.statistics import Findings
from sciops.datasets.conventions import SPACE, SPLITS, grid_of
from sciops.files.untrusted import parse_json

if TYPE_CHECKING:
    import xarray as xr


_NOTED = "if that is wrong, say what is true: open_dataset(path, grid=sciops.Grid(...)), dataset.attrs, assign_coords"


def readable(dataset: xr.Dataset, found: Findings) -> xr.Dataset:
    """Without the numbers of the samples that cannot be read, each of them a finding."""
    broken = []
    for name, variable in dataset.data_vars.items():
        try:
            if variable.ndim < 2:
                np.asarray(variable.values)
        except OSError:
            broken.append(name)
            remedy = "copy the file again, or leave the variable out"
            found.add("error", str(name), None, "cannot be read: its checksum does not match", remedy)
    return dataset.drop_vars(broken)


def check_names(dataset: xr.Dataset, found: Findings) -> None:
    """Dimensions of names that are not ours leave open which is x and which is y."""
    space = {axis: dataset.sizes[axis] for axis in SPACE if axis in dataset.sizes}
    for name, field in dataset.data_vars.items():
        unnamed = [dim for dim in field.dims if dim not in (*LEADING, *SPACE)]
        absent = [axis for axis in space if axis not in field.dims]
        if "sample" in field.dims and any(field.sizes[dim] == space[axis] for dim in unnamed for axis in absent):
            found.add(
                "warning",
                str(name),
                None,
                f"has the dimensions {', '.join(map(str, field.dims))}: which are {', '.join(absent)} is not known",
                "name them, dataset.rename(…), and write the file again",
            )


def check_positions(dataset: xr.Dataset, found: Findings) -> None:
    """Adds what the reader noted about positions, and positions that do not fit the grid."""
    for note in parse_json(dataset.attrs.get("notes", "[]")):
        found.add("warning", "", None, note, _NOTED)
    if "no_grid" in dataset.attrs:  # the notes say why
        return
    grid = grid_of(dataset)
    for name, points, h in zip(SPACE, grid.coordinates(), grid.spacing):
        if name not in dataset.coords:
            continue
        stored = np.asarray(dataset.coords[name].values, dtype=np.float64)
        if stored.shape != points.shape or not np.abs(stored - points).max() <= 1e-3 * h:  # NaN is wrong too
            shown = f"{stored.flat[0]:.6g} … {stored.flat[-1]:.6g}" if stored.size else "nothing"
            found.add(
                "error",
                name,
                None,
                f"coordinate {name} holds {shown} ({stored.size} points), and the {grid.centering} points of the grid "
                f"lie at {points[0]:.6g} … {points[-1]:.6g} ({len(points)})",
                "find out which is true, then write the file again with that Grid",
            )
        centering = dataset.coords[name].attrs.get("centering", grid.centering)
        if centering != grid.centering:
            found.add(
                "error",
                name,
                None,
                f"says centering {centering!r}, the grid {grid.centering!r}",
                "find out which is true, then write the file again",
            )
    if str(dataset.attrs.get("positions", "")).startswith("assumed"):
        found.add(
            "warning",
            "",
            None,
            f"the file does not state positions ({dataset.attrs['positions']})",
            "pass them: open_dataset(path, grid=sciops.Grid(...))",
        )


def check_splits(dataset: xr.Dataset, found: Findings) -> None:
    """Adds that no split is stored, or splits that have unknown names, lie outside the samples or overlap."""
    samples = dataset.sizes.get("sample", 0)
    ranges: dict[str, Any] = parse_json(dataset.attrs.get("splits", "{}"))
    if "split" not in dataset and not ranges:
        found.add(
            "note",
            "split",
            None,
            "no split is stored",
            "state one: sciops.datasets.load_splits(path, train=…, validation=…, test=…)",
        )
        return
    owner = np.full(samples, -1)
    for split, (start, stop) in ranges.items():
        if split not in SPLITS or not 0 <= start <= stop <= samples:
            found.add(
                "error", "split", None, f"{split} = [{start}, {stop}] of {samples} samples", "write the splits again"
            )
            continue
        for other, name in enumerate(SPLITS):
            shared = start + np.flatnonzero(owner[start:stop] == other)
            if shared.size:
                found.add(
                    "error",
                    "split",
                    int(shared[0]),
                    f"{split} shares {shared.size} samples with {name}",
                    "write splits that do not overlap: errors on a shared sample are not errors on unseen fields",
                )
        owner[start:stop] = SPLITS.index(split)
    if "split" in dataset:
        stored = np.asarray(dataset["split"].values)
        strange = np.flatnonzero((stored < 0) | (stored >= len(SPLITS)))
        if strange.size:
            found.add("error", "split", int(strange[0]), f"holds {stored[strange[0]]}", f"use 0, 1, 2 for {SPLITS}")
        elif ranges and (owner != stored).any():
            first = int(np.flatnonzero(owner != stored)[0])
            found.add(
                "error", "split", first, "the split of the sample and the ranges differ", "write the splits again"
            )
        if samples and not (stored == 0).any():
            found.add("warning", "split", None, "no sample is for training", "state splits with load_splits")
