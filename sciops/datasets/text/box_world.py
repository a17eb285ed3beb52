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
    groups : "links", of the longest chain of states that the statement reads, of the shape of the targets
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
    rng = np.random.default_rng(seed)
    nothing = 2 * length  # no state is read; 2·length + 1: nothing is done
    symbols = nothing + 2 * items + 4
    tokens, held = np.empty((samples, length, 4), dtype=np.int64), np.zeros((samples, length, items), dtype=bool)
    links = np.zeros((samples, length), dtype=np.int64)
    names = rng.permuted(np.tile(np.arange(length), (samples, 1)), axis=1)
    for story in range(samples):
        for t, (reads, done, inside) in enumerate(_statements(rng, length, boxes, items, moves)):
            read = [length + names[story, r] for r in reads] + [nothing] * (2 - len(reads))
            tokens[story, t] = (names[story, t], *(read if rng.random() < 0.5 else read[::-1]), nothing + 1 + done)
            held[story, t, list(inside)] = True
            links[story, t] = max((1 + links[story, r] for r in reads), default=0)
    groups = {"links": np.repeat(links[..., None], items, axis=-1)}
    return SequenceTask(tokens, symbols - 2 + held, symbols, groups)


def _statements(
    rng: np.random.Generator, length: int, boxes: int, items: int, moves: float
) -> list[tuple[list[int], int, set[int]]]:
    """(statements read, 0 for nothing done, 1 + i for item i put, 1 + items + i for removed, what the box now holds)."""
    said: list[tuple[list[int], int, set[int]]] = []
    free, world, last = set(range(items)), [set[int]() for _ in range(boxes)], list(range(boxes))
    for box in world:
        item = int(rng.choice(sorted(free))) if rng.random() < 2 / 3 else None
        if item is not None:
            free.remove(item)
            box.add(item)
        said.append(([], 0 if item is None else 1 + item, set(box)))
    while len(said) < length:
        filled = [b for b in range(boxes) if world[b]]
        if len(said) + 2 <= length and filled and rng.random() < moves:
            a = int(rng.choice(filled))
            b = int(rng.choice([box for box in range(boxes) if box != a]))
            world[b] |= world[a]
            world[a] = set()
            said.append(([last[a], last[b]], 0, set(world[b])))
            last[b] = len(said) - 1
            said.append(([], 0, set()))
            last[a] = len(said) - 1
            continue
        possible = [(b, True) for b in range(boxes) if free] + [(b, False) for b in filled]
        b, put = possible[rng.integers(len(possible))]
        stock = free if put else world[b]
        item = int(rng.choice(sorted(stock)))
        (world[b].add if put else free.add)(item)
        stock.remove(item)
        said.append(([last[b]], 1 + item if put else 1 + items + item, set(world[b])))
        last[b] = len(said) - 1
    return said


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
