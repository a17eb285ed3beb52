"""The next word of a text."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.datasets.text import CORPORA, read_corpus
from sciops.datasets.text.words import words
from sciops.models import Recurrent
from studies.kit.through_time.tasks import Task, recurrent


def word_task(
    corpus: str, *, vocabulary: int, length: int, batch: int, width: int, depth: int, cell: str, held_out: int
) -> Task:
    """One-hot words in, logits of the next out; loss in nats a word, shown as perplexity.

    vocabulary : most frequent words of the training part, with one entry for all others
    held_out : sequences in validation and in test
    """
    text = words(read_corpus(corpus))
    size = len(text) // 20
    frequent = Counter(text[: -2 * size]).most_common(vocabulary - 1)
    number = {word: i for i, (word, _) in enumerate(frequent)}
    codes = torch.tensor([number.get(word, len(number)) for word in text])
    count = len(number) + 1
    train, validation, test = codes.split([len(codes) - 2 * size, size, size])
    unknown = float((test == len(number)).double().mean())

    def windows(part: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        rows = part[starts[:, None] + torch.arange(length + 1)]
        return F.one_hot(rows[:, :-1], count).float(), rows[:, 1:]

    def even(part: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [windows(part, some) for some in torch.linspace(0, len(part) - length - 1, held_out).long().split(batch)]

    def loss(model: Recurrent, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())

    shares = torch.bincount(train, minlength=count).double() / len(train)
    entropy = -float((shares * shares.clamp(min=1e-12).log()).sum())
    return Task(
        name=f"words, T = {length}",
        about=f"next word of {CORPORA[corpus].split(' (')[0].split(',')[0]}, {count} words, {unknown:.1%} others",
        steps=length,
        unit="perplexity a word",
        model=lambda seed: recurrent(seed, count, count, width, depth, cell, residual=False),
        draw=lambda generator: windows(train, torch.randint(len(train) - length, (batch,), generator=generator)),
        loss=loss,
        validation=even(validation),
        test=even(test),
        shown=lambda nats: float(np.exp(min(nats, 50.0))),
        trivial=float(np.exp(entropy)),
    )
