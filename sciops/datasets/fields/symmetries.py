"""The symmetries of the problem that a data set holds: by its equation, its walls, its forcing and its channels."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sciops.datasets.conventions import SPACE, grid_of, parameters_of
from sciops.datasets.fields.equation_symmetries import EQUATION_SYMMETRIES, EquationSymmetry
from sciops.datasets.fields.stated_walls import sides_of
from sciops.grids import Grid
from sciops.symmetry import Symmetry

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Statement", "kinds_of", "statement", "times"]

_DECLARE = "declare the kinds of all channels, kinds={'%s': 'scalar', …} (--kinds %s=scalar …), to vouch for it"
_BLOCK = 64  # samples that are compared at a time


@dataclass(frozen=True)
class Statement:
    """What a data set states of its symmetries, before the fields that are not channels are looked at.

    symmetry : as far as names, walls and constants decide it
    hidden : fields that the solution depends on and the model is not given, name → kind
    grid, path, resolution : where these fields are; `given` holds them where there is no file
    """

    symmetry: Symmetry
    grid: Grid
    hidden: Mapping[str, str] = field(default_factory=dict)
    path: str | os.PathLike | None = None
    resolution: Any = None
    given: xr.Dataset | None = None

    def of(self, samples: np.ndarray) -> Symmetry:
        """The symmetries of the problem for these samples: elements that change a hidden field are not among them."""
        if not self.hidden or self.symmetry.unknown:
            return self.symmetry
        if self.given is not None:
            return self._kept(self.given, samples)
        from sciops.datasets.formats import open_dataset

        with open_dataset(self.path, self.resolution) as source:
            return self._kept(source, samples)

    def _kept(self, source: xr.Dataset, samples: np.ndarray) -> Symmetry:
        space, names = SPACE[: self.grid.ndim], list(self.hidden)
        result, label = self.symmetry, " and ".join(names)
        shared = all("sample" not in source[name].dims for name in names)
        blocks = [None] if shared else [samples[i : i + _BLOCK] for i in range(0, len(samples), _BLOCK)]
        for block in blocks:
            parts = []
            for name in names:
                values = source[name]
                values = values if "sample" not in values.dims else values.isel(sample=block)
                values = values if "sample" in values.dims else values.expand_dims(sample=1 if shared else len(block))
                array = np.asarray(values.transpose("sample", *space).values)
                parts.append(torch.from_numpy(array.astype(np.float64)))
            result = result.kept_by(torch.stack(parts, 1), tuple(self.hidden.values()), self.grid, label)
        return result


def statement(
    source: xr.Dataset,
    x: Sequence[str],
    y: Sequence[str],
    *,
    names: Sequence[str],
    grid: Grid,
    kinds: Mapping[str, str] | None = None,
    path: Any = None,
    resolution: Any = None,
) -> Statement:
    """What an opened data set states of the symmetries of a map between its variables.

    x, y : kinds of the channels, from `kinds_of` and `times`
    names : the variables and constants that are channels
    kinds : those the user declares, name → kind; a variable's attribute ``kind`` declares it, too. Where every channel
        is declared, the user vouches for what the file does not state: an equation that is not known, its walls and its
        forcing. What the file states still counts
    """
    about = EQUATION_SYMMETRIES.get(str(source.attrs.get("equation", "unknown")))
    about = None if about is None or source.attrs.get("layout") in about.layouts else about
    vouched = bool(names) and all(_declared(source, name, kinds) for name in names)
    unknown = _unknown(source, about, grid, names, vouched)
    walls, unstated = sides_of(source.attrs, grid)
    if unstated and not vouched and not (about is not None and about.zero_walls) and grid.centering != "periodic":
        unknown = unknown or f"the file does not state its walls; {_declare(names)}"
    symmetry = Symmetry(x, y, walls, _vectors(source, about, names, grid), unknown=unknown)
    symmetry = _forced(symmetry, source, about, names, grid, vouched)
    causes = () if about is None else about.causes
    hidden = {name: about.kinds[name] for name in causes if name in source.data_vars and name not in names}
    space = set(SPACE[: grid.ndim])
    if any(set(source[name].dims) - {"sample"} != space for name in hidden):
        symmetry = replace(symmetry, unknown=symmetry.unknown or f"{', '.join(hidden)} do not lie on the grid")
    given = source[list(hidden)] if hidden and path is None else None
    return Statement(symmetry, grid, hidden, path, resolution, given)


def kinds_of(source: xr.Dataset, names: Sequence[str], declared: Mapping[str, str] | None) -> tuple[str, ...]:
    """The kind of each variable or constant: as declared here or by its attribute ``kind``, as the equation has it, as
    its attributes ``part_of`` and ``component`` say, else unknown."""
    about = EQUATION_SYMMETRIES.get(str(source.attrs.get("equation", "unknown")))
    if about is not None and source.attrs.get("layout") in about.layouts:
        about = None
    found = []
    for name in names:
        attrs, own = source[name].attrs if name in source.variables else {}, _declared(source, name, declared)
        if own:
            found.append(own)
        elif about is not None and name in about.kinds:
            found.append(about.kinds[name])
        elif name == "time":
            found.append("scalar")
        elif isinstance(attrs.get("part_of"), str) and isinstance(attrs.get("component"), str):
            found.append(f"{attrs['part_of']}:{attrs['component']}")
        else:
            found.append(f"unknown:{name}")
    return tuple(found)


def check_declared(declared: Mapping[str, str] | None, names: Sequence[str]) -> None:
    """Raises ValueError for kinds of variables that are not channels."""
    wrong = [name for name in declared or {} if name not in names]
    if wrong:
        raise ValueError(f"kinds has {wrong[0]!r}: expected some of the channels, {', '.join(map(str, names))}")


def times(kinds: Sequence[str], count: int, *, first: int = 0) -> tuple[str, ...]:
    """The kinds of `count` frames one after another: the components of a vector belong together within a frame."""
    found = []
    for k in range(first, first + count):
        for kind in kinds:
            name, colon, index = kind.partition(":")
            component = bool(colon) and name != "unknown"
            found.append(f"{name}[{k}]:{index}" if component else kind)
    return tuple(found)


def _declared(source: xr.Dataset, name: str, declared: Mapping[str, str] | None) -> str | None:
    """The kind that the user declares, here or by an attribute of the variable."""
    if declared and name in declared:
        return declared[name]
    return source[name].attrs.get("kind") if name in source.variables else None


def _unknown(
    source: xr.Dataset, about: EquationSymmetry | None, grid: Grid, names: Sequence[str], vouched: bool
) -> str:
    """Why nothing can be known of the problem; "" where something is."""
    attrs = source.attrs
    inside = [str(name) for name in source.variables if str(name).startswith(("mask_", "values_"))]
    if inside:
        return f"what the file states inside the box or on its walls ({inside[0]}) is not compared"
    if attrs.get("grid_type", "cartesian") != "cartesian":
        return f"the grid is {attrs['grid_type']}: exchanging or mirroring its axes is no symmetry of space"
    if "no_grid" in attrs:
        return "the data set has no grid"
    for name in names:
        own = source[name].attrs.get("grid") if name in source.variables else None
        if own is not None and not grid_of(source, name).same_points(grid):
            return f"{name} lies on a grid of its own (staggered), which an exchange or a mirror image would move"
    if vouched:
        return ""
    equation = attrs.get("equation", "unknown")
    if about is None:
        return f"the symmetries of the equation ({equation}) are not known; {_declare(names)}"
    if about.ndim not in (None, grid.ndim):
        return f"{equation} is known with {about.ndim} axes, the grid has {grid.ndim}; {_declare(names)}"
    return ""


def _vectors(
    source: xr.Dataset, about: EquationSymmetry | None, names: Sequence[str], grid: Grid
) -> dict[str, tuple[float, ...]]:
    """Constants with a direction that are not channels; 1 along their axis where they differ by sample."""
    found: dict[str, tuple[float, ...]] = {}
    for name, (axis, default) in (about.directions if about is not None else {}).items():
        if name in names or SPACE.index(axis) >= grid.ndim:
            continue
        size = parameters_of(source).get(name, default)
        if name in source.variables:
            size = float(np.asarray(source[name].values).any())
        if size:
            found[name] = tuple(size * (letter == axis) for letter in SPACE[: grid.ndim])
    return found


def _forced(
    symmetry: Symmetry,
    source: xr.Dataset,
    about: EquationSymmetry | None,
    names: Sequence[str],
    grid: Grid,
    vouched: bool,
) -> Symmetry:
    """The symmetry without the elements that change a forcing that the file names."""
    stated, kind = source.attrs.get("forcing"), "scalar" if about is None else about.kinds.get("f", "scalar")
    carried = "f" in names or "f" in source.data_vars
    if stated is None:
        if about is not None and about.forced and not (carried or vouched):
            return replace(symmetry, unknown=symmetry.unknown or f"the forcing is not stated; {_declare(names)}")
        return symmetry
    if carried or stated == "none" or (not isinstance(stated, str) and (kind == "scalar" or float(stated) == 0)):
        return symmetry
    values = _forcing(stated, grid)
    if values is None:
        why = f"it is not known how the forcing ({stated}) changes; {_declare(names)}"
        return symmetry if vouched else replace(symmetry, unknown=symmetry.unknown or why)
    return symmetry.kept_by(torch.from_numpy(values)[None, None], (kind,), grid, f"the forcing ({stated})")


def _forcing(stated: Any, grid: Grid) -> np.ndarray | None:
    """The forcing of the vorticity that our generator names in a file, on the grid; None for other words."""
    from sciops.pde import navier_stokes

    if not isinstance(stated, str):
        return np.full(grid.shape, float(stated))
    waves = re.fullmatch(r"kolmogorov, (\d+) waves along y", stated)
    if waves:
        return navier_stokes.kolmogorov_forcing(grid, k=int(waves[1]))
    return navier_stokes.li2020_forcing(grid) if stated == "li2020" else None


def _declare(names: Sequence[str]) -> str:
    first = str(names[0]) if names else "a"
    return _DECLARE % (first, first)
