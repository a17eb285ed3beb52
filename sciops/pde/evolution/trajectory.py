"""The time loop of every evolution equation: from an initial field to the fields at the requested times."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.scale import norm_of
from sciops.arrays.short import fields_text
from sciops.pde.evolution.backends import Backend, advance, compiled_steps
from sciops.pde.evolution.etdrk import ORDERS, coefficients, step
from sciops.pde.evolution.fourier import FourierSpace
from sciops.pde.evolution.step_error import doubling_error, expected_ratio, unresolved_error
from sciops.pde.inputs import Start, output_times

__all__ = ["Trajectory", "evolve", "evolve_exactly"]

_LOOK_EVERY = 256  # steps between looks at whether the field is still finite, where no output falls
_MOST_STEPS = 10**9


@dataclass(frozen=True)
class Trajectory:
    """What the `solve` of an evolution equation returns; u and error are in the caller's kind of array.

    Parameters
    ----------
    u
        (batch, time, *grid) or (batch, time, fields, *grid); without batch axis where the initial field had none.
    times
        (time,) float64, the output times.
    dt
        Largest step taken; 0 where the solution is exact in time.
    steps
        Number of steps; 0 where the solution is exact in time.
    error
        (batch,) estimated relative error of the time stepping at the last time, from runs with steps twice and four
        times as long, and where a step does not resolve oscillations, from some shorter ones; meant as an upper bound.
        It does not contain the error in space. None where no estimate was asked for.
    failed_at
        (batch,) float64, the first output time at which a sample was not finite, NaN where it is sound; None where
        failures raise.
    """

    u: Any
    times: np.ndarray
    dt: float
    steps: int
    error: Any = None
    failed_at: Any = None

    __repr__ = fields_text


def evolve(
    start: Start,
    space: FourierSpace,
    linear: Tensor,
    nonlinear: Callable[[Tensor], Tensor],
    *,
    times: Any,
    dt: float,
    order: int = 4,
    estimate: bool = False,
    on_failure: Literal["raise", "flag"] = "raise",
    backend: Backend = "torch",
) -> Trajectory:
    """Integrates dv/dt = linear·v + nonlinear(v) in Fourier space, v(0) the spectrum of the initial field.

    Parameters
    ----------
    linear
        Symbol that broadcasts over (batch, [fields,] *spectrum), float64 or complex128.
    nonlinear
        v → N(v), both spectra in the state's precision.
    dt
        Largest step; every interval between output times is divided into the fewest equal steps that respect it.
    order
        Of ETDRK, 1 to 4.
    estimate
        Two more runs, with steps twice and about four times as long; the number of steps of every interval is made even
        for them, and that of the whole at least 4.
    on_failure
        Where a field is no longer finite, "raise", or "flag" the sample: u = NaN at all times, error = inf, failed_at
        the first bad time; the other samples are unchanged.
    backend
        "numba" takes the steps by ``nonlinear.advance``, "auto" where `compiled_steps` says that it can.

    Returns
    -------
    Trajectory
        Differentiable in the initial field.

    Raises
    ------
    ValueError
        dt ≤ 0, an unsupported order, or times that do not increase.
    RuntimeError
        A field is no longer finite; the message names sample and time.
    """
    if on_failure not in ("raise", "flag"):
        raise ValueError(f"on_failure={on_failure!r}: expected 'raise' or 'flag'")
    given = output_times(times)
    if order not in ORDERS:
        raise ValueError(f"order={order!r}: expected 1, 2, 3 or 4")
    if not (isinstance(dt, (int, float, np.number)) and 0 < dt < math.inf):
        raise ValueError(f"dt={dt!r}: expected a positive number, the largest step")
    compiled = compiled_steps(backend, nonlinear, linear, start.field, order)
    counts, lengths = _steps(given, float(dt), even=estimate)
    run = (start, space, given, lengths, linear, nonlinear, order, compiled)
    u = _integrate(*run, counts, every_time=True, refuse=on_failure == "raise")
    failed_at = None
    if on_failure == "flag":
        bad = ~torch.isfinite(u.detach().flatten(2)).all(2)
        u[bad.any(1)] = torch.nan
        at = bad.cpu().numpy()
        failed_at = np.where(at.any(1), given[at.argmax(1)], np.nan)
    error = None
    if estimate:
        error = _estimated(u[:, -1], run, counts)
    largest = max((length / count for length, count in zip(lengths, counts) if count), default=0.0)
    return _trajectory(start, u, given, largest, int(counts.sum()), error, failed_at)


def evolve_exactly(
    start: Start, space: FourierSpace, *, times: Any, at: Callable[[Tensor, float], Tensor]
) -> Trajectory:
    """The field at every time from a propagator of the whole time: at(v0, t) → v(t), spectra."""
    given = output_times(times)
    v0 = space.forward(start.field)
    fields = [start.field if t == 0 else space.inverse(at(v0, float(t))) for t in given]
    return _trajectory(start, torch.stack(fields, 1), given, 0.0, 0, None)


def _integrate(
    start, space, times, lengths, linear, nonlinear, order, compiled, counts, *, every_time, refuse
) -> Tensor:
    """(batch, time, …) of the given numbers of steps an interval; the last time alone unless every_time."""
    kept: list[Tensor] = []
    v = space.forward(start.field)
    made: float | None = None
    table: tuple[Tensor, ...] = ()
    for j, (length, count) in enumerate(zip(lengths, counts.tolist())):
        if count and (h := length / count) != made:
            table, made = tuple(space.cast(c) for c in coefficients(linear, h, order)), h
        look = partial(_look, begun=times[j] - length, h=made) if refuse else None
        if count and compiled:
            v = advance(nonlinear, v, table, count, look)
        elif count:
            v = _stepped(v, nonlinear, table, order, count, look)
        if every_time or j == len(times) - 1:
            kept.append(space.inverse(v) if times[j] > 0 else start.field)
            if refuse:
                _check_finite(kept[-1], times[j], made)
    return torch.stack(kept, 1)


def _stepped(v: Tensor, nonlinear: Callable, table: tuple, order: int, count: int, look: Callable | None) -> Tensor:
    for i in range(1, count + 1):
        v = step(v, nonlinear, table, order)
        if look is not None and i % _LOOK_EVERY == 0:
            look(v, i)
    return v


def _look(v: Tensor, taken: int, *, begun: float, h: float) -> None:
    """Raises RuntimeError where a sample is not finite after so many steps of h from the time `begun`."""
    _check_finite(v, begun + taken * h, h)


def _estimated(fine: Tensor, run: tuple, counts: np.ndarray) -> Tensor:
    """The error (batch,) of the run with these numbers of steps, whose last field is `fine`."""
    start, space, given, lengths, linear, nonlinear, order, compiled = run
    double = _integrate(*run, counts // 2, every_time=False, refuse=False)[:, 0]
    # no output on the way, so that all of the longest steps are alike: at least four times the others
    end, steps = float(given[-1]), [(length / n, n) for length, n in zip(lengths, counts.tolist()) if n]
    largest = max((h for h, _ in steps), default=0.0)
    few = max(1, int(end / (4 * largest) + 1e-9)) if steps else 0
    whole = (start, space, given[-1:], [end], linear, nonlinear, order, compiled)
    longest = _integrate(*whole, np.array([few]), every_time=False, refuse=False)[:, 0]
    mask = space.cast((largest * linear.abs() > 1).to(torch.float64))
    error, weighty = doubling_error(
        fine,
        double,
        longest,
        lambda u: space.inverse(mask * space.forward(u)),
        order,
        expected=expected_ratio(steps, end, few, order),
    )
    if not linear.is_complex() or not bool(weighty.any()):
        return error

    def integrate(lengths: list[float], counts: list[int], order: int) -> Tensor:
        shortened = (start, space, np.cumsum(lengths), lengths, linear, nonlinear, order, compiled)
        return _integrate(*shortened, np.array(counts), every_time=True, refuse=False)

    symbol = linear.reshape((1,) * (fine.ndim - linear.ndim) + linear.shape)
    unresolved = unresolved_error(integrate, symbol, largest, int(counts.sum()), order)
    size = norm_of(fine.flatten(1), 1)
    # fields of one size differ by at most 2
    unresolved = (unresolved / torch.where(size > 0, size, 1.0)).clamp(max=2.0)
    return torch.where(weighty, torch.maximum(error, unresolved), error)


def _steps(times: np.ndarray, dt: float, *, even: bool) -> tuple[np.ndarray, list[float]]:
    """(number of steps, length) of every interval from 0 to the last time; intervals equal to rounding are equal."""
    lengths = np.diff(times, prepend=0.0)
    rounding = 8 * np.finfo(np.float64).eps * times[-1]
    if len(times) > 2 and np.ptp(lengths[1:]) <= rounding:
        mean = lengths[1:].mean()
        lengths = np.where(np.abs(lengths - mean) <= rounding, mean, lengths)
    counts = np.ceil(lengths / dt * (1 - 1e-12))
    if even:
        counts = 2 * np.ceil(counts / 2)
        counts = 2 * counts if counts.sum() == 2 else counts
    if counts.sum() > _MOST_STEPS:
        raise ValueError(f"dt={dt:g} to the time {times[-1]:g} takes {counts.sum():.1e} steps; pass a larger dt")
    return counts.astype(np.int64), lengths.tolist()


def _check_finite(field: Tensor, time: float, h: float | None) -> None:
    finite = torch.isfinite(field.detach().flatten(1)).all(1)
    if finite.all():
        return
    bad = torch.nonzero(~finite).flatten().tolist()
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    raise RuntimeError(
        f"sample {bad[0]}{more} is not finite at t={time:g} with steps of {h:g}; pass a smaller dt, such as {h / 4:.3g}"
    )


def _trajectory(
    start: Start,
    u: Tensor,
    times: np.ndarray,
    dt: float,
    steps: int,
    error: Tensor | None,
    failed_at: np.ndarray | None = None,
) -> Trajectory:
    if start.single:
        u, error, failed_at = (None if values is None else values[0] for values in (u, error, failed_at))
    return Trajectory(
        start.restore(u), times, float(dt), steps, None if error is None else start.restore(error), failed_at
    )
