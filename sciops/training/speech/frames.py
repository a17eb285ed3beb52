"""Log-mel frames of a data set, one recording after another, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.models.sequences.log_mel import LogMel


class MelFrames:
    """frames[i] : (frames, bins) float32, the log-mel frames of recording i; kept once computed unless keep=False.

    recordings : a `SpeechCorpus`, `SpeechFiles` or anything whose items have `audio` and `sample_rate`
    mel : `encoder.mel`. indices : of the recordings to take; all unless given

    Raises ValueError, when it is computed, for a recording of another sample rate.
    """

    def __init__(
        self, recordings: Any, mel: LogMel, *, indices: Sequence[int] | None = None, keep: bool = True
    ) -> None:
        self.recordings, self.mel, self.keep = recordings, mel, keep
        self.indices = range(len(recordings)) if indices is None else [int(i) for i in indices]
        self._kept: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Tensor:
        i = self.indices[index]
        if i in self._kept:
            return self._kept[i]
        one = self.recordings[i]
        if one.sample_rate != self.mel.sample_rate:
            raise ValueError(
                f"recording {i} has {one.sample_rate} Hz, the model {self.mel.sample_rate}: resample the corpus "
                "(sciops.datasets.speech.resampled), or build the model with its sample_rate"
            )
        with torch.no_grad():
            frames = self.mel(torch.from_numpy(np.ascontiguousarray(one.audio))[None])[0][0]
        if self.keep:
            self._kept[i] = frames
        return frames


def padded(frames: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """(batch, longest, bins) with zeros behind the shorter ones, and the lengths (batch,)."""
    lengths = torch.tensor([len(one) for one in frames])
    return torch.nn.utils.rnn.pad_sequence(list(frames), batch_first=True), lengths


class LengthBatches:
    """batches(step) : indices of the recordings of a training step; a function of the seed and the step alone.

    Every epoch is a new order; within eight batches of it recordings are sorted by length, so that little is padding,
    and the batches are shuffled again. What does not fill a batch at the end of an epoch is left out of that epoch.
    """

    def __init__(self, lengths: Sequence[int], size: int, *, seed: int = 0) -> None:
        if not 1 <= size <= len(lengths):
            raise ValueError(f"batches of {size} from {len(lengths)} recordings: expected 1 to {len(lengths)}")
        self.lengths, self.size, self.seed = np.asarray(lengths), size, seed
        self.per_epoch = len(lengths) // size
        self._epoch, self._batches = -1, np.zeros((0, size), np.int64)

    def __call__(self, step: int) -> np.ndarray:
        epoch, at = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            rng = np.random.default_rng((self.seed, epoch))
            order = rng.permutation(len(self.lengths))[: self.per_epoch * self.size]
            pools = [order[i : i + 8 * self.size] for i in range(0, len(order), 8 * self.size)]
            order = np.concatenate([pool[np.argsort(self.lengths[pool], kind="stable")] for pool in pools])
            self._epoch, self._batches = epoch, rng.permutation(order.reshape(self.per_epoch, self.size))
        return self._batches[at]
