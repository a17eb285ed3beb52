"""Symbol tasks: every answer is found again by reading the sequence token by token."""

import numpy as np
import pytest

from sciops.datasets import SequenceTask, associative_recall, copy, mqar, needle


def answers(task, rule):
    """Checks targets against rule(tokens so far, list) → symbol, at every asked position."""
    for tokens, targets in zip(task.tokens.tolist(), task.targets.tolist()):
        for t, target in enumerate(targets):
            if target != -100:
                assert target == rule(tokens[: t + 1]), (tokens, t)


def test_copy_repeats_what_stood_before_the_separator():
    task = copy(50, length=9, alphabet=5, seed=0)
    assert task.tokens.shape == (50, 19) and task.symbols == 7
    assert (task.tokens[:, 0] == 5).all() and (task.tokens == 6).sum() == 50

    def rule(seen):
        separator = seen.index(6)
        return seen[1 + len(seen) - 1 - separator]

    answers(task, rule)
    assert (task.asked.sum(1) == 9).all() and (task.groups["place"][:, 10:] == np.arange(9)).all()
    # teacher forcing: the answer of one position is the next one's token
    assert (task.tokens[:, 11:] == task.targets[:, 10:-1]).all()
    assert len(np.unique(task.tokens[:, 1:10])) == 5


def test_mqar_answers_are_the_values_of_the_pairs():
    pairs, length, symbols = 6, 40, 64
    task = mqar(200, length=length, pairs=pairs, symbols=symbols, seed=1)

    def rule(seen):
        return dict(zip(seen[0 : 2 * pairs : 2], seen[1 : 2 * pairs : 2]))[seen[-1]]

    answers(task, rule)
    keys, values = task.tokens[:, 0 : 2 * pairs : 2], task.tokens[:, 1 : 2 * pairs : 2]
    assert keys.min() >= 1 and keys.max() < 32 <= values.min()
    for row in range(200):
        asked = np.flatnonzero(task.asked[row])
        assert len(set(keys[row])) == len(set(values[row])) == pairs
        assert sorted(task.tokens[row, asked]) == sorted(keys[row])
        assert (asked >= 2 * pairs).all() and (asked % 2 == 0).all()
        for t in asked:
            pair = list(keys[row]).index(task.tokens[row, t])
            assert task.groups["distance"][row, t] == t - (2 * pair + 1)


def test_mqar_gaps_follow_the_power_law():
    task = mqar(20_000, length=24, pairs=1, symbols=32, power=0.5, seed=2)
    gaps = (np.argmax(task.asked, axis=1) - 2) // 2
    law = np.arange(1, 12) ** -0.5
    expected = 20_000 * law / law.sum()
    counts = np.bincount(gaps, minlength=11)
    assert ((counts - expected) ** 2 / expected).sum() < 29.6  # χ² of 10 degrees, one in a thousand


def test_recall_gives_the_value_the_key_had():
    task = associative_recall(300, pairs=10, keys=6, values=4, seed=3)
    for tokens, distance in zip(task.tokens.tolist(), task.groups["distance"][:, -1]):
        meaning = {}
        for t in range(0, 20, 2):  # one meaning a key and sequence
            assert meaning.setdefault(tokens[t], tokens[t + 1]) == tokens[t + 1]
            if tokens[t] == tokens[-1]:
                last = t + 1
        assert distance == 20 - last
    answers(task, lambda seen: dict(zip(seen[0:-1:2], seen[1:-1:2]))[seen[-1]])
    assert (task.asked.sum(1) == 1).all() and task.asked[:, -1].all()
    assert task.tokens[:, 0::2].max() < 6 <= task.tokens[:, 1::2].min() and task.symbols == 10


def test_the_needle_is_the_only_token_of_a_class():
    task = needle(500, length=17, classes=3, noise=5, seed=4)
    answers(task, lambda seen: next(t for t in seen if t < 3))
    assert ((task.tokens < 3).sum(1) == 1).all() and (task.tokens[:, -1] == 8).all()
    at = np.argmax(task.tokens < 3, axis=1)
    assert (task.groups["distance"][:, -1] == 16 - at).all()
    assert set(at) == set(range(16)) and set(task.targets[:, -1]) == {0, 1, 2}


@pytest.mark.parametrize("made", [copy, mqar, associative_recall, needle])
def test_a_seed_decides_everything(made):
    a, b, other = made(8, seed=5), made(8, seed=5), made(8, seed=6)
    assert (a.tokens == b.tokens).all() and (a.targets == b.targets).all()
    assert (a.tokens != other.tokens).any()
    assert len(a) == 8 and a.tokens.dtype == np.int64


def test_sizes_that_do_not_fit_are_refused():
    for call in (
        lambda: mqar(1, length=30, pairs=8, seed=0),
        lambda: mqar(1, length=33, pairs=8, seed=0),
        lambda: mqar(1, length=64, pairs=8, symbols=64, seed=0),
        lambda: needle(1, length=1, seed=0),
        lambda: copy(1, length=0, seed=0),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()
    tokens = np.zeros((2, 3), dtype=np.int64)
    SequenceTask(tokens, tokens, 1)
    with pytest.raises(ValueError, match="expected 0 … 0"):
        SequenceTask(tokens, tokens + 1, 1)
    with pytest.raises(ValueError, match="int64"):
        SequenceTask(tokens, tokens[:, :2], 1)
    with pytest.raises(ValueError, match="negative"):
        SequenceTask(tokens, tokens, 1, {"hop": tokens - 1})
