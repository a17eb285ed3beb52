"""What a planned output holds, whatever it is stored in: dimensions, coordinates, attributes of root and groups."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciops.datasets.conventions import SPLIT_ATTRS, SPLITS
from sciops.datasets.native.layout import coordinates_of
from sciops.datasets.native.parts import Plan
from sciops.datasets.native.schema import SCHEMA


@dataclass(frozen=True)
class Group:
    """One resolution of the output.

    sizes : dimension → length
    variables : name → (dimensions, dtype, attributes), of all it holds
    fixed : values of those that no part brings: coordinates, numbers of the samples, split
    attrs : attributes of the group
    """

    name: str
    sizes: Mapping[str, int]
    variables: Mapping[str, tuple[tuple[str, ...], np.dtype, Mapping[str, Any]]]
    fixed: Mapping[str, np.ndarray]
    attrs: Mapping[str, Any]


def root_attributes_of(plan: Plan) -> dict[str, Any]:
    """Attributes of the root, all but the date."""
    root = {"sciops_schema": SCHEMA, "layout": "native", "Conventions": "CF-1.11", **plan.attrs}
    root |= {"config": json.dumps(plan.config), "solver": plan.made_with}
    return root | {"splits": json.dumps({name: list(bounds) for name, bounds in plan.splits.items()})}


def groups_of(plan: Plan, arrays: Mapping[str, np.ndarray]) -> list[Group]:
    """The groups of the output, given the arrays of any part ("r85/a" → (samples of the part, 85, 85)).

    Raises ValueError naming the variable whose group, rank, shape or type does not fit the plan.
    """
    split = np.zeros(plan.samples, dtype=np.int8)
    for name, (start, stop) in plan.splits.items():
        split[start:stop] = SPLITS.index(name)
    strange = [key for key in arrays if key.partition("/")[0] not in plan.grids or key.count("/") != 1]
    if strange:
        raise ValueError(f"made {strange[0]!r}: expected a variable of {', '.join(f'{g}/' for g in plan.grids)}")
    groups = []
    for group, grid in plan.grids.items():
        axes = coordinates_of(grid)
        sizes = {"sample": plan.samples, **dict(zip(axes, grid.shape))}
        fixed = {"sample": (np.arange(plan.samples), {"long_name": "number of the sample"})}
        fixed |= {axis: (points, about) for axis, (_, points, about) in axes.items()}
        for name, (values, about) in plan.coordinates.items():
            fixed[name] = (np.asarray(values), about)
            sizes[name] = len(fixed[name][0])
        specs = {name: ((name,), values.dtype, about) for name, (values, about) in fixed.items()}
        fixed["split"] = (split, SPLIT_ATTRS)
        for key, values in arrays.items():
            if key.startswith(group + "/"):
                name = key.removeprefix(group + "/")
                if name in fixed:
                    raise ValueError(f"made {key!r}: that name belongs to the file, take another")
                dims = _dims(plan, key, values, tuple(axes), sizes)
                specs[name] = (dims, values.dtype, plan.variables.get(name, {}))
        specs["split"] = (("sample",), split.dtype, SPLIT_ATTRS)
        about = {"layout": "native", "grid": json.dumps(grid.to_dict()), **plan.group_attrs}
        groups.append(Group(group, sizes, specs, {name: values for name, (values, _) in fixed.items()}, about))
    return groups


def _dims(plan: Plan, key: str, values: np.ndarray, axes: tuple[str, ...], sizes: dict[str, int]) -> tuple[str, ...]:
    name = key.partition("/")[2]
    after = tuple(plan.dims.get(name, axes[: values.ndim - 1]))
    if values.dtype.kind not in "biuf":
        raise ValueError(f"made {key} of dtype {values.dtype}: a native file holds real numbers and booleans")
    shape = values.shape[1:]
    if len(after) != len(shape) or any(sizes.setdefault(dim, n) != n for dim, n in zip(after, shape)):
        expected = ", ".join(f"{dim} {sizes[dim]}" if dim in sizes else dim for dim in after)
        raise ValueError(f"made {key} of shape {values.shape}: expected (samples, {expected})")
    return ("sample", *after)
