"""Partial differential equations, one module each with a `solve`.

Steady equations return the solution with its true residual; evolution equations return a `Trajectory`, on request with
an estimate of the time-stepping error. Every module is available under its short name, ``sciops.pde.burgers``,
whatever folder it lies in.
"""

import sys

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

# so that ``import sciops.pde.burgers`` finds the module by its short name too
sys.modules.update({f"{__name__}.{name}": globals()[name] for name in __all__})
