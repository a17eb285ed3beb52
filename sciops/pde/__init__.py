"""Partial differential equations, one a file, each with a `solve`. A module is loaded when it is first named.

Steady equations return the solution with its true residual, evolution equations a `Trajectory` with the estimated error
of the time stepping where asked for.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = [
    "adjoint",
    "advection",
    "burgers",
    "darcy",
    "fisher_kpp",
    "gray_scott",
    "heat",
    "helmholtz",
    "kdv",
    "kuramoto_sivashinsky",
    "navier_stokes",
    "poisson",
    "wave",
]

if TYPE_CHECKING:  # for editors and type checkers, which do not run `__getattr__`
    from sciops.pde import darcy
    from sciops.pde.darcy import adjoint
    from sciops.pde.elliptic import helmholtz, poisson
    from sciops.pde.evolution import (
        advection,
        burgers,
        fisher_kpp,
        gray_scott,
        heat,
        kdv,
        kuramoto_sivashinsky,
        navier_stokes,
        wave,
    )


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
