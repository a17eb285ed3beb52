"""Tables of results: columns as data, cells as text, printed with widths from the cells or shown on a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Columns = str | tuple[str, Callable[[Any], Any]]

_NUMBER = re.compile(r"[<>≤≥]?[+\-−±]?(\d|\.\d|nan|inf)|[–—]?$")
_FIRST_NUMBER = re.compile(r"[<>≤≥±]?\s*([+\-−]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[+\-]?\d+)?)", re.IGNORECASE)
_ABSENT = object()


@dataclass(frozen=True)
class Table:
    """A table whose cells are text.

    columns : the headings
    rows : one tuple of cells a row, each as long as `columns`
    title, note : what stands above and below it on a page
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    note: str = ""

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Whether every cell of a column is a number or empty; such columns are aligned on the right."""
        return tuple(all(_NUMBER.match(row[i]) for row in self.rows) for i in range(len(self.columns)))

    def lines(self) -> list[str]:
        """The headings, then one line a row, as a terminal shows them."""
        found = []
        for i, right in enumerate(self.numeric):
            cells = [self.columns[i], *(row[i] for row in self.rows)]
            width = max(map(len, cells))
            found.append([cell.rjust(width) if right else cell.ljust(width) for cell in cells])
        return ["  ".join(line).rstrip() for line in zip(*found)]


def table_of(rows: Mapping[str, Any] | Iterable[Any], *columns: Columns, title: str = "", note: str = "") -> Table:
    """Makes a table from rows and a description of its columns.

    Parameters
    ----------
    rows : iterable, or mapping
        Mappings, or whatever the functions among the columns take. Of a mapping, each item is a row: its key is "name",
        its value the rest where that is a mapping, and else "value".
    *columns : str, or tuple of str and callable
        ``"heading=key:format"``, several of them with ``"; "`` in between. The heading is the key by default; dots
        descend into mappings within; ``"ms=1e3*seconds.step:.1f"`` multiplies. A pair is a heading and a function of
        the row. None, and what one row lacks, is shown as a dash; a float without a format with four digits.
    title, note : str
        See `Table`.

    Returns
    -------
    Table

    Raises
    ------
    KeyError
        For a key that no row has.

    Examples
    --------
    >>> rows = [{"arm": "fno", "error": 0.0123}, {"arm": "mano", "error": None}]
    >>> for line in table_of(rows, "arm; error:.1%", ("n", lambda row: len(row["arm"]))).lines():
    ...     print(line)
    arm   error  n
    fno    1.2%  3
    mano      –  4
    """
    if isinstance(rows, Mapping):
        rows = [{"name": key, **(row if isinstance(row, Mapping) else {"value": row})} for key, row in rows.items()]
    rows, headings, cells = list(rows), [], []
    for column in columns:
        for one in column.split("; ") if isinstance(column, str) else [column]:
            heading, found = _column(one, rows)
            headings.append(heading)
            cells.append(found)
    return Table(tuple(headings), tuple(zip(*cells)), title, note)


def sort_key(cell: str) -> float | None:
    """The first number of a cell, "0.071" of "0.071 ± 0.002"; None where it does not begin with one."""
    found = _FIRST_NUMBER.match(cell)
    return float(found[1].replace(",", "").replace("−", "-")) if found else None


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
