"""What is compared between a device and the CPU, by name: models, mixers, solvers, resampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.grids import Grid
from sciops.pde import darcy
from sciops.pde.elliptic import helmholtz, poisson
from sciops.pde.evolution import burgers, navier_stokes, wave
from sciops.resampling import resample
from studies.kit.solver_cases import fields
from studies.kit.subjects import Subject, built, example, output, subjects
from studies.kit.timing import relative_difference

_DOUBLE, _SINGLE = 1e-10, 2e-4  # largest relative differences in float64 and float32
_SOLVED = 1e-6  # of what is iterated to a residual of 1e-8


@dataclass(frozen=True)
class Case:
    """compute(device) : tensors to compare; single : in float32; most : the largest relative difference of each."""

    compute: Callable[[str], list[Tensor]]
    single: bool = False
    most: float = _DOUBLE


def difference(case: str, device: str) -> float:
    """The largest relative difference ‖device − CPU‖/‖CPU‖ among the tensors of the case.

    Raises RuntimeError where a tensor is not on the device, or has another shape or type there.
    """
    here, there = CASES[case].compute("cpu"), CASES[case].compute(device)
    worst = 0.0
    for expected, found in zip(here, there, strict=True):
        if found.device.type != torch.device(device).type:
            raise RuntimeError(f"the result lies on {found.device}, expected {device}")
        if found.shape != expected.shape or found.dtype != expected.dtype:
            raise RuntimeError(
                f"{tuple(found.shape)} {found.dtype} there, {tuple(expected.shape)} {expected.dtype} here"
            )
        if expected.count_nonzero():
            worst = max(worst, relative_difference(found.cpu(), expected))
        elif found.count_nonzero():
            raise RuntimeError("not zero there, zero here")
    return worst


def largest_allowed(case: str) -> float:
    """The relative difference from which on a case counts as different."""
    return CASES[case].most


def _network(subject: Subject, device: str) -> list[Tensor]:
    """Output and gradients by the parameters of Σ y·c with fixed c, on the subject's first two grids."""
    model = built(subject).to(device)
    found = []
    for number in range(2):
        y = output(model, tuple(x.to(device) for x in example(subject, number=number)))
        found.append(y.detach())
        wanted = [p for p in model.parameters() if p.requires_grad]
        if not subject.constant and wanted and y.requires_grad:
            cotangent = torch.cos(torch.arange(y.numel(), dtype=torch.float64)).to(y.dtype).reshape(y.shape)
            grads = torch.autograd.grad(y, wanted, cotangent.to(y.device), allow_unused=True)
            found += [g for g in grads if g is not None]
    return found


def _noise(grid: Grid, seed: int, batch: int = 2) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((batch, *grid.shape)))


def _darcy(device: str, kind: str = "12/3", n: int = 85, **options: Any) -> list[Tensor]:
    a = torch.from_numpy(fields(kind, n, 4, 0)).to(device)
    return [darcy.solve(a, tol=1e-8, backend="torch", **options).u]


def _poisson(device: str) -> list[Tensor]:
    grid = Grid((20, 17), centering="cell")
    f = _noise(grid, 1)
    return [poisson.solve((f - f.mean((1, 2), keepdim=True)).to(device), grid).u]


def _helmholtz(device: str, scheme: str) -> list[Tensor]:
    grid = Grid((20, 17), centering="node")
    return [helmholtz.solve(_noise(grid, 2).to(device), grid, wavenumber=[3.0, 5.0], scheme=scheme).u]


def _helmholtz_medium(device: str) -> list[Tensor]:
    grid = Grid((20, 17), centering="cell")
    medium = torch.exp(0.3 * _noise(grid, 4)).to(device)
    return [helmholtz.solve(_noise(grid, 3).to(device), grid, wavenumber=[3.0, 5.0], coefficient=medium).u]


def _burgers(device: str) -> list[Tensor]:
    grid = Grid((64,), centering="periodic")
    x = torch.from_numpy(grid.coordinates()[0])
    u = torch.stack([torch.sin(2 * torch.pi * x), torch.cos(2 * torch.pi * x)]).to(device)
    return [burgers.solve(u, grid, times=[0.1, 0.4], viscosity=torch.tensor([0.1, 0.02])).u]


def _navier_stokes(device: str) -> list[Tensor]:
    grid = Grid((32, 24), centering="periodic")
    w = torch.zeros(1, *grid.shape, dtype=torch.float64)
    x, y = (torch.from_numpy(np.asarray(c)) for c in grid.meshgrid())
    for k in range(1, 4):
        w = w + torch.cos(2 * torch.pi * k * x + k) * torch.sin(2 * torch.pi * (4 - k) * y)
    return [navier_stokes.solve(w.to(device), grid, times=[0.5], viscosity=1e-3).u]


def _wave(device: str) -> list[Tensor]:
    grid = Grid((20, 17), centering="periodic")
    x, y = (torch.from_numpy(np.asarray(c)) for c in grid.meshgrid())
    u = torch.exp(torch.cos(2 * torch.pi * x) + torch.sin(2 * torch.pi * y))[None]
    state = torch.stack([u, torch.zeros_like(u)], 1)
    return [wave.solve(state.to(device), grid, times=[0.0, 1.0], speed=1.0).u]


def _resampled(device: str, method: str) -> list[Tensor]:
    centering = "periodic" if method == "fourier" else "node"
    coarse, fine = (Grid(shape, centering=centering) for shape in ((12, 9), (23, 31)))
    return [resample(_noise(coarse, 5).to(device), coarse, fine, method)]


def _cases() -> dict[str, Case]:
    cases = {
        name: Case(partial(_network, subject), subject.single, _SINGLE if subject.single else _DOUBLE)
        for name, subject in subjects().items()
    }
    walls = {"boundary": {"x": "dirichlet", "y": "neumann"}, "values": {"x": (1, 0)}}
    cases |= {
        "solver: darcy": Case(_darcy, most=_SOLVED),
        "solver: darcy 100:1": Case(partial(_darcy, kind="100:1"), most=_SOLVED),
        "solver: darcy, walls": Case(partial(_darcy, **walls), most=_SOLVED),
        "solver: poisson": Case(_poisson),
        "solver: helmholtz, spectral": Case(partial(_helmholtz, scheme="spectral")),
        "solver: helmholtz, finite volumes": Case(partial(_helmholtz, scheme="finite-volume")),
        "solver: helmholtz, medium": Case(_helmholtz_medium, most=_SOLVED),
        "solver: burgers": Case(_burgers),
        "solver: navier–stokes": Case(_navier_stokes),
        "solver: wave": Case(_wave),
    }
    methods = ("sine", "cosine", "fourier", "linear", "cubic", "nearest")
    return cases | {f"resample: {method}": Case(partial(_resampled, method=method)) for method in methods}


CASES = _cases()
