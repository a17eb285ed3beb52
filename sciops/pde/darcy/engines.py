"""Engines that solve a batch: compiled, in torch, or by sparse LU; and the fallbacks of samples that do not converge.

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

from sciops.pde.darcy import five_point as scheme
from sciops.pde.darcy.multigrid import HALF_EPSILON, Way, coarsening, level_shapes

_NEAR_FLOOR = 2.0  # a residual within this factor of the floor is all that float64 gives
_CACHE, _DEVICE = 2**18, 2**25  # unknowns that torch takes at a time: what stays in cache, and what fills a device
_TURNING = 2.5  # standard deviation of log₂(a_x/a_y) beyond which smoothing lines is faster than smoothing points
_DENSE = 1024  # unknowns on the coarsest grid that torch still inverts: more of them only where a grid is a mere strip


@dataclass(frozen=True)
class Problem:
    """The discrete systems of a batch: coefficient a / scale (a padded to (batch, 1 or 2, mx + 2, my + 2), scale
    (batch,)), right side b (1 or batch, mx, my), conductances `exchange` / scale to what lies behind the walls."""

    a: Tensor
    scale: Tensor
    b: Tensor
    axes: tuple[scheme.Axis, scheme.Axis]
    exchange: scheme.Exchange

    def __len__(self) -> int:
        return len(self.a)

    @property
    def singular(self) -> bool:
        """Whether no wall holds a value: u is determined up to a constant, and only where Σb = 0."""
        held = (axis.inverse[end] for axis in self.axes for end in (0, -1) if not axis.wraps)
        return not self.exchange and not any(held)

    @property
    def wraps(self) -> scheme.Wraps:
        return self.axes[0].wraps, self.axes[1].wraps

    @property
    def may_turn(self) -> bool:
        """Whether a_x/a_y may vary, and lines can be smoothed."""
        return self.a.shape[1] == 2 and not any(self.wraps)

    def faces(self, part: slice | list[int]) -> tuple[Tensor, Tensor]:
        factor = (1.0 / self.scale[part])[:, None, None]  # a power of two: exact
        exchange = {side: conductance[part] for side, conductance in self.exchange.items()}
        return tuple(face.mul_(factor) for face in scheme.conductances(self.a[part], self.axes, exchange))

    def some(self, members: list[int]) -> Problem:
        """Those of some samples."""
        exchange = {side: conductance[members] for side, conductance in self.exchange.items()}
        b = self.b if len(self.b) == 1 else self.b[members]
        return Problem(self.a[members], self.scale[members], b, self.axes, exchange)

    def right(self, part: slice | list[int]) -> Tensor:
        return self.b.expand(len(self), -1, -1)[part]

    def ways(self) -> list[Way]:
        """How each sample is coarsened, by the spacings and the geometric mean of a_x/a_y, and how smoothed, by how far
        that ratio departs from its mean."""
        spacings = 2.0 * math.log2(self.axes[1].dual.mean() / self.axes[0].dual.mean())
        if self.a.shape[1] == 1:
            return [Way(*coarsening(spacings))] * len(self)
        ways = []
        for a in self.a:  # sample by sample: a sum over a batch may be taken in another order
            octaves = a[0].log2() - a[1].log2()
            if self.may_turn and float(octaves.std()) > _TURNING:
                ways.append(Way(lines=True))
            else:
                ways.append(Way(*coarsening(spacings + float(octaves.mean()))))
        return ways


def engine_for(backend: str, device: torch.device, wraps: scheme.Wraps = (False, False)) -> Callable:
    """The engine of a backend; "auto" is the compiled one for CPU data where numba is installed and no axis wraps."""
    on_cpu = device.type == "cpu"
    if backend == "auto":
        backend = "numba" if on_cpu and not any(wraps) and importlib.util.find_spec("numba") else "torch"
    if backend not in ENGINES:
        raise ValueError(f"backend={backend!r}: expected 'auto', {', '.join(map(repr, ENGINES))}")
    if backend == "numba" and not on_cpu:
        raise ValueError(f"backend='numba' runs on the CPU and a is on {device}; pass backend='torch' or a.cpu()")
    if backend == "numba" and any(wraps):
        raise ValueError("backend='numba' has walls on both axes; pass backend='torch' for periodic ones")
    return ENGINES[backend]


def _with_numba(problem, u, tol, limit, threads):
    try:
        from sciops.pde.darcy.compiled.batch import solve_samples
    except ImportError as error:
        raise ImportError('backend="numba" needs numba: pip install "sciops[fast]"') from error

    def run(problem, u, ways):
        longest = max(u.shape[1:]) if problem.exchange else 0
        exchange = np.zeros((len(problem) if longest else 1, 4, longest))
        for (k, end), conductance in problem.exchange.items():
            exchange[:, 2 * k - end, : conductance.shape[1]] = conductance
        results = solve_samples(
            *(x.numpy() for x in (problem.a, 1.0 / problem.scale, problem.b.contiguous())),
            exchange,
            u.numpy(),
            problem.axes,
            ways,
            problem.singular,
            tol,
            limit,
            torch.get_num_threads() if threads is None else threads,
        )
        return map(torch.from_numpy, results)

    return _with_fallbacks(problem, u, tol, run, "multigrid-numba")


def _with_torch(problem, u, tol, limit, threads):
    from sciops.pde.darcy.batched.multigrid import solve_batch

    def run(problem, u, ways):
        rho, floor = problem.scale.new_zeros(2, len(problem))
        iterations = torch.zeros_like(rho, dtype=torch.int64)
        chunk = max(1, (_CACHE if u.device.type == "cpu" else _DEVICE) // u[:1].numel()) if len(u) else 1
        for way in dict.fromkeys(ways):
            members = [i for i, other in enumerate(ways) if other == way]
            shape, wraps = u.shape[1:], problem.wraps
            if way.transposed:
                shape, wraps = shape[::-1], wraps[::-1]
            if math.prod(level_shapes(*shape, way.rows_alone, wraps)[-1]) > _DENSE:
                rho[members] = torch.inf
                continue
            for start in range(0, len(members), chunk):
                part = members[start : start + chunk]
                part = slice(part[0], part[-1] + 1) if part[-1] - part[0] == len(part) - 1 else part
                faces, b = problem.faces(part), problem.right(part)
                turned = (*faces, b)
                if way.transposed:
                    turned = tuple(x.mT.contiguous() for x in (faces[1], faces[0], b))
                solved, _, iterations[part] = solve_batch(
                    *turned, tol, limit, way.rows_alone, problem.singular, wraps, way.lines
                )
                u[part] = solved.mT if way.transposed else solved
                rho[part], floor[part] = _true_residual(problem, faces, b, u[part])
        return rho, floor, iterations

    return _with_fallbacks(problem, u, tol, run, "multigrid-torch")


def _with_direct(problem, u, tol, limit, threads):
    rho, floor = problem.scale.new_zeros(2, len(problem))
    for i in range(len(problem)):
        part = slice(i, i + 1)
        u[part], rho[part], floor[part] = _direct(problem, part)
    iterations = torch.zeros_like(rho, dtype=torch.int64)
    return rho, floor, iterations, _status(rho, floor, tol, "ok"), _words("direct", len(rho))


def _with_fallbacks(problem, u, tol, run, name):
    """Samples that multigrid left above both tolerance and floor are tried with lines where their anisotropy may turn;
    what is still left goes through sparse LU, and keeps the better answer."""
    ways = problem.ways()
    rho, floor, iterations = run(problem, u, ways)
    left = np.flatnonzero(_status(rho, floor, tol, "ok") == "failed")
    again = [i for i in left if problem.may_turn and not ways[i].lines]
    if again:
        v = torch.zeros_like(u[again])
        rho_v, floor_v, more = run(problem.some(again), v, [Way(lines=True)] * len(again))
        iterations[again] += more
        better = torch.nonzero((rho_v <= rho[again]) | ~torch.isfinite(rho[again])).flatten()
        chosen = torch.tensor(again, device=u.device)[better]
        u[chosen], rho[chosen], floor[chosen] = v[better], rho_v[better], floor_v[better]
    status, method = _status(rho, floor, tol, "ok"), _words(name, len(problem))
    for i in np.flatnonzero(status == "failed"):
        part = slice(i, i + 1)
        u_i, rho_i, floor_i = _direct(problem, part)
        if rho_i <= rho[i] or not torch.isfinite(rho[i]):
            u[part], rho[part], floor[part], method[i] = u_i, rho_i, floor_i, "direct"
            status[i] = _status(rho_i, floor_i, tol, "fallback_ok")[0]
    return rho, floor, iterations, status, method


def _direct(problem, part):
    from sciops.pde.darcy.direct import solve_directly

    faces, b = problem.faces(part), problem.right(part)
    u = solve_directly(*faces, b, problem.singular, problem.wraps)
    return u, *_true_residual(problem, faces, b, u)


def _true_residual(problem, faces, b, u, stored=None):
    """Of u, and the floor of rounding u, or what is stored in its place."""
    size = b.flatten(1).norm(dim=1)
    size = torch.where(size > 0, size, 1.0)
    rho = (b - scheme.apply(*faces, u, problem.wraps)).flatten(1).norm(dim=1) / size
    return rho, HALF_EPSILON * scheme.rounding(*faces, u if stored is None else stored, problem.wraps) / size


def measured(problem: Problem, u: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    """(true relative residual, its float64 floor) of a u that stands `level` (batch,) above the one the engine gave."""
    rho, floor = problem.scale.new_zeros(2, len(problem))
    for i in range(len(problem)):
        part = slice(i, i + 1)
        faces, b = problem.faces(part), problem.right(part)
        rho[part], floor[part] = _true_residual(problem, faces, b, u[part] - level[i], u[part])
    return rho, floor


def restated(status: np.ndarray, rho: Tensor, floor: Tensor, tol: float) -> np.ndarray:
    """The status once residual and floor have been measured again."""
    again = _status(rho, floor, tol, "ok")
    return np.where((status == "failed") | (again == "ok"), status, again)


def _status(rho: Tensor, floor: Tensor, tol: float, reached: str) -> np.ndarray:
    rho, floor = rho.cpu().numpy(), floor.cpu().numpy()
    status = _words("failed", len(rho))
    status[(rho <= _NEAR_FLOOR * floor) & (rho < 1.0)] = "floor_limited"  # u = 0 leaves 1: more is no solution
    status[rho <= tol] = reached
    return status


def _words(word: str, count: int) -> np.ndarray:
    return np.full(count, word, dtype="<U16")


ENGINES = {"numba": _with_numba, "torch": _with_torch, "direct": _with_direct}
