"""Synthetic languages: a grammar says which letter follows which, an alphabet how the letters are written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LETTERS = 18  # of every alphabet; the first one separates words
_CHAINS = 64  # drawn side by side
_SPARSE = 0.12  # Dirichlet parameter: about four letters follow a pair


def written(grammar: int, alphabet: int, length: int, *, sample: int = 0) -> np.ndarray:
    """(length,) letters of a text, numbers from LETTERS · alphabet on.

    Letters follow the last two by the probabilities of the grammar. Texts of the same grammar, sample and length are
    the same text in another alphabet.

    grammar, alphabet : numbers of each
    sample : number of the text
    """
    follow = np.random.default_rng([7, grammar]).dirichlet(np.full(LETTERS, _SPARSE), LETTERS**2)
    steps = np.cumsum(follow, axis=1)
    steps[:, -1] = 1.0
    rng = np.random.default_rng([11, grammar, sample])
    rows = -(-length // _CHAINS) + 20
    drawn = np.zeros((rows, _CHAINS), dtype=np.int64)
    drawn[:2] = rng.integers(LETTERS, size=(2, _CHAINS))
    chance = rng.random((rows, _CHAINS))
    for i in range(2, rows):
        table = steps[drawn[i - 2] * LETTERS + drawn[i - 1]]
        drawn[i] = (chance[i][:, None] > table).sum(1)
    return drawn[20:].T.ravel()[:length] + LETTERS * alphabet


def same_part(names: Sequence[str], part: int) -> np.ndarray:
    """(tasks, tasks) 1.0 where names such as "A1" agree in a character: 0 the grammar, 1 the alphabet."""
    letters = np.array([name[part] for name in names])
    return (letters[:, None] == letters).astype(float)
