"""Eight evolution equations on one periodic grid, each a map from u(0) to u(T), with two laws of initial fields."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sciops.grids import Grid
from sciops.pde import advection, burgers, fisher_kpp, heat, kdv, kuramoto_sivashinsky, wave

TIME = 0.5
"""T of all equations but Kuramoto–Sivashinsky."""

_FINER = 4  # points of the solvers over those of the models
_LAWS = {"smooth": (1, 3), "rough": (4, 8)}  # wavenumbers of the initial fields
_FISHER = 0.12  # amplitude about the mean ½


@dataclass(frozen=True)
class Equation:
    """family : class of the operator. law : of its initial fields. solve : (fields, points) → the same at T."""

    family: str
    law: str
    solve: Callable[[np.ndarray], np.ndarray]


def grid_of(points: int, length: float = 2 * math.pi) -> Grid:
    return Grid((points,), ((0.0, length),), centering="periodic")


def _shifted(speed: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda f: advection.solve(f, grid_of(f.shape[-1]), times=[TIME], velocity=speed).u[:, 0]


def _wave(f: np.ndarray) -> np.ndarray:
    state = np.stack([f, 0 * f], axis=-2)
    return np.asarray(wave.solve(state, grid_of(f.shape[-1]), times=[TIME], speed=1.0).u[:, 0, 0])


def _fisher(f: np.ndarray) -> np.ndarray:
    made = fisher_kpp.solve(0.5 + _FISHER * f, grid_of(f.shape[-1]), times=[TIME], diffusivity=0.02, rate=3.0, dt=0.02)
    return np.asarray((made.u[:, 0] - 0.5) / _FISHER)


def _kdv(f: np.ndarray) -> np.ndarray:
    how = {"convection": 1.0, "dispersion": 0.02, "dt": 0.002}
    return np.asarray(kdv.solve(f, grid_of(f.shape[-1]), times=[TIME], **how).u[:, 0])


def _sivashinsky(f: np.ndarray) -> np.ndarray:
    return np.asarray(kuramoto_sivashinsky.solve(f, grid_of(f.shape[-1], 32.0), times=[2.0], dt=0.02).u[:, 0])


EQUATIONS: dict[str, Equation] = {
    "advection +1": Equation("hyperbolic", "smooth", _shifted(1.0)),
    "advection −1": Equation("hyperbolic", "smooth", _shifted(-1.0)),
    "wave": Equation("hyperbolic", "rough", _wave),
    "diffusion": Equation(
        "parabolic",
        "smooth",
        lambda f: heat.solve(f, grid_of(f.shape[-1]), times=[TIME], diffusivity=0.1).u[:, 0],
    ),
    "Burgers": Equation(
        "parabolic",
        "rough",
        lambda f: burgers.solve(f, grid_of(f.shape[-1]), times=[TIME], viscosity=0.05, dt=0.0025).u[:, 0],
    ),
    "Fisher": Equation("parabolic", "smooth", _fisher),
    "KS": Equation("parabolic", "rough", _sivashinsky),
    "KdV": Equation("dispersive", "rough", _kdv),
}


def initial_fields(law: str | int, samples: int, points: int, rng: np.random.Generator) -> np.ndarray:
    """(samples, points) sums of waves with random phases and amplitudes, of mean square 1.

    law : a name, or one wavenumber, of amplitude √2
    """
    first, last = (law, law) if isinstance(law, int) else _LAWS[law]
    k = np.arange(first, last + 1)
    x = np.arange(points) * 2 * math.pi / points
    phases = rng.uniform(0, 2 * math.pi, (samples, len(k), 1))
    size = rng.uniform(0.5, 1.0, (samples, len(k), 1))
    size *= math.sqrt(2) / np.sqrt(np.square(size).sum(1, keepdims=True))
    return np.asarray((size * np.cos(k[:, None] * x + phases)).sum(1))


def pairs_of(name: str, samples: int, points: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(u(0), u(T)) of an equation, (samples, points) float64; it is solved on four times as many points."""
    f = initial_fields(EQUATIONS[name].law, samples, _FINER * points, rng)
    return f[:, ::_FINER], EQUATIONS[name].solve(f)[:, ::_FINER]


def single_waves(
    speed: int, wavenumber: int, samples: int, points: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(u(0), u(T)) of advection by ±1 of waves of one wavenumber."""
    f = initial_fields(wavenumber, samples, points, rng)
    return f, _shifted(float(speed))(f)


def operator_distances(names: list[str], samples: int, points: int, rng: np.random.Generator) -> np.ndarray:
    """(tasks, tasks) mean of ‖G_i f − G_j f‖ / ‖G_i f‖ over initial fields f of equation i."""
    found = np.zeros((len(names), len(names)))
    for i, name in enumerate(names):
        f = initial_fields(EQUATIONS[name].law, samples, _FINER * points, rng)
        own = EQUATIONS[name].solve(f)
        for j, other in enumerate(names):
            gap = np.linalg.norm(own - EQUATIONS[other].solve(f), axis=1)
            found[i, j] = float((gap / np.linalg.norm(own, axis=1)).mean())
    return found
