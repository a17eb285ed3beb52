"""Running sums of a smoothed classifier's outputs: votes, means and squares, input by input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sciops.robustness.simplex_maps import SimplexMap


class Tally:
    """Votes, sums and squared sums of f over the samples of each input.

    drawing : streams of uniform numbers by which labels are drawn from a soft f, so that counts are binomial
    pooled : (inputs, classes) bool, classes whose sum is squared too
    """

    def __init__(
        self,
        maps: Sequence[SimplexMap],
        classes: int,
        device: torch.device,
        *,
        drawing: Sequence[torch.Generator] | None = None,
        pooled: np.ndarray | None = None,
    ) -> None:
        shape = (len(maps), classes)
        self.maps, self.drawing = list(maps), drawing
        self.soft = any(m.name != "argmax" for m in maps)
        self.counts = torch.zeros(shape, dtype=torch.int64, device=device)
        self.samples = torch.zeros(len(maps), dtype=torch.int64, device=device)
        self._sums = torch.zeros(shape, dtype=torch.float64, device=device)
        self._squares = torch.zeros_like(self._sums)
        self._pooled = torch.zeros(len(maps), dtype=torch.float64, device=device)
        self._mask = None if pooled is None else torch.from_numpy(pooled).to(device)

    def add(self, inputs: list[int], outputs: Tensor) -> None:
        """Counts outputs (len(inputs), block, classes)."""
        rows = torch.as_tensor(inputs, device=outputs.device)
        self.samples[rows] += outputs.shape[1]
        if self.soft:
            f = soft_outputs([self.maps[i] for i in inputs], outputs)
            votes = _drawn(f, [self.drawing[i] if self.maps[i].name != "argmax" else None for i in inputs])
            self._sums[rows] += f.sum(1)
            self._squares[rows] += f.square().sum(1)
            if self._mask is not None:
                self._pooled[rows] += (f * self._mask[rows, None]).sum(-1).square().sum(1)
        else:
            votes = outputs.argmax(-1)
        ones = torch.ones_like(votes)
        self.counts[rows] += torch.zeros_like(self.counts[rows]).scatter_add_(1, votes, ones)

    def numpy_counts(self) -> np.ndarray:
        return self.counts.cpu().numpy().astype(np.float64)

    def sums(self) -> np.ndarray:
        return self._sums.cpu().numpy() if self.soft else self.numpy_counts()

    def squares(self) -> np.ndarray:
        return self._squares.cpu().numpy() if self.soft else self.numpy_counts()

    def pooled_squares(self) -> np.ndarray:
        if self.soft:
            return self._pooled.cpu().numpy()
        return (self.numpy_counts() * self._mask.cpu().numpy()).sum(1)


def soft_outputs(maps: Sequence[SimplexMap], outputs: Tensor) -> Tensor:
    """f (inputs, block, classes), float64; one call where all inputs have the same map."""
    if len(set(maps)) == 1:
        return maps[0](outputs)
    return torch.stack([m(out) for m, out in zip(maps, outputs)])


def _drawn(f: Tensor, streams: Sequence[torch.Generator | None]) -> Tensor:
    """Labels with probabilities f, by inversion; classes of probability 0 are never drawn. No stream: f is a vote."""
    size = f.shape[1]
    uniform = torch.stack([_uniform(size, stream).to(f.device) for stream in streams])
    edges = f.cumsum(-1)
    return (edges <= uniform[..., None] * edges[..., -1:]).sum(-1)


def _uniform(size: int, stream: torch.Generator | None) -> Tensor:
    if stream is None:
        return torch.zeros(size, dtype=torch.float64)
    return torch.rand(size, generator=stream, device=stream.device, dtype=torch.float64)
