"""Is this data set sound? `validate` reads all of it once and lists what is not, each with a remedy."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sciops.datasets.checks.fields import CHECKS
from sciops.datasets.checks.solutions import check_solutions
from sciops.datasets.checks.statistics import Findings, Statistics
from sciops.datasets.checks.structure import check_names, check_positions, check_splits, readable
from sciops.datasets.checks.trajectories import check_trajectory_solutions
from sciops.datasets.conventions import SPACE, grid_of
from sciops.datasets.order import in_order
from sciops.files.budget import Budget, within_budget
from sciops.files.messages import plain_errors, reading, shown
from sciops.files.whole_files import is_store
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Finding", "validate"]

_BLOCK = 16 * 1024**2  # several copies are held of it
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


@within_budget
@plain_errors()
def validate(
    path_or_dataset: str | os.PathLike | xr.Dataset,
    *,
    solutions: int = 4,
    expected_hash: str | None = None,
    budget: Budget | None = None,
) -> list[Finding]:
    """Checks a file, a folder of files or an opened data set, and lists what is wrong.

    Checked are finite values; a > 0; for −∇·(a∇u) = f > 0 with u = 0 on the walls the maximum principle u ≥ 0 and the
    trace on walls that are on the grid; walls that are not; samples whose trace or sign is an outlier (damaged ones);
    stored residuals and outcomes; positions against centering; splits that are missing, overlap or repeat a sample;
    repeated samples, in a folder also between its files; times that do not increase, and states that never change or
    grow without bound. Some samples are solved again and compared where the file names an equation of `sciops.pde` and
    all it needs: a for Darcy, constants and times for evolutions on periodic grids.

    Parameters
    ----------
    path_or_dataset : str, path-like or xarray.Dataset
        What to check.
    solutions : int
        Number of samples per grid to solve again, spread over the file; 0 for none.
    expected_hash : str, optional
        The `content_hash` of the file when it was right, or at least its first eight digits. Any number that has
        changed since is an error, even if the program that changed it also updated the checksums.
    budget : Budget, optional
        What each file may take, as in `open_dataset`.

    Returns
    -------
    list of Finding
        Errors first; empty when nothing is wrong.

    Raises
    ------
    ValueError
        For an `expected_hash` that is not a hash, or of anything but one file; otherwise, for a single file that cannot
        be read, as in `open_dataset`. In a folder such a file is a finding.
    """
    import xarray as xr

    is_dataset = isinstance(path_or_dataset, xr.Dataset)
    path = None if is_dataset else Path(path_or_dataset)
    folder = path is not None and path.is_dir() and not is_store(path)
    if expected_hash is not None:
        _check_hash_words(expected_hash, path, folder)
    if path is None:
        return _sorted(_of_dataset(path_or_dataset, "", solutions)[0])
    if folder:
        return _sorted(_of_folder(path, solutions))
    findings = _of_file(path, solutions)[0]
    return _sorted(findings + ([] if expected_hash is None else _of_hash(path, expected_hash, findings)))


def _sorted(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: _ORDER[finding.severity])


def _check_hash_words(expected: str, path: Path | None, folder: bool) -> None:
    if path is None or folder:
        raise ValueError("expected_hash is of one file: name that one")
    if not re.fullmatch("[0-9a-fA-F]{8,64}", expected):
        raise ValueError(f"expected_hash={expected!r}: expected 8 to 64 hexadecimal digits, as content_hash gives them")


def _of_hash(path: Path, expected: str, findings: list[Finding]) -> list[Finding]:
    from sciops.datasets.native import content_hash

    try:
        found = content_hash(path)
    except OSError:
        if any(finding.severity == "error" for finding in findings):  # which names the samples that cannot be read
            return []
        raise
    if found.startswith(expected.lower()):
        return []
    message = f"holds other numbers than it did: its hash is {found}, {expected} was expected"
    return [Finding("error", "", None, message, "copy the file again, or find out what has changed it")]


def _of_file(path: Path, solutions: int) -> tuple[list[Finding], list[bytes]]:
    """(findings, hashes of the samples on the finest grid)."""
    from sciops.datasets.formats import opened_resolutions
    from sciops.datasets.native import group_name

    found = []
    with opened_resolutions(path) as datasets, reading(path):
        for dataset in datasets:
            shape = tuple(dataset.sizes[axis] for axis in SPACE if axis in dataset.sizes)
            prefix = f"{group_name(shape)}/" if len(datasets) > 1 else ""
            found.append(_of_dataset(dataset, prefix, solutions))
    return [finding for findings, _ in found for finding in findings], found[0][1]


def _of_folder(folder: Path, solutions: int) -> list[Finding]:
    from sciops.datasets.fields.split_sources import files_of
    from sciops.datasets.formats import find_reader, probe

    findings: list[Finding] = []
    seen: dict[bytes, tuple[str, int]] = {}
    known = 0
    for path in files_of(folder):
        name = str(path.relative_to(folder))
        try:
            if find_reader(path) is None:
                probe(path)  # of an unknown layout, such as a text; or damaged
                continue
            known += 1
            own, hashes = _of_file(path, solutions)
        except (OSError, ValueError, ImportError) as error:
            known += 1
            text = f"cannot be read: {error}"
            findings.append(Finding("error", shown(name, 200), None, shown(text, 800), f"sciops doctor {path}"))
            continue
        findings += [Finding(f.severity, f"{name}:{f.field}", f.sample, f.message, f.remedy) for f in own]
        for sample, key in enumerate(hashes):
            if key in seen and seen[key][0] != name:
                other, twin = seen[key]
                findings.append(
                    Finding(
                        "error",
                        name,
                        sample,
                        f"is sample {twin} of {other}",
                        "drop it from one of the two, or errors on the one are not errors on unseen fields",
                    )
                )
            seen.setdefault(key, (name, sample))
    if not known:
        raise ValueError(f"{folder} holds no file of a known layout: name a file, or another folder")
    return findings


def _of_dataset(dataset: xr.Dataset, prefix: str, solutions: int) -> tuple[list[Finding], list[bytes]]:
    found = Findings(
        lambda severity, field, sample, message, remedy: Finding(
            severity, shown(prefix + field, 200), sample, shown(message, 800), shown(remedy, 300)
        )
    )
    dataset = readable(in_order(dataset), found)
    check_names(dataset, found)
    check_positions(dataset, found)
    check_splits(dataset, found)
    placed = "no_grid" not in dataset.attrs
    # without positions the numbers alone are looked at; cells have no walls on them
    shape = tuple(dataset.sizes[name] for name in SPACE if name in dataset.sizes)
    grid = grid_of(dataset) if placed else Grid(shape, centering="cell")
    statistics = Statistics(dataset, grid)
    for start, stop in _blocks(dataset):
        _read(dataset, statistics, start, stop)
    for check in CHECKS:
        check(dataset, grid, statistics, found)
    if solutions and placed:
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
