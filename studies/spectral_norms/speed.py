"""Estimators of σ₁ side by side: error against time, shares that under-estimate, and the automatic choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.lipschitz import dense_norm, gram_bracket
from sciops.lipschitz.norms.symbols import symbol
from studies.kit.timing import interleaved

GRAM_STEPS = (1, 2, 3, 4, 6, 8, 10, 12)
POWER_STEPS = (1, 3, 10, 30, 100)


def problem(name: str, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """A batch of matrices of which the largest σ₁ is sought.

    "dense 256", "orthogonal 256"; "convolution 32 32": symbols of 32 to 32 channels, 3×3, on a 32×32 torus;
    "Fourier 32 288": complex 32×32 matrices of 288 modes
    """
    generator = torch.Generator().manual_seed(seed)
    kind, *numbers = name.split()
    sizes = [int(number) for number in numbers]
    if kind == "convolution":
        channels, n = sizes
        rows = torch.randn(9, 1, channels, channels, dtype=torch.float64, generator=generator) / (3 * channels**0.5)
        frequencies = [n, n // 2 + 1]
        matrix = symbol(rows, torch.arange(n * (n // 2 + 1)), frequencies, (n, n), (3, 3), (1, 1)).squeeze(1)
    elif kind == "Fourier":
        channels, modes = sizes
        matrix = torch.randn(modes, channels, channels, dtype=torch.complex128, generator=generator)
    else:
        matrix = torch.randn(1, sizes[0], sizes[0], dtype=torch.float64, generator=generator)
        matrix = torch.linalg.qr(matrix)[0] if kind == "orthogonal" else matrix
    if dtype == torch.float32:
        return matrix.to(torch.complex64 if matrix.is_complex() else torch.float32)
    return matrix


def truth(matrix: Tensor) -> float:
    wide = matrix.to(torch.complex128 if matrix.is_complex() else torch.float64)
    return float(torch.linalg.svdvals(wide)[:, 0].max())


def power(matrix: Tensor, steps: int) -> float:
    """‖Av‖/‖v‖ after steps of power iteration in every matrix at once, the largest."""
    v = torch.randn(len(matrix), matrix.shape[-1], 1, dtype=matrix.dtype, generator=torch.Generator().manual_seed(1))
    for _ in range(steps):
        w = matrix @ v
        v = matrix.mH @ w
        v = v / torch.linalg.vector_norm(v, dim=1, keepdim=True)
    return float((torch.linalg.vector_norm(matrix @ v, dim=1)).max())


def plain_gram(matrix: Tensor, steps: int) -> Tensor:
    """μ_t by the papers' recursion in the precision of the matrix, without a bound on its rounding."""
    scale = matrix.abs().amax((-2, -1))
    gram, log = matrix / scale[:, None, None], torch.zeros_like(scale)
    for _ in range(steps):
        norm = torch.linalg.matrix_norm(gram)
        gram, log = gram / norm[:, None, None], 2 * (log + norm.log())
        gram = gram.mH @ gram
    return scale * torch.exp((torch.linalg.matrix_norm(gram).log() + log) * 0.5**steps)


def _estimators(matrix: Tensor) -> dict[tuple[str, int], Callable[[], float]]:
    def upper(steps: int) -> Callable[[], float]:
        return lambda: float(gram_bracket(matrix, tolerance=None, iterations=steps).upper.max())

    calls: dict[tuple[str, int], Callable[[], float]] = {
        ("Gram iteration", steps): upper(steps) for steps in GRAM_STEPS
    }
    for steps in POWER_STEPS:
        calls["power iteration", steps] = lambda steps=steps: power(matrix, steps)
    calls["eigvalsh", 0] = lambda: float(torch.linalg.eigvalsh(matrix.mH @ matrix)[:, -1].max().sqrt())
    calls["svdvals", 0] = lambda: float(torch.linalg.svdvals(matrix)[:, 0].max())
    calls["automatic bracket", 0] = lambda: float(dense_norm(matrix).upper.max())
    return calls


def error_against_time(names: Iterable[str], seeds: int, rounds: int) -> list[dict[str, Any]]:
    """One row an estimator and problem: median seconds, error (worst of the seeds), share of seeds below the truth."""
    rows = []
    for name in names:
        errors: dict[tuple[str, int], list[float]] = {}
        for seed in range(seeds):
            matrix = problem(name, seed)
            exact = truth(matrix)
            for key, call in _estimators(matrix).items():
                errors.setdefault(key, []).append(call() / exact - 1)
        calls = {f"{method} {steps}": call for (method, steps), call in _estimators(problem(name, 0)).items()}
        seconds = interleaved(calls, rounds=rounds, warmup=0)
        for (method, steps), values in errors.items():
            rows.append(
                {
                    "problem": name,
                    "method": method,
                    "steps": steps,
                    "seconds": float(np.median(seconds[f"{method} {steps}"])),
                    "error": max(map(abs, values)),
                    "under": float(np.mean([value < 0 for value in values])),
                }
            )
    return rows


def shares_below(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Of `count` Gaussian 16×16 matrices, the share whose σ₁ each estimator misses from below, by dtype."""
    rows = []
    for dtype in (torch.float32, torch.float64):
        generator = torch.Generator().manual_seed(seed)
        matrix = torch.randn(count, 16, 16, dtype=torch.float64, generator=generator).to(dtype)
        # the truth in more than float64 is out of reach: what lies below it by round-off counts for float64 only as
        # far as two float64 algorithms tell
        exact = torch.linalg.svdvals(matrix.double())[:, 0]
        estimates = {
            "Gram bracket, 12 steps": gram_bracket(matrix, tolerance=None, iterations=12).upper,
            "Gram bracket in its own precision": gram_bracket(
                matrix, tolerance=None, iterations=12, precision="input"
            ).upper,
            "eigvalsh bracket": dense_norm(matrix, method="eigvalsh").upper,
            "svdvals bracket": dense_norm(matrix, method="svdvals").upper,
            "Gram iteration, plain, 12 steps": plain_gram(matrix, 12),
            "eigvalsh, plain": torch.linalg.eigvalsh(matrix.mH @ matrix)[:, -1].sqrt(),
            "svdvals, plain": torch.linalg.svdvals(matrix)[:, 0],
            "power iteration, 100 steps": _powers(matrix, 100),
        }
        for method, estimate in estimates.items():
            error = estimate.double() / exact - 1
            rows.append(
                {
                    "dtype": str(dtype).removeprefix("torch."),
                    "method": method,
                    "under": float((error < 0).double().mean()),
                    "lowest": float(error.min()),
                    "highest": float(error.max()),
                }
            )
    return rows


def _powers(matrix: Tensor, steps: int) -> Tensor:
    v = torch.ones(len(matrix), matrix.shape[-1], 1, dtype=matrix.dtype)
    for _ in range(steps):
        v = matrix.mH @ (matrix @ v)
        v = v / torch.linalg.vector_norm(v, dim=1, keepdim=True)
    return torch.linalg.vector_norm(matrix @ v, dim=1)[:, 0]


def automatic_choice(names: Iterable[str], rounds: int, tolerance: float) -> list[dict[str, Any]]:
    """One row a problem: seconds of the brackets by each method and of torch's own svdvals, and auto over the best."""
    rows = []
    for name in names:
        matrix = problem(name.removeprefix("easy "), 0)
        if name.startswith("easy "):  # one singular value far above the others
            generator = torch.Generator().manual_seed(5)
            column = torch.randn(len(matrix), matrix.shape[-1], 1, dtype=matrix.dtype, generator=generator)
            matrix = matrix + 30 * column @ column.mH
        # the small ones in tens, so that no method pays for the caches that the one before it left cold
        times = 20 if math.prod(matrix.shape) < 10_000 else 1
        calls: dict[str, Callable[[], Any]] = {
            method: _repeated(times, dense_norm, matrix, method=method, tolerance=tolerance)
            for method in ("auto", "gram", "eigvalsh", "svdvals")
        }
        calls["torch"] = _repeated(times, torch.linalg.svdvals, matrix)
        seconds = interleaved(calls, rounds=rounds)
        medians = {method: float(np.median(values)) / times for method, values in seconds.items()}
        best = min(("gram", "eigvalsh", "svdvals"), key=medians.__getitem__)
        rows.append(
            {
                "problem": name,
                **medians,
                "best": best,
                "ratio": float(np.median(np.asarray(seconds["auto"]) / np.asarray(seconds[best]))),
                "over_svdvals": medians["torch"] / medians["auto"],
                "gap": float(dense_norm(matrix, tolerance=tolerance).largest().gap),
            }
        )
    return rows


def _repeated(times: int, call: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[], None]:
    def repeated() -> None:
        for _ in range(times):
            call(*arguments, **options)

    return repeated


def orthogonal_steps(size: int, steps: Iterable[int]) -> list[dict[str, float]]:
    """How Gram iteration fares where every singular value is the largest: μ_t = n^{1/p}, and its lower end."""
    matrix = problem(f"orthogonal {size}", 0)
    rows = []
    for t in steps:
        ends = gram_bracket(matrix, tolerance=None, iterations=t).largest().floats()
        rows.append(
            {"steps": t, "above": ends.upper - 1, "theory": size ** (0.5 ** (t + 1)) - 1, "below": 1 - ends.lower}
        )
    return rows
