"""The world of boxes: answers by an interpreter of the sentences, touches counted, exact match by boxes."""

import numpy as np
import pytest

from sciops.datasets import boxes as generated
from sciops.datasets.text.box_world import box_statements, box_words, exact_match


def interpreted(words):
    """(final contents, touches, {box: answer words}) of a story, read sentence by sentence."""
    world, touches, answers, named = {}, {}, {}, []
    sentences = " ".join(words).split(" .")
    for sentence in sentences:
        s = sentence.split()
        if not s or s[0] == "<pad>":
            continue
        things = [w for w in s if w.startswith("item")]
        places = [s[i + 1] for i, w in enumerate(s) if w == "box"]
        if s[0] == "box":
            world[places[0]], touches[places[0]] = set(things), 0
            continue
        if s[0] == "?":
            answers[places[0]] = things or ["nothing"]
            continue
        if s[0] == "move":
            things = sorted(world[places[0]]) if "contents" in s else things
            assert things and set(things) <= world[places[0]] and places[0] != places[1]
            world[places[0]] -= set(things)
            world[places[1]] |= set(things)
        elif s[0] == "put":
            assert not any(set(things) & inside for inside in world.values())
            world[places[0]] |= set(things)
        else:
            assert s[0] == "remove" and set(things) <= world[places[0]]
            world[places[0]] -= set(things)
        named.append(s[0] + (" contents" if "contents" in s else ""))
        assert max(map(len, world.values())) <= 3
        for place in places:
            touches[place] += 1
    return world, touches, answers, named


@pytest.mark.parametrize("contents, asked", [(False, None), (True, None), (True, 2)])
def test_answers_are_what_the_sentences_say(contents, asked):
    task = generated(40, operations=12, contents=contents, asked=asked, seed=2)
    words, kinds, seen = box_words(), set(), set()
    assert task.symbols == len(words)
    for i in range(len(task)):
        said = [words[t] for t in task.tokens[i]]
        world, touches, answers, named = interpreted(said)
        assert len(world) == 7 and len(answers) == (asked or 7) and len(named) == 12
        kinds.update(named)
        for box, answer in answers.items():
            assert set(answer) == (world[box] or {"nothing"})
            assert answer == sorted(answer, key=lambda w: int(w[4:]) if w != "nothing" else 0)
            here = task.groups["box"][i] == int(box)
            np.testing.assert_array_equal(here, here & (task.targets[i] >= 0))
            assert [words[t] for t in task.targets[i, here]] == [*answer, "."]
            assert set(task.groups["operations"][i, here]) == {touches[box]}
            seen.add(touches[box])
        asks = task.targets[i] >= 0
        np.testing.assert_array_equal(task.targets[i, asks], np.roll(task.tokens[i], -1)[asks])
        assert asks.sum() == sum(len(a) + 1 for a in answers.values())
    assert kinds == {"move", "put", "remove"} | ({"move contents"} if contents else set()) and max(seen) > 5
    again = generated(40, operations=12, contents=contents, asked=asked, seed=2)
    np.testing.assert_array_equal(task.tokens, again.tokens)


def test_a_box_is_right_where_all_its_words_are():
    task = generated(30, operations=4, seed=0)
    assert exact_match(task.targets, task)["rate"] == 1
    said = task.targets.copy()
    hurt = (task.groups["box"] == 3) & (np.cumsum(task.groups["box"] == 3, axis=1) == 1)
    said[hurt] = 0
    result = exact_match(said, task)
    assert result["rate"] == pytest.approx(6 / 7)
    touched = [task.groups["operations"][i, task.groups["box"][i] == 3][0] for i in range(30)]
    for value, rate, count in zip(*(result["operations"][k] for k in ("value", "rate", "count"))):
        assert rate == pytest.approx(1 - touched.count(value) / count)


def test_states_hold_what_the_statements_say():
    length, boxes, items = 14, 3, 4
    task = box_statements(300, length=length, boxes=boxes, items=items, seed=1)
    nothing, kinds, farthest = 2 * length, set(), 0
    for tokens, targets, links in zip(task.tokens, task.targets, task.groups["links"]):
        states, current = {}, []
        for (name, *reads, done), held, far in zip(tokens.tolist(), targets, links):
            read = [states.pop(r - length) for r in reads if r != nothing]  # a state is read once at most
            inside = {i for box, _ in read for i in box}
            away = [1 + max((n[i] for box, n in read if i in box or i not in inside), default=-1) for i in range(items)]
            done -= nothing + 1
            if 0 < done <= items:
                assert done - 1 not in inside and not any(done - 1 in box for box, _ in states.values())
                inside, away[done - 1] = inside | {done - 1}, 0
            elif done:
                inside, away[done - 1 - items] = inside - {done - 1 - items}, 0
                assert len(read) == 1
            kinds.add((len(read), 0 if not done else 1 + (done > items)))
            states[name] = (inside, away)
            np.testing.assert_array_equal(held == task.symbols - 1, [i in inside for i in range(items)])
            np.testing.assert_array_equal(far, away)
            current.append(name)
            farthest = max(farthest, *away)
        assert len(set(current)) == length and len(states) <= boxes + 1
    # empty and filled boxes, items put in and removed, contents of two boxes in one
    assert kinds == {(0, 0), (0, 1), (1, 1), (1, 2), (2, 0)} and farthest > 4
    again = box_statements(300, length=length, boxes=boxes, items=items, seed=1)
    np.testing.assert_array_equal(task.tokens, again.tokens)
    with pytest.raises(ValueError, match="boxes=3, items=2"):
        box_statements(1, boxes=3, items=2, seed=0)


def test_refusals():
    with pytest.raises(ValueError, match="21 items to fill"):
        generated(1, items=10, seed=0)
    with pytest.raises(ValueError, match="samples=0: expected at least 1"):
        generated(0, seed=0)
    with pytest.raises(ValueError, match="expected=-1 items a box"):
        generated(1, expected=-1, seed=0)
    task = generated(1, operations=1, seed=0)
    with pytest.raises(ValueError, match=r"said of shape \(1, 5\): expected a symbol at each position"):
        exact_match(task.targets[:, :5], task)
    with pytest.raises(ValueError, match="asked=9: expected 1 … 7"):
        generated(1, asked=9, seed=0)
