"""The equations that are stepped, and each contestant's call for all steps of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sciops.grids import Grid
from sciops.pde.evolution import burgers, kdv, kuramoto_sivashinsky, navier_stokes

_EQUAL = 1e-8  # relative: exponax takes its coefficients from contour integrals


@dataclass(frozen=True)
class Case:
    """equation, grid, batch and steps; target : the least ratio to exponax's time."""

    equation: str
    points: tuple[int, ...]
    batch: int
    steps: int
    target: float
    dt: float = 1e-3


CASES = {
    "Burgers 128, batch 1": Case("burgers", (128,), 1, 1000, 1.0),
    "Burgers 128, batch 64": Case("burgers", (128,), 64, 300, 1.5),
    "Kuramoto–Sivashinsky 256, batch 8": Case("ks", (256,), 8, 300, 1.0),
    "Navier–Stokes 64², batch 1": Case("navier_stokes", (64, 64), 1, 200, 1.0),
    "Navier–Stokes 64², batch 8": Case("navier_stokes", (64, 64), 8, 40, 1.5),
    "Navier–Stokes 256², batch 1": Case("navier_stokes", (256, 256), 1, 20, 1.5),
}

DISPERSIVE = Case("kdv", (256,), 1, 0, 0.0)  # Korteweg–de Vries: its linear part is imaginary
_VISCOSITY = {"burgers": 0.03, "navier_stokes": 1e-3}
_LENGTH = {"kdv": 20.0, "ks": 64.0}


def fields(case: Case, seed: int) -> tuple[Grid, np.ndarray]:
    """The periodic grid, and smooth random initial fields of size about 1, (batch, *points)."""
    length = _LENGTH.get(case.equation, 1.0)
    grid = Grid(case.points, extent=((0.0, length),) * len(case.points), centering="periodic")
    random = np.random.default_rng(seed)
    angles = [2 * np.pi * x / length for x in grid.meshgrid()]
    u = np.zeros((case.batch, *case.points))
    for _ in range(6):
        waves = random.integers(-3, 4, size=(case.batch, len(angles)))
        phases = random.uniform(0, 2 * np.pi, case.batch)
        for i in range(case.batch):
            u[i] += np.cos(sum(k * angle for k, angle in zip(waves[i], angles)) + phases[i])
    return grid, (u - u.mean(tuple(range(1, u.ndim)), keepdims=True)) / np.sqrt(3)


def contestants(case: Case, seed: int, *, peer: bool) -> tuple[dict[str, Callable[[], np.ndarray]], float]:
    """({name: all steps of the case}, largest relative difference of their last fields).

    Raises RuntimeError where that is above 1e-8.
    """
    grid, u = fields(case, seed)
    calls = {backend: partial(_ours, case, grid, u, backend) for backend in ("numba", "torch")}
    calls["compiled"] = calls.pop("numba")
    if peer:
        calls["exponax"] = _exponax(case, grid, u)
    ends = {name: call() for name, call in calls.items()}
    size = np.linalg.norm(ends["torch"])
    difference = max(float(np.linalg.norm(end - ends["torch"]) / size) for end in ends.values())
    if not difference <= _EQUAL:
        raise RuntimeError(f"{case}: contestants end {difference:.1e} apart, more than {_EQUAL:.0e}")
    return calls, difference


def errors(steps: tuple[int, ...], seed: int, *, peer: bool) -> dict[str, dict[str, float]]:
    """Relative errors of Korteweg–de Vries at t = 0.3 by numbers of steps, against four times the most of them.

    {"compiled": {steps: error}, "torch": …, "exponax": …}; the reference is torch's.
    """
    end = 0.3
    grid, u = fields(DISPERSIVE, seed)

    def last(who: str, count: int) -> np.ndarray:
        case = replace(DISPERSIVE, steps=count, dt=end / count)
        if who == "exponax":
            return _exponax(case, grid, u)()
        return _ours(case, grid, u, {"compiled": "numba"}.get(who, who))

    reference = last("torch", 4 * max(steps))
    names = ["compiled", "torch", *(["exponax"] if peer else [])]
    size = np.linalg.norm(reference)
    return {
        who: {str(count): float(np.linalg.norm(last(who, count) - reference) / size) for count in steps}
        for who in names
    }


def _ours(case: Case, grid: Grid, u: np.ndarray, backend: Any) -> np.ndarray:
    options: dict[str, Any] = {"times": [case.dt * case.steps], "dt": case.dt, "backend": backend}
    if case.equation == "burgers":
        return burgers.solve(u, grid, viscosity=_VISCOSITY["burgers"], **options).u[:, 0]
    if case.equation == "kdv":
        return kdv.solve(u, grid, convection=1.0, dispersion=1.0, **options).u[:, 0]
    if case.equation == "ks":
        return kuramoto_sivashinsky.solve(u, grid, **options).u[:, 0]
    return navier_stokes.solve(u, grid, viscosity=_VISCOSITY["navier_stokes"], **options).u[:, 0]


def _exponax(case: Case, grid: Grid, u: np.ndarray) -> Callable[[], np.ndarray]:
    """All steps in one compiled call, over the batch by vmap."""
    import exponax
    import jax

    jax.config.update("jax_enable_x64", True)
    (low, high), points = grid.extent[0], case.points[0]
    length, steppers = high - low, exponax.stepper
    if case.equation == "burgers":
        step = steppers.Burgers(1, length, points, case.dt, diffusivity=_VISCOSITY["burgers"], order=4)
    elif case.equation == "kdv":
        coefficients = {"convection_scale": 1.0, "dispersivity": 1.0, "hyper_diffusivity": 0.0}
        step = steppers.KortewegDeVries(1, length, points, case.dt, **coefficients, order=4, conservative=True)
    elif case.equation == "ks":
        step = steppers.KuramotoSivashinskyConservative(1, length, points, case.dt, order=4)
    else:
        nu = _VISCOSITY["navier_stokes"]
        turned = {"vorticity_convection_scale": -1.0}  # their vorticity has the other sign
        step = steppers.NavierStokesVorticity(2, length, points, case.dt, diffusivity=nu, order=4, **turned)
    call = jax.jit(jax.vmap(exponax.repeat(step, case.steps)))
    start = jax.numpy.asarray(u[:, None])
    return lambda: np.asarray(call(start).block_until_ready()[:, 0])
