"""Parts of the sentence that says what a study found; every number in it comes from the study's results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def listed(names: Iterable[str]) -> str:
    """The names as in a sentence: "a, b and c".

    >>> listed(["a"]), listed("abc")
    ('a', 'a, b and c')
    """
    names = list(names)
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def extent(values: Iterable[float], form: str = ".3g") -> str:
    """The least and the largest of some numbers, "1.2 to 3.4"; one of them where both look alike, a dash for none.

    >>> extent([3.0, 1.0, 2.0]), extent([0.999, 1.0], ".1f"), extent([])
    ('1 to 3', '1.0', '–')
    """
    values = list(values)
    ends = [format(end, form) for end in (min(values), max(values))] if values else ["–"]
    return " to ".join(dict.fromkeys(ends))


def sentence(*parts: str) -> str:
    """The parts that are not empty as one sentence, with semicolons between them, a capital first and a stop.

    >>> sentence("two of two are met", "", "the rest is not")
    'Two of two are met; the rest is not.'
    """
    text = "; ".join(filter(None, parts))
    return text and f"{text[0].upper()}{text[1:]}."


def met(rows: Iterable[Mapping[str, Any]], names: str = "targets", key: str = "met") -> str:
    """How many rows of targets, checks or claims hold: "2 of 3 targets are met"; empty where none was tested."""
    held = [row[key] for row in rows if row.get(key) is not None]
    return f"{sum(held)} of {len(held)} {names} are {key}" if held else ""
