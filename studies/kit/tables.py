"""One writer of tables: columns as data, widths from the cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

Column = str | Callable[[Any], Any]

_NUMBER = re.compile(r"[<>≤≥]?[+\-−±]?(\d|\.\d|nan|inf)|[–—]?$")


def table(rows: Iterable[Any], columns: Mapping[str, Column]) -> list[str]:
    """Lines of a table: the headings, then one line a row; columns of numbers are aligned on the right.

    Parameters
    ----------
    rows : iterable
        Mappings, or whatever the functions among the columns take.
    columns : mapping of str to str or callable
        By heading: a key of the rows with an optional format, ``"error:.1e"``, where dots descend into mappings within
        (``"ratio.median:.2f"``); or a function of the row. None is shown as a dash, a float without a format with four
        digits.

    Returns
    -------
    list of str

    Examples
    --------
    >>> rows = [{"arm": "fno", "error": 0.0123}, {"arm": "mano", "error": None}]
    >>> for line in table(rows, {"arm": "arm", "error": "error:.1%"}):
    ...     print(line)
    arm   error
    fno    1.2%
    mano      –
    """
    rows = list(rows)
    cells = [[head, *(_cell(row, column) for row in rows)] for head, column in columns.items()]
    for column in cells:
        width = max(map(len, column))
        right = all(map(_NUMBER.match, column[1:]))
        column[:] = [cell.rjust(width) if right else cell.ljust(width) for cell in column]
    return ["  ".join(line).rstrip() for line in zip(*cells)]


def print_table(rows: Iterable[Any], columns: Mapping[str, Column], *, title: str = "", indent: int = 0) -> None:
    """Prints an empty line and the title where there is one, then `table`."""
    if title:
        print(f"\n{title}")
    for line in table(rows, columns):
        print(" " * indent + line)


def _cell(row: Any, column: Column) -> str:
    form = ""
    if callable(column):
        value = column(row)
    else:
        key, _, form = column.partition(":")
        value = row
        for part in key.split("."):
            value = value[part]
    if value is None:
        return "–"
    return format(value, form or (".4g" if isinstance(value, float | np.floating) else ""))
