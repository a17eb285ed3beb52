"""Random maps of every kind, their brackets, and the largest singular value of the dense matrix in float64."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sciops.lipschitz import Bracket, dense_norm, spectral_norm
from sciops.mixers import SpectralMixer

_BATCH = 10
_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)

Check = tuple[Tensor, Bracket]  # (truth, bracket), batched


def _gaussian(draw: random.Random, *shape: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    return torch.randn(*shape, dtype=dtype, generator=generator)


def _truth(matrix: Tensor) -> Tensor:
    wide = torch.complex128 if matrix.is_complex() else torch.float64
    return torch.linalg.svdvals(matrix.to(wide))[..., 0]


def _dense(make: Callable[[random.Random, torch.dtype], Tensor]) -> Callable[[random.Random], Check]:
    def check(draw: random.Random) -> Check:
        matrix = make(draw, draw.choice(_DTYPES))
        how = {"method": draw.choice(["auto", "gram", "eigvalsh", "svdvals"])}
        if draw.random() < 0.3:
            how["precision"] = "input"
        return _truth(matrix), dense_norm(matrix, **how)

    return check


def _sizes(draw: random.Random) -> tuple[int, int]:
    return draw.randint(1, 24), draw.randint(1, 24)


def _random(draw: random.Random, dtype: torch.dtype) -> Tensor:
    return _gaussian(draw, _BATCH, *_sizes(draw), dtype=dtype)


def _orthogonal(draw: random.Random, dtype: torch.dtype) -> Tensor:
    n, m = sorted(_sizes(draw))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.linalg.qr(_gaussian(draw, _BATCH, m, n, dtype=wide))[0].to(dtype)


def _rank_one(draw: random.Random, dtype: torch.dtype) -> Tensor:
    m, n = _sizes(draw)
    return _gaussian(draw, _BATCH, m, 1, dtype=dtype) * _gaussian(draw, _BATCH, 1, n, dtype=dtype)


def _scaled(draw: random.Random, dtype: torch.dtype) -> Tensor:
    return _random(draw, dtype) * draw.choice([1e-30, 1e30])


def _graded(draw: random.Random, dtype: torch.dtype) -> Tensor:
    """Columns of sizes that fall by powers of ten, and a zero column."""
    matrix = _random(draw, dtype)
    scales = 10.0 ** -torch.arange(matrix.shape[-1]).double().clamp(max=20)
    scales[-1] = 0.0 if len(scales) > 1 else 1.0
    return matrix * scales.to(matrix.real.dtype)


def _jacobian(layer: Callable[[Tensor], Tensor], shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    count = math.prod(shape)
    with torch.no_grad():
        return layer(torch.eye(count, dtype=dtype).reshape(count, *shape)).flatten(1).mT


def _wrap(x: Tensor, pads: list[int], mode: str) -> Tensor:
    """Padding by any amount: torch wraps no further than one period."""
    if mode != "circular":
        amounts = [p for p in reversed(pads) for _ in range(2)]
        return functional.pad(x, amounts, mode="constant" if mode == "zeros" else mode)
    for axis, p in enumerate(pads):
        n = x.shape[axis + 2]
        x = x.index_select(axis + 2, torch.arange(-p, n + p) % n)
    return x


def _convolution(mode: str, transposed: bool = False) -> Callable[[random.Random], Check | None]:
    def check(draw: random.Random) -> Check | None:
        axes = draw.choice([1, 1, 2, 2, 2, 3])
        most = 2 if axes == 3 else 5
        kernel = [draw.randint(1, most) for _ in range(axes)]
        stride = [draw.choice([1, 1, 2, 3]) for _ in range(axes)]
        dilation = [draw.choice([1, 1, 2]) for _ in range(axes)]
        grid = [draw.randint(1, 3 if axes == 3 else 6) for _ in range(axes)]
        reach = [d * (k - 1) for d, k in zip(dilation, kernel)]
        pads = [draw.choice([0, r // 2, r // 2, draw.randint(0, 3)]) for r in reach]
        groups = draw.choice([1, 1, 2])
        channels = groups * draw.randint(1, 2), groups * draw.randint(1, 2)
        outputs = [n + 2 * p - r for n, p, r in zip(grid, pads, reach)]
        if transposed:
            outputs = [(n - 1) * s - 2 * p + r + 1 for n, s, p, r in zip(grid, stride, pads, reach)]
        if min(outputs) < 1 or (mode == "reflect" and any(p >= n for p, n in zip(pads, grid))):
            return None
        dtype = draw.choice(_DTYPES)
        leading, other = channels if transposed else channels[::-1]
        weight = _gaussian(draw, leading, other // groups, *kernel, dtype=dtype) * draw.choice([1, 1, 1, 1e-25, 1e25])
        wide = weight.to(torch.complex128 if dtype.is_complex else torch.float64)
        if transposed:
            convolve = getattr(functional, f"conv_transpose{axes}d")

            def layer(x: Tensor) -> Tensor:
                return convolve(x, wide, None, stride, pads, 0, groups, dilation)
        else:
            convolve = getattr(functional, f"conv{axes}d")

            def layer(x: Tensor) -> Tensor:
                return convolve(_wrap(x, pads, mode), wide, None, stride, 0, dilation, groups)

        options = {"padding": pads, "padding_mode": mode, "stride": stride, "dilation": dilation, "groups": groups}
        truth = _truth(_jacobian(layer, (channels[0], *grid), wide.dtype))
        bracket = spectral_norm(weight, grid=grid, transposed=transposed, lower_iterations=4, **options)
        if mode != "circular" or all(p <= n for p, n in zip(pads, grid)):  # else torch has no such layer
            everywhere = spectral_norm(weight, transposed=transposed, **options)
            if not truth <= everywhere.upper.double():
                return truth, everywhere
        return truth, bracket

    return check


def _fourier(draw: random.Random) -> Check:
    axes = draw.choice([1, 2, 2, 3])
    modes = tuple(draw.randint(1, 3 if axes < 3 else 1) for _ in range(axes))
    grid = tuple(2 * k + draw.randint(0, 4) for k in modes)
    channels, out = draw.randint(1, 3), draw.randint(1, 3)
    torch.manual_seed(draw.randrange(2**31))
    weights = draw.choice(["dense", "dense", "diagonal"])
    mixer = SpectralMixer(channels, modes, weights=weights, out_channels=out)
    nn.init.normal_(next(mixer.parameters()), std=draw.choice([1.0, 1e-15, 1e15]))
    mixer = mixer.double().requires_grad_(False)  # float32 numbers, an oracle in float64
    truth = _truth(_jacobian(mixer, (*grid, channels), torch.float64))
    bracket, everywhere = spectral_norm(mixer, grid=grid), spectral_norm(mixer)
    return truth, bracket if truth <= everywhere.upper else everywhere


KINDS: dict[str, tuple[float, Callable[[random.Random], Check | None]]] = {
    "dense, Gaussian": (0.15, _dense(_random)),
    "dense, orthogonal": (0.1, _dense(_orthogonal)),
    "dense, rank 1": (0.1, _dense(_rank_one)),
    "dense, entries 1e±30": (0.1, _dense(_scaled)),
    "dense, graded columns": (0.05, _dense(_graded)),
    "convolution, zeros": (0.1, _convolution("zeros")),
    "convolution, circular": (0.1, _convolution("circular")),
    "convolution, reflect": (0.07, _convolution("reflect")),
    "convolution, replicate": (0.06, _convolution("replicate")),
    "convolution, transposed": (0.07, _convolution("zeros", transposed=True)),
    "Fourier layer": (0.1, _fourier),
}
"""name → (share of all cases, one draw or batch of them)"""


def check_cases(cases: int, seed: int, progress: Callable[[Any], Any] = iter) -> list[dict[str, Any]]:
    """One row a kind: cases, violations (truth outside its bracket), and how far apart the ends are.

    above : median of upper/truth − 1 over the cases with a truth above 0; worst : the largest; below : median of
        1 − lower/truth
    """
    shares = [(name, share) for name, (share, _) in KINDS.items()]
    return [_check_kind(name, math.ceil(share * cases), seed) for name, share in progress(shares)]


def _draws(name: str, count: int, seed: int) -> Iterator[Check]:
    draw, done = random.Random(f"{name} {seed}"), 0
    while done < count:
        result = KINDS[name][1](draw)
        if result is not None:
            done += result[0].numel()
            yield result


def _check_kind(name: str, count: int, seed: int) -> dict[str, Any]:
    inside, above, below = [], [], []
    for truth, bracket in _draws(name, count, seed):
        inside.append(bracket.contains(truth).reshape(-1))
        known = (truth > 0).reshape(-1)
        above.append((bracket.upper.double() / truth - 1).reshape(-1)[known])
        below.append((1 - bracket.lower.double() / truth).reshape(-1)[known])
    inside, above, below = torch.cat(inside), torch.cat(above), torch.cat(below)
    return {
        "kind": name,
        "cases": len(inside),
        "violations": int((~inside).sum()),
        "above": float(above.median()),
        "worst": float(above.max()),
        "below": float(below.median()),
    }
