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
