"""Running sums of a smoothed classifier's outputs: votes, means and squares, input by input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.robustness.smoothing.simplex_maps import SimplexMap


class Tally:
    """Votes, sums and squared sums of f over the samples of each input.

    simplex : the map from the classifier's outputs to f
    drawing : streams of uniform numbers by which labels are drawn from a soft f, so that counts are binomial
    pooled : (inputs, classes) bool, classes whose sum is squared too
    """

    def __init__(
        self,
        simplex: SimplexMap,
        inputs: int,
        classes: int,
        device: torch.device,
        *,
        drawing: Sequence[torch.Generator],
        pooled: np.ndarray | None = None,
    ) -> None:
        shape = (inputs, classes)
        self.simplex, self.drawing = simplex, drawing
        self.soft = simplex.name != "argmax"
        self.counts = torch.zeros(shape, dtype=torch.int64, device=device)
        self.samples = torch.zeros(inputs, dtype=torch.int64, device=device)
        self._sums = torch.zeros(shape, dtype=torch.float64, device=device)
        self._squares = torch.zeros_like(self._sums)
        self._pooled = torch.zeros(inputs, dtype=torch.float64, device=device)
        self._mask: Any = None if pooled is None else torch.from_numpy(pooled).to(device)

    def add(self, inputs: list[int], outputs: Tensor) -> None:
        """Counts outputs (len(inputs), block, classes)."""
        rows = torch.as_tensor(inputs, device=outputs.device)
        self.samples[rows] += outputs.shape[1]
        if self.soft:
            f = self.simplex(outputs)
            votes = _drawn(f, [self.drawing[i] for i in inputs])
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


def _drawn(f: Tensor, streams: Sequence[torch.Generator]) -> Tensor:
    """Labels with probabilities f, by inversion; classes of probability 0 are never drawn."""
    size = f.shape[1]
    draws = (torch.rand(size, generator=s, device=s.device, dtype=torch.float64) for s in streams)
    uniform = torch.stack([draw.to(f.device) for draw in draws])
    edges = f.cumsum(-1)
    return (edges <= uniform[..., None] * edges[..., -1:]).sum(-1)
