"""Bounds of neuraloperator's FNO, TFNO and UNO, with the same weight for every point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.lipschitz.as_written import exactly
from sciops.lipschitz.bounds.lookup import measure, unchanged
from sciops.lipschitz.bounds.parts import (
    Part,
    Setting,
    UnboundedError,
    chain,
    expect,
    matrix_norm,
    no_bound,
    one,
    refuse,
)
from sciops.lipschitz.bounds.pointwise import of_activation, of_norm
from sciops.lipschitz.norms.fourier import is_neuralop_conv, spectral_map_norm, spectral_map_norm_with_skip

_Sizes = tuple[int, ...]


def of_neuralop(model: Any, setting: Setting) -> Part:
    """The bound of the model inside a `NeuralopModel`; norms are mean squares over the points of each layer's grid."""
    name = type(model).__name__
    try:
        unchanged(model)
        if getattr(model, "complex_data", False):
            refuse("complex data: no rule")
        if _is(model, "models.uno.UNO"):
            return _uno(model, setting)
        if _is(model, "models.fno.FNO"):
            return _fno(model, setting)
        return no_bound(name, f"no rule for neuraloperator's {name}")
    except UnboundedError as error:
        return no_bound(name, str(error))


def _is(module: Any, *paths: str) -> bool:
    """Whether calling the module runs the code of one of these classes of neuraloperator."""
    kinds = {k for k in type(module).__mro__ if f"{k.__module__}.{k.__name__}" in {f"neuralop.{p}" for p in paths}}
    return exactly(module, *kinds)


def _expect(module: Any, path: str, place: str) -> None:
    if not _is(module, path):
        refuse(f"no rule with {type(module).__name__} as {place}")


def _fno(model: Any, setting: Setting) -> Part:
    parts = [one("lift", lambda: _channel_mlp(model.lifting, setting, _own(model)))]
    start = at = _padded(model, setting.grid.shape)
    blocks = model.fno_blocks
    _expect(blocks, "layers.fno_block.FNOBlocks", "its blocks")
    for i in range(model.n_layers):
        after = _scaled_sizes(at, blocks.convs[i])
        parts.append(one(f"block {i}", partial(_block, blocks, i, at, after, setting)))
        at = after
    parts += _cropping(model, setting, start, at)
    parts.append(one("project", lambda: _channel_mlp(model.projection, setting)))
    return chain(parts)


def _uno(model: Any, setting: Setting) -> Part:
    """The parts of a UNO: joined skips add as √(x² + skip²) of changes per unit of change of the first input."""
    start = _padded(model, setting.grid.shape)
    end = tuple(int(round(n * f)) for n, f in zip(start, model.end_to_end_scaling_factor))

    def body() -> tuple[Tensor, str]:
        value, at = torch.ones((), dtype=torch.float64), start
        kept: dict[int, tuple[Tensor, _Sizes]] = {}
        for i, block in enumerate(model.fno_blocks):
            _expect(block, "layers.fno_block.FNOBlocks", "a block")
            if i in model.horizontal_skips_map:
                skip, there = kept[model.horizontal_skips_map[i]]
                factors = [m / n for m, n in zip(at, there)]
                moved = _resampling(there, tuple(int(round(n * f)) for n, f in zip(there, factors)))
                value = (value.square() + (skip * moved).square()).sqrt()
            after = end if i == model.n_layers - 1 else _scaled_sizes(at, block.convs[0])
            value, at = value * _block(block, 0, at, after, setting)[0], after
            if i in model.horizontal_skips_map.values():
                gate = _matrix(model.horizontal_skips[str(i)], setting, block.out_channels)
                kept[i] = value * setting.sigma(gate), at
        return value, f"{model.n_layers} blocks, √(x² + skip²) where skips are joined"

    parts = [one("lift", lambda: _channel_mlp(model.lifting, setting, _own(model))), one("blocks", body)]
    parts += _cropping(model, setting, start, end)
    parts.append(one("project", lambda: _channel_mlp(model.projection, setting)))
    return chain(parts)


def _own(model: Any) -> int | None:
    """Channels of the field where positions are appended to it."""
    if model.positional_embedding is None:
        return None
    if not _is(model.positional_embedding, "layers.embeddings.GridEmbedding2D", "layers.embeddings.GridEmbeddingND"):
        refuse(f"no rule with {type(model.positional_embedding).__name__} as positional embedding")
    return model.in_channels


def _padded(model: Any, sizes: Sequence[int]) -> _Sizes:
    return tuple(n + 2 * p for n, p in zip(sizes, _padding(model, sizes)))


def _padding(model: Any, sizes: Sequence[int]) -> _Sizes:
    padding = model.domain_padding
    if padding is None:
        return (0,) * len(sizes)
    _expect(padding, "layers.padding.DomainPadding", "padding")
    shares = padding.domain_padding
    shares = [float(shares)] * len(sizes) if isinstance(shares, (int, float)) else shares
    return tuple(round(p * n) for p, n in zip(shares, sizes))


def _cropping(model: Any, setting: Setting, start: _Sizes, end: _Sizes) -> list[Part]:
    """The factor of padding and cropping, since mean squares are over all points of each grid."""
    sizes, result = tuple(setting.grid.shape), end
    if model.domain_padding is not None:
        factors = model.domain_padding.resolution_scaling_factor
        factors = factors if isinstance(factors, list) else [factors] * len(sizes)
        cut = [round(f * p) for f, p in zip(factors, _padding(model, sizes))]
        result = tuple(n - 2 * c for n, c in zip(end, cut))
    factor = math.sqrt(math.prod(n * e / (s * r) for n, s, e, r in zip(sizes, start, end, result)))
    if setting.grid.centering == "node" and result != sizes:
        factor *= math.prod(max(1.0, (n - 1) / n * m / (m - 1)) for n, m in zip(sizes, result)) ** 0.5
    if start == sizes and factor == 1:
        return []
    here = "×".join(map(str, start))
    return [one("padding", lambda: (factor * (1 + 1e-15), f"zeros around, {here} points, cropped after the blocks"))]


def _scaled_sizes(sizes: _Sizes, conv: Any) -> _Sizes:
    factors = conv.resolution_scaling_factor
    return sizes if factors is None else tuple(round(n * f) for n, f in zip(sizes, factors))


def _block(blocks: Any, i: int, sizes: _Sizes, after: _Sizes, setting: Setting) -> tuple[Tensor | float, str]:
    """σ n'(mlp(σ(n K x + S x)) + S' x); with preactivation mlp(n'σ(K z + S z)) + S' z, z = n σ(x)."""
    act = of_activation(blocks.non_linearity, setting)
    between = 1.0 if i == blocks.n_layers - 1 else act
    first, second = (_norm(blocks, 2 * i + j, setting) for j in (0, 1))
    moved = _resampling(sizes, after)
    pre = blocks.preactivation
    value, reason = _convolved(blocks, i, sizes, after, moved, 1.0 if pre else first, setting)
    value = value * between
    if pre:
        value = value * second
    if blocks.use_channel_mlp:
        value = value * _channel_mlp(blocks.channel_mlp[i], setting)[0]
        if blocks.channel_mlp_skips is not None:
            value = value + setting.sigma(_matrix(blocks.channel_mlp_skips[i], setting, blocks.in_channels)) * moved
    return (value * act * first if pre else value * second * between), reason


def _convolved(
    blocks: Any, i: int, sizes: _Sizes, after: _Sizes, moved: float, norm: Any, setting: Setting
) -> tuple[Tensor, str]:
    """‖n K + S‖: mode by mode, together where there is nothing between the two."""
    conv = blocks.convs[i]
    if not is_neuralop_conv(conv):
        refuse(f"no rule for the layer {type(conv).__name__}")
    grid, out = Grid(sizes, centering="periodic"), Grid(after, centering="periodic")
    skip = None if blocks.fno_skips is None else _matrix(blocks.fno_skips[i], setting, blocks.in_channels)
    if skip is not None and blocks.norm is None and not blocks.stabilizer and sizes == after:
        both = spectral_map_norm_with_skip(conv, skip, grid, out, weighted=False, dtype=setting.dtype)
        if both is not None:
            return both.upper, "max(‖W‖, ‖W + R(k)‖) over the modes"
    value = spectral_map_norm(conv, grid, out, weighted=False, dtype=setting.dtype).upper * norm
    return (value if skip is None else value + setting.sigma(skip) * moved), "‖W‖ + ‖K‖, mode by mode"


def _matrix(skip: Any, setting: Setting, channels: int) -> Tensor:
    """The matrix of a skip, which is linear at every point."""
    if _is(skip, "layers.skip_connections.Flattened1dConv"):
        return setting.cast(_pointwise_conv(skip.conv))
    if _is(skip, "layers.skip_connections.SoftGating"):
        return torch.diag(setting.cast(skip.weight).flatten())
    if exactly(skip, nn.Identity):
        return torch.eye(channels, dtype=setting.dtype)
    return refuse(f"no rule for the skip {type(skip).__name__}")


def _pointwise_conv(conv: Any) -> Tensor:
    """The matrix of a convolution with one point."""
    expect(conv, nn.Conv1d, place="a linear map")
    options = (conv.kernel_size, conv.stride, conv.padding, conv.groups)
    if options != ((1,), (1,), (0,), 1):
        refuse("a linear map that is a convolution of more than one point: no rule")
    return conv.weight[:, :, 0]


def _norm(blocks: Any, index: int, setting: Setting) -> Tensor | float:
    if blocks.norm is None:
        return 1.0
    norm = blocks.norm[index]
    if _is(norm, "layers.normalization_layers.BatchNorm"):
        norm = norm.norm
    if exactly(norm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
        return measure(norm, setting.plain())[0]
    return of_norm(norm, setting)[0]


def _channel_mlp(mlp: Any, setting: Setting, inputs: int | None = None) -> tuple[Tensor | float, str]:
    _expect(mlp, "layers.channel_mlp.ChannelMLP", "a pointwise map")
    for dropout in mlp.dropout or ():
        measure(dropout, setting.plain())
    value: Tensor | float = 1.0
    for i, layer in enumerate(mlp.fcs):
        matrix = _pointwise_conv(layer)
        value = value * setting.sigma(matrix[:, :inputs] if i == 0 and inputs is not None else matrix)
        if i < mlp.n_layers - 1:
            value = value * of_activation(mlp.non_linearity, setting)
    return value, f"{len(mlp.fcs)} linear maps"


def _resampling(sizes: _Sizes, after: _Sizes) -> float:
    """The norm of neuraloperator's `resample`, in mean squares over the points."""
    if sizes == after:
        return 1.0
    if len(sizes) > 2:
        refuse("neuraloperator's resampling of three axes: no rule")
    factor = 1.0
    for n, m in zip(sizes, after):
        line = torch.eye(n, dtype=torch.float64)[:, None]
        if len(sizes) == 1:
            matrix = F.interpolate(line, size=m, mode="linear", align_corners=True)[:, 0]
        else:
            # along one axis with the other constant, which keeps its values
            matrix = F.interpolate(line[..., None], size=(m, 1), mode="bicubic", align_corners=True)[:, 0, :, 0]
        factor *= matrix_norm(matrix.T.numpy()) * (n / m) ** 0.5
    return factor * (1 + 1e-6)  # the layer computes it in float32
