"""Fields in another precision: cast piece by piece while they are written, with an account of what that loses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.core import indexing

from sciops.datasets.conventions import SPACE
from sciops.datasets.lazy import LazyArray

if TYPE_CHECKING:
    import xarray as xr

PRECISIONS = ("float32", "float64")


class Casting:
    """Casts fields to one of `PRECISIONS` and remembers what changed.

    Fields are the variables over space that hold numbers; times, positions, constants and what is known of each sample
    stay exact, and so do masks.

    Raises ValueError for another precision and, when numbers are read, for one beyond the range of `dtype`.
    """

    def __init__(self, dtype: str) -> None:
        if str(dtype) not in PRECISIONS:
            raise ValueError(f"dtype={str(dtype)!r}: expected one of {', '.join(PRECISIONS)}")
        self.dtype = np.dtype(str(dtype))
        self._before: dict[str, np.dtype] = {}
        self._change: dict[str, float] = {}  # largest relative change of a normal number
        self._small: dict[str, float] = {}  # largest number that lost more, being next to nothing

    def apply(self, dataset: xr.Dataset) -> xr.Dataset:
        """The data set with its fields cast when they are read."""
        import xarray as xr

        cast = {}
        for name, field in dataset.data_vars.items():
            wanted = set(field.dims) & set(SPACE) and field.dtype.kind in "iuf" and "bc_type" not in field.attrs
            if wanted and field.dtype != self.dtype:
                self._before[str(name)] = field.dtype
                array = indexing.LazilyIndexedArray(_CastArray(field.variable, str(name), self))
                cast[name] = xr.Variable(field.dims, array, field.attrs)
        return dataset.assign(cast)

    def cast(self, exact: np.ndarray, name: str) -> np.ndarray:
        """Numbers of the field `name` in the new precision."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values = exact.astype(self.dtype)
            change = np.abs(values - exact)
        if np.can_cast(exact.dtype, self.dtype, "safe"):
            return values
        finite = np.isfinite(exact)
        beyond = finite & ~np.isfinite(values)
        if beyond.any():
            most = float(np.finfo(self.dtype).max)
            raise ValueError(
                f"{name} holds {exact[beyond].flat[0]:g}, beyond the largest {self.dtype} ({most:.3g}): "
                f"scale the field first, or keep {exact.dtype}"
            )
        size = np.abs(exact, dtype=np.float64)
        normal = finite & (size >= np.finfo(self.dtype).tiny)
        relative = float(np.max(np.divide(change, size, where=normal, out=np.zeros_like(size)), initial=0.0))
        small = float(np.max(size, where=finite & ~normal & (change > 0), initial=0.0))
        self._change[name] = max(relative, self._change.get(name, 0.0))
        self._small[name] = max(small, self._small.get(name, 0.0))
        return values

    def account(self) -> list[str]:
        """A line for each field that was cast: what of it was read so far has lost."""
        lines = []
        for name, before in self._before.items():
            change, small = self._change.get(name, 0.0), self._small.get(name, 0.0)
            said = f"rounded by at most {change:.1e} of a number" if change else "no number changed"
            if small:
                said += f"; numbers up to {small:.1e} are less than {self.dtype} resolves and lost more, or became 0"
            lines.append(f"{name}: {before} to {self.dtype}, {said}")
        return lines


class _CastArray(LazyArray):
    """A variable cast when it is read."""

    def __init__(self, variable: xr.Variable, name: str, casting: Casting) -> None:
        self.variable, self.name, self.casting = variable, name, casting
        self.shape, self.dtype = variable.shape, casting.dtype

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        return self.casting.cast(np.asarray(self.variable[key].values), self.name)
