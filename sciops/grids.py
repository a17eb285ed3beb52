"""Where a field is sampled: `Grid`, and the exact passage between nested grids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from sciops import bases
from sciops.arrays.kinds import as_tensor
from sciops.bases import Centering

Interval = tuple[float, float]

_ALIGNED = 1e-9  # two positions are the same point when they differ by less than this share of the spacing


@dataclass(frozen=True)
class Grid:
    """A uniform Cartesian grid of any number of axes.

    With n points on [a, b], axis by axis:

    * ``node``:      x_j = a + j (b − a)/(n − 1)        both ends are points
    * ``cell``:      x_j = a + (j + ½)(b − a)/n         points are the centres of n cells
    * ``periodic``:  x_j = a + j (b − a)/n              b is a again and is not stored

    shape : points per axis; an int means one axis
    extent : (a, b) per axis; one pair, or one number b for (0, b), serves every axis; default the unit box
    centering : the rule above
    domain : where the walls are, (a, b) per axis; default `extent`. A node grid that was taken from a finer one by a
        stride that does not divide it stops short of the wall: 16 nodes at 26·j/420 have extent (0, 390/420) in
        domain (0, 1). A periodic domain is one period, which begins anywhere: points that start half a spacing in
        have extent (h/2, 1 + h/2), with or without domain (0, 1).

    Raises ValueError when an axis has fewer than one point (two for nodes), an interval is empty or not finite, or a
    domain does not hold its extent (periodic: and is not one period either).

    >>> Grid((421, 421)).coarsen(5).shape
    (85, 85)
    """

    shape: tuple[int, ...]
    extent: tuple[Interval, ...] = None  # type: ignore[assignment]  # the unit box
    centering: Centering = "node"
    domain: tuple[Interval, ...] = None  # type: ignore[assignment]  # the extent

    def __post_init__(self) -> None:
        shape = _whole_numbers(self.shape)
        if not shape:
            raise ValueError(f"shape={self.shape!r}: expected one whole number per axis, such as shape=(85, 85)")
        if self.centering not in ("node", "cell", "periodic"):
            raise ValueError(f"centering={self.centering!r}: expected 'node', 'cell' or 'periodic'")
        least = 2 if self.centering == "node" else 1
        if min(shape) < least:
            raise ValueError(f"shape={shape}: a {self.centering} grid needs at least {least} points per axis")
        extent = _intervals(self.extent if self.extent is not None else (0.0, 1.0), len(shape), "extent")
        domain = _intervals(self.domain if self.domain is not None else extent, len(shape), "domain")
        for (a, b), (left, right) in zip(extent, domain):
            slack = 1e-12 * (right - left)
            one_period = self.centering == "periodic" and abs((b - a) - (right - left)) <= slack
            if not one_period and (a < left - slack or b > right + slack):
                raise ValueError(
                    f"domain={domain} does not hold extent={extent}: the walls must lie outside the points"
                )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "extent", extent)
        object.__setattr__(self, "domain", domain)

    def __repr__(self) -> str:
        """As it could be typed, without what is the default."""
        words = [str(self.shape) if self.ndim > 1 else str(self.shape[0])]
        if self.extent != ((0.0, 1.0),) * self.ndim:
            words.append(f"extent={_one_or_each(self.extent)}")
        if self.centering != "node":
            words.append(f"centering={self.centering!r}")
        if self.domain != self.extent:
            words.append(f"domain={_one_or_each(self.domain)}")
        return f"Grid({', '.join(words)})"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def spacing(self) -> tuple[float, ...]:
        """Distance between neighbouring points, per axis."""
        return tuple((b - a) / bases.intervals(n, self.centering) for n, (a, b) in zip(self.shape, self.extent))

    @cached_property
    def axes(self) -> tuple[Grid, ...]:
        """The axes one by one, each as a grid of one axis: ``[axis.weights() for axis in grid.axes]``."""
        if self.ndim == 1:
            return (self,)
        return tuple(
            Grid((n,), (extent,), self.centering, (domain,))
            for n, extent, domain in zip(self.shape, self.extent, self.domain)
        )

    @property
    def reaches_walls(self) -> bool:
        """Whether the extent is the whole domain: from wall to wall, or one whole period."""
        return all(
            abs((b - a) - (right - left)) <= _ALIGNED * h
            if self.centering == "periodic"
            else abs(a - left) <= _ALIGNED * h and abs(b - right) <= _ALIGNED * h
            for (a, b), (left, right), h in zip(self.extent, self.domain, self.spacing)
        )

    def coordinates(self) -> tuple[np.ndarray, ...]:
        """Positions of the points, one float64 array of length n per axis."""
        return tuple(bases.points(n, self.centering, a, b) for n, (a, b) in zip(self.shape, self.extent))

    def fractions(self) -> tuple[np.ndarray, ...]:
        """Positions of the points as fractions of the domain, (x − a)/L per axis: 0 and 1 on its walls."""
        return tuple((x - left) / (right - left) for x, (left, right) in zip(self.coordinates(), self.domain))

    def meshgrid(self) -> tuple[np.ndarray, ...]:
        """Positions as fields of the grid's shape, axis 0 first (``indexing="ij"``)."""
        return tuple(np.meshgrid(*self.coordinates(), indexing="ij"))

    def weights(self) -> np.ndarray:
        """Quadrature weights w with ∫u ≈ Σ w·u over the extent: trapezoid on nodes, midpoint otherwise.

        Their sum is the measure of the extent, whatever the centering.
        """
        total = np.ones(())
        for n, (a, b) in zip(self.shape, self.extent):
            total = np.multiply.outer(total, bases.weights(n, self.centering, a, b))
        return total

    def coarsen(self, factor: int | Sequence[int]) -> Grid:
        """The nested grid with `factor` times the spacing: strides nodes and periodic points, merges cells.

        A node grid that reaches its wall must have n − 1 divisible by the factor, so that the wall stays on the grid;
        one that already stops short of it may lose trailing nodes. Raises ValueError naming the factors that fit.
        """
        factors = _per_axis(factor, self.ndim, "factor")
        shape, extent = [], []
        for axis, (n, f, (a, b), (_, wall), h) in enumerate(
            zip(self.shape, factors, self.extent, self.domain, self.spacing)
        ):
            if self.centering == "node":
                at_wall = abs(b - wall) <= _ALIGNED * h
                kept = (n - 1) // f + 1
                if (at_wall and (n - 1) % f) or kept < 2:
                    fits = [d for d in range(1, n) if (n - 1) % d == 0]
                    raise ValueError(
                        f"factor={f} does not fit {n} nodes on axis {axis}: {n} − 1 has the divisors {fits}"
                    )
                shape.append(kept)
                extent.append((a, b if (n - 1) % f == 0 else a + (kept - 1) * f * h))
            else:
                if n % f:
                    fits = [d for d in range(1, n + 1) if n % d == 0]
                    raise ValueError(f"factor={f} does not fit {n} points on axis {axis}: {n} has the divisors {fits}")
                shape.append(n // f)
                extent.append((a, b))
        return Grid(tuple(shape), tuple(extent), self.centering, self.domain)

    def strides_in(self, fine: Grid) -> tuple[int, ...] | None:
        """The factors f with ``self == fine.coarsen(f)``, or None when this grid is not nested in `fine`.

        >>> Grid((85, 85)).strides_in(Grid((421, 421)))
        (5, 5)
        >>> Grid((85, 85)).strides_in(Grid((211, 211))) is None
        True
        """
        if self.ndim != fine.ndim or self.centering != fine.centering:
            return None
        factors = tuple(round(h / g) for h, g in zip(self.spacing, fine.spacing))
        if min(factors) < 1:
            return None
        try:
            coarse = fine.coarsen(factors)
        except ValueError:
            return None
        return factors if coarse.same_points(self) else None

    def same_points(self, other: Grid) -> bool:
        """Whether both grids hold the same points in the same order, to round-off; periodic points up to whole periods.

        >>> Grid(8, (0, 1), "periodic").same_points(Grid(8, (3, 4), "periodic"))
        True
        """
        if (self.shape, self.centering) != (other.shape, other.centering):
            return False
        for (a, b), (c, d), h in zip(self.extent, other.extent, self.spacing):
            moved = round((c - a) / (b - a)) * (b - a) if self.centering == "periodic" else 0.0
            if not (abs(a + moved - c) <= _ALIGNED * h and abs(b + moved - d) <= _ALIGNED * h):
                return False
        return True

    def same_domain(self, other: Grid) -> bool:
        """Whether both grids sample functions of the same domain.

        The intervals of `domain` agree; of two periodic grids only their lengths have to, because a period begins
        anywhere.
        """
        return same_intervals(self.domain, other.domain, anywhere=self.centering == other.centering == "periodic")

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and strings for JSON; `Grid.from_dict` reads it back."""
        return {
            "shape": list(self.shape),
            "extent": [list(pair) for pair in self.extent],
            "centering": self.centering,
            "domain": [list(pair) for pair in self.domain],
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Grid:
        """The grid that `to_dict` described."""
        extent, domain = (tuple(tuple(pair) for pair in values[key]) for key in ("extent", "domain"))
        return cls(tuple(values["shape"]), extent, values["centering"], domain)


def restrict(u: Any, fine: Grid, coarse: Grid) -> Any:
    """u on a nested coarser grid: the samples themselves on nodes and periodic points, block means on cells.

    u : (..., *fine.shape)   numpy or torch
    returns : (..., *coarse.shape)   same kind

    A periodic grid may begin at any point of the finer one. Raises ValueError when `coarse` is not nested in `fine` or
    u does not live on `fine`.
    """
    tensor, restore = as_tensor(u, "u")
    check_on_grid(tensor, fine, "u")
    axes = nesting(fine, coarse)
    if axes is None:
        raise ValueError(
            f"grid {coarse.shape} ({coarse.centering}) is not nested in {fine.shape} ({fine.centering}); "
            "use sciops.resample for grids that share no points"
        )
    first = tensor.ndim - fine.ndim
    for axis, ((start, f), n, points) in enumerate(zip(axes, coarse.shape, fine.shape), start=first):
        if fine.centering == "cell":
            tensor = tensor.unflatten(axis, (n, f)).mean(axis + 1)
        else:
            index = (start + torch.arange(n, device=tensor.device) * f) % points
            tensor = tensor.index_select(axis, index)
    return restore(tensor)


def nesting(fine: Grid, coarse: Grid) -> tuple[tuple[int, int], ...] | None:
    """(first point, stride) per axis of the coarse grid's points among the fine one's, or None when it is not nested.

    The first point is 0 unless both grids are periodic, where a coarse period may begin at any fine point.
    """
    if coarse.ndim != fine.ndim or coarse.centering != fine.centering:
        return None
    starts, extent = (0,) * fine.ndim, coarse.extent
    if fine.centering == "periodic":
        starts = tuple(round((c - a) / h) for (a, _), (c, _), h in zip(fine.extent, coarse.extent, fine.spacing))
        extent = tuple((c - k * h, d - k * h) for (c, d), k, h in zip(extent, starts, fine.spacing))
    strides = Grid(coarse.shape, extent, coarse.centering).strides_in(fine)
    return None if strides is None else tuple((k % n, f) for k, n, f in zip(starts, fine.shape, strides))


def same_intervals(p: Sequence[Interval], q: Sequence[Interval], *, anywhere: bool = False) -> bool:
    """Whether the intervals of every axis agree to a billionth of their length; with `anywhere` only their lengths."""
    if len(p) != len(q):
        return False
    for (a, b), (c, d) in zip(p, q):
        apart = ((b - a) - (d - c),) if anywhere else (a - c, b - d)
        if max(map(abs, apart)) > 1e-9 * (b - a):
            return False
    return True


def check_on_grid(u: Any, grid: Grid, name: str = "u") -> None:
    """Raises ValueError, naming both shapes, unless the last axes of u are the grid; TypeError when it is no Grid."""
    if not isinstance(grid, Grid):
        raise TypeError(f"grid={grid!r}: expected a Grid, such as Grid((85, 85))")
    if tuple(u.shape[-grid.ndim :]) != grid.shape:
        raise ValueError(f"{name} has shape {tuple(u.shape)}; expected its last axes to be the grid {grid.shape}")


def _one_or_each(intervals: tuple[Interval, ...]) -> Interval | tuple[Interval, ...]:
    """The one interval of all axes, where they have the same."""
    return intervals[0] if len(set(intervals)) == 1 else intervals


def _whole_numbers(value: Any) -> tuple[int, ...]:
    """One whole number or a sequence of them as a tuple of int; empty for anything else."""
    array = np.atleast_1d(np.asarray(value))
    if array.ndim != 1 or array.dtype.kind not in "iuf" or (array != np.round(array)).any() or np.isinf(array).any():
        return ()
    return tuple(int(v) for v in array)


def _per_axis(value: int | Sequence[int], ndim: int, name: str) -> tuple[int, ...]:
    values = _whole_numbers(value)
    values = values * ndim if np.ndim(value) == 0 else values
    if len(values) != ndim or min(values) < 1:
        raise ValueError(f"{name}={value!r}: expected a positive whole number, or one for each of the {ndim} axes")
    return values


def _intervals(value: Any, ndim: int, name: str) -> tuple[Interval, ...]:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty((0,))
    if array.ndim == 0:
        array = np.array([0.0, float(array)])
    if array.shape == (2,):
        array = np.tile(array, (ndim, 1))
    if array.shape != (ndim, 2):
        raise ValueError(f"{name}={value!r}: expected (a, b), or one such pair for each of the {ndim} axes")
    if not np.isfinite(array).all() or (array[:, 0] >= array[:, 1]).any():
        raise ValueError(f"{name}={value!r}: expected finite a < b on every axis")
    return tuple((float(a), float(b)) for a, b in array)
