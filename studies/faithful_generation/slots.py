"""A table as text: values in any order, to be said slot by slot; a slot is faithful where it has the table's value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SLOTS, VALUES, FILLERS = 4, 12, 3
END, SEPARATOR = 0, 1
SYMBOLS = 2 + FILLERS + SLOTS * VALUES
LENGTH = 2 * SLOTS + 1  # tokens of a text: a filler and a value for each slot, and the end


@dataclass(frozen=True)
class Tables:
    """values, said : (samples, slots) of the table, and of the reference. prompts, texts : (samples, n) their tokens"""

    values: np.ndarray
    said: np.ndarray
    prompts: np.ndarray
    texts: np.ndarray


def tables(samples: int, *, from_prior: float, ungrounded: float, rng: np.random.Generator) -> Tables:
    """Tables and references.

    from_prior : probability that a value follows the one before by the prior's rule, instead of being any value
    ungrounded : probability that a reference says, instead of the table's value, the one that the prior expects after
        what it said before
    """
    values = chain(samples, from_prior, rng)
    said = values.copy()
    for k in range(1, SLOTS):
        wrong = rng.random(samples) < ungrounded
        said[wrong, k] = expected_after(said[wrong, k - 1])
    order = rng.permuted(np.tile(np.arange(SLOTS), (samples, 1)), axis=1)
    shuffled = np.take_along_axis(_tokens(values), order, 1)
    prompts = np.concatenate([shuffled, np.full((samples, 1), SEPARATOR)], 1)
    return Tables(values, said, prompts, texts_of(said, rng))


def chain(samples: int, from_prior: float, rng: np.random.Generator) -> np.ndarray:
    """(samples, slots) values of which each follows the rule with probability `from_prior` and is any value else."""
    values = rng.integers(VALUES, size=(samples, SLOTS))
    for k in range(1, SLOTS):
        follows = rng.random(samples) < from_prior
        values[follows, k] = expected_after(values[follows, k - 1])
    return values


def expected_after(value: np.ndarray) -> np.ndarray:
    """The value that the prior expects after this one: a permutation without a fixed point."""
    return (5 * value + 2) % VALUES


def texts_of(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(samples, LENGTH) tokens: for each slot one of the fillers, which mean nothing, and its value; the end."""
    text = np.full((len(values), LENGTH), END)
    text[:, 0:-1:2] = 2 + rng.integers(FILLERS, size=values.shape)
    text[:, 1::2] = _tokens(values)
    return text


def wrong_slots(text: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(samples,) share of the slots whose value is not the table's, of texts (samples, LENGTH)."""
    return (text[:, 1::2] != _tokens(values)).mean(1)


def well_formed(text: np.ndarray) -> np.ndarray:
    """(samples,) whether fillers, values of the right slots and the end are in their places."""
    fillers = (text[:, 0:-1:2] >= 2) & (text[:, 0:-1:2] < 2 + FILLERS)
    slots = (text[:, 1::2] - 2 - FILLERS) // VALUES == np.arange(SLOTS)
    return fillers.all(1) & slots.all(1) & (text[:, -1] == END)


def _tokens(values: np.ndarray) -> np.ndarray:
    return 2 + FILLERS + VALUES * np.arange(SLOTS) + values
