"""The ways to solve a batch: compiled, in torch, or by sparse LU; and what becomes of samples that do not converge.

An engine takes (problem, u, tol, limit, threads), writes the unknowns into u (batch, mx, my), and returns per sample
(true relative residual, its float64 floor, iterations, status, method).
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sciops.pde import _five_point as scheme
from sciops.pde._multigrid import HALF_EPSILON, coarsening, level_shapes

_NEAR_FLOOR = 2.0  # a residual within this factor of the floor is all that float64 gives
_CACHE, _DEVICE = 2**18, 2**25  # unknowns that torch takes at a time: what stays in cache, and what fills a device
_DENSE = 1024  # unknowns on the coarsest grid that torch still inverts: more of them only where a grid is a mere strip


@dataclass(frozen=True)
class Problem:
    """The discrete systems of a batch: coefficient a / scale (a padded to (batch, 1 or 2, mx + 2, my + 2), scale
    (batch,)), right side b (1 or batch, mx, my)."""

    a: Tensor
    scale: Tensor
    b: Tensor
    axes: tuple[scheme.Axis, scheme.Axis]

    def __len__(self) -> int:
        return len(self.a)

    @property
    def singular(self) -> bool:
        """Whether no wall holds a value: u is determined up to a constant, and only where Σb = 0."""
        return not any(axis.inverse[end] for axis in self.axes for end in (0, -1))

    def faces(self, part: slice | list[int]) -> tuple[Tensor, Tensor]:
        factor = (1.0 / self.scale[part])[:, None, None]  # a power of two: exact
        return tuple(face.mul_(factor) for face in scheme.conductances(self.a[part], self.axes))

    def right(self, part: slice | list[int]) -> Tensor:
        return self.b.expand(len(self), -1, -1)[part]

    def ways(self) -> list[tuple[bool, int]]:
        """How each sample is coarsened, by the spacings and the geometric mean of a_x/a_y."""
        spacings = 2.0 * math.log2(self.axes[1].dual.mean() / self.axes[0].dual.mean())
        if self.a.shape[1] == 1:
            return [coarsening(spacings)] * len(self)
        # sample by sample: a sum over a batch may be taken in another order
        return [coarsening(spacings + float(a[0].log2().mean() - a[1].log2().mean())) for a in self.a]


def engine_for(backend: str, device: torch.device) -> Callable:
    """The engine of a backend; "auto" is the compiled one for CPU data where numba is installed."""
    on_cpu = device.type == "cpu"
    if backend == "auto":
        backend = "numba" if on_cpu and importlib.util.find_spec("numba") else "torch"
    if backend not in ENGINES:
        raise ValueError(f"backend={backend!r}: expected 'auto', {', '.join(map(repr, ENGINES))}")
    if backend == "numba" and not on_cpu:
        raise ValueError(f"backend='numba' runs on the CPU and a is on {device}; pass backend='torch' or a.cpu()")
    return ENGINES[backend]


def _with_numba(problem, u, tol, limit, threads):
    try:
        from sciops.pde._multigrid_numba import solve_samples
    except ImportError as error:
        raise ImportError('backend="numba" needs numba: pip install "sciops[fast]"') from error

    results = solve_samples(
        *(x.numpy() for x in (problem.a, 1.0 / problem.scale, problem.b.contiguous(), u)),
        problem.axes,
        problem.ways(),
        problem.singular,
        tol,
        limit,
        torch.get_num_threads() if threads is None else threads,
    )
    return _with_fallback(problem, u, tol, *map(torch.from_numpy, results), "multigrid-numba")


def _with_torch(problem, u, tol, limit, threads):
    from sciops.pde._multigrid_torch import solve_batch

    rho, floor = problem.scale.new_zeros(2, len(problem))
    iterations = torch.zeros_like(rho, dtype=torch.int64)
    chunk = max(1, (_CACHE if u.device.type == "cpu" else _DEVICE) // u[:1].numel()) if len(u) else 1
    ways = problem.ways()
    for way in dict.fromkeys(ways):
        transposed, rows_alone = way
        members = [i for i, other in enumerate(ways) if other == way]
        shape = u.shape[:0:-1] if transposed else u.shape[1:]
        if math.prod(level_shapes(*shape, rows_alone)[-1]) > _DENSE:
            rho[members] = torch.inf
            continue
        for start in range(0, len(members), chunk):
            part = members[start : start + chunk]
            part = slice(part[0], part[-1] + 1) if part[-1] - part[0] == len(part) - 1 else part
            faces, b = problem.faces(part), problem.right(part)
            turned = (
                (faces[1].mT.contiguous(), faces[0].mT.contiguous(), b.mT.contiguous()) if transposed else (*faces, b)
            )
            solved, _, iterations[part] = solve_batch(*turned, tol, limit, rows_alone, problem.singular)
            u[part] = solved.mT if transposed else solved
            rho[part], floor[part] = _true_residual(faces, b, u[part])
    return _with_fallback(problem, u, tol, rho, floor, iterations, "multigrid-torch")


def _with_direct(problem, u, tol, limit, threads):
    rho, floor = problem.scale.new_zeros(2, len(problem))
    for i in range(len(problem)):
        part = slice(i, i + 1)
        u[part], rho[part], floor[part] = _direct(problem, part)
    iterations = torch.zeros_like(rho, dtype=torch.int64)
    return rho, floor, iterations, _status(rho, floor, tol, "ok"), _words("direct", len(rho))


def _with_fallback(problem, u, tol, rho, floor, iterations, name):
    """Samples that multigrid left above both tolerance and floor go through sparse LU, and keep the better answer."""
    status, method = _status(rho, floor, tol, "ok"), _words(name, len(problem))
    for i in np.flatnonzero(status == "failed"):
        part = slice(i, i + 1)
        u_i, rho_i, floor_i = _direct(problem, part)
        if rho_i <= rho[i] or not torch.isfinite(rho[i]):
            u[part], rho[part], floor[part], method[i] = u_i, rho_i, floor_i, "direct"
            status[i] = _status(rho_i, floor_i, tol, "fallback_ok")[0]
    return rho, floor, iterations, status, method


def _direct(problem, part):
    from sciops.pde._direct import solve_directly

    faces, b = problem.faces(part), problem.right(part)
    u = solve_directly(*faces, b, problem.singular)
    return u, *_true_residual(faces, b, u)


def _true_residual(faces, b, u, stored=None):
    """Of u, and the floor of rounding u, or what is stored in its place."""
    size = b.flatten(1).norm(dim=1)
    size = torch.where(size > 0, size, 1.0)
    rho = (b - scheme.apply(*faces, u)).flatten(1).norm(dim=1) / size
    return rho, HALF_EPSILON * scheme.rounding(*faces, u if stored is None else stored) / size


def measured(problem: Problem, u: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    """(true relative residual, its float64 floor) of a u that stands `level` (batch,) above the one the engine gave."""
    rho, floor = problem.scale.new_zeros(2, len(problem))
    for i in range(len(problem)):
        part = slice(i, i + 1)
        faces, b = problem.faces(part), problem.right(part)
        rho[part], floor[part] = _true_residual(faces, b, u[part] - level[i], u[part])
    return rho, floor


def restated(status: np.ndarray, rho: Tensor, floor: Tensor, tol: float) -> np.ndarray:
    """The status once residual and floor have been measured again."""
    again = _status(rho, floor, tol, "ok")
    return np.where((status == "failed") | (again == "ok"), status, again)


def _status(rho: Tensor, floor: Tensor, tol: float, reached: str) -> np.ndarray:
    rho, floor = rho.cpu().numpy(), floor.cpu().numpy()
    status = _words("failed", len(rho))
    status[rho <= _NEAR_FLOOR * floor] = "floor_limited"
    status[rho <= tol] = reached
    return status


def _words(word: str, count: int) -> np.ndarray:
    return np.full(count, word, dtype="<U16")


ENGINES = {"numba": _with_numba, "torch": _with_torch, "direct": _with_direct}
