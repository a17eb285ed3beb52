"""What the generators of evolution equations share: when to record, the finer grid of the solve, and what is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch

from data_gen.kit.configuration import GenerationConfig, check_numbers, listed
from data_gen.kit.generation import Recipe, on_every_grid
from data_gen.kit.ranges import Ranges, numbers_of
from data_gen.kit.solving import in_groups
from sciops.grids import Grid, restrict
from sciops.pde.evolution import Trajectory

STATUS = ("ok", "failed")  # stored as the numbers 0, 1
STATUS_ATTRS = {
    "long_name": "outcome of the solve",
    "flag_values": np.arange(len(STATUS), dtype=np.int8),
    "flag_meanings": " ".join(STATUS),
}
ERROR_ATTRS = {"long_name": "estimated relative error of the time stepping at the last time", "units": "1"}
_AXES = ("x", "y", "z")
_LEAST_POINTS = 2**14  # of a block: threads that step less than this spend their time waiting for the interpreter
_MOST_SAMPLES = 64  # of a block
Law = Callable[[Grid, Ranges], np.ndarray]
Solve = Callable[[Any, Grid, np.ndarray, np.ndarray], Trajectory]


@dataclass(frozen=True)
class EvolutionConfig(GenerationConfig):
    """Options of every evolution equation beside those of `GenerationConfig`."""

    labels: Literal["nested", "solved"] = "nested"
    """nested: solved on solved_on points and taken at those of every group. solved: the same initial field solved on
    every group's own grid."""
    solved_on: int | None = None
    """Points per axis of the solve of nested labels, a multiple of every resolution; default the finest of them."""
    warm_up: float = 0.0
    """Time that passes before the record begins; after it, chaotic solutions on different grids are unrelated."""
    duration: float = 1.0
    """Time from the first record to the last."""
    every: float = 0.1
    """Time between records, the first of them included."""


@dataclass(frozen=True)
class SteppedConfig(EvolutionConfig):
    """An evolution that is integrated step by step."""

    dt: float | None = None
    """Largest step; default the solver's own, which follows from the grid."""
    order: int = 4
    """Order of the exponential Runge–Kutta method, 1 to 4."""
    estimate: bool = False
    """Estimate each sample's error of time stepping by a second run of twice the step, for half as much time again."""


def records(config: EvolutionConfig) -> np.ndarray:
    """The recorded times, from 0 on whatever the warm-up."""
    return np.linspace(0.0, config.duration, round(config.duration / config.every) + 1)


def fine_grid(config: EvolutionConfig, grid: Grid, grids: Mapping[str, Grid]) -> Grid:
    """The periodic grid on which the group of `grid` is solved."""
    if config.labels == "solved":
        return grid
    return Grid((_solved_on(config, grids),) * grid.ndim, grid.extent, "periodic")


def evolution_recipe(
    config: EvolutionConfig,
    *,
    equation: str,
    grids: Mapping[str, Grid],
    make: Callable[[Any, Ranges], Mapping[str, np.ndarray]],
    state: Mapping[str, str],
    parameters: Mapping[str, float],
    by_sample: Mapping[str, str] | None = None,
) -> Recipe:
    """The recipe of a periodic evolution equation that lives in the module of its name.

    Parameters
    ----------
    state
        Variable → what it is, for the variables that evolve together.
    parameters, by_sample
        Constants of all samples, and name → what it is for those that differ.

    Raises
    ------
    ValueError
        Times, steps or the grid of the solve are invalid; the message names the flag.
    """
    check_evolution(config, grids)
    units = {"units": "1"}
    variables: dict[str, dict[str, Any]] = {
        name: {"long_name": text, **units} for name, text in {**state, **(by_sample or {})}.items()
    }
    variables["seed"] = {"long_name": "seed of the initial field; with the number of the sample it gives it again"}
    if isinstance(config, SteppedConfig):
        variables |= {"status": STATUS_ATTRS} | ({"error": ERROR_ATTRS} if config.estimate else {})
    space = _AXES[: next(iter(grids.values())).ndim]
    on_cpu = config.device == "cpu"
    return Recipe(
        equation=equation,
        grids=grids,
        make=make,
        variables=variables,
        dims={name: ("time", *space) for name in state},
        coordinates=time_of(config),
        attrs={
            "task": "trajectory",
            "state": list(state),
            "parameters": dict(parameters),
            "boundary": dict.fromkeys(space, "periodic"),
            "warm_up": config.warm_up,
            "solved_on": _solved_on(config, grids) if config.labels == "nested" else "its own grid",
        },
        any_batch=on_cpu,
        block=_block(config, grids) if on_cpu else 1,
    )


def time_of(config: EvolutionConfig) -> dict[str, tuple[np.ndarray, dict[str, str]]]:
    """``Recipe.coordinates``: the recorded times."""
    return {"time": (records(config), {"units": "1", "long_name": "time"})}


def trajectories(
    config: EvolutionConfig,
    grids: Mapping[str, Grid],
    ranges: Ranges,
    *,
    state: Mapping[str, str],
    law: Law,
    solve: Solve,
    by_sample: Callable[[np.ndarray], Mapping[str, np.ndarray]] | None = None,
) -> dict[str, np.ndarray]:
    """What `make` returns: initial fields by a law, solved together, at the recorded times and the groups' points.

    On the CPU as many threads as the configuration says share the samples, in blocks of fixed size; on a GPU they are
    one batch, and a sample agrees to rounding with itself in another part.

    Parameters
    ----------
    law
        (grid, ranges) → (samples, [fields,] *grid), the same functions on every grid.
    solve
        (initial fields, grid, times, numbers of the samples) → Trajectory, failures flagged.
    by_sample
        Numbers of the samples → values (samples,) that the file stores for each.

    Raises
    ------
    RuntimeError
        Samples blew up, which the message names; not where the configuration allows failures.
    """
    times = config.warm_up + records(config)

    def made(ranges: Ranges) -> dict[str, np.ndarray]:
        return on_every_grid(config, grids, partial(on, ranges))

    def on(ranges: Ranges, grid: Grid) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        numbers, fine = numbers_of(ranges), fine_grid(config, grid, grids)
        u0 = law(fine, ranges)
        solution = solve(torch.tensor(u0, device=config.device), fine, times, numbers)
        u = restrict(solution.u, fine, grid) if fine != grid else solution.u
        u, error = (np.asarray(v.cpu() if isinstance(v, torch.Tensor) else v) for v in (u, solution.error))
        kept = {"seed": np.full(len(numbers), config.seed, dtype=np.int64), **(by_sample(numbers) if by_sample else {})}
        if isinstance(config, SteppedConfig):
            kept["failed_at"] = solution.failed_at
        if solution.error is not None:
            kept["error"] = error.astype(np.float64)
        fields = u[:, :, None] if len(state) == 1 else u
        return {name: fields[:, :, i] for i, name in enumerate(state)}, kept

    # one thread of torch each: transforms of one field are too short to share, and threads that wait spin
    on_cpu = config.device == "cpu"
    all_made = in_groups(made, ranges, _block(config, grids), config.threads) if on_cpu else made(ranges)
    for group in grids:
        if (failed_at := all_made.pop(f"{group}/failed_at", None)) is not None:
            # here, where only the samples that were asked for are left of their blocks
            all_made[f"{group}/status"] = statuses(config, numbers_of(ranges), failed_at)
    return all_made


def statuses(config: GenerationConfig, numbers: np.ndarray, failed_at: np.ndarray) -> np.ndarray:
    """`STATUS` as numbers, int8: 0 for sound samples, 1 for failed ones.

    Parameters
    ----------
    numbers
        Of the samples.
    failed_at
        (samples,) the time at which each was found to have blown up, NaN where it did not.

    Raises
    ------
    RuntimeError
        Some did; the message names them and the first time. Not where the configuration allows failures.
    """
    failed = ~np.isnan(failed_at)
    if failed.any() and not config.allow_failures:
        names, count = map(str, numbers[failed][:10]), int(failed.sum())
        named = f"sample{'s' * (count > 1)} {', '.join(names)}{' …' * (count > 10)}"
        raise RuntimeError(
            f"{named} blew up by t={np.nanmin(failed_at):g}; pass a smaller --dt, or --allow-failures to keep such "
            "samples as NaN"
        )
    return failed.astype(np.int8)


def check_evolution(config: EvolutionConfig, grids: Mapping[str, Grid]) -> None:
    """Raises ValueError, naming the flag, for invalid times, steps and grids of the solve."""
    positive = [name for name in ("duration", "every", "dt") if hasattr(config, name)]
    check_numbers(config, positive=positive, nonnegative=("warm_up",))
    count = config.duration / config.every
    if abs(count - round(count)) > 1e-9 * count:
        raise ValueError(f"--duration {config.duration} --every {config.every}: expected a whole number of records")
    n = _solved_on(config, grids)
    if n < 1:
        raise ValueError(f"--solved-on {n}: expected a positive number of points per axis")
    if config.labels == "nested" and any(n % grid.shape[0] for grid in grids.values()):
        raise ValueError(
            f"--solved-on {n} --resolutions {listed(grid.shape[0] for grid in grids.values())}: expected a multiple of "
            "every resolution; --labels solved solves every group by itself"
        )


def _block(config: EvolutionConfig, grids: Mapping[str, Grid]) -> int:
    """Samples of a block: it may depend on the grids, not on how many samples, threads or parts there are."""
    points = max(_solved_on(config, grids) ** grid.ndim for grid in grids.values())
    return min(_MOST_SAMPLES, max(1, _LEAST_POINTS // points))


def _solved_on(config: EvolutionConfig, grids: Mapping[str, Grid]) -> int:
    return max(grid.shape[0] for grid in grids.values()) if config.solved_on is None else config.solved_on
