"""Outputs of a classifier on Gaussian copies of its inputs, the same however they are batched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

_BLOCK_NUMBERS = 1 << 21  # noise values drawn at a time for one input
_BLOCK_SAMPLES = 512


class NoisyOutputs:
    """Each input has its own stream of noise, so that neither batch size nor the other inputs change its samples."""

    def __init__(
        self, classifier: Callable[[Tensor], Tensor], sigma: float, batch_size: int, generator: torch.Generator | None
    ) -> None:
        if isinstance(classifier, nn.Module) and classifier.training:
            raise ValueError(
                "the classifier is in training mode, where dropout and batch norm are no function of x: call .eval()"
            )
        self.classifier, self.sigma, self.batch_size, self.generator = classifier, sigma, batch_size, generator

    def streams(self, inputs: int, device: torch.device, each: int) -> list[list[torch.Generator]]:
        """`each` lists of one new generator an input, seeded input by input from the caller's, on its device or x's."""
        place = self.generator.device if self.generator is not None else device
        by_input = [[self._stream(place) for _ in range(each)] for _ in range(inputs)]
        return [[streams[j] for streams in by_input] for j in range(each)]

    def _stream(self, place: torch.device) -> torch.Generator:
        at = place if self.generator is not None else "cpu"
        seed = int(torch.randint(1 << 62, (1,), generator=self.generator, device=at))
        return torch.Generator(device=place).manual_seed(seed)

    def group(self, x: Tensor, samples: int) -> int:
        """How many inputs fill a batch when each brings a block of samples."""
        return max(1, self.batch_size // min(block_size(x), samples))

    def blocks(
        self, x: Tensor, streams: Sequence[torch.Generator], samples: int, active: list[int]
    ) -> Iterator[tuple[list[int], Tensor]]:
        """Yields (inputs, outputs (inputs, block, classes)) until every input has `samples` samples.

        active : positions of the inputs still wanted; the caller may shorten it between blocks to stop early
        """
        block = block_size(x)
        for first in range(0, samples, block):
            if not active:
                return
            size = min(block, samples - first)
            now = list(active)
            rows = torch.stack([self._noisy(x[i], streams[i], size) for i in now]).flatten(0, 1)
            with torch.no_grad():
                outputs = torch.cat([self._classified(part) for part in rows.split(self.batch_size)])
            yield now, outputs.unflatten(0, (len(now), size))

    def _noisy(self, x: Tensor, stream: torch.Generator, size: int) -> Tensor:
        noise = torch.randn((size, *x.shape), generator=stream, device=stream.device, dtype=x.dtype)
        return noise.to(x.device).mul_(self.sigma).add_(x)

    def _classified(self, rows: Tensor) -> Tensor:
        outputs = self.classifier(rows)
        if outputs.ndim != 2 or len(outputs) != len(rows) or outputs.shape[1] < 2:
            raise ValueError(
                f"the classifier returned shape {tuple(outputs.shape)} for {len(rows)} inputs: "
                "expected (inputs, classes) with at least two classes"
            )
        if outputs.isnan().any():
            raise ValueError("the classifier returned nan: a vote cannot be counted; check its inputs and weights")
        return outputs


def block_size(x: Tensor) -> int:
    """Samples drawn at a time: a function of the input's shape alone."""
    return max(1, min(_BLOCK_SAMPLES, _BLOCK_NUMBERS // max(1, x[0].numel())))
