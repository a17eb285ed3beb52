"""The checks of `validate`: one pass gathers a few numbers per sample, then each check is a few lines."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.blocks import pieces
from sciops.datasets.checks.trajectories import TRAJECTORY_CHECKS
from sciops.datasets.conventions import RECORDS, SPLITS
from sciops.files.untrusted import parse_json
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_SHOWN = 8
_TRACE = 1e-6  # of max |u|: what single precision may leave on a wall
_FAR_OUT = 10.0  # times the median: a trace that has nothing to do with the others
_NEGATIVE = 0.02  # of max |u|: beyond any interpolation error
_WRONG = 0.2  # relative L2 against the solution: not discretisation, another equation
_NOTABLE = 0.02
_SOLVED = 1e-4  # the same where the file says that u was solved on this very grid


class Findings:
    """Collects findings; `each` folds many samples into one, naming the first few."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make, self.items = make, []

    def add(self, severity: str, field: str, sample: int | None, message: str, remedy: str) -> None:
        self.items.append(self.make(severity, field, sample, message, remedy))

    def each(self, severity: str, field: str, samples: np.ndarray, message: str, remedy: str) -> None:
        if len(samples) == 0:
            return
        if len(samples) > 1:
            shown = ", ".join(str(int(s)) for s in samples[:_SHOWN])
            message += f" ({len(samples)} samples: {shown}{', …' if len(samples) > _SHOWN else ''})"
        self.add(severity, field, int(samples[0]), message, remedy)


class Statistics:
    """Per sample: finite or not, least and largest value, trace on the walls of the grid, and a hash of the fields."""

    def __init__(self, dataset: xr.Dataset, grid: Grid) -> None:
        self.grid = grid
        self.fields = [n for n, v in dataset.data_vars.items() if v.ndim > 1 and "sample" in v.dims]
        count = dataset.sizes.get("sample", 0)
        self.unreadable = np.zeros(count, bool)
        self.finite = {name: np.ones(count, bool) for name in self.fields}
        self.low = {name: np.full(count, np.inf) for name in self.fields}
        self.high = {name: np.full(count, -np.inf) for name in self.fields}
        self.trace = np.zeros(count)
        self.other = np.zeros(count, bool)  # an indicator that is neither 0 nor 1
        timed = [n for n in self.fields if dataset[n].dims[:2] == ("sample", "time")]
        self.frozen = {name: np.ones(count, bool) for name in timed}
        self.first = {name: np.zeros(count) for name in timed}  # largest value at the first time, and at the last
        self.last = {name: np.zeros(count) for name in timed}
        self.hashes: list[bytes] = [b""] * count
        self.numbers = [n for n, v in dataset.data_vars.items() if v.dims == ("sample",) and v.dtype.kind == "f"]
        self.walls = _walls(grid) if grid.centering == "node" else []

    def add(self, start: int, block: xr.Dataset) -> None:
        """Takes in the samples of a block, which begins at number `start`; doing so twice changes nothing."""
        digests = [hashlib.blake2b(digest_size=16) for _ in range(block.sizes["sample"])]
        for name in self.fields:
            field = block[name]
            for part in pieces(field.shape, field.dtype.itemsize, whole_samples=name not in self.frozen):
                values = np.asarray(field[part].values)
                self._add(name, start + part[0].start, part[1:], values, field.shape[1])
                for digest, sample in zip(digests[part[0]], values.reshape(len(values), -1)):
                    digest.update(np.ascontiguousarray(sample).tobytes())
        for i, digest in enumerate(digests):
            self.hashes[start + i] = digest.digest()

    def _add(self, name: str, start: int, times: tuple[slice, ...], values: np.ndarray, steps: int) -> None:
        flat, samples = values.reshape(len(values), -1), slice(start, start + len(values))
        if flat.dtype.kind == "c":  # real and imaginary parts side by side
            flat = np.ascontiguousarray(flat).view(flat.real.dtype)
        flat = flat if flat.dtype.kind == "f" else flat.astype(np.float64)
        finite = np.isfinite(flat)
        self.finite[name][samples] &= finite.all(1)
        low, high = self.low[name], self.high[name]
        low[samples] = np.minimum(low[samples], np.min(flat, 1, where=finite, initial=np.inf))
        high[samples] = np.maximum(high[samples], np.max(flat, 1, where=finite, initial=-np.inf))
        if name in self.frozen:
            begin, end = (times[0].start, times[0].stop) if times else (0, steps)
            if begin == 0:
                self._first_state = values[:, :1].copy()
                self.first[name][samples] = np.abs(values[:, 0]).reshape(len(values), -1).max(1)
            if end == steps:
                self.last[name][samples] = np.abs(values[:, -1]).reshape(len(values), -1).max(1)
            self.frozen[name][samples] &= (values == self._first_state).reshape(len(values), -1).all(1)
        if name == "u" and values.ndim == self.grid.ndim + 1:
            for axis, index in self.walls:
                wall = np.abs(np.take(values, index, axis + 1)).reshape(len(values), -1).max(1)
                self.trace[samples] = np.fmax(self.trace[samples], wall)
        if name == "a":
            self.other[samples] |= ((flat != 0) & (flat != 1)).any(1)

    def skip(self, sample: int) -> None:
        """Leaves out a sample whose bytes cannot be read."""
        self.unreadable[sample] = True
        self.hashes[sample] = f"unreadable {sample}".encode()
        for name in self.fields:
            self.finite[name][sample] = False
            self.low[name][sample] = self.high[name][sample] = 0.0


def check_readable(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
    bad = np.flatnonzero(s.unreadable)
    found.each(
        "error", "", bad, "cannot be read: its checksum does not match", "copy the file again, or leave the sample out"
    )


def check_finite(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
    for name in s.fields:
        bad = np.flatnonzero(~s.finite[name] & ~s.unreadable)
        found.each("error", name, bad, "holds NaN or infinity", "leave these samples out, or generate them again")
    for name in s.numbers:
        if name not in RECORDS:  # a failed or unmeasured sample has no residual and no error
            bad = np.flatnonzero(~np.isfinite(np.asarray(dataset[name].values)))
            found.each("error", name, bad, "is NaN or infinite", "leave these samples out, or write what it is")


def check_real(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
    for name in s.fields:
        if dataset[name].dtype.kind == "c":
            remedy = "describe it again as two real fields: describe_arrays(path, {…: {…, 'real_imaginary': True}}, …)"
            found.add("warning", name, None, "holds complex numbers, and models take real ones", remedy)


def check_coefficient(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings) -> None:
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
    for sample in np.flatnonzero(far | wrong_sign)[:_SHOWN]:
        seen = [f"{trace[sample]:.3g} of max |u| on a wall, where the median sample has {usual:.2g}"] * bool(
            far[sample]
        )
        seen += [f"a minimum of {low[sample]:.3g} of max |u|, where u ≥ 0 must hold"] * bool(wrong_sign[sample])
        found.add(
            "error", "u", int(sample), f"damaged: {' and '.join(seen)}", "leave this sample out of tests and fits"
        )
    rest = np.flatnonzero(far | wrong_sign)[_SHOWN:]
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
    split = np.asarray(dataset["split"].values) if "split" in dataset else np.zeros(len(s.hashes), dtype=int)
    first: dict[bytes, int] = {}
    twins: list[tuple[int, int]] = []
    for sample, key in enumerate(s.hashes):
        if key in first:
            twins.append((sample, first[key]))
        first.setdefault(key, sample)
    across = [(i, j) for i, j in twins if split[i] != split[j]]
    for i, j in across[:_SHOWN]:
        found.add(
            "error",
            "",
            i,
            f"({SPLITS[split[i]]}) is sample {j} ({SPLITS[split[j]]}) again",
            "drop one: errors on it are not errors on unseen fields",
        )
    within = np.array([i for i, j in twins if split[i] == split[j]] + [i for i, _ in across[_SHOWN:]])
    found.each("warning", "", within, "repeats an earlier sample", "drop it, or say so: it counts twice in every mean")


def check_solutions(dataset: xr.Dataset, grid: Grid, s: Statistics, found: Findings, count: int) -> None:
    """Solves `count` samples again on the data set's own grid and compares.

    The coefficient is a, or a_x and a_y; the forcing is the variable f, or the number in the attribute of that name;
    the attribute ``walls`` holds the solver's boundary, values, flux and transfer as JSON, where they are not the
    defaults.
    """
    known = dataset.attrs.get("equation") == "darcy" and dataset.attrs.get("coefficient") == "values"
    names = ["a"] if "a" in s.fields else ["a_x", "a_y"]
    if (
        not known
        or not {*names, "u"} <= set(s.fields)
        or grid.ndim != 2
        or grid.centering == "periodic"
        or min(grid.shape) < 3
    ):
        return
    from sciops.metrics import relative_l2
    from sciops.pde import darcy

    sound = [s.finite[name] & (s.low[name] > 0) for name in names]
    usable = np.flatnonzero(np.all(sound, 0) & s.finite["u"] & (np.fmax(s.high["u"], -s.low["u"]) > 0))
    chosen = (
        np.unique(usable[np.linspace(0, len(usable) - 1, min(count, len(usable))).astype(int)]) if len(usable) else []
    )
    if not len(chosen):
        return
    block = dataset.isel(sample=chosen)
    *a, u = (np.asarray(block[name].values, dtype=np.float64) for name in (*names, "u"))
    forcing = np.asarray(block["f"].values if "f" in dataset else float(dataset.attrs.get("forcing", 1.0)))
    try:
        walls = parse_json(dataset.attrs.get("walls", "{}"))
        options = {key: walls[key] for key in ("boundary", "values", "flux", "transfer") if key in walls}
        options["mean"] = "project"  # a balanced f is so to its stored precision only
        tensor = len(names) == 2
        a = np.stack(a, 1) if tensor else a[0]
        solution = darcy.solve(a, grid, forcing=forcing, tensor=tensor, on_failure="flag", **options)
    except (TypeError, ValueError) as error:
        found.add(
            "error", "", None, f"walls or forcing make no Darcy problem: {error}", "correct the attribute 'walls'"
        )
        return
    error = np.where(solution.status == "failed", 0.0, relative_l2(solution.u, u, grid))
    worst, mean = int(chosen[np.argmax(error)]), float(error.mean())
    here = dataset.attrs.get("layout") == "native" and (
        dataset.attrs.get("labels") == "solved" or str(dataset.attrs.get("solved_on", "")) == str(grid.shape[0])
    )
    if here and error.max() > _SOLVED:
        found.add(
            "error",
            "u",
            worst,
            f"does not solve −∇·(a∇u) = f with the a beside it: relative L2 difference {error.max():.2g}",
            "generate the file again",
        )
    elif mean > _WRONG:
        found.add(
            "warning",
            "u",
            worst,
            f"differs from the solution of −∇·(a∇u) = f on this grid by {mean:.2g} (mean relative L2 of {len(chosen)})",
            "values of a, source or scale are not what they seem: sciops.datasets.fit_two_phase(dataset) tries others",
        )
    elif mean > _NOTABLE and dataset.attrs.get("layout") != "native":
        found.add(
            "note",
            "u",
            None,
            f"differs from the solution on this grid by {mean:.2g} (mean relative L2 of {len(chosen)} samples)",
            "coarse interfaces or rough labels: print it beside the errors of models",
        )


def _walls(grid: Grid) -> list[tuple[int, int]]:
    """(axis, index) of the grid's rows that lie on a wall."""
    return [
        (axis, index)
        for axis, (ends, walls, h) in enumerate(zip(grid.extent, grid.domain, grid.spacing))
        for index, end, wall in ((0, ends[0], walls[0]), (-1, ends[1], walls[1]))
        if abs(end - wall) <= 1e-9 * h
    ]


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
