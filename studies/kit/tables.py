"""Rows by a key of theirs, and tables that are printed: see `sciops.reports.tables` for their columns."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from sciops.reports.tables import Columns, Table, table_of


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
    """Lines of the table that `sciops.reports.tables.table_of` makes of these rows and columns."""
    return table_of(rows, *columns).lines()


def print_table(
    rows: Mapping[str, Any] | Iterable[Any], *columns: Columns, title: str | None = None, indent: int = 0
) -> None:
    """Prints an empty line and `title` where there is one (the line alone for ""), then `table`."""
    found = table_of(rows, *columns, title=title or "")
    lines = [f"\n{title}" if title else ""] if title is not None else []
    text = "".join(f"{line}\n" for line in (*lines, *(" " * indent + line for line in found.lines())))
    if isinstance(sys.stdout, Recorder):
        sys.stdout.take(found, text)
    else:
        sys.stdout.write(text)


class Recorder(io.TextIOBase):
    """A standard output that passes on what is printed, and keeps the tables among it for the page of a study.

    blocks : in the order of printing, str for lines of text and `sciops.reports.tables.Table` for tables
    """

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal
        self.blocks: list[str | Table] = []

    def write(self, text: str) -> int:
        if self.blocks and isinstance(self.blocks[-1], str):
            self.blocks[-1] += text
        else:
            self.blocks.append(text)
        return self.terminal.write(text)

    def flush(self) -> None:
        self.terminal.flush()

    def take(self, found: Table, text: str) -> None:
        """Keeps a table and prints its text."""
        self.blocks.append(found)
        self.terminal.write(text)
