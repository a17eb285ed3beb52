"""Per-channel standardisation, fitted in float64, kept with the model as two buffers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn


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
        not finite (naming the channel), and for blocks that differ in channels.
        """
        blocks = [data] if isinstance(data, (Tensor, np.ndarray)) else data
        count, mean, squares, constant = 0, None, None, None
        for block in blocks:
            x = torch.as_tensor(block).detach()
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
            n, m = x.shape[1], x.mean(1)
            m = m + (x - m[:, None]).mean(1)
            s = (x - m[:, None]).square().sum(1)
            low, high = x.amin(1), x.amax(1)
            if mean is None:
                count, mean, squares, constant = n, m, s, (low, high)
                continue
            if m.shape != mean.shape:
                raise ValueError(f"one block has {len(m)} channels, another {len(mean)}: expected the same in all")
            shift, total = m - mean, count + n
            mean = mean + shift * (n / total)
            squares = squares + s + shift.square() * (count * n / total)
            count, constant = total, (torch.minimum(low, constant[0]), torch.maximum(high, constant[1]))
        if mean is None:
            raise ValueError("no data to fit a Normalizer on: the training split is empty")
        std = (squares / count).sqrt()
        flat = (constant[0] == constant[1]) | (std == 0)
        result = cls(len(mean))
        result.mean.copy_(torch.where(flat, constant[0], mean))
        result.std.copy_(torch.where(flat, torch.ones_like(std), std))
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
