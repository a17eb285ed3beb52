"""Spectra for `studies.analysis_speed`: against counted bins of a float64 FFT, the FFT's time, and in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from sciops.grids import Grid
from sciops.spectral import power_spectrum
from studies.kit.timing import interleaved, peak_memory, ratio

FLOAT64, FLOAT32 = 1e-12, 1e-5  # largest relative error of a shell


def counted_spectrum(u: np.ndarray) -> np.ndarray:
    """Σ_{κ−½ ≤ |k| < κ+½} |û_k|² of one periodic field on a cube, from the whole complex FFT and `np.bincount`."""
    k = np.meshgrid(*(np.fft.fftfreq(n) * n for n in u.shape), indexing="ij", sparse=True)
    shell = np.floor(np.sqrt(sum(q * q for q in k)) + 0.5 + 1e-9).astype(np.int64)
    energy = np.square(np.abs(np.fft.fftn(u.astype(np.float64), norm="forward")))
    return np.bincount(shell.ravel(), weights=energy.ravel())


def require_shells(name: str, energy: Any, u: Any, tolerance: float) -> float:
    """The largest relative error of a shell against `counted_spectrum`; RuntimeError where it is above the tolerance.

    energy : (batch, bins) of u : (batch, *grid)
    """
    expected = np.stack([counted_spectrum(np.asarray(one)) for one in u])
    error = float(np.abs(np.asarray(energy) / expected - 1).max())
    if not error <= tolerance:
        raise RuntimeError(f"{name}: a shell differs by {error:.1e} from the counted one, more than {tolerance:.0e}")
    return error


def equalities(seed: int) -> list[dict[str, Any]]:
    """Largest relative error of a shell, by grid and precision; RuntimeError where one is beyond its bound."""
    rows = []
    for shape in ((101, 101), (422, 422), (48, 48, 48)):
        noise = torch.randn(2, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        for u, tolerance in ((noise, FLOAT64), (noise.float(), FLOAT32)):
            name = f"{'×'.join(map(str, shape))}, {str(u.dtype).removeprefix('torch.')}"
            energy = power_spectrum(u, _periodic(shape)).energy
            error = require_shells(name, energy, u, tolerance)
            rows.append({"what": name, "error": error, "most": tolerance})
    return rows


def speed(shape: tuple[int, ...], *, leading: tuple[int, ...], rounds: int, seed: int) -> dict[str, Any]:
    """Seconds of the spectrum and of the plain FFT of a float32 field, in turns; the first shells are checked."""
    u = torch.randn(*leading, *shape, generator=torch.Generator().manual_seed(seed))
    grid, axes = _periodic(shape), tuple(range(-len(shape), 0))
    energy = power_spectrum(u, grid).energy.flatten(0, -2)
    error = require_shells(f"{leading} × {shape}", energy[:1], u.reshape(-1, *shape)[:1], FLOAT32)
    calls: dict[str, Callable[[], Any]] = {
        "fft": lambda: torch.fft.rfftn(u, dim=axes),
        "spectrum": lambda: power_spectrum(u, grid),
    }
    seconds = interleaved(calls, rounds=rounds)
    return {
        "what": f"{'×'.join(map(str, leading))} fields of {'×'.join(map(str, shape))}, float32",
        "seconds": {name: float(np.median(values)) for name, values in seconds.items()},
        "all_seconds": seconds,
        "ratio": ratio(seconds["spectrum"], seconds["fft"]),
        "error": error,
    }


def memory(points: int, channels: int, threads: int) -> dict[str, Any]:
    """Peak of a process that holds a float32 cube and takes its spectrum, over the cube's bytes, which count."""
    held = 4 * channels * points**3
    peak = peak_memory("studies.analysis_speed.spectra:cube", points, channels, threads)
    return {"points": points, "channels": channels, "input_bytes": held, "peak": peak, "share": 1 + peak / held}


def cube(points: int, channels: int, threads: int) -> Callable[[], Any]:
    """What `memory` measures. A small spectrum beforehand loads the libraries; the shells' labels count."""
    torch.set_num_threads(threads)
    power_spectrum(torch.randn(1, 8, 8, 8), _periodic((8, 8, 8)))
    u = torch.randn(channels, points, points, points)
    return lambda: power_spectrum(u, _periodic((points,) * 3))


def _periodic(shape: tuple[int, ...]) -> Grid:
    return Grid(shape, 2 * math.pi, "periodic")
