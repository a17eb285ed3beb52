"""Tasks of entity tracking: links that have to be followed back through a sequence, one after the other.

A token names itself and what it points to; the answer at a token is the value at the end of its chain of links. The
number of links, "hop" in the groups of a task, is what a model has to follow.
"""

from __future__ import annotations

import numpy as np

from sciops.datasets.text.sequence_tasks import SequenceTask, positive


def pointer_chain(
    samples: int,
    *,
    length: int,
    chains: int,
    values: int,
    local: int | None = None,
    long_links: float = 0.0,
    balanced: bool = True,
    seed: int,
) -> SequenceTask:
    """Token t = (own name, name of its parent or a root's value); asked at every token: the value of its root.

    `chains` chains lie interleaved in a random order, and names are a new permutation in every sequence, so that a
    parent can only be found by its name.

    local : a parent is at most this many tokens before; None sets no limit
    long_links : share of the tokens with anything farther than `local` before them that have their parent there, any
        such token of any chain alike, which then joins its chain
    balanced : chains of length/chains tokens, up to one; False draws the chain of every token alike

    tokens : (samples, length, 2), [name] and [length + name] or [2·length + value]; targets the symbol 2·length + value
    groups : "hop", links to the root, 0 at a root. symbols : 2·length + values

    Raises ValueError for fewer tokens or a smaller `local` than chains, and for long links without `local`.
    """
    _check_chains(samples, length, chains, values)
    rng = np.random.default_rng(seed)
    parents = _parents(rng, samples, length, chains, local, balanced)
    if long_links:
        _lengthen(rng, parents, local, long_links)
    links, answers, hops = _followed(rng, parents, values)
    names = rng.permuted(np.tile(np.arange(length), (samples, 1)), axis=1)
    tokens = np.stack([names, _pointed(names, parents, answers, length)], axis=-1)
    return SequenceTask(tokens, 2 * length + answers, 2 * length + values, {"hop": hops})


def block_pointers(
    samples: int,
    *,
    blocks: int,
    block: int,
    values: int,
    entries: int = 1,
    roots: float = 0.15,
    farthest: int = 3,
    seed: int,
) -> SequenceTask:
    """Chains of links in blocks of tokens, of which links to another block go to its first token, or first tokens.

    Tokens are as in `pointer_chain`, of n = blocks·block. Each of the first `entries` tokens of a block has its parent
    among the first `entries` tokens of a block 2 to `farthest` blocks before, alike among those that there are, or it
    is a root: always in the first two blocks, with the probability `roots` in others. Of the other tokens of a block
    one, anywhere, is a root, and the others have their parent among the earlier tokens of their block alike. So a
    token's chain ends in its block, or goes on to entries of other blocks. With one entry, what is needed of another
    block is one token, the same for all who ask.

    Names of entries are a permutation of 0 … blocks·entries − 1 in every sequence, those of the others of the rest.

    groups : "hop", links to the root; "crossings", those of them to another block. symbols : 2n + values

    Raises ValueError for `entries` that leave no other token in a block, and for `farthest` below 2.
    """
    positive(samples=samples, blocks=blocks, values=values, entries=entries)
    if block <= entries or farthest < 2 or not 0 <= roots <= 1:
        raise ValueError(
            f"block={block}, entries={entries}, farthest={farthest}, roots={roots}: expected a block of more tokens "
            "than entries, farthest of at least 2 and a share in 0 … 1"
        )
    rng, n = np.random.default_rng(seed), blocks * block
    parents = np.full((samples, n), -1)
    for b in range(blocks):
        first = b * block
        for j in range(entries if b > 1 else 0):
            back = rng.integers(2, min(farthest, b) + 1, samples)
            entry = first - back * block + rng.integers(0, entries, samples)
            parents[:, first + j] = np.where(rng.random(samples) < roots, -1, entry)
        own = rng.integers(entries, block, samples)
        for j in range(entries, block):
            parents[:, first + j] = np.where(own == j, -1, first + rng.integers(0, j, samples))
    _, answers, hops = _followed(rng, parents, values)
    at, rows = np.arange(n), np.arange(samples)
    crossings = np.zeros_like(hops)
    for t in range(n):
        before = parents[:, t]
        crossed = crossings[rows, before] + (before // block != t // block)
        crossings[:, t] = np.where(before < 0, 0, crossed)
    names = np.empty_like(parents)
    is_entry = at % block < entries
    names[:, is_entry] = rng.permuted(np.tile(np.arange(blocks * entries), (samples, 1)), axis=1)
    names[:, ~is_entry] = rng.permuted(np.tile(np.arange(blocks * entries, n), (samples, 1)), axis=1)
    tokens = np.stack([names, _pointed(names, parents, answers, n)], axis=-1)
    return SequenceTask(tokens, 2 * n + answers, 2 * n + values, {"hop": hops, "crossings": crossings})


def packed_pointers(samples: int, *, length: int, chains: int, values: int, properties: int, seed: int) -> SequenceTask:
    """`properties` independent pointer chains in the same tokens: a token has one name and a link of every system.

    One pattern of attention can follow the links of one system, so that a layer needs a head for every property.

    tokens : (samples, length, 1 + properties), [name] and, for system p, what `pointer_chain` has, behind the
        symbols of the systems before it; targets (samples, length, properties), the value of every system
    groups : "hop", of the same shape. symbols : length + properties·(length + values)

    Raises ValueError as `pointer_chain` does, and for fewer than one property.
    """
    if properties < 1:
        raise ValueError(f"properties={properties}: expected at least 1")
    _check_chains(samples, length, chains, values)
    rng = np.random.default_rng(seed)
    names = rng.permuted(np.tile(np.arange(length), (samples, 1)), axis=1)
    parts, targets, hops = [names], [], []
    for i in range(properties):
        first = length + i * (length + values)
        parents = _parents(rng, samples, length, chains, None, True)
        _, answers, hop = _followed(rng, parents, values)
        parts.append(_pointed(names, parents, answers, first))
        targets.append(first + length + answers)
        hops.append(hop)
    symbols = length + properties * (length + values)
    return SequenceTask(np.stack(parts, -1), np.stack(targets, -1), symbols, {"hop": np.stack(hops, -1)})


def overwrite(
    samples: int, *, length: int, variables: int, values: int, literals: float = 0.2, seed: int
) -> SequenceTask:
    """Statements x_a := value or x_a := x_b, variables written again and again; asked after each: the value of x_a.

    x_b has the value of its latest write before the statement, so that a model has to know which write is the latest.

    literals : share of the statements that write a value; others take x_b alike among the other variables written so
        far, and where there is none they write a value too

    tokens : (samples, length, 2), [a] and [variables + b] or [2·variables + value]; targets 2·variables + value
    groups : "hop", links to the literal; "stale", earlier writes of the same x_b, 0 for literals
    symbols : 2·variables + values
    """
    positive(samples=samples, length=length)
    if variables < 2 or values < 1 or not 0 <= literals <= 1:
        raise ValueError(
            f"variables={variables}, values={values}, literals={literals}: expected ≥ 2, ≥ 1 and a share in 0 … 1"
        )
    rng = np.random.default_rng(seed)
    rows = np.arange(samples)
    written = np.zeros((samples, variables), dtype=np.int64)  # how often
    holds, depth = np.zeros_like(written), np.zeros_like(written)
    columns = []
    for _ in range(length):
        a = rng.integers(0, variables, samples)
        others = written > 0
        others[rows, a] = False
        literal = (rng.random(samples) < literals) | ~others.any(1)
        b = np.where(others, rng.random((samples, variables)), -1.0).argmax(1)
        value = rng.integers(0, values, samples)
        what = np.where(literal, 2 * variables + value, variables + b)
        stale = np.where(literal, 0, written[rows, b] - 1)
        answer = np.where(literal, value, holds[rows, b])
        hop = np.where(literal, 0, depth[rows, b] + 1)
        holds[rows, a], depth[rows, a] = answer, hop
        written[rows, a] += 1
        columns.append(np.stack([a, what, 2 * variables + answer, hop, stale]))
    a, what, answers, hop, stale = np.stack(columns, axis=-1)
    return SequenceTask(np.stack([a, what], -1), answers, 2 * variables + values, {"hop": hop, "stale": stale})


def _check_chains(samples: int, length: int, chains: int, values: int) -> None:
    positive(samples=samples)
    if not 1 <= chains <= length or values < 1:
        raise ValueError(f"chains={chains}, values={values}: expected 1 ≤ chains ≤ length={length} and values ≥ 1")


def _parents(
    rng: np.random.Generator, samples: int, length: int, chains: int, local: int | None, balanced: bool
) -> np.ndarray:
    """(samples, length) place of the token before in the same chain, −1 at the first of a chain."""
    if local is not None and local < chains:
        raise ValueError(f"local={local} for chains={chains}: expected at least one token back for every chain")
    rows = np.arange(samples)
    last = np.full((samples, chains), -1)
    left = np.full((samples, chains), np.inf)
    if balanced:
        left = np.tile(length // chains + (np.arange(chains) < length % chains).astype(float), (samples, 1))
    parents = np.empty((samples, length), dtype=np.int64)
    for t in range(length):
        # drawing by what is left of each chain is drawing a random order of all
        weights = left / left.sum(1, keepdims=True) if balanced else np.full((samples, chains), 1 / chains)
        chain = (weights.cumsum(1) < rng.random((samples, 1))).sum(1).clip(max=chains - 1)
        chain = np.where(weights[rows, chain] > 0, chain, weights.argmax(1))
        if local is not None:
            # places of last tokens differ, so that at most one chain comes to its limit at a time
            due = (last >= 0) & (left > 0) & (last == t - local)
            chain = np.where(due.any(1), due.argmax(1), chain)
        parents[:, t] = last[rows, chain]
        last[rows, chain] = t
        left[rows, chain] -= 1
    return parents


def _lengthen(rng: np.random.Generator, parents: np.ndarray, local: int | None, share: float) -> None:
    if local is None or not 0 <= share <= 1:
        raise ValueError(f"long_links={share} with local={local}: expected a share in 0 … 1 and a limit that they pass")
    samples, length = parents.shape
    room = np.arange(length) - local  # places farther than `local` before
    long = (rng.random((samples, length)) < share) & (room > 0) & (parents >= 0)
    parents[long] = (rng.random((samples, length)) * room).astype(np.int64)[long]


def _followed(rng: np.random.Generator, parents: np.ndarray, values: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(parents, value at the end of the links, number of links), the last two (samples, length)."""
    answers, hops = rng.integers(0, values, parents.shape), np.zeros_like(parents)
    rows = np.arange(len(parents))
    for t in range(parents.shape[1]):
        before = parents[:, t]
        answers[:, t] = np.where(before < 0, answers[:, t], answers[rows, before])
        hops[:, t] = np.where(before < 0, 0, hops[rows, before] + 1)
    return parents, answers, hops


def _pointed(names: np.ndarray, parents: np.ndarray, answers: np.ndarray, first: int) -> np.ndarray:
    """[first + the parent's name], and [first + length + value] at a root."""
    of_parent = np.take_along_axis(names, parents.clip(min=0), axis=1)
    return first + np.where(parents < 0, names.shape[1] + answers, of_parent)
