"""Rows by a key of theirs, and one writer of tables: columns as data, widths from the cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

Columns = str | tuple[str, Callable[[Any], Any]]

_NUMBER = re.compile(r"[<>≤≥]?[+\-−±]?(\d|\.\d|nan|inf)|[–—]?$")
_ABSENT = object()


def grouped(rows: Iterable[Any], *keys: str) -> dict[Any, list[Any]]:
    """Rows by the value of a key, or by the tuple of the values of several, in the order in which they come first.

    >>> grouped([{"arm": "fno", "seed": 0}, {"arm": "mano", "seed": 0}], "seed")
    {0: [{'arm': 'fno', 'seed': 0}, {'arm': 'mano', 'seed': 0}]}
    """
    found: dict[Any, list[Any]] = {}
    for row in rows:
        values = tuple(row[key] for key in keys)
        found.setdefault(values if len(keys) > 1 else values[0], []).append(row)
    return found


def table(rows: Mapping[str, Any] | Iterable[Any], *columns: Columns) -> list[str]:
    """Lines of a table: the headings, then one line a row; columns of numbers are aligned on the right.

    Parameters
    ----------
    rows : iterable, or mapping
        Mappings, or whatever the functions among the columns take. Of a mapping, each item is a row: its key is "name",
        its value the rest where that is a mapping, and else "value".
    *columns : str, or tuple of str and callable
        ``"heading=key:format"``, several of them with ``"; "`` in between. The heading is the key by default; dots
        descend into mappings within; ``"ms=1e3*seconds.step:.1f"`` multiplies. A pair is a heading and a function of
        the row. None, and what one row lacks, is shown as a dash; a float without a format with four digits.

    Returns
    -------
    list of str

    Raises
    ------
    KeyError
        For a key that no row has.

    Examples
    --------
    >>> rows = [{"arm": "fno", "error": 0.0123}, {"arm": "mano", "error": None}]
    >>> for line in table(rows, "arm; error:.1%", ("n", lambda row: len(row["arm"]))):
    ...     print(line)
    arm   error  n
    fno    1.2%  3
    mano      –  4
    """
    if isinstance(rows, Mapping):
        rows = [{"name": key, **(row if isinstance(row, Mapping) else {"value": row})} for key, row in rows.items()]
    rows, found = list(rows), []
    for column in columns:
        for one in column.split("; ") if isinstance(column, str) else [column]:
            heading, cells = _column(one, rows)
            width = max(map(len, (heading, *cells)))
            right = all(map(_NUMBER.match, cells))
            found.append([cell.rjust(width) if right else cell.ljust(width) for cell in (heading, *cells)])
    return ["  ".join(line).rstrip() for line in zip(*found)]


def print_table(
    rows: Mapping[str, Any] | Iterable[Any], *columns: Columns, title: str | None = None, indent: int = 0
) -> None:
    """Prints an empty line and `title` where there is one (the line alone for ""), then `table`."""
    if title is not None:
        print(f"\n{title}" if title else "")
    for line in table(rows, *columns):
        print(" " * indent + line)


def _column(column: Columns, rows: list[Any]) -> tuple[str, list[str]]:
    """(heading, cells) of one column."""
    if not isinstance(column, str):
        heading, function = column
        return heading, [_text(function(row), "") for row in rows]
    heading, given, path = column.partition("=")
    key, _, form = (path if given else heading).partition(":")
    factor, times, inner = key.partition("*")
    path = inner if times else key
    values = [_value(row, path.split(".")) for row in rows]
    if rows and all(value is _ABSENT for value in values):
        raise KeyError(f"no row of the table has {path!r}")
    scale = float(factor) if times else 1
    values = [None if value is None or value is _ABSENT else scale * value if times else value for value in values]
    return heading if given else key, [_text(value, form) for value in values]


def _value(row: Any, path: list[str]) -> Any:
    for part in path:
        row = row.get(part, _ABSENT) if isinstance(row, Mapping) else _ABSENT
    return row


def _text(value: Any, form: str) -> str:
    if value is None:
        return "–"
    return format(value, form or (".4g" if isinstance(value, float | np.floating) else ""))
