"""Bounds of published papers beside `spectral_norm` on the same convolutions: tightness, time, guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor
from torch.nn import functional

from sciops.lipschitz import kernel_gram_bound, spectral_norm
from studies.kit.timing import interleaved
from studies.spectral_norms.kernels import kernel_of
from studies.spectral_norms.published import (
    araujo,
    gram_of_symbols,
    miyato,
    ryu,
    sedghi,
    singla_feizi,
)

PADDINGS = ("circular", "zeros")
OURS = "spectral_norm"
ROUNDING = 1e-8  # relative; what lies below the truth by less counts as equal to it
_DENSE = 300  # sides up to which the truth is a singular value of the dense matrix
_SLOW = 0.3  # seconds of one round, from which on its times are those of the first call


@dataclass(frozen=True)
class Estimate:
    """One way to estimate the norm, called with a kernel, the points per axis and the padding.

    bounds : paddings for which it is a bound from above, rounding aside
    ours : whether it is a function of `sciops.lipschitz`, which accounts for its rounding
    """

    call: Callable[[Tensor, int, str], Any]
    bounds: tuple[str, ...] = ()
    ours: bool = False


def _bracket(weight: Tensor, size: int | None, padding: str, **how: Any) -> float:
    return spectral_norm(weight, grid=size, padding_mode=padding, lower_iterations=0, **how).floats().upper


ESTIMATES: dict[str, Estimate] = {
    OURS: Estimate(_bracket, PADDINGS, True),
    "spectral_norm, Gram iteration": Estimate(
        lambda weight, n, padding: _bracket(weight, n, padding, method="gram"), PADDINGS, True
    ),
    "spectral_norm, any grid": Estimate(lambda weight, n, padding: _bracket(weight, None, padding), PADDINGS, True),
    "Gram of kernels, t = 2": Estimate(
        lambda weight, n, padding: float(kernel_gram_bound(weight, steps=2)), PADDINGS, True
    ),
    "Delattre 2023, 5 steps": Estimate(lambda weight, n, padding: gram_of_symbols(weight, n), ("circular",)),
    "Sedghi 2019": Estimate(lambda weight, n, padding: sedghi(weight, n), ("circular",)),
    "Singla & Feizi 2021": Estimate(lambda weight, n, padding: singla_feizi(weight), PADDINGS),
    "Singla & Feizi, 50 power steps": Estimate(lambda weight, n, padding: singla_feizi(weight, 50)),
    "Araujo 2021, 50 samples": Estimate(lambda weight, n, padding: araujo(weight, 50), PADDINGS),
    "Araujo 2021, 10 samples": Estimate(lambda weight, n, padding: araujo(weight, 10), PADDINGS),
    "Ryu 2019, 100 power steps": Estimate(lambda weight, n, padding: ryu(weight, n, padding, 100)),
    "Ryu 2019, 10 power steps": Estimate(lambda weight, n, padding: ryu(weight, n, padding, 10)),
    "Miyato 2018, reshaped kernel": Estimate(lambda weight, n, padding: miyato(weight)),
}
"""name → estimate; the first is what times are divided by"""


def truth(weight: Tensor, size: int, padding: str) -> float:
    """σ₁ of the convolution in float64.

    circular: the largest singular value of all symbols. zeros: that of the dense matrix up to 300 entries a side;
    Lanczos iteration on A*A beyond, to a residual of 1e-9.

    Raises RuntimeError where the iteration does not converge to 1e-7.
    """
    if padding == "circular":
        return sedghi(weight, size)
    out, channels, k = weight.shape[:3]
    count = channels * size * size

    def convolve(x: Tensor) -> Tensor:
        return functional.conv2d(x, weight, padding=k // 2)

    if count <= _DENSE:
        columns = convolve(torch.eye(count, dtype=weight.dtype).reshape(count, channels, size, size)).flatten(1)
        return float(torch.linalg.svdvals(columns)[0])

    def normal(x: np.ndarray) -> np.ndarray:
        field = torch.from_numpy(np.ascontiguousarray(x, np.float64)).reshape(1, channels, size, size)
        return functional.conv_transpose2d(convolve(field), weight, padding=k // 2).flatten().numpy()

    start = np.random.default_rng(0).standard_normal(count)
    operator = LinearOperator((count, count), matvec=normal, dtype=np.float64)
    values, vectors = eigsh(operator, k=1, which="LA", v0=start, ncv=min(40, count), tol=1e-9)
    value, vector = float(values[0]), vectors[:, 0]
    residual = float(np.linalg.norm(normal(vector) - value * vector))
    if not residual <= 1e-7 * value:
        raise RuntimeError(f"Lanczos iteration: residual {residual / value:.1e} of a norm with zero padding")
    return math.sqrt(value)


def layers(
    channels: Iterable[int], kernels: Iterable[int], sizes: Iterable[int], products: float
) -> list[tuple[int, int, int]]:
    """(channels, kernel, size) of the convolutions of at most `products` multiplications."""
    sizes, kernels = list(sizes), list(kernels)
    return [(c, k, n) for c in channels for k in kernels for n in sizes if (c * k * n) ** 2 <= products]


def compare(
    shapes: Iterable[tuple[int, int, int]], kinds: Iterable[str], rounds: int, seed: int
) -> list[dict[str, Any]]:
    """One row a layer and padding: its shape, σ₁, and by name the estimates and the median seconds of a call."""
    rows, kinds, kernels = [], list(kinds), {}
    for channels, k, n in shapes:
        for kind in kinds:
            if (kind, channels, k) not in kernels:
                kernels[kind, channels, k] = kernel_of(kind, channels, k, seed)
            about = {"channels": channels, "kernel": k, "size": n, "kind": kind}
            rows += [about | _measured(kernels[kind, channels, k], n, padding, rounds) for padding in PADDINGS]
    return rows


def _measured(weight: Tensor, size: int, padding: str, rounds: int) -> dict[str, Any]:
    values: dict[str, float] = {}

    def once(name: str) -> None:
        values[name] = float(ESTIMATES[name].call(weight, size, padding))

    calls = {name: partial(once, name) for name in ESTIMATES}
    seconds = interleaved(calls, rounds=1, warmup=0)
    if sum(map(sum, seconds.values())) < _SLOW:
        seconds = interleaved(calls, rounds=rounds, warmup=0)
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    return {"padding": padding, "truth": truth(weight, size, padding), "values": values, "seconds": medians}


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row an estimate and padding: how tight, how fast, whether it is a bound, and how it stands to ours."""
    found = []
    for padding in PADDINGS:
        own = [row for row in rows if row["padding"] == padding]
        for name, one in ESTIMATES.items() if own else ():
            tight = np.array([row["values"][name] / row["truth"] for row in own])
            beside = np.array([row["values"][name] / row["values"][OURS] for row in own])
            time = np.array([row["seconds"][name] / row["seconds"][OURS] for row in own])
            bound = padding in one.bounds
            found.append(
                {
                    "padding": padding,
                    "method": name,
                    "ours": one.ours,
                    "bound": bound,
                    "cases": len(own),
                    "median": float(np.median(tight)),
                    "worst": float(tight[np.abs(np.log(tight)).argmax()]),
                    "least": float(tight.min()),
                    "below": float((tight < 1 - ROUNDING).mean()),
                    "time": float(np.median(time)),
                    "tighter": float((bound & (beside < 1 - 1e-3)).mean()),
                    "faster": float((time < 1).mean()),
                    "verdict": _verdict(name, bound, float(np.median(beside)), float(np.median(time))),
                }
            )
    return found


def _verdict(name: str, bound: bool, beside: float, time: float) -> str:
    """What the medians say of an estimate beside ours: 0.1 % of the bound and 10 % of the time are ties."""
    if name == OURS:
        return "reference"
    if not bound:
        return "no bound"
    width = "looser" if beside > 1.001 else "tighter" if beside < 0.999 else "as tight"
    pace = "slower" if time > 1.1 else "faster" if time < 0.9 else "as fast"
    return f"{width}, {pace}"


def by_channels(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Estimate ÷ σ₁, the median over the layers of one number of channels."""
    channels = sorted({row["channels"] for row in rows})
    return {
        name: {
            str(c): float(np.median([row["values"][name] / row["truth"] for row in rows if row["channels"] == c]))
            for c in channels
        }
        for name in ESTIMATES
    }


def broken(rows: list[dict[str, Any]]) -> list[str]:
    """The bounds that lie below the truth by more than round-off."""
    return [
        f"{name} of {row['channels']} channels, {row['kernel']}×{row['kernel']}, n = {row['size']}, {row['padding']}"
        for row in rows
        for name, one in ESTIMATES.items()
        if row["padding"] in one.bounds and row["values"][name] < row["truth"] * (1 - ROUNDING)
    ]
