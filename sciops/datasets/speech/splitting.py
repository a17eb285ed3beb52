"""Parts of a corpus that share no sentence and no speaker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sciops.datasets.speech.corpus import SpeechCorpus

PARTS = ("train", "validation", "test")


def split(
    corpus: SpeechCorpus,
    *,
    by: str | Sequence[str] = ("sentence",),
    validation: float = 0.1,
    test: float = 0.1,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """{"train", "validation", "test"} → indices, ascending, of utterances that share no value of any name in `by`.

    by : one or several of "sentence", "speaker" and the corpus's factors. With several names the values of each are
        dealt among the parts, and an utterance whose values were dealt to different parts belongs to none: with
        sentences and speakers, every test utterance is a new sentence by a new speaker.
    validation, test : shares of the values of every name

    Raises ValueError for unknown names, shares that leave nothing for training, and a part that stays empty.
    """
    by = (by,) if isinstance(by, str) else tuple(by)
    if not by or validation < 0 or test < 0 or validation + test >= 1:
        raise ValueError(f"by={by}, validation={validation}, test={test}: expected names, and shares below 1")
    rng = np.random.default_rng(seed)
    wanted = [part for part, share in zip(PARTS, (1.0, validation, test)) if share > 0]
    dealt = []
    for name in by:
        values = _values(corpus, name)
        found = sorted(set(values), key=str)
        order = rng.permutation(len(found))
        sizes = [max(1, round(share * len(found))) if share > 0 else 0 for share in (validation, test)]
        if sum(sizes) >= len(found):
            raise ValueError(f"{len(found)} values of {name!r} do not make {len(wanted)} parts: make more of them")
        part = np.zeros(len(found), np.int64)
        part[order[: sizes[0]]], part[order[sizes[0] : sum(sizes)]] = 1, 2
        of = dict(zip(found, part))
        dealt.append([of[value] for value in values])
    dealt = np.array(dealt)
    parts = {}
    for number, part in enumerate(PARTS):
        parts[part] = np.flatnonzero((dealt == number).all(0))
        if part in wanted and not len(parts[part]):
            raise ValueError(f"no utterance for {part!r} with by={by}: take larger shares, or a larger corpus")
    return parts


def _values(corpus: SpeechCorpus, name: str) -> Sequence:
    if name in ("sentence", "speaker"):
        return corpus.sentences if name == "sentence" else corpus.speakers
    if name not in corpus.factors:
        raise ValueError(
            f"by={name!r}: expected sentence, speaker or one of {', '.join(corpus.factors) or 'no factors'}"
        )
    return corpus.factors[name]
