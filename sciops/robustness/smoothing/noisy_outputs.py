"""Outputs of a classifier on Gaussian copies of its inputs, independent of how they are batched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from tqdm.auto import tqdm

from sciops.robustness.checks import check_evaluation_mode

_BLOCK_NUMBERS = 1 << 21  # noise values drawn at a time for one input
_BLOCK_SAMPLES = 512
_PROBED = 16  # rows that the classifier sees twice
_REPEATED = 0.01  # of the largest output: what other batches and low-precision arithmetic may change in most rows


class NoisyOutputs:
    """Each input has its own stream of noise, so that neither batch size nor the other inputs change its samples.

    batch_size : rows given to the classifier at a time; None: 4096 small inputs, or 2²³ numbers

    Raises ValueError for a classifier in training mode, one whose outputs for the same rows differ between two
    calls (dropout, or rows that see each other), one that returns nan, and shapes other than (rows, classes).
    """

    def __init__(
        self,
        classifier: Callable[[Tensor], Tensor],
        x: Tensor,
        *,
        sigma: float,
        batch_size: int | None,
        generator: torch.Generator | None,
    ) -> None:
        check_evaluation_mode(classifier, "the classifier")
        self.classifier, self.x, self.sigma, self.generator = classifier, x, sigma, generator
        self.batch_size = batch_size or max(1, min(4096, (1 << 23) // x[0].numel()))
        self._repeats = False

    def streams(self, inputs: int, each: int) -> list[list[torch.Generator]]:
        """`each` lists of one new generator an input, seeded input by input from the caller's, on its device or x's."""
        place = self.generator.device if self.generator is not None else self.x.device
        by_input = [[self._stream(place) for _ in range(each)] for _ in range(inputs)]
        return [[streams[j] for streams in by_input] for j in range(each)]

    def _stream(self, place: torch.device) -> torch.Generator:
        at = place if self.generator is not None else "cpu"
        seed = int(torch.randint(1 << 62, (1,), generator=self.generator, device=at))
        return torch.Generator(device=place).manual_seed(seed)

    def groups(self, samples: int, desc: str, progress: bool) -> Iterator[Tensor]:
        """x in parts whose inputs fill a batch when each brings a block of samples."""
        with tqdm(total=len(self.x), unit="input", desc=desc, disable=None if progress else True, leave=False) as bar:
            for some in self.x.split(max(1, self.batch_size // min(block_size(self.x), samples))):
                yield some
                bar.update(len(some))

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
        if not self._repeats:
            self._check_repeats(rows, outputs)
            self._repeats = True
        return outputs

    def _check_repeats(self, rows: Tensor, outputs: Tensor) -> None:
        """Raises ValueError where most rows differ in a second call, as with dropout and batch norm in training."""
        first = outputs[:_PROBED].double()
        again = self.classifier(rows[:_PROBED]).double()
        change = torch.where(again == first, 0.0, (again - first).abs()).nan_to_num(nan=torch.inf).amax(1)
        finite = torch.where(first.isfinite(), first, 0.0).abs().amax(1)
        if bool((change > _REPEATED * finite).double().mean() > 0.5):
            raise ValueError(
                "the classifier's outputs for the same inputs differ between two calls, by "
                f"{float(change.median()):g}: expected a function of each row by itself; call .eval() on every module "
                "that it uses"
            )


def block_size(x: Tensor) -> int:
    """Samples drawn at a time: a function of the input's shape alone."""
    return max(1, min(_BLOCK_SAMPLES, _BLOCK_NUMBERS // max(1, x[0].numel())))
