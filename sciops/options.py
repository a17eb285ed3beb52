"""Options as data: keywords are read into a frozen dataclass, which checks their names and types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

Options = TypeVar("Options")


@dataclass(frozen=True)
class Within:
    """Bounds of a number, least ≤ x < below, as in ``Annotated[int, Within(1)]``."""

    least: float
    below: float = float("inf")


Count = Annotated[int, Within(1)]
CountOrZero = Annotated[int, Within(0)]
Probability = Annotated[float, Within(0, 1)]

_TEXT = {int: "a whole number", float: "a number", bool: "True or False", str: "a string", NoneType: "None"}


def read_options(kind: type[Options], owner: str, given: Mapping[str, Any]) -> Options:
    """Reads keywords into a dataclass and checks their names and types.

    Lists and arrays become tuples, since JSON files have only lists.

    Parameters
    ----------
    kind : type
        A frozen dataclass. Its annotations may be int, float, bool, str, None, Any, classes, `Literal`, `Sequence`,
        `Mapping`, unions of them, and numbers `Annotated` with `Within`.
    owner : str
        Name of what has these options, for error messages.
    given : mapping
        Values by name.

    Raises
    ------
    TypeError
        For an unknown option, naming the known ones and the nearest, and for one without a default that is not given.
    ValueError
        For a value of another type or out of bounds.
    """
    expected = get_type_hints(kind, include_extras=True)
    check_options(owner, given, expected)
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in given and not _fits(given[field.name], expected[field.name]):
            text = _text(expected[field.name])
            raise ValueError(f"{owner}: {field.name}={given[field.name]!r}: expected {text}")
        if field.name not in given and field.default is MISSING and field.default_factory is MISSING:
            raise TypeError(f"{owner}: pass {field.name}, {_text(expected[field.name])}")
    return kind(**{name: tuple(v) if isinstance(v, (list, np.ndarray)) else v for name, v in given.items()})


def names_of(kind: type[Any]) -> tuple[str, ...]:
    """The names of the options of a dataclass, in the order of its fields."""
    return tuple(field.name for field in fields(kind))


def part_of(options: Any, kind: type[Any]) -> dict[str, Any]:
    """Those of the options that are fields of the dataclass `kind`, which a part of a model takes."""
    return {name: getattr(options, name) for name in names_of(kind)}


def check_options(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raises TypeError for the first option of `given` that is not known, naming the known ones and the nearest."""
    for option in given:
        if option not in known:
            nearest = "".join(f"; did you mean {one!r}?" for one in get_close_matches(option, known, 1))
            raise TypeError(f"{owner}: unknown option {option!r}; it takes {', '.join(sorted(known))}{nearest}")


def options_of(make: Callable[..., Any], *others: str) -> dict[str, Any]:
    """{name: default} of what `make` takes by name, without `others`; `inspect.Parameter.empty` without a default."""
    parameters = inspect.signature(make).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {p.name: p.default for p in named if p.name not in others}


def _fits(value: Any, kind: Any) -> bool:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _fits(value, parts[0]) and parts[1].least <= value < parts[1].below
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in parts)
    if origin is Literal:
        return isinstance(value, type(parts[0])) and value in parts
    if origin is Sequence:
        several = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)
        return several and all(_fits(one, parts[0]) for one in value)
    if kind is bool:  # files may hold 0 and 1
        return isinstance(value, (Integral, np.bool_)) and value in (0, 1)
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    return kind is Any or isinstance(value, origin or kind)


def _text(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        least, below = parts[1].least, parts[1].below
        return f"{_text(parts[0])} of at least {least}" + (f" and below {below}" if below < float("inf") else "")
    if origin in (Union, UnionType):
        return " or ".join(map(_text, parts))
    if origin is Literal:
        return "one of " + ", ".join(map(str, parts)) if len(parts) > 1 else str(parts[0])
    if origin is Sequence:
        return f"a sequence of which each is {_text(parts[0])}"
    return "a dict" if origin is Mapping else _TEXT.get(kind, f"a {getattr(kind, '__name__', kind)}")
