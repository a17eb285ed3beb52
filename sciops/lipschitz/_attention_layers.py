"""Bounds of attention mixers for tokens in a ball: windows, pyramids of windows, slices."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from sciops.lipschitz._parts import Setting, refuse, shown
from sciops.lipschitz._pointwise import of_norm
from sciops.lipschitz._walk import expect
from sciops.lipschitz.attention import attention_bound
from sciops.lipschitz.convolution import convolution_norm
from sciops.mixers import MultipoleAttention, SliceAttention, WindowAttention
from sciops.mixers.slices import _EMPTY, _TEMPERATURES, _weights
from sciops.mixers.windows.relative_position import ContinuousBias, TableBias
from sciops.mixers.windows.sampling import rows_of
from sciops.mixers.windows.tiling import Tiling

_UP = 1 + 1e-12

Ball = Tensor | float | None


def of_window(mixer: WindowAttention, setting: Setting) -> tuple[Tensor, str]:
    """Windows side by side have the bound of one; where they overlap, cells are copied and averaged."""
    value, radius = _window(mixer, setting, setting.grid.shape, setting.radius)
    return value * setting.ends, f"tokens of norm ≤ {shown(radius)}, {_tokens(mixer, setting.grid.shape)} in a window"


def of_multipole(mixer: MultipoleAttention, setting: Setting) -> tuple[Tensor, str]:
    """‖R_0‖ of R_l = A_l + a_l · U R_{l+1} D, from the coarse end."""
    expect(mixer.attention, WindowAttention, place="attention")
    sizes, radius = tuple(setting.grid.shape), setting.radius
    levels = mixer.level_count(sizes)
    shapes, radii, downs, ups = [sizes], [radius], [], []
    children = mixer.rate**mixer.axes
    for _ in range(1, levels):
        if mixer.sampler == "conv":
            kernel = setting.cast(mixer.down)
            downs.append(setting.sigma(rows_of(kernel)))
            ups.append(setting.sigma(rows_of(setting.cast(mixer.up))))
            each = kernel.flatten(2).movedim(2, 0)
            reach = torch.minimum(downs[-1] * math.sqrt(children), sum(setting.sigma(k) for k in each))
        else:
            fewest = math.prod(n - (-(-n // mixer.rate) - 1) * mixer.rate for n in shapes[-1])
            downs.append(1 / math.sqrt(fewest) * _UP)
            ups.append(math.sqrt(children) * _UP)
            reach = 1.0
        radii.append(None if radii[-1] is None else radii[-1] * reach * _UP)
        shapes.append(tuple(-(-n // mixer.rate) for n in shapes[-1]))
    factors = [float(a) for a in mixer._factors(levels, torch.zeros((), dtype=torch.float64))]
    if mixer.aggregate == "learned_per_level":
        factors = list(mixer._factors(levels, torch.zeros((), dtype=torch.float64)).to(setting.dtype).abs())
    value: Tensor | float = 0.0
    for level in reversed(range(levels)):
        own, _ = _window(mixer.attention, setting, shapes[level], radii[level])
        if level == levels - 1:
            value = own
        else:
            value = own + factors[levels - 2 - level] * ups[level] * value * downs[level]
    largest = max(shown(r) for r in _known(radii, mixer, setting))
    return value * (_UP * setting.ends), f"{levels} levels, tokens of norm ≤ {largest}"


def of_slices(mixer: SliceAttention, setting: Setting) -> tuple[Tensor, str]:
    """Points to slices to points, head by head, every weight w at least w̃ and every token in the hull of the f.

    Tokens t = Σ p f with p = ωw/D, D ≥ N(w̃ + ε): ‖p‖₂ ≤ √(ω̄/(N(w̃ + ε))), and by dw: 2F √ω̄ ‖dw‖/(√N (w̃ + ε)). Back:
    ‖w‖₂ ≤ √N, and ‖O‖ ≤ √M ‖V‖F times ‖dw‖. ‖dw‖ ≤ ½ ‖S‖/τ ‖dz‖. N cancels.
    """
    radius = setting.radius
    expect(mixer.project, nn.Conv2d if mixer.local else nn.Linear, place="project")
    maps_of_channels(mixer, "slice", "out")
    if mixer.local and (mixer.project.kernel_size, mixer.project.padding, mixer.project.groups) != ((3, 3), (1, 1), 1):
        refuse("slice attention with another local kernel than 3×3: no rule")
    if radius is None:
        refuse("slice attention has no bound without a ball: pass radius=")
    heads, count, d = mixer.heads, mixer.slices, mixer.channels // mixer.heads
    sharp = 1 / setting.cast(mixer.temperature).clamp(*_TEMPERATURES)
    weight, bias = setting.cast(mixer.project.weight), setting.cast(mixer.project.bias)
    weight, bias = weight.unflatten(0, (2, heads, d)), bias.unflatten(0, (2, heads, d))
    s, shift = setting.cast(mixer.slice.weight), setting.cast(mixer.slice.bias)
    q, k, v = setting.cast(mixer.qkv.weight).chunk(3)
    most = 1.0
    if mixer.weighted:
        most = float(_weights(setting.grid, torch.float64, torch.device("cpu")).max())
    each = []
    for h in range(heads):
        z_gain, f_gain = (_map_norm(weight[i, h], setting) for i in (0, 1))
        z_ball, f_ball = (_map_ball(weight[i, h], bias[i, h], setting, radius) for i in (0, 1))
        rows = s.norm(dim=1).max()
        spread = sharp[h] * (2 * rows * z_ball + shift.max() - shift.min())
        least = 1 / (1 + (count - 1) * torch.exp(spread)) + _EMPTY
        dw = 0.5 * setting.sigma(s) * sharp[h] * z_gain
        token = (most / least).sqrt() * f_gain + 2 * f_ball * math.sqrt(most) / least * dw
        among = attention_bound(q, k, v, tokens=count, radius=f_ball)
        each.append(among * token + math.sqrt(count) * setting.sigma(v) * f_ball * dw)
    joined = torch.stack(each).square().sum().sqrt() * setting.sigma(mixer.out.weight)
    return joined * (_UP * setting.ends), f"{count} slices, tokens of norm ≤ {shown(radius)}"


def maps_of_channels(mixer: nn.Module, *names: str) -> None:
    """Raises UnboundedError unless these maps are nn.Linear, and qkv is one without a bias."""
    for name in (*names, "qkv"):
        expect(getattr(mixer, name), nn.Linear, place=name)
    if mixer.qkv.bias is not None:
        refuse("attention whose qkv has a bias: no rule")


def _window(mixer: WindowAttention, setting: Setting, sizes, radius: Ball) -> tuple[Tensor, Tensor | float]:
    """(bound counting every point alike, radius of the tokens)."""
    maps_of_channels(mixer, "out")
    if mixer.relative is not None:
        expect(mixer.relative, TableBias, ContinuousBias, place="relative")
    slope, ball = of_norm(mixer.norm, setting)
    radius = radius if ball is None else ball
    if radius is None:
        refuse(
            "softmax attention has no global bound: its slope grows with the square of its tokens; pass radius= for "
            "tokens that stay in a ball"
        )
    if mixer.cosine:
        refuse("cosine attention: the directions of queries and keys have no bounded slope near zero")
    query, key, value = setting.cast(mixer.qkv.weight).chunk(3)
    tiling = Tiling(tuple(sizes), mixer.window, mixer.stride)
    bound = attention_bound(
        query,
        key,
        value,
        tokens=tiling.tokens,
        radius=radius,
        heads=mixer.heads,
        output=setting.cast(mixer.out.weight),
        query_bias=None if mixer.qv_bias is None else setting.cast(mixer.qv_bias[0]),
        score_range=_score_range(mixer, tiling.shape),
    )
    return bound * slope * _copies(tiling), radius


def _score_range(mixer: WindowAttention, shape) -> float:
    if mixer.relative is None:
        return 0.0
    with torch.no_grad():
        bias = mixer.relative(shape)
    return float(bias.max() - bias.min()) * (1 + 1e-6)


def _copies(tiling: Tiling) -> float:
    """√(most windows that hold a cell / fewest): ‖cut‖·‖join‖."""
    if not tiling.overlapping:
        return 1.0
    most = fewest = 1
    for n, c, w in zip(tiling.sizes, tiling.counts, tiling.shape):
        held = np.zeros(max(n, (c - 1) * tiling.stride + w), dtype=int)
        for i in range(c):
            held[i * tiling.stride : i * tiling.stride + w] += 1
        most, fewest = most * held[:n].max(), fewest * held[:n].min()
    return math.sqrt(most / fewest) * _UP


def _tokens(mixer: WindowAttention, sizes) -> int:
    return Tiling(tuple(sizes), mixer.window, mixer.stride).tokens


def _known(radii, mixer: MultipoleAttention, setting: Setting) -> list[float]:
    ball = of_norm(mixer.attention.norm, setting)[1]
    return [ball] if ball is not None else radii


def _map_norm(weight: Tensor, setting: Setting) -> Tensor:
    """Of a linear map of channels, or a 3×3 convolution with zeros outside."""
    if weight.ndim == 2:
        return setting.sigma(weight)
    return convolution_norm(weight, grid=setting.grid.shape, lower_iterations=0).upper


def _map_ball(weight: Tensor, bias: Tensor, setting: Setting, radius: float) -> Tensor:
    taps = [weight] if weight.ndim == 2 else weight.flatten(2).movedim(2, 0)
    return (sum(setting.sigma(tap) for tap in taps) * radius + bias.norm()) * _UP
