"""The attention layers that `attention_cost` compares, and one training step of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers import MultipoleAttention, SpectralMixer, WindowAttention

HEADS = 4
MODES = (12, 12)


class PlainAttention(nn.Module):
    """One level of attention, written down directly: LayerNorm, projections, attention, projection.

    window : cells per axis of a window in raster order, sizes must be multiples of it; None attends over all cells
    materialise : builds the matrix of scores instead of calling the fused kernel
    """

    def __init__(self, channels: int, window: int | None, materialise: bool = False) -> None:
        super().__init__()
        self.window, self.materialise = window, materialise
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        batch, rows, columns, channels = x.shape
        if w := self.window:
            x = x.reshape(batch, rows // w, w, columns // w, w, channels).transpose(2, 3).reshape(-1, w * w, channels)
        else:
            x = x.reshape(batch, -1, channels)
        q, k, v = self.qkv(self.norm(x)).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        if self.materialise:
            y = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v)
        y = self.out(y.transpose(1, 2).reshape(x.shape))
        if w:
            y = y.reshape(batch, rows // w, columns // w, w, w, channels).transpose(2, 3)
        return y.reshape(batch, rows, columns, channels)


def multipole_reference(layer: MultipoleAttention, x: Tensor) -> Tensor:
    """The definition with torch's convolutions, zero padding and masked full-size windows, for rate 2."""
    w, pyramid = layer.attention.window, [x]
    for _ in range(1, layer.level_count(tuple(x.shape[1:-1]))):
        fine = _padded(pyramid[-1], 2).movedim(-1, 1)
        pyramid.append(F.conv2d(fine, layer.down, stride=2).movedim(1, -1))
    result = None
    for level in reversed(pyramid):
        rows, columns = level.shape[1:3]
        y = _windowed(layer.attention, level, w)
        if result is not None:
            up = F.conv_transpose2d(result.movedim(-1, 1), layer.up, stride=2).movedim(1, -1)
            y = y + up[:, :rows, :columns]
        result = y
    return result


def _windowed(layer: WindowAttention, x: Tensor, w: int) -> Tensor:
    (batch, rows, columns, channels), whole = x.shape, _padded(x, w)
    exists = _padded(torch.ones_like(x[:1, ..., :1]), w)

    def cut(t: Tensor) -> Tensor:
        n, h, v, c = t.shape
        return t.reshape(n, h // w, w, v // w, w, c).transpose(2, 3).reshape(-1, w * w, c)

    cells = cut(whole)
    n = F.layer_norm(cells, (channels,), layer.norm.weight, layer.norm.bias)
    q, k, v = (n @ layer.qkv.weight.t()).reshape(*n.shape[:2], 3, layer.heads, -1).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(cut(exists).repeat(batch, 1, 1)[:, None, None, :, 0] == 0, -torch.inf)
    y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(cells.shape) @ layer.out.weight.t() + layer.out.bias
    y = y.reshape(batch, whole.shape[1] // w, whole.shape[2] // w, w, w, channels).transpose(2, 3)
    return y.reshape(whole.shape)[:, :rows, :columns]


def _padded(x: Tensor, multiple: int) -> Tensor:
    _, rows, columns, _ = x.shape
    return F.pad(x, (0, 0, 0, -columns % multiple, 0, -rows % multiple))


ARMS: dict[str, Callable[[int], nn.Module]] = {
    **{f"multipole w={w}": lambda c, w=w: MultipoleAttention(c, heads=HEADS, window=w) for w in (2, 4, 8)},
    **{f"finest level w={w}": lambda c, w=w: MultipoleAttention(c, heads=HEADS, window=w, levels=1) for w in (2, 4, 8)},
    **{
        f"multipole w={w}, recompute": lambda c, w=w: MultipoleAttention(c, heads=HEADS, window=w, recompute=True)
        for w in (2, 4, 8)
    },
    **{f"plain window w={w}": lambda c, w=w: PlainAttention(c, w) for w in (2, 4, 8)},
    **{f"WindowAttention w={w}": lambda c, w=w: WindowAttention(c, heads=HEADS, window=w) for w in (2, 4, 8)},
    "full, fused": lambda c: PlainAttention(c, None),
    "full, scores materialised": lambda c: PlainAttention(c, None, materialise=True),
    "spectral": lambda c: SpectralMixer(c, modes=MODES, clip_modes=True),
}
"""name → layer with that many channels"""


def step(layer: nn.Module, sizes: tuple[int, int], seed: int, device: str) -> Callable[[], Any]:
    """A call that runs the layer on one sample and returns the gradients of x and of every parameter."""
    generator = torch.Generator().manual_seed(seed)
    shape = (1, *sizes, layer_channels(layer))
    x, g = (torch.randn(shape, generator=generator).to(device) for _ in range(2))
    variables = [x.requires_grad_(), *layer.parameters()]
    return lambda: torch.autograd.grad(layer(x), variables, g)


def layer_channels(layer: nn.Module) -> int:
    return layer.channels if hasattr(layer, "channels") else layer.norm.normalized_shape[0]


def prepared(name: str, channels: int, sizes: tuple[int, int], threads: int, seed: int) -> Callable[[], Any]:
    """For `peak_memory`: a step of the named arm; what the libraries set up on first use is set up before."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    layer = ARMS[name](channels)
    step(layer, (32, 32), seed, "cpu")()
    return step(layer, tuple(sizes), seed, "cpu")
