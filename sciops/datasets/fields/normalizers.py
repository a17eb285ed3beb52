"""Per-channel standardisation, fitted in float64, kept with the model as two buffers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sciops.arrays.dimensions import by_name
from sciops.arrays.kinds import for_torch, refuse_complex, refuse_masked


class Normalizer(nn.Module):
    """x ↦ (x − mean)/std per channel; mean and std are scalars over space, so that any grid size fits.

    mean, std : (channels,) float64 buffers; they stay float64 under ``.float()``, ``.half()`` and ``.to(dtype)``, so
        that a model which is cast and cast back still holds the fitted values.

    `encode` and `decode` take (batch, channels, *grid) on any device and return the dtype of their input; the
    arithmetic is done in float64 where the device has it, so that a large mean with a small spread (pressure near
    1e5) loses nothing beyond the input's own rounding.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels, dtype=torch.float64))
        self.register_buffer("std", torch.ones(channels, dtype=torch.float64))

    @classmethod
    def fit(cls, data: Tensor | np.ndarray | Iterable[Tensor]) -> Normalizer:
        """mean = ⟨x⟩, std = √⟨(x − mean)²⟩ over samples and space, per channel, in float64.

        data : (batch, channels, *grid), or an iterable of such blocks (other grids, or pieces of a set that does not
            fit in memory). Each block is reduced in two passes and blocks are merged by the pairwise update of Chan,
            Golub and LeVeque (1983), which is as accurate as two passes over everything.

        A constant channel gets std 1, so that it encodes to zeros. Raises ValueError for no data, for values that are
        not finite (naming the channel), complex or masked, and for blocks that differ in channels.
        """
        blocks = [data] if hasattr(data, "__array__") else data
        found: _Moments | None = None
        for block in blocks:
            refuse_masked(block, "data")
            refuse_complex(block, "data")
            x = (
                block if isinstance(block, Tensor) else torch.from_numpy(for_torch(np.asarray(by_name(block))))
            ).detach()
            if x.ndim < 2:
                raise ValueError(f"data has shape {tuple(x.shape)}; expected (batch, channels, *grid)")
            x = x.to(torch.float64).transpose(0, 1).reshape(x.shape[1], -1).cpu()
            if x.shape[1] == 0:
                continue
            finite = torch.isfinite(x).all(1)
            if not finite.all():
                channel = int((~finite).nonzero()[0])
                raise ValueError(
                    f"channel {channel} holds values that are not finite: sciops.validate(path) names the samples"
                )
            if found is not None and len(found.mean) != len(x):
                raise ValueError(
                    f"one block has {len(x)} channels, another {len(found.mean)}: expected the same in all"
                )
            one = _Moments.of(x)
            found = one if found is None else found.merged(one)
        if found is None:
            raise ValueError("no data to fit a Normalizer on: the training split is empty")
        std = found.deviation / math.sqrt(found.count)
        flat = (found.low == found.high) | (std == 0)
        result = cls(len(found.mean))
        result.mean.copy_(torch.where(flat, found.low, found.mean))
        result.std.copy_(torch.where(flat, torch.ones_like(std), std))
        return result

    @property
    def is_identity(self) -> bool:
        """Whether every mean is 0 and every deviation 1, as before a fit."""
        return not self.mean.any() and bool((self.std == 1).all())

    def of_channels(self, part: slice) -> Normalizer:
        """A normaliser of the channels in `part` alone."""
        result = type(self)(len(self.mean[part]))
        result.mean.copy_(self.mean[part])
        result.std.copy_(self.std[part])
        return result

    def encode(self, x: Tensor) -> Tensor:
        """(x − mean)/std; same shape, device and dtype as x."""
        mean, std, wide = self._over(x)
        return ((wide - mean) / std).to(x.dtype)

    def decode(self, x: Tensor) -> Tensor:
        """x·std + mean; same shape, device and dtype as x."""
        mean, std, wide = self._over(x)
        return (wide * std + mean).to(x.dtype)

    forward = encode

    def _over(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        channels = len(self.mean)
        if x.ndim < 2 or x.shape[1] != channels:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; this Normalizer was fitted on {channels} channels: expected "
                f"(batch, {channels}, *grid)"
            )
        shape = (1, channels) + (1,) * (x.ndim - 2)
        # Apple's GPU has no float64
        wide = torch.float32 if x.device.type == "mps" else torch.float64
        return self.mean.to(x.device, wide).view(shape), self.std.to(x.device, wide).view(shape), x.to(wide)

    def _apply(self, fn, recurse: bool = True):
        kept = self.mean, self.std
        super()._apply(fn, recurse)
        for name, before in zip(("mean", "std"), kept):
            after = getattr(self, name)
            if after.dtype != torch.float64 and after.device.type != "mps":
                setattr(self, name, before.to(after.device))
        return self

    def extra_repr(self) -> str:
        return f"mean={self.mean.tolist()}, std={self.std.tolist()}"


@dataclass(frozen=True)
class _Moments:
    """Count, mean, √Σ(x − mean)², least and largest value per channel: no square over- or underflows."""

    count: int
    mean: Tensor
    deviation: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, x: Tensor) -> _Moments:
        """Of one block (channels, values), in two passes; the numbers are scaled by a power of two, which is exact."""
        low, high = x.amin(1), x.amax(1)
        power = torch.frexp(torch.maximum(-low, high)).exponent.clamp(-1000, 1000)
        scale = torch.from_numpy(np.ldexp(1.0, power.numpy()))
        scaled = x / scale[:, None]
        mean = scaled.mean(1)
        mean = mean + (scaled - mean[:, None]).mean(1)
        deviation = (scaled - mean[:, None]).square().sum(1).sqrt()
        return cls(x.shape[1], mean * scale, deviation * scale, low, high)

    def merged(self, other: _Moments) -> _Moments:
        total, shift = self.count + other.count, other.mean - self.mean
        apart = shift.abs() * math.sqrt(self.count * other.count / total)
        return _Moments(
            total,
            self.mean + shift * (other.count / total),
            torch.hypot(torch.hypot(self.deviation, other.deviation), apart),
            torch.minimum(self.low, other.low),
            torch.maximum(self.high, other.high),
        )
