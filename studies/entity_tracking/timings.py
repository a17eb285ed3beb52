"""Time of the resolvent of attention, dense and in blocks, over lengths; and of two ways to solve with many tiles."""

from __future__ import annotations

import gc
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from sciops.mixers import BlockResolventAttention, ResolventAttention
from sciops.mixers.resolvent.block_attention import multiply_adds
from sciops.mixers.resolvent.block_layout import block_size
from studies.kit.timing import exponent, interleaved, ratio, relative_difference

CONTESTANTS: dict[str, dict[str, Any] | None] = {
    "dense": None,
    "level 0": dict(level=0),
    "level 1, m = n^(1/3)": dict(level=1),
    "level 1, m = 64": dict(level=1, block=64),
    "level 1 with overlap, m = 64": dict(level=1, block=64, overlap=True),
    "level 2, m = √n": dict(level=2),
}


def made(name: str, width: int, heads: int) -> torch.nn.Module:
    torch.manual_seed(0)
    options = CONTESTANTS[name]
    if options is None:
        return ResolventAttention(width, heads=heads, causal=True)
    return BlockResolventAttention(width, heads=heads, causal=True, **options)


def times(
    lengths: tuple[int, ...], *, width: int, heads: int, rounds: int, dense_to: int, fit_from: int
) -> dict[str, Any]:
    """Seconds of one sequence, forward and forward with backward, on the threads that torch has.

    dense_to : the dense operator is left out of longer sequences
    fit_from : exponents, of time and of counted work, are of lengths from this one on

    Level 0 must have the dense operator's numbers before it is timed.
    """
    rows, seconds = [], {}
    mixers = {name: made(name, width, heads) for name in CONTESTANTS}
    mixers["level 0"].load_state_dict(mixers["dense"].state_dict())
    for n in tqdm(lengths, desc="times"):
        x = torch.randn(1, n, width, generator=torch.Generator().manual_seed(n)).requires_grad_()
        names = [name for name in mixers if name != "dense" or n <= dense_to]
        if "dense" in names and n <= 4096:
            with torch.no_grad():
                difference = relative_difference(mixers["level 0"](x), mixers["dense"](x))
            if not difference < 1e-4:
                raise RuntimeError(f"level 0 differs from the dense operator by {difference:.1e} at n = {n}")
        for what, call in (("forward", _forward), ("both", _both)):
            taken = interleaved({name: partial(call, mixers[name], x) for name in names}, rounds=rounds)
            for name in names:
                seconds[name, what, n] = taken[name]
                saved = None
                if "dense" in names:
                    part = ratio(taken[name], taken["dense"])
                    saved = {key: 1 - value for key, value in part.items()}
                row = {"name": name, "pass": what, "n": n, "seconds": float(np.median(taken[name])), "saved": saved}
                rows.append(row)
        x.grad = None
        gc.collect()
    exponents = {}
    for name in mixers:
        for what in ("forward", "both"):
            at = [r for r in rows if r["name"] == name and r["pass"] == what and r["n"] >= fit_from]
            if len(at) > 1:
                slope = exponent([r["n"] for r in at], [r["seconds"] for r in at])
                exponents.setdefault(name, {})[what] = slope
        exponents.setdefault(name, {})["counted"] = counted_exponent(
            name, width, heads, tuple(n for n in lengths if n >= fit_from)
        )
    return {"rows": rows, "exponents": exponents, "fit_from": fit_from, "heads": heads, "width": width}


def counted_exponent(name: str, width: int, heads: int, lengths: tuple[int, ...]) -> float:
    """Slope of log(multiply-adds) over log n between the shortest and the longest."""
    options = CONTESTANTS[name] or {"level": -1}
    level = options["level"]

    def work(n: int) -> int:
        block = block_size(options.get("block", "auto"), max(level, 0), n)
        overlap = options.get("overlap", False)
        return multiply_adds(n, channels=width, heads=heads, level=level, block=block, overlap=overlap)["total"]

    ends = sorted({min(lengths), max(lengths)})
    return exponent(ends, [work(n) for n in ends])


def tile_times(sizes: tuple[int, ...], *, n: int, width: int, rounds: int) -> list[dict[str, float]]:
    """(I − γD)⁻¹ R of n/m tiles of m tokens: one batched triangular solve, or the product of powers; seconds."""
    rows = []
    for m in sizes:
        scores = torch.randn(n // m, m, m, generator=torch.Generator().manual_seed(m))
        D = scores.masked_fill(torch.ones(m, m).triu(1).bool(), -torch.inf).softmax(-1)
        L, r = torch.eye(m) - 0.9 * D, torch.randn(n // m, m, width, generator=torch.Generator().manual_seed(0))
        ways = {"solve": partial(torch.linalg.solve_triangular, L, r, upper=False), "powers": partial(by_powers, L, r)}
        difference = relative_difference(ways["powers"](), ways["solve"]())
        if not difference < 1e-4:
            raise RuntimeError(f"the product of powers differs from the solve by {difference:.1e} at m = {m}")
        taken = interleaved(ways, rounds=rounds)
        rows.append({"m": m} | {name: float(np.median(values)) for name, values in taken.items()})
    return rows


def by_powers(L: Tensor, r: Tensor) -> Tensor:
    """L⁻¹R of lower L (…, m, m): (I − N)⁻¹ = (I + N)(I + N²)(I + N⁴)… with N = I − diag(L)⁻¹L, whose power m is 0."""
    diagonal = L.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    power, x, reach = torch.eye(L.shape[-1], dtype=L.dtype) - L / diagonal, r / diagonal, 1
    while reach < L.shape[-1]:
        x = x + power @ x
        power = power @ power
        reach *= 2
    return x


@torch.no_grad()
def _forward(mixer: torch.nn.Module, x: Tensor) -> None:
    mixer(x)


def _both(mixer: torch.nn.Module, x: Tensor) -> None:
    mixer(x).sum().backward()
