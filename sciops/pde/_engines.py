"""The ways to solve a batch: compiled, in torch, or by sparse LU; and what becomes of samples that do not converge.

An engine takes (a padded (batch, mx + 2, my + 2), b (1 or batch, mx, my), axes, tol, limit, threads) and returns
(u (batch, mx, my), true relative residual, its float64 floor, iterations, status, method), one entry per sample.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from sciops.pde import _five_point as scheme
from sciops.pde._multigrid import HALF_EPSILON

_NEAR_FLOOR = 2.0  # a residual within this factor of the floor is all that float64 gives


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


def _with_numba(a, b, axes, tol, limit, threads):
    try:
        from sciops.pde._multigrid_numba import solve_samples
    except ImportError as error:
        raise ImportError('backend="numba" needs numba: pip install "sciops[fast]"') from error

    threads = torch.get_num_threads() if threads is None else threads
    results = solve_samples(a.numpy(), b.contiguous().numpy(), axes, tol, limit, threads)
    return _with_fallback(a, b, axes, tol, *map(torch.from_numpy, results), "multigrid-numba")


def _with_direct(a, b, axes, tol, limit, threads):
    """(u, residual, floor, iterations, status, method) by sparse LU alone."""
    u, rho, floor = _direct(a, b, axes)
    status = _status(rho, floor, tol, "ok")
    return u, rho, floor, torch.zeros(len(a), dtype=torch.int64, device=a.device), status, _words("direct", len(a))


def _direct(a, b, axes):
    from sciops.pde._direct import solve_directly

    faces = scheme.conductances(a, axes)
    b = b.expand(len(a), -1, -1)
    u = solve_directly(*faces, b)
    return u, *_true_residual(faces, b, u)


def _true_residual(faces, b, u):
    size = b.flatten(1).norm(dim=1)
    size = torch.where(size > 0, size, 1.0)
    rho = (b - scheme.apply(*faces, u)).flatten(1).norm(dim=1) / size
    return rho, HALF_EPSILON * scheme.rounding(*faces, u) / size


def _with_torch(a, b, axes, tol, limit, threads):
    from sciops.pde._multigrid_torch import solve_batch

    unknowns = axes[0].size * axes[1].size
    # on the CPU a chunk should stay in cache; on a device it should fill it
    chunk = max(1, (2**18 if a.device.type == "cpu" else 2**25) // unknowns)
    parts = []
    for start in range(0, len(a), chunk):
        faces = scheme.conductances(a[start : start + chunk], axes)
        right = (b if len(b) == 1 else b[start : start + chunk]).expand(len(faces[0]), -1, -1)
        u, _, iterations = solve_batch(*faces, right, tol, limit)
        parts.append((u, *_true_residual(faces, right, u), iterations))
    if not parts:
        parts = [(a.new_zeros(0, axes[0].size, axes[1].size), a.new_zeros(0), a.new_zeros(0), a.new_zeros(0).long())]
    u, rho, floor, iterations = (torch.cat(column) for column in zip(*parts))
    return _with_fallback(a, b, axes, tol, u, rho, floor, iterations, "multigrid-torch")


def _with_fallback(a, b, axes, tol, u, rho, floor, iterations, name):
    """Samples that multigrid left above both tolerance and floor go through sparse LU."""
    status, method = _status(rho, floor, tol, "ok"), _words(name, len(a))
    for i in np.flatnonzero(status == "failed"):
        one = slice(i, i + 1)
        u_i, rho_i, floor_i = _direct(a[one], b if len(b) == 1 else b[one], axes)
        if not rho_i <= rho[one]:  # also where multigrid ended in NaN
            if torch.isfinite(rho[one]):
                continue
        u[one], rho[one], floor[one] = u_i, rho_i, floor_i
        status[i], method[i] = _status(rho_i, floor_i, tol, "fallback_ok")[0], "direct"
    return u, rho, floor, iterations, status, method


def _status(rho: Tensor, floor: Tensor, tol: float, reached: str) -> np.ndarray:
    rho, floor = rho.cpu().numpy(), floor.cpu().numpy()
    status = _words("failed", len(rho))
    status[rho <= _NEAR_FLOOR * floor] = "floor_limited"
    status[rho <= tol] = reached
    return status


def _words(word: str, count: int) -> np.ndarray:
    return np.full(count, word, dtype="<U16")


ENGINES = {"numba": _with_numba, "torch": _with_torch, "direct": _with_direct}
