"""Two-phase coefficients whose values a file does not state: saying them, or finding them by solving the equation."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import grid_of, split_indices
from sciops.datasets.order import in_order
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

    from sciops.datasets.fields.torch_data import FieldDataset, TensorFields

CONTRASTS = tuple(2.0**k for k in range(-6, 9))
_GOLDEN = (math.sqrt(5) - 1) / 2
_POINTS = 2**21  # largest number of grid points that are solved per contrast, unless `samples` is given


@dataclass(frozen=True)
class TwoPhaseFit:
    """What `fit_two_phase` found: u ≈ scale · solve(a), with a = high where the indicator is 1 and low elsewhere.

    contrast : high/low, the best of those tried
    low, high : 1 and `contrast`
    scale : the factor on the solution, one for all samples
    relative_l2, relative_mse : means over the samples of ‖scale·solve(a) − u‖/‖u‖ and of its square
    table : contrast → mean relative L2, every contrast that was tried, in order
    errors : (samples,) relative L2 of each sample at the best contrast
    samples : how many fields were used
    marks : what the file writes for low and high, (0, 1) for an indicator
    tol : relative residual of the solves
    """

    contrast: float
    low: float
    high: float
    scale: float
    relative_l2: float
    relative_mse: float
    samples: int
    table: dict[float, float]
    errors: np.ndarray = field(repr=False)
    marks: tuple[float, float] = (0.0, 1.0)
    tol: float = 1e-6

    @property
    def values(self) -> tuple[float, float]:
        """(low, high) such that u itself solves the equation, without a scale: for `with_phases`."""
        return self.low / self.scale, self.high / self.scale

    def solve(self, dataset: Any) -> np.ndarray:
        """scale · solve(a) on the data set's own grid: the prediction that learns nothing but two numbers.

        dataset : as in `fit_two_phase`, on any grid; every sample is solved
        returns : (samples, nx, ny) float64
        """
        with _opened(dataset) as source:
            a = source.read("a", np.arange(source.count)).astype(np.float64)
        strange = ~np.isin(a, self.marks)
        if strange.any():
            raise ValueError(f"the coefficient takes the value {a[strange][0]:g}; the fit knows {self.marks}")
        return self.scale * _solve(a == self.marks[1], self.contrast, source.grid, source.forcing, self.tol)

    def __str__(self) -> str:
        rows = "".join(f"\n  {contrast:10.4g}   {error:.4f}" for contrast, error in self.table.items())
        return (
            f"contrast {self.contrast:.4g}, scale {self.scale:.6g} on {self.samples} fields: mean relative L2 "
            f"{self.relative_l2:.4f}, mean relative MSE {self.relative_mse:.5f}\n    contrast   mean relative L2{rows}"
        )


def with_phases(dataset: xr.Dataset, low: float, high: float) -> xr.Dataset:
    """The data set with its indicator replaced by coefficient values: `high` in the phase marked 1, `low` in the other.

    Raises ValueError when the coefficient is not an indicator, or a value is not positive and finite.
    """
    import xarray as xr

    if dataset.attrs.get("coefficient") != "indicator":
        raise ValueError("the data set holds coefficient values already: with_phases is for indicators")
    for name, value in (("low", low), ("high", high)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}={value}: expected a positive number, such as with_phases(dataset, 3.0, 12.0)")
    marked = dataset["a"]
    about = {key: value for key, value in marked.attrs.items() if key != "comment"}
    values = (
        xr.where(marked > 0.5, float(high), float(low), keep_attrs=False).transpose(*marked.dims).assign_attrs(about)
    )
    return dataset.assign(a=values).assign_attrs(coefficient="values", phases=f"{low} where 0, {high} where 1")


def fit_two_phase(
    dataset: xr.Dataset | FieldDataset | TensorFields | str | os.PathLike,
    *,
    contrasts: Sequence[float] = CONTRASTS,
    samples: int | Sequence[int] | None = None,
    precision: float = 0.01,
    tol: float = 1e-6,
) -> TwoPhaseFit:
    """The contrast c and scale s that minimise the mean of ‖s·solve(a_c) − u‖ / ‖u‖ over training fields.

    The equation −∇·(a∇u) = f is linear in 1/a, so that of two phase values only their ratio c shapes u; the rest is
    one scale. For each c the fields are solved on the data set's own grid, with u = 0 at the wall of its domain where
    the grid stops short, and s minimises Σ ‖s·solve − u‖² / ‖u‖². The best of `contrasts` is refined between its
    neighbours by golden-section search in log c.

    dataset : an opened data set, a path (both: the training split alone, when one is stored), or a torch data set such
        as ``load_splits(path).train``; the coefficient must have two values, the larger one marks the phase `high`
    contrasts : high/low to try first, increasing; values below 1 are for files that mark the less permeable phase
    samples : how many fields, or which; default the first ones that hold 2 million points together, 256 at most
    precision : relative width at which the search in c ends; 0 keeps to `contrasts`
    tol : relative residual of the solves

    On coarse grids c also absorbs the error of the discretisation (which nodes an interface lies between is all that
    the file tells): fit on the finest grid there is, and read `table` for how flat the minimum is.

    Raises ValueError for a coefficient of one or more than two values, and where no fields are left.
    """
    contrasts = sorted(float(c) for c in contrasts)
    if not contrasts or contrasts[0] <= 0 or not math.isfinite(contrasts[-1]):
        raise ValueError(f"contrasts={contrasts}: expected positive numbers")
    with _opened(dataset) as source:
        grid, forcing = source.grid, source.forcing
        chosen = _chosen(source, samples)
        a, u = source.read("a", chosen).astype(np.float64), source.read("u", chosen).astype(np.float64)
    # tiny and huge solutions in units of their largest value, since their squares leave float64
    unit = np.abs(u, where=np.isfinite(u), out=np.zeros_like(u)).max(initial=0.0) or 1.0
    u = u / unit
    size = np.square(u).sum((1, 2))
    kept = np.isfinite(size) & (size > 0) & np.isfinite(a).all((1, 2))
    if not kept.any():
        raise ValueError(
            "no field with finite values and a solution that is not zero: sciops.validate names the faults"
        )
    u, size = u[kept], size[kept]
    marks = _marks(a[kept])
    indicator = a[kept] == marks[1]
    tried: dict[float, tuple[float, float, np.ndarray]] = {}

    def error(contrast: float) -> float:
        if contrast not in tried:
            solved = _solve(indicator, contrast, grid, forcing, tol)
            own = np.abs(solved).max() or 1.0
            solved = solved / own
            along, square = (solved * u).sum((1, 2)) / size, np.square(solved).sum((1, 2)) / size
            scale = along.sum() / square.sum()
            errors = np.sqrt(np.square(scale * solved - u).sum((1, 2)) / size)
            tried[contrast] = float(errors.mean()), float(scale) * (unit / own), errors
        return tried[contrast][0]

    best = min(contrasts, key=error)
    place = contrasts.index(best)
    low = contrasts[max(place - 1, 0)]
    high = contrasts[min(place + 1, len(contrasts) - 1)]
    if precision > 0 and low < high:
        _golden_section(error, low, high, precision)
    best = min(tried, key=error)
    mean, scale, errors = tried[best]
    return TwoPhaseFit(
        contrast=best,
        low=1.0,
        high=best,
        scale=scale,
        relative_l2=mean,
        relative_mse=float(np.square(errors).mean()),
        samples=len(u),
        table={contrast: tried[contrast][0] for contrast in sorted(tried)},
        errors=errors,
        marks=marks,
        tol=tol,
    )


def coarse_solution(dataset: Any, fit: TwoPhaseFit) -> np.ndarray:
    """`fit.solve(dataset)`: the untrained solve on the data set's own grid, (samples, nx, ny)."""
    return fit.solve(dataset)


def _golden_section(error: Any, low: float, high: float, precision: float) -> None:
    left, right = math.log(low), math.log(high)
    inner = right - _GOLDEN * (right - left)
    outer = left + _GOLDEN * (right - left)
    while right - left > precision:
        if error(math.exp(inner)) <= error(math.exp(outer)):
            right, outer = outer, inner
            inner = right - _GOLDEN * (right - left)
        else:
            left, inner = inner, outer
            outer = left + _GOLDEN * (right - left)


def _solve(indicator: np.ndarray, contrast: float, grid: Grid, forcing: float, tol: float) -> np.ndarray:
    from sciops.pde import darcy

    return darcy.solve(np.where(indicator, contrast, 1.0), grid, forcing=forcing, tol=tol).u


@dataclass(frozen=True)
class _Source:
    """A data set of either kind, read by sample numbers."""

    grid: Grid
    forcing: float
    training: np.ndarray
    count: int
    read: Callable[[str, np.ndarray], np.ndarray]


@contextlib.contextmanager
def _opened(dataset: Any) -> Iterator[_Source]:
    import xarray as xr

    if isinstance(dataset, (str, os.PathLike)):
        from sciops.datasets.formats import open_dataset

        with open_dataset(dataset) as opened:
            yield _from_xarray(opened)
    elif isinstance(dataset, xr.Dataset):
        yield _from_xarray(in_order(dataset))
    else:
        yield _from_torch(dataset)


def _from_xarray(dataset: xr.Dataset) -> _Source:
    def read(name: str, samples: np.ndarray) -> np.ndarray:
        if name not in dataset:
            raise ValueError(f"no field {name!r} in the data set: it holds {', '.join(map(str, dataset.data_vars))}")
        return np.asarray(dataset[name].isel(sample=samples).values)

    count = dataset.sizes["sample"]
    training = split_indices(dataset, "train") if "split" in dataset else np.arange(count)
    return _Source(grid_of(dataset), float(dataset.attrs.get("forcing", 1.0)), training, count, read)


def _from_torch(dataset: Any) -> _Source:
    def read(name: str, samples: np.ndarray) -> np.ndarray:
        tensor = dataset.batch(samples)["x" if name == "a" else "y"]
        if tensor.shape[1] != 1:
            raise ValueError(f"the data set has {tensor.shape[1]} channels for {name}: expected the coefficient alone")
        return tensor[:, 0].cpu().numpy()

    forcing = float(getattr(dataset, "attrs", {}).get("forcing", 1.0))
    return _Source(dataset.grid, forcing, np.arange(len(dataset)), len(dataset), read)


def _chosen(source: _Source, samples: int | Sequence[int] | None) -> np.ndarray:
    if samples is None:
        samples = max(1, min(256, _POINTS // source.grid.size))
    if isinstance(samples, (int, np.integer)):
        return source.training[:samples]
    return source.training[np.asarray(samples)]


def _marks(a: np.ndarray) -> tuple[float, float]:
    """The two values a coefficient takes."""
    values = np.unique(a)
    if len(values) != 2:
        shown = ", ".join(f"{v:g}" for v in values[:4])
        raise ValueError(
            f"the coefficient takes {len(values)} values ({shown}{', …' if len(values) > 4 else ''}): fit_two_phase "
            "needs two"
        )
    return float(values[0]), float(values[1])
