"""The checks of `validate` on the fields of a file, each on the numbers that `Statistics` has gathered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sciops.datasets.checks.statistics import SHOWN, Findings, Statistics
from sciops.datasets.checks.trajectories import TRAJECTORY_CHECKS
from sciops.datasets.conventions import RECORDS, SPLITS
from sciops.files.untrusted import parse_json
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_TRACE = 1e-6  # of max |u|: what single precision may leave on a wall
_FAR_OUT = 10.0  # times the median: a trace that has nothing to do with the others
_NEGATIVE = 0.02  # of max |u|: beyond any interpolation error


def check_readable(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
    """Samples whose stored checksum does not match."""
    bad = np.flatnonzero(s.unreadable)
    found.each(
        "error", "", bad, "cannot be read: its checksum does not match", "copy the file again, or leave the sample out"
    )


def check_finite(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
    """NaN and infinity in fields and in numbers of the samples."""
    for name in s.fields:
        bad = np.flatnonzero(~s.finite[name] & ~s.unreadable)
        found.each("error", name, bad, "holds NaN or infinity", "leave these samples out, or generate them again")
    for name in s.numbers:
        if name not in RECORDS:  # a failed or unmeasured sample has no residual and no error
            bad = np.flatnonzero(~np.isfinite(np.asarray(dataset[name].values)))
            found.each("error", name, bad, "is NaN or infinite", "leave these samples out, or write what it is")


def check_real(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
    """Complex fields, which models do not take."""
    for name in s.fields:
        if dataset[name].dtype.kind == "c":
            remedy = "describe it again as two real fields: describe_arrays(path, {…: {…, 'real_imaginary': True}}, …)"
            found.add("warning", name, None, "holds complex numbers, and models take real ones", remedy)


def check_coefficient(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
    """Darcy's coefficient: positive, or an indicator without its values."""
    if dataset.attrs.get("equation") != "darcy" or not {"a", "a_x"} & set(s.fields):
        return
    if dataset.attrs.get("coefficient") == "indicator":
        found.each(
            "error", "a", np.flatnonzero(s.other & s.finite["a"]), "is neither 0 nor 1", "write a true indicator"
        )
        found.add(
            "note",
            "a",
            None,
            "tells two phases apart, not their values",
            "state them: sciops.datasets.with_phases(dataset, low, high), or find them: fit_two_phase(dataset)",
        )
        return
    for name in [name for name in ("a", "a_x", "a_y") if name in s.fields]:
        bad = np.flatnonzero(s.finite[name] & (s.low[name] <= 0))
        worst = f"{s.low[name][bad].min():g}" if bad.size else ""
        remedy = "−∇·(a∇u) = f needs a > 0: leave these samples out"
        found.each("error", name, bad, f"is not positive (least value {worst})", remedy)


def check_signs_and_walls(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
    """Darcy's solution: the maximum principle, zero on the walls, outliers of both."""
    if dataset.attrs.get("equation") != "darcy" or "u" not in s.fields:
        return
    size = np.fmax(np.abs(s.low["u"]), np.abs(s.high["u"]))
    good = s.finite["u"] & (size > 0)
    empty = np.flatnonzero(s.finite["u"] & (size == 0))
    found.each("error", "u", empty, "is zero everywhere", "leave these samples out, or generate them again")
    if "walls" in dataset.attrs or "f" in dataset:  # u has other values than 0 on its walls, or sinks inside
        return
    trace, low = np.zeros(len(size)), np.zeros(len(size))
    trace[good], low[good] = s.trace[good] / size[good], s.low["u"][good] / size[good]
    positive = float(np.asarray(dataset.attrs.get("forcing", 1.0))) > 0
    usual = float(np.median(trace[good])) if good.any() else 0.0
    far = good & (trace > max(_FAR_OUT * usual, _TRACE))
    wrong_sign = good & (low < -_NEGATIVE) & positive
    for sample in np.flatnonzero(far | wrong_sign)[:SHOWN]:
        seen = [f"{trace[sample]:.3g} of max |u| on a wall, where the median sample has {usual:.2g}"] * bool(
            far[sample]
        )
        seen += [f"a minimum of {low[sample]:.3g} of max |u|, where u ≥ 0 must hold"] * bool(wrong_sign[sample])
        found.add(
            "error", "u", int(sample), f"damaged: {' and '.join(seen)}", "leave this sample out of tests and fits"
        )
    rest = np.flatnonzero(far | wrong_sign)[SHOWN:]
    found.each("error", "u", rest, "damaged in the same way", "leave these samples out of tests and fits")
    slightly = np.flatnonzero(good & (low < -_TRACE) & ~wrong_sign & positive)
    least = low[slightly].min() if slightly.size else 0.0
    found.each(
        "warning",
        "u",
        slightly,
        f"is negative, against the maximum principle: down to {least:.2g} of max |u|",
        "the labels carry errors of this size: smaller errors of a model on them say nothing",
    )
    if usual > _TRACE:
        found.add(
            "warning",
            "u",
            None,
            f"is not zero on the wall: median {usual:.2g} of max |u| over the samples, 99 % below "
            f"{np.quantile(trace[good], 0.99):.2g}",
            "do not force a model's output to zero there when comparing with these values",
        )


def check_zero(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
    """Solutions that are zero everywhere: of Darcy that is `check_signs_and_walls`."""
    if dataset.attrs.get("equation") == "darcy" or dataset.attrs.get("task") == "trajectory" or "u" not in s.fields:
        return
    empty = np.flatnonzero(s.finite["u"] & (s.low["u"] == 0) & (s.high["u"] == 0))
    remedy = "relative errors divide by its size: leave these samples out of training and tests"
    found.each("warning", "u", empty, "is zero everywhere", remedy)


def check_reach(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
    """Points that stop short of the walls."""
    if grid.centering != "node" or grid.reaches_walls:
        return
    gaps = [
        f"{name} = {wall:g} lies {abs(wall - end):.4g} ({abs(wall - end) / h:.2f} spacings) beyond the last node"
        for name, ends, walls, h in zip("xyz", grid.extent, grid.domain, grid.spacing)
        for end, wall in zip(ends, walls)
        if abs(wall - end) > 1e-9 * h
    ]
    found.add(
        "note",
        "u",
        None,
        f"the wall is not on the grid: {'; '.join(gaps)}",
        "the grid carries it (grid_of(dataset).domain): pass the grid to solvers and resample, never linspace(0, 1, n)",
    )


def check_records(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
    """Stored residuals, outcomes and errors of the samples."""
    if "status" in dataset and "failed" in str(dataset["status"].attrs.get("flag_meanings", "")):
        code = dataset["status"].attrs["flag_meanings"].split().index("failed")
        failed = np.flatnonzero(np.asarray(dataset["status"].values) == code)
        found.each("error", "status", failed, "the solver failed", "leave these samples out")
    if "residual" in dataset:
        config = parse_json(dataset.attrs.get("config", "{}"))
        tol = float(config.get("tol", 1e-6)) if isinstance(config, dict) else 1e-6
        residual = np.asarray(dataset["residual"].values)
        limited = (
            np.asarray(dataset["status"].values) > 1 if "status" in dataset else np.zeros(len(residual), dtype=bool)
        )
        above = np.flatnonzero(~(residual <= tol) & ~limited)
        worst = residual[above].max() if above.size else 0.0
        found.each("error", "residual", above, f"{worst:.2g} is above tol = {tol:g}", "generate these samples again")


def check_duplicates(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
    """Samples that repeat another."""
    split = np.asarray(dataset["split"].values) if "split" in dataset else np.zeros(len(s.hashes), dtype=int)
    first: dict[bytes, int] = {}
    twins: list[tuple[int, int]] = []
    for sample, key in enumerate(s.hashes):
        if key in first:
            twins.append((sample, first[key]))
        first.setdefault(key, sample)
    across = [(i, j) for i, j in twins if split[i] != split[j]]
    for i, j in across[:SHOWN]:
        found.add(
            "error",
            "",
            i,
            f"({SPLITS[split[i]]}) is sample {j} ({SPLITS[split[j]]}) again",
            "drop one: errors on it are not errors on unseen fields",
        )
    within = np.array([i for i, j in twins if split[i] == split[j]] + [i for i, _ in across[SHOWN:]])
    found.each("warning", "", within, "repeats an earlier sample", "drop it, or say so: it counts twice in every mean")


CHECKS = (
    check_readable,
    check_finite,
    check_real,
    check_coefficient,
    check_signs_and_walls,
    check_zero,
    check_reach,
    check_records,
    check_duplicates,
    *TRAJECTORY_CHECKS,
)
