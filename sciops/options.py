"""The options of a function or class: its own parameters are the one place that lists them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from typing import Any


def options_of(make: Callable[..., Any], *others: str) -> dict[str, Any]:
    """{name: default} of what `make` takes by name, without `others`; `inspect.Parameter.empty` without a default."""
    parameters = inspect.signature(make).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {p.name: p.default for p in named if p.name not in others}


def check_options(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raises TypeError for the first option of `given` that is not known, naming the known ones and the nearest."""
    for option in given:
        if option not in known:
            nearest = "".join(f"; did you mean {one!r}?" for one in get_close_matches(option, known, 1))
            raise TypeError(f"{owner}: unknown option {option!r}; it takes {', '.join(sorted(known))}{nearest}")
