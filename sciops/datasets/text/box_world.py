"""A world of boxes: what is in them, said in sentences that move, put and remove things, and asked for at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciops.datasets.text.sequence_tasks import NOT_ASKED, SequenceTask, positive

_WORDS = ("<pad>", ".", "box", "contains", "nothing", "move", "contents", "from", "to", "put", "into", "remove", "?")


def box_words(boxes: int = 7, items: int = 40) -> list[str]:
    """What the symbols of `boxes` stand for: 13 words, the boxes' numbers, the items."""
    return [*_WORDS, *(str(b) for b in range(boxes)), *(f"item{i}" for i in range(items))]


def boxes(
    samples: int,
    *,
    operations: int = 12,
    boxes: int = 7,
    items: int = 40,
    expected: float = 2.0,
    most: int = 3,
    contents: bool = False,
    asked: int | None = None,
    seed: int,
) -> SequenceTask:
    """ "box 0 contains item5 item8 . … move item8 from box 0 to box 3 . … ? box 3 contains item2 item8 ." as symbols.

    At first a box has as many items as a Poisson number of mean `expected` says, `most` at most. Every operation is
    drawn alike among the kinds that are possible, with things and boxes alike among those that are: "move … from box a
    to box b", "put … into box b" of one that is nowhere, "remove … from box a"; up to as many things as fit.

    contents : with "move contents from box a to box b" as well, which does not name what it moves
    asked : boxes asked for, in a drawn order; None all. Their answers are items in the order of their names, or
        "nothing", and a full stop, asked for word after word with the words before in place. So whether all of a box's
        words are right is whether an answer generated word by word is right. Answers to earlier questions are seen

    tokens : (samples, longest), "<pad>" at the end. groups : "box", which box is asked for; "operations", how many had
    it as a source or destination. symbols : len(box_words(boxes, items))

    The setting of Kim & Schuster (ACL 2023), generated again. Raises ValueError for sizes that do not fit.
    """
    positive(samples=samples)
    if boxes < 2 or most < 1 or operations < 0 or items < boxes * most:
        raise ValueError(
            f"boxes={boxes}, most={most}, operations={operations}, items={items}: expected at least 2, 1 and 0, and "
            f"{boxes * most} items to fill the boxes"
        )
    if not expected >= 0:
        raise ValueError(f"expected={expected} items a box: expected at least 0")
    if asked is not None and not 1 <= asked <= boxes:
        raise ValueError(f"asked={asked}: expected 1 … {boxes} boxes")
    rng = np.random.default_rng(seed)
    words = {word: i for i, word in enumerate(box_words(boxes, items))}
    rows = [_story(rng, operations, boxes, items, expected, most, contents, asked or boxes) for _ in range(samples)]
    shape = (samples, max(len(said) for said, _ in rows))
    tokens, targets = np.zeros(shape, dtype=np.int64), np.full(shape, NOT_ASKED)
    groups = {name: np.full(shape, -1) for name in ("box", "operations")}
    for i, (said, questions) in enumerate(rows):
        tokens[i, : len(said)] = [words[word] for word in said]
        for start, end, box, touched in questions:
            targets[i, start:end] = tokens[i, start + 1 : end + 1]
            groups["box"][i, start:end], groups["operations"][i, start:end] = box, touched
    return SequenceTask(tokens, targets, len(words), groups)


def box_statements(
    samples: int, *, length: int = 20, boxes: int = 3, items: int = 4, moves: float = 0.35, seed: int
) -> SequenceTask:
    """A world of boxes in which every token is a statement about one box: which state it had, and what is done to it.

    Every state of a box has a name of its own, new in every story. A statement has four symbols: the name of the state
    that it makes; the names of up to two states that it reads, in any order; an item that is put in or removed. With
    equal chance among the boxes, and items that are nowhere or inside,

    * "put i into box b" reads the last state of b;
    * "remove i from box b" reads the last state of b;
    * "move the contents of box a to box b", with the probability `moves` where a holds something, is two statements:
      the new state of b reads those of a and b, and that of a, which is empty, reads nothing.

    Asked after every statement: for each item, whether the box now holds it, all at once.

    length : statements, the first `boxes` of which put an item into a box each or leave it empty
    tokens : (samples, length, 4); targets (samples, length, items), the second to last symbol for no, the last for yes
    groups : "links", the reads from the statement back to the one that put the item in or removed it; for an item of
        which the states that are read say nothing, those back to the farthest of them. Of the shape of the targets
    symbols : 2·length + 2·items + 4

    Without the order of words and the recency of statements in the sentences of `boxes`: what is left is following
    states. Raises ValueError for sizes that do not fit.
    """
    positive(samples=samples)
    if boxes < 2 or items < boxes or length < boxes or not 0 <= moves <= 1:
        raise ValueError(
            f"boxes={boxes}, items={items}, length={length}, moves={moves}: expected at least 2 boxes, as many items "
            "and statements as boxes, and a share in 0 … 1"
        )
    rng, rows, nothing = np.random.default_rng(seed), np.arange(samples), 2 * length
    symbols = nothing + 2 * items + 4
    names = rng.permuted(np.tile(np.arange(length), (samples, 1)), axis=1)
    tokens, held = np.empty((samples, length, 4), dtype=np.int64), np.zeros((samples, length, items), dtype=bool)
    links = np.zeros((samples, length, items), dtype=np.int64)
    inside = np.zeros((samples, boxes + 1, items), dtype=bool)  # the last row: items that are nowhere
    inside[:, boxes] = True
    last, emptied = np.tile(np.arange(boxes), (samples, 1)), np.full(samples, -1)
    for t in range(length):
        filled, empties = inside[:, :boxes].any(-1), emptied >= 0
        if t < boxes:
            moved, a = np.zeros(samples, dtype=bool), np.full(samples, boxes)
            b, acts = np.full(samples, t), rng.random(samples) < 2 / 3
        else:
            moved = ~empties & filled.any(1) & (rng.random(samples) < moves) & (t + 2 <= length)
            some_free = np.repeat(inside[:, boxes].any(1)[:, None], boxes, axis=1)
            drawn = _among(rng, np.concatenate([some_free, filled], axis=1))
            b, acts = drawn % boxes, ~moved & ~empties
            a = np.where(drawn < boxes, boxes, b)  # where the item is taken from
            source = _among(rng, filled)
            b = np.where(moved, (source + rng.integers(1, boxes, samples)) % boxes, np.where(empties, emptied, b))
            a = np.where(moved, source, a)
        put = a == boxes
        item = _among(rng, inside[rows, a])
        into = np.where(put, b, boxes)
        inside[rows[acts], a[acts], item[acts]] = False
        inside[rows[acts], into[acts], item[acts]] = True
        inside[rows[moved], b[moved]] |= inside[rows[moved], a[moved]]
        inside[rows[moved], a[moved]] = False
        reads = np.stack([last[rows, b], last[rows, a.clip(max=boxes - 1)]], axis=1)
        used = np.stack([~empties & (t >= boxes), moved], axis=1)
        there = held[rows[:, None], reads] & used[..., None]  # an item is in one box at most
        counts = np.where(there.any(1, keepdims=True), there, True) & used[..., None]
        links[:, t] = np.where(counts, 1 + links[rows[:, None], reads], 0).max(1)
        links[rows[acts], t, item[acts]] = 0
        read = np.where(used, length + names[rows[:, None], reads], nothing)
        done = np.where(acts, 1 + item + np.where(put, 0, items), 0)
        tokens[:, t] = np.stack([names[:, t], *rng.permuted(read, axis=1).T, nothing + 1 + done], axis=1)
        held[:, t] = inside[rows, b]
        last[rows, b] = t
        emptied = np.where(moved, a, -1)
    return SequenceTask(tokens, symbols - 2 + held, symbols, {"links": links})


def _among(rng: np.random.Generator, possible: np.ndarray) -> np.ndarray:
    """(samples,) one column of those that are possible, alike; any where none is."""
    return np.where(possible, rng.random(possible.shape), -1.0).argmax(1)


def exact_match(said: np.ndarray, task: SequenceTask) -> dict[str, Any]:
    """Share of boxes with every word right, of what a model says at each position, by operations that touched the box.

    said : (samples, length); returns {"rate", "operations": {"value", "rate", "count" (lists)}}
    """
    box, touched = task.groups["box"], task.groups["operations"]
    if said.shape != box.shape:
        raise ValueError(f"said of shape {said.shape}: expected a symbol at each position of the task, {box.shape}")
    sample = np.broadcast_to(np.arange(len(task))[:, None], box.shape)
    asked = task.asked
    key = sample[asked] * (box.max() + 1) + box[asked]
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    right = np.bincount(which, weights=said[asked] != task.targets[asked]) == 0
    operations = touched[asked][first]
    value, of, count = np.unique(operations, return_inverse=True, return_counts=True)
    rate = np.bincount(of, weights=right) / count
    return {
        "rate": float(right.mean()),
        "operations": {"value": value.tolist(), "rate": rate.tolist(), "count": count.tolist()},
    }


def _story(
    rng: np.random.Generator,
    operations: int,
    boxes: int,
    items: int,
    expected: float,
    most: int,
    contents: bool,
    asked: int,
) -> tuple[list[str], list[tuple[int, int, int, int]]]:
    """(words, questions): first place with a target, place after the last, box, operations that touched it."""
    free = rng.permutation(items).tolist()
    world = [sorted(free.pop() for _ in range(min(rng.poisson(expected), most))) for _ in range(boxes)]
    said = [word for b, inside in enumerate(world) for word in _contents(b, inside)]
    touched = [0] * boxes
    for _ in range(operations):
        kind, a, b = _drawn(rng, world, most, contents, bool(free))
        room = most - len(world[b]) if kind in ("move", "put") else most
        stock = free if kind == "put" else world[a]
        size = len(stock) if kind == "contents" else int(rng.integers(1, min(len(stock), room) + 1))
        moved = [stock[i] for i in rng.choice(len(stock), size, replace=False)]
        named = [f"item{i}" for i in moved]
        if kind == "put":
            said += ["put", *named, "into", "box", str(b), "."]
        elif kind == "remove":
            said += ["remove", *named, "from", "box", str(a), "."]
        else:
            what = ["contents"] if kind == "contents" else named
            said += ["move", *what, "from", "box", str(a), "to", "box", str(b), "."]
        for i in moved:
            stock.remove(i)
        (free if kind == "remove" else world[b]).extend(moved)
        for box in {"put": {b}, "remove": {a}}.get(kind, {a, b}):
            touched[box] += 1
    questions = []
    for b in rng.permutation(boxes)[:asked].tolist():
        answer = ["?", *_contents(b, sorted(world[b]))]
        questions.append((len(said) + 3, len(said) + len(answer) - 1, b, touched[b]))
        said += answer
    return said, questions


def _contents(box: int, inside: list[int]) -> list[str]:
    return ["box", str(box), "contains", *([f"item{i}" for i in inside] or ["nothing"]), "."]


def _drawn(
    rng: np.random.Generator, world: list[list[int]], most: int, contents: bool, spare: bool
) -> tuple[str, int, int]:
    """(kind, source, destination) of an operation that is possible; the one that a kind has not is 0."""
    filled = [b for b, inside in enumerate(world) if inside]
    roomy = [b for b, inside in enumerate(world) if len(inside) < most]
    possible = {
        "move": [(a, b) for a in filled for b in roomy if a != b],
        "put": [(0, b) for b in roomy] if spare else [],
        "remove": [(a, 0) for a in filled],
        "contents": [(a, b) for a in filled for b in roomy if a != b and len(world[a]) + len(world[b]) <= most],
    }
    kinds = [kind for kind, pairs in possible.items() if pairs and (contents or kind != "contents")]
    kind = kinds[rng.integers(len(kinds))]
    return (kind, *possible[kind][rng.integers(len(possible[kind]))])
