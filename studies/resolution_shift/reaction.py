"""Fields of −ℓ²Δu + u + u³ = f on the unit square, u = 0 on the walls; for small ℓ nearly pointwise, u + u³ = f."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from data_gen.kit.sources import sine_series
from sciops.datasets import build_dataset, write_native
from sciops.grids import Grid
from sciops.pde.elliptic.eigenbasis import analyse, synthesise

LENGTH = 0.01  # ℓ: halves the amplitude of waves along one axis with 32 half-waves from wall to wall
DEVIATION = 1.5  # root mean square of f over the square and the law
POWER = -1.0  # coefficients of f are uniform times (i² + j²)^POWER


def write_fields(path: Path, points: Sequence[int], *, modes: int, samples: Sequence[int], seed: int) -> Path:
    """A native file of sources f and solutions u, the same functions on every grid, with its splits.

    points : nodes per axis of the grids in the file, nested in the finest, on which u is solved
    modes : half-waves per axis in f, at most
    samples : how many fields for training, validation and test
    """
    import torch

    finest = Grid((max(points),) * 2)
    f = sources(finest, modes, sum(samples), seed)
    u = solve(torch.from_numpy(f), finest).numpy()
    split = np.repeat(np.int8([0, 1, 2]), samples)
    named = {"flag_values": np.int8([0, 1, 2]), "flag_meanings": "train validation test"}
    datasets = []
    for n in sorted(points, reverse=True):
        r = (finest.shape[0] - 1) // (n - 1)
        fields: dict = {
            name: (
                ("sample", "x", "y"),
                values[:, ::r, ::r].astype(np.float32),
                {"units": "1", "long_name": long, "kind": "scalar"},
            )
            for name, values, long in (("f", f, "source"), ("u", u, "solution"))
        } | {"split": (("sample",), split, named)}
        datasets.append(build_dataset(fields, Grid((n, n)), layout="native", equation="reaction-diffusion"))
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_native(path, datasets, overwrite=True)


def sources(grid: Grid, modes: int, samples: int, seed: int) -> np.ndarray:
    """f, (samples, *grid): sums of modes² products of sines, of root mean square `DEVIATION` over law and square."""
    k = np.arange(1, modes + 1)
    law = np.pi / modes**2 * (k[:, None] ** 2 + k**2) ** POWER
    size = float(np.sqrt((law**2).sum() / 12))  # a third is the mean square of a coefficient, a quarter of a sine²
    drawn = sine_series(grid, np.arange(samples), modes=modes, power=POWER, seed=seed)
    return drawn * (DEVIATION / size)


def solve(f, grid: Grid, *, length: float = LENGTH, tol: float = 1e-9, most: int = 400):  # type: ignore[no-untyped-def]
    """u of −ℓ²Δu + u + u³ = f at the nodes, Δ exact on the sines of the grid.

    The iteration u ← (c − ℓ²Δ)⁻¹ (f + (c − 1)·u − u³) contracts for c = 1 + 3 max u²/2, where u and its iterates are
    bounded by the solution of U + U³ = max |f| (maximum principle).

    f : (samples, *grid) float64 tensor; returns the same shape. Raises RuntimeError where the residual does not fall
    below tol·max |f|.
    """
    kinds = ("dirichlet",) * grid.ndim
    largest = float(f.abs().max())
    bound = max(root.real for root in np.roots([1.0, 0.0, 1.0, -largest]) if abs(root.imag) < 1e-9)
    c = 1 + 1.5 * bound**2
    import torch

    k = np.pi * np.arange(1, grid.shape[0] - 1)
    symbol = c + length**2 * torch.from_numpy(k[:, None] ** 2 + k**2)
    u = torch.zeros_like(f)
    for _ in range(most):
        new = synthesise(analyse(f + (c - 1) * u - u**3, grid, kinds) / symbol, grid, kinds)
        change = float((new - u).abs().max())
        u = new
        if c * change <= tol * largest:
            return u
    raise RuntimeError(f"the iteration changes u by {change:.1e} after {most} steps: expected {tol * largest / c:.1e}")
