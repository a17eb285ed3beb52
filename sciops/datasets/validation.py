"""Is this data set sound? `validate` reads all of it once and lists what is not, each with a remedy."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sciops.datasets._checks import CHECKS, Findings, Statistics, check_solutions
from sciops.datasets._messages import plain_errors, shown
from sciops.datasets._native_files import is_store
from sciops.datasets._trajectory_checks import check_trajectory_solutions
from sciops.datasets.conventions import SPACE, SPLITS, grid_of

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Finding", "validate"]

_BLOCK = 64 * 1024**2
_NOTED = "if that is wrong, say what is true: open_dataset(path, grid=sciops.Grid(...)), dataset.attrs, assign_coords"
_ORDER = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be.

    severity : "error", numbers that cannot be right; "warning", to be looked at before use; "note", a property of the
        layout that the user must know
    field : variable it concerns, with the grid's name in files of several ("r85/u"); "" for the file as a whole
    sample : the first sample concerned, or None
    message, remedy : what was seen, and what to do
    """

    severity: Literal["error", "warning", "note"]
    field: str
    sample: int | None
    message: str
    remedy: str

    def __str__(self) -> str:
        where = self.field + ("" if self.sample is None else f" sample {self.sample}")
        return f"{self.severity}: {where + ': ' if where else ''}{self.message}; {self.remedy}"


def validate(path_or_dataset: str | os.PathLike | xr.Dataset, *, solutions: int = 4) -> list[Finding]:
    """What is wrong with a file, a folder of files or an opened data set; an empty list when it is sound.

    Checked: finite values; a > 0; for −∇·(a∇u) = f > 0 with u = 0 on the wall the maximum principle u ≥ 0, the trace on
    walls that are on the grid, walls that are not, and samples whose trace or sign stands far out (damaged ones);
    stored residuals and outcomes; positions against centering; splits that are missing, overlap or repeat a sample;
    repeated samples; times that do not increase, states that never change or grow without bound; in a folder also
    samples that occur in two of its files; and `solutions` samples are solved again and compared, where the file names
    an equation of `sciops.pde` and all it needs: a for Darcy, constants and times for evolutions on periodic grids.

    solutions : how many samples per grid to solve again, spread over the file; 0 for none

    returns : findings, errors first
    Raises what `open_dataset` raises for a file that cannot be read at all.
    """
    import xarray as xr

    with plain_errors():
        if isinstance(path_or_dataset, xr.Dataset):
            return _sorted(_of_dataset(path_or_dataset, "", solutions)[0])
        path = Path(path_or_dataset)
        if path.is_dir() and not is_store(path):
            return _sorted(_of_folder(path, solutions))
        return _sorted(_of_file(path, solutions)[0])


def _sorted(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: _ORDER[finding.severity])


def _of_file(path: Path, solutions: int) -> tuple[list[Finding], list[bytes]]:
    from sciops.datasets.readers import open_dataset

    with open_dataset(path) as dataset:
        findings, hashes = _of_dataset(dataset, "", solutions)
        if dataset.attrs.get("layout") != "native":
            return findings, hashes
    from sciops.datasets.native import group_name, resolutions

    shapes = resolutions(path)
    if len(shapes) > 1:
        findings = []
        for shape in shapes:
            with open_dataset(path, shape) as dataset:
                findings += _of_dataset(dataset, group_name(shape) + "/", solutions)[0]
    return findings, hashes


def _of_folder(folder: Path, solutions: int) -> list[Finding]:
    from sciops.datasets.readers import find_reader

    findings: list[Finding] = []
    seen: dict[bytes, tuple[str, int]] = {}
    known = [p for p in sorted(folder.iterdir()) if p.is_file() and find_reader(p) is not None]
    if not known:
        raise ValueError(f"{folder} holds no file of a known layout: name a file, or another folder")
    for path in known:
        own, hashes = _of_file(path, solutions)
        findings += [Finding(f.severity, f"{path.name}:{f.field}", f.sample, f.message, f.remedy) for f in own]
        for sample, key in enumerate(hashes):
            if key in seen and seen[key][0] != path.name:
                other, twin = seen[key]
                findings.append(
                    Finding(
                        "error",
                        path.name,
                        sample,
                        f"is sample {twin} of {other}",
                        "drop it from one of the two, or errors on the one are not errors on unseen fields",
                    )
                )
            seen.setdefault(key, (path.name, sample))
    return findings


def _of_dataset(dataset: xr.Dataset, prefix: str, solutions: int) -> tuple[list[Finding], list[bytes]]:
    found = Findings(
        lambda severity, field, sample, message, remedy: Finding(
            severity, shown(prefix + field, 200), sample, shown(message, 800), shown(remedy, 300)
        )
    )
    _check_positions(dataset, found)
    _check_splits(dataset, found)
    grid = grid_of(dataset)
    statistics = Statistics(dataset, grid)
    for start, stop in _blocks(dataset):
        _read(dataset, statistics, start, stop)
    for check in CHECKS:
        check(dataset, grid, statistics, found)
    if solutions:
        check_solutions(dataset, grid, statistics, found, solutions)
        check_trajectory_solutions(dataset, grid, statistics, found, solutions)
    return found.items, statistics.hashes


def _read(dataset: xr.Dataset, statistics: Statistics, start: int, stop: int) -> None:
    try:
        statistics.add(start, dataset.isel(sample=slice(start, stop)))
    except OSError:
        # a native file keeps a checksum for every sample: find those that fail, and go on with the others
        if dataset.attrs.get("layout") != "native":
            raise
        for sample in range(start, stop):
            try:
                statistics.add(sample, dataset.isel(sample=slice(sample, sample + 1)))
            except OSError:
                statistics.skip(sample)


def _blocks(dataset: xr.Dataset) -> Iterator[tuple[int, int]]:
    samples = dataset.sizes.get("sample", 0)
    size = sum(v.nbytes for v in dataset.data_vars.values()) // max(samples, 1)
    step = max(1, _BLOCK // max(size, 1))
    for start in range(0, samples, step):
        yield start, min(start + step, samples)


def _check_positions(dataset: xr.Dataset, found: Findings) -> None:
    for note in json.loads(dataset.attrs.get("notes", "[]")):
        found.add("warning", "", None, note, _NOTED)
    grid = grid_of(dataset)
    for name, points, h in zip(SPACE, grid.coordinates(), grid.spacing):
        if name not in dataset.coords:
            continue
        stored = np.asarray(dataset.coords[name].values, dtype=np.float64)
        if stored.shape != points.shape or np.abs(stored - points).max() > 1e-3 * h:
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


def _check_splits(dataset: xr.Dataset, found: Findings) -> None:
    samples = dataset.sizes.get("sample", 0)
    ranges: dict[str, Any] = json.loads(dataset.attrs.get("splits", "{}"))
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
            found.add("error", "split", None, f"{split} = [{start}, {stop}] of {samples} samples", "write splits anew")
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
            found.add("error", "split", first, "the split of the sample and the ranges differ", "write splits anew")
        if samples and not (stored == 0).any():
            found.add("warning", "split", None, "no sample is for training", "state splits with load_splits")
