"""Tasks on sequences of symbols: copying, recall of values by keys, a needle among noise; drawn by seed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

NOT_ASKED = -100  # what torch's cross-entropy leaves out


@dataclass(frozen=True)
class SequenceTask:
    """Sequences, and what is asked where.

    tokens : (samples, length) int64 in 0 … symbols − 1, or (samples, length, parts): a token of several symbols
    targets : (samples, length) int64, the symbol asked for at a position from the tokens up to it; −100: nothing is.
        (samples, length, answers) where several are asked at once
    symbols : size of the alphabet, of tokens and targets
    groups : name → int64, as the targets, what kind of question it is ("distance", "hop"), −1 where nothing is asked

    Raises ValueError for shapes and kinds that differ from these, symbols outside the alphabet, and groups that are
    negative where something is asked.
    """

    tokens: np.ndarray
    targets: np.ndarray
    symbols: int
    groups: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, part in {"tokens": self.tokens, "targets": self.targets, **self.groups}.items():
            like = self.targets.shape if name in self.groups else (*self.tokens.shape[:2], *part.shape[2:])
            if part.ndim not in (2, 3) or part.shape != like or part.dtype != np.int64:
                raise ValueError(
                    f"{name} of {part.dtype} and shape {part.shape}: expected int64, (samples, length) as the tokens"
                )
        asked = self.asked
        for name, part in (("tokens", self.tokens), ("targets", self.targets[asked])):
            if part.size and not 0 <= part.min() <= part.max() < self.symbols:
                raise ValueError(f"{name} from {part.min()} to {part.max()}: expected 0 … {self.symbols - 1}")
        for name, group in self.groups.items():
            if (group[asked] < 0).any():
                raise ValueError(f"group {name!r} is negative where something is asked")

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def asked(self) -> np.ndarray:
        """As the targets, True where something is asked."""
        return self.targets != NOT_ASKED


def copy(samples: int, *, length: int = 24, alphabet: int = 16, seed: int) -> SequenceTask:
    """Begin, s_1 … s_m, separator, s_1 … s_{m−1}; asked from the separator on: s_1 … s_m.

    length : m; a sequence has 2m + 1 tokens, and every answer stands m tokens before its question
    alphabet : symbols to copy; the signs of the beginning and of the separator are the two after them
    groups : "place", 0 … m − 1
    """
    positive(samples=samples, length=length, alphabet=alphabet)
    drawn = np.random.default_rng(seed).integers(0, alphabet, (samples, length))
    begin, separator = (np.full((samples, 1), alphabet + i) for i in (0, 1))
    tokens = np.concatenate([begin, drawn, separator, drawn[:, :-1]], axis=1)
    targets, place = _nothing(tokens), _nothing(tokens, -1)
    targets[:, length + 1 :] = drawn
    place[:, length + 1 :] = np.arange(length)
    return SequenceTask(tokens, targets, alphabet + 2, {"place": place})


def mqar(
    samples: int, *, length: int = 64, pairs: int = 8, symbols: int = 128, power: float = 0.01, seed: int
) -> SequenceTask:
    """Multi-query associative recall: k v k v … for `pairs` pairs, then every key once more; asked there: its value.

    length : tokens, even, at least 4·pairs
    symbols : keys are among 1 … symbols/2 − 1, values among symbols/2 … symbols − 1, each at most once in a sequence
    power : a key comes back at the gap 2g after the pairs, g drawn without replacement ∝ (g + 1)^{power − 1}
    groups : "distance", tokens from the pair's value to the question

    What is neither pair nor question is drawn among all symbols. The layout of zoology's data (arXiv:2312.04927).
    Raises ValueError where the pairs, or the keys, do not fit.
    """
    positive(samples=samples, pairs=pairs)
    if length % 2 or 4 * pairs > length:
        raise ValueError(f"length={length} for pairs={pairs}: expected an even length of at least {4 * pairs}")
    half = symbols // 2
    if half - 1 < pairs or symbols <= length:
        raise ValueError(f"symbols={symbols}: expected at least {max(length + 1, 2 * pairs + 2)}")
    rng = np.random.default_rng(seed)
    keys = 1 + _distinct(rng, np.ones(half - 1), samples, pairs)
    values = half + _distinct(rng, np.ones(symbols - half), samples, pairs)
    tokens = rng.integers(0, symbols, (samples, length))
    tokens[:, 0 : 2 * pairs : 2], tokens[:, 1 : 2 * pairs : 2] = keys, values
    gaps = _distinct(rng, np.arange(1.0, length // 2 - pairs + 1) ** (power - 1), samples, pairs)
    asked = 2 * (pairs + gaps)
    targets, distance = _nothing(tokens), _nothing(tokens, -1)
    np.put_along_axis(tokens, asked, keys, axis=1)
    np.put_along_axis(targets, asked, values, axis=1)
    np.put_along_axis(distance, asked, asked - np.arange(1, 2 * pairs, 2), axis=1)
    return SequenceTask(tokens, targets, symbols, {"distance": distance})


def associative_recall(samples: int, *, pairs: int = 16, keys: int = 16, values: int = 16, seed: int) -> SequenceTask:
    """k v k v … and one key of them; asked at this end: the value that goes with it.

    Every sequence draws a value for each key, and `pairs` keys with replacement: a key may come again, with its value.
    keys are the symbols 0 … keys − 1, values those after. groups : "distance", tokens since the last such value
    """
    positive(samples=samples, pairs=pairs, keys=keys, values=values)
    rng = np.random.default_rng(seed)
    meaning = keys + rng.integers(0, values, (samples, keys))
    drawn = rng.integers(0, keys, (samples, pairs))
    tokens = np.empty((samples, 2 * pairs + 1), dtype=np.int64)
    tokens[:, 0:-1:2], tokens[:, 1::2] = drawn, np.take_along_axis(meaning, drawn, axis=1)
    query = drawn[np.arange(samples), rng.integers(0, pairs, samples)]
    tokens[:, -1] = query
    targets, distance = _nothing(tokens), _nothing(tokens, -1)
    targets[:, -1] = meaning[np.arange(samples), query]
    latest = pairs - 1 - np.argmax(drawn[:, ::-1] == query[:, None], axis=1)
    distance[:, -1] = 2 * (pairs - latest) - 1
    return SequenceTask(tokens, targets, keys + values, {"distance": distance})


def needle(samples: int, *, length: int = 256, classes: int = 8, noise: int = 16, seed: int) -> SequenceTask:
    """Noise with one token of a class in it, anywhere, and a question at the end; asked there: the class.

    classes are the symbols 0 … classes − 1, then `noise` symbols, then the question. length : tokens, with the question
    groups : "distance", tokens from the needle to the question, 1 … length − 1
    """
    positive(samples=samples, classes=classes, noise=noise)
    if length < 2:
        raise ValueError(f"length={length}: expected at least 2, a needle and a question")
    rng = np.random.default_rng(seed)
    tokens = classes + rng.integers(0, noise, (samples, length))
    tokens[:, -1] = classes + noise
    label, at = rng.integers(0, classes, samples), rng.integers(0, length - 1, samples)
    tokens[np.arange(samples), at] = label
    targets, distance = _nothing(tokens), _nothing(tokens, -1)
    targets[:, -1], distance[:, -1] = label, length - 1 - at
    return SequenceTask(tokens, targets, classes + noise + 1, {"distance": distance})


def _distinct(rng: np.random.Generator, weights: np.ndarray, samples: int, size: int) -> np.ndarray:
    """(samples, size) indices, drawn one after the other without replacement with these weights."""
    # the largest of log w + Gumbel noise, in falling order, are such a draw (Efraimidis & Spirakis 2006)
    keys = np.log(weights) + rng.gumbel(size=(samples, len(weights)))
    return np.argsort(-keys, axis=1)[:, :size]


def _nothing(tokens: np.ndarray, value: int = NOT_ASKED) -> np.ndarray:
    return np.full(tokens.shape, value, dtype=np.int64)


def positive(**sizes: int) -> None:
    """Raises ValueError for sizes below 1, naming the first."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size}: expected at least 1")
