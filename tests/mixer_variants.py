"""Every mixer in the variants that take different code paths, small: name, options, grid sizes that do not fit."""

from __future__ import annotations

import pytest
import torch

from sciops.mixers import MIXERS

CHANNELS = 8
_GRID, _LINE = (9, 7), (13,)

_ON_GRIDS = [
    ("spectral", dict(modes=(3, 4))),
    ("spectral", dict(modes=(3, 4), weights="diagonal")),
    ("spectral", dict(modes=(3, 3), basis="sine")),
    ("spectral", dict(modes=(3, 3), basis="sine-cosine", weights="diagonal")),
    ("multipole", dict(heads=2, window=3)),
    ("multipole", dict(heads=2, window=4, cosine=True)),
    ("multipole", dict(heads=2, window=3, sampler="average", aggregate="learned_per_level")),
    ("multipole", dict(heads=2, window=2, shift=1, relative="table", qkv_bias=True)),
    ("multipole", dict(heads=2, window=3, pyramid="smooth")),
    ("multipole", dict(heads=2, window=2, pyramid="smooth", attention_from="none")),
    ("multipole", dict(heads=2, window=2, pyramid="smooth", cosine=True, cosine_floor=0.5)),
    ("multipole", dict(heads=2, window=3, kernels=True, attention_from=1)),
    ("window", dict(heads=2, window=4)),
    ("window", dict(heads=2, window=4, stride=3)),
    ("window", dict(heads=2, window=4, shift=2, norm=False)),
    ("window", dict(heads=2, window=4, cosine=True)),
    ("window", dict(heads=2, window=4, cosine=True, shift=1, relative="continuous", qkv_bias=True)),
    ("window", dict(heads=2, window=4, recompute=True)),
    ("attention", dict(heads=2)),
    ("slices", dict(heads=2, slices=5)),
    ("slices", dict(heads=2, slices=5, local=True)),
    ("slices", dict(heads=2, slices=5, weighted=True)),
    ("convolution", dict(size=3)),
    ("gradient_products", dict(modes=(3, 3), bank_modes=5, bank_channels=4, products=2, gate=True, symmetric=True)),
    ("sparse_attention", dict(heads=2, window=4, block=3)),
    ("recurrence", dict(heads=2)),
    ("linear_attention", dict(heads=2)),
    ("state_space", dict(state=4, axes=2)),
    ("mean_pool", dict(hidden=5)),
    ("polynomial", {}),
    ("none", {}),
]
_ALONG_LINES = [
    ("spectral", dict(modes=(4,))),
    ("window", dict(heads=2, window=4, relative="table", axes=1)),
    ("self_attention", {}),
    ("self_attention", dict(heads=2, window=5, positions="rope")),
    ("self_attention", dict(positions="alibi")),
    ("recurrence", {}),
    ("recurrence", dict(pattern="dense", coefficients="chacal")),
    ("recurrence", dict(pattern="squares", heads=2, cache_efficient=True, merge="concatenate")),
    ("linear_attention", {}),
    ("linear_attention", dict(decay=(0.9, 0.8, 0.7, 1.0))),
    ("linear_attention", dict(features="identity", heads=2)),
    ("mean_pool", dict(hidden=5)),
    ("resolvent", dict(gamma="learned")),
    ("resolvent", dict(gamma=0.5, positions="rope")),
    ("block_resolvent", dict(level=0, block=4, gamma="learned")),
    ("block_resolvent", dict(level=1, block=4, overlap=True, summary="learned")),
    ("block_resolvent", dict(level=2, block=5, combine="additive")),
    ("polynomial", dict(gate_heads=2, groups=2, gate="hardsigmoid", rope=True)),
    ("polynomial", dict(degree=3, expansion=1, variant="coefficients", gate_heads=4, groups=2)),
    ("polynomial", dict(activation="clipped", block=4)),
    ("state_space", dict(state=4)),
    ("state_space", dict(state=4, heads=2, gate=False, hold="first")),
]
_BOTH_WAYS = [
    ("resolvent", dict(bidirectional="fixed_point")),
    ("resolvent", dict(bidirectional="dense")),
    ("sparse_attention", dict(heads=2, window=3, block=2)),
    ("sparse_attention", dict(window=5, block=4, positions="rope", recompute=True)),
]


def _causal(name: str, options: dict) -> list[dict]:
    if name in ("spectral", "window"):
        return [options]
    only_causal = name == "polynomial" and "block" in options
    return [{**options, "causal": causal} for causal in ((True,) if only_causal else (False, True))]


VARIANTS = [
    *((name, options, _GRID) for name, options in _ON_GRIDS),
    *((name, again, _LINE) for name, options in _ALONG_LINES for again in _causal(name, options)),
    *((name, options, _LINE) for name, options in _BOTH_WAYS),
]
ALL = [
    pytest.param(*case, id="-".join([case[0], *(f"{k}={v}" for k, v in case[1].items()), f"{len(case[2])}d"]))
    for case in VARIANTS
]


def made(name: str, options: dict, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """The mixer as it is initialised, with zeros among its biases."""
    torch.manual_seed(0)
    return MIXERS[name](CHANNELS, **options).to(dtype).eval()
