"""Tasks of entity tracking: every answer by a simulation that reads the tokens alone, and the limits of the links."""

import numpy as np
import pytest

from sciops.datasets.text import tracking


def followed(tokens, length, first):
    """(value, hops, parents) of one sequence of tokens (length, 2): [name], then [first + name] or a value behind."""
    places, values, hops, parents = {}, [], [], []
    for t, (name, what) in enumerate(tokens):
        if what >= first + length:
            values.append(what - first - length)
            hops.append(0)
            parents.append(-1)
        else:
            parent = places[what - first]
            values.append(values[parent])
            hops.append(hops[parent] + 1)
            parents.append(parent)
        assert name not in places
        places[name] = t
    return values, hops, parents


@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(balanced=False),
        dict(local=8),
        dict(local=4, balanced=False),
        dict(local=8, long_links=0.5),
        dict(local=5, long_links=0.1, balanced=False),
    ],
)
def test_pointer_chains_end_at_their_roots(options):
    length, chains, values = 30, 4, 6
    task = tracking.pointer_chain(40, length=length, chains=chains, values=values, seed=3, **options)
    far, roots, seen = 0, set(), set()
    for tokens, targets, hop in zip(task.tokens, task.targets, task.groups["hop"]):
        answers, hops, parents = followed(tokens, length, length)
        np.testing.assert_array_equal(targets, 2 * length + np.array(answers))
        np.testing.assert_array_equal(hop, hops)
        back = np.arange(length) - np.array(parents)
        linked = np.array(parents) >= 0
        roots.add(int((~linked).sum()))
        far += int((back[linked] > options.get("local", length)).sum())
        seen.update(targets.tolist())
        if options.get("balanced", True) and not options.get("long_links"):
            assert hop.max() == -(-length // chains) - 1
    assert seen == set(range(2 * length, 2 * length + values))
    assert max(roots) == chains
    assert (far > 0) == bool(options.get("long_links"))
    if options.get("long_links") == 0.5:
        possible = 40 * (length - 1 - options["local"])
        assert far / possible == pytest.approx(0.5, abs=0.1)


def test_chains_are_drawn_alike_and_by_their_seed():
    one, two = (tracking.pointer_chain(500, length=12, chains=3, values=4, seed=s) for s in (0, 1))
    again = tracking.pointer_chain(500, length=12, chains=3, values=4, seed=0)
    np.testing.assert_array_equal(one.tokens, again.tokens)
    assert (one.tokens != two.tokens).any()
    # a random order of 3 chains of 4: a token's chain is that of the token before it with probability 3/11
    hop = one.groups["hop"]
    counts = np.bincount(hop.ravel())
    np.testing.assert_array_equal(counts, [1500] * 4)
    near = np.mean([followed(tokens, 12, 12)[2][-1] == 10 for tokens in one.tokens])
    assert near == pytest.approx(3 / 11, abs=0.06)


@pytest.mark.parametrize("entries", [1, 2])
def test_links_between_blocks_go_to_entries(entries):
    blocks, m, values = 6, 4, 5
    n = blocks * m
    task = tracking.block_pointers(60, blocks=blocks, block=m, values=values, entries=entries, seed=3)
    entered, deepest = set(), 0
    for tokens, targets, hop, crossings in zip(task.tokens, task.targets, *task.groups.values()):
        answers, hops, parents = followed(tokens, n, n)
        np.testing.assert_array_equal(targets, 2 * n + np.array(answers))
        np.testing.assert_array_equal(hop, hops)
        count = []
        for t, parent in enumerate(parents):
            leaves = parent >= 0 and parent // m != t // m
            count.append(0 if parent < 0 else count[parent] + leaves)
            if leaves:
                assert t % m < entries and parent % m < entries and 2 <= t // m - parent // m <= 3
                entered.add(parent % m)
            elif t % m < entries:
                assert parent < 0
            assert (tokens[t, 0] < blocks * entries) == (t % m < entries)
        np.testing.assert_array_equal(crossings, count)
        deepest = max(deepest, *count)
        own = [sum(parents[b * m + j] < 0 for j in range(entries, m)) for b in range(blocks)]
        assert own == [1] * blocks
    assert entered == set(range(entries)) and deepest == 2
    with pytest.raises(ValueError, match="a block of more tokens than entries"):
        tracking.block_pointers(1, blocks=2, block=2, entries=2, values=2, seed=0)


def test_packed_pointers_are_independent_chains_of_the_same_names():
    length, values, properties = 16, 5, 3
    task = tracking.packed_pointers(30, length=length, chains=2, values=values, properties=properties, seed=0)
    assert task.tokens.shape == (30, length, 1 + properties) and task.targets.shape == (30, length, properties)
    different = 0
    for tokens, targets, hop in zip(task.tokens, task.targets, task.groups["hop"]):
        links = []
        for p in range(properties):
            first = length + p * (length + values)
            answers, hops, parents = followed(tokens[:, [0, 1 + p]], length, first)
            np.testing.assert_array_equal(targets[:, p], first + length + np.array(answers))
            np.testing.assert_array_equal(hop[:, p], hops)
            links.append(parents)
        different += links[0] != links[1]
    assert different == 30 and task.symbols == length + properties * (length + values)


def test_overwritten_variables_have_their_latest_value():
    variables, values = 5, 7
    task = tracking.overwrite(60, length=40, variables=variables, values=values, literals=0.25, seed=1)
    literal = task.tokens[..., 1] >= 2 * variables
    for tokens, targets, hop, stale in zip(task.tokens, task.targets, task.groups["hop"], task.groups["stale"]):
        holds, depth, writes = {}, {}, {}
        for t, (a, what) in enumerate(tokens):
            if what >= 2 * variables:
                value, links, before = what - 2 * variables, 0, 0
            else:
                b = what - variables
                assert b != a
                value, links, before = holds[b], depth[b] + 1, writes[b] - 1
            holds[a], depth[a], writes[a] = value, links, writes.get(a, 0) + 1
            assert (targets[t], hop[t], stale[t]) == (2 * variables + value, links, before)
    assert literal[:, 10:].mean() == pytest.approx(0.25, abs=0.03)
    assert task.groups["stale"].max() > 3 and task.groups["hop"].max() > 5


def test_refusals():
    with pytest.raises(ValueError, match="chains=5, values=2: expected 1 ≤ chains ≤ length=4"):
        tracking.pointer_chain(1, length=4, chains=5, values=2, seed=0)
    with pytest.raises(ValueError, match="local=2 for chains=3"):
        tracking.pointer_chain(1, length=9, chains=3, values=2, local=2, seed=0)
    with pytest.raises(ValueError, match="long_links=0.1 with local=None"):
        tracking.pointer_chain(1, length=9, chains=3, values=2, long_links=0.1, seed=0)
    with pytest.raises(ValueError, match="properties=0"):
        tracking.packed_pointers(1, length=9, chains=3, values=2, properties=0, seed=0)
    with pytest.raises(ValueError, match="samples=-1: expected at least 1"):
        tracking.pointer_chain(-1, length=9, chains=3, values=2, seed=0)
    with pytest.raises(ValueError, match="length=0: expected at least 1"):
        tracking.overwrite(1, length=0, variables=2, values=2, seed=0)
    with pytest.raises(ValueError, match="variables=1"):
        tracking.overwrite(1, length=9, variables=1, values=2, seed=0)
