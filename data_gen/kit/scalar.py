"""Generators of one scalar equation on a periodic box: its module in `sciops.pde` and its constants are all it adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from data_gen.kit.coefficients import Coefficient
from data_gen.kit.configuration import grids_of
from data_gen.kit.evolution import SteppedConfig, evolution_recipe, trajectories
from data_gen.kit.generation import generate_samples
from data_gen.kit.initial_fields import initial_fields
from data_gen.kit.ranges import Ranges
from sciops.grids import Grid
from sciops.pde.evolution import Trajectory

_STATE = {"u": "solution"}


def generate_scalar(
    config: Any,
    equation: ModuleType,
    make: Callable[[Any, Ranges], Mapping[str, np.ndarray]],
    constants: Sequence[Coefficient] = (),
) -> Path:
    """Generates the file of a scalar equation; `make` is the generator's own and calls `scalar_samples`."""
    recipe = evolution_recipe(
        config,
        equation=equation.__name__.rpartition(".")[2],
        grids=_grids(config),
        make=make,
        state=_STATE,
        parameters={name: value for constant in constants for name, value in constant.parameters.items()},
        by_sample={name: about for constant in constants for name, about in constant.variables.items()},
    )
    return generate_samples(config, recipe)


def scalar_samples(
    config: Any,
    equation: ModuleType,
    ranges: Ranges,
    constants: Sequence[Coefficient] = (),
    *,
    law: Callable[[Any, Grid, Ranges], np.ndarray] = initial_fields,
) -> dict[str, np.ndarray]:
    """The samples in `ranges` on every grid, by ``equation.solve`` with the constants as arguments of their names.

    Parameters
    ----------
    config
        Both an `InitialFields` and an `EvolutionConfig`, with the ``length`` of the box and, unless 1, its ``axes``.
    law
        (config, grid, ranges) → initial fields (samples, *grid).
    """
    options: dict[str, Any] = {}
    if isinstance(config, SteppedConfig):
        options = {"dt": config.dt, "order": config.order, "estimate": config.estimate, "on_failure": "flag"}

    def solve(u0: Any, grid: Grid, times: np.ndarray, numbers: np.ndarray) -> Trajectory:
        values = {constant.name: constant.values(config.seed, numbers) for constant in constants}
        return equation.solve(u0, grid, times=times, **values, **options)

    def by_sample(numbers: np.ndarray) -> dict[str, np.ndarray]:
        return {name: v for constant in constants for name, v in constant.by_sample(config.seed, numbers).items()}

    grids, law = _grids(config), partial(law, config)
    return trajectories(config, grids, ranges, state=_STATE, law=law, solve=solve, by_sample=by_sample)


def _grids(config: Any) -> dict[str, Grid]:
    return grids_of(config, getattr(config, "axes", 1), extent=config.length, least=4)
