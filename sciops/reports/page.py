"""One self-contained HTML page: the answer first, then sections with tables that sort and figures with captions."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sciops.files.json_files import write_atomically
from sciops.files.messages import shown
from sciops.reports.images import Embedded, embedded
from sciops.reports.parts import LONGEST_CELL, Code, Facts, Figure, Part, Section, text_of
from sciops.reports.tables import Table, sort_key
from sciops.version import __version__

MOST_ROWS = 300  # of a table
MOST_COLUMNS = 40
MOST_FIGURES = 24_000_000  # bytes of all figures of a page
LONGEST_CODE = 60_000  # characters

_HERE = Path(__file__).parent


def page(title: str, answer: str, sections: Iterable[Section], *, subtitle: str = "") -> str:
    """Makes one HTML page that needs no other file and no network.

    Tables sort by a click on a heading, or by the keyboard; without scripts they are plain tables. Whatever stands in
    the arguments is shown as text and never read as markup. Tables are cut after 300 rows and 40 columns, with a note;
    a figure that is missing or damaged is named in its place.

    Parameters
    ----------
    title : str
        Of the page.
    answer : str
        What was found, in one sentence; it stands first.
    sections : iterable of Section
        What follows, in this order.
    subtitle : str
        A line above the title, such as the kind of run.

    Returns
    -------
    str
        The page.
    """
    spent = [0]
    views: list[dict[str, Any]] = [
        {"id": f"part-{i}", "title": shown(one.title, 200), "folded": one.folded, "parts": _views(one, spent)}
        for i, one in enumerate(sections, 1)
    ]
    figures = [part for view in views for part in view["parts"] if part["kind"] == "figure" and part["image"]]
    style, script = (_HERE / "page.css").read_text(), (_HERE / "page.js").read_text()
    return _template().render(
        title=shown(title, 200),
        answer=shown(answer, 1200),
        subtitle=shown(subtitle, 200),
        sections=views,
        style=style,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        figures=f" with {len(figures)} figure{'' if len(figures) == 1 else 's'}, {spent[0] / 1e3:,.0f} kB"
        if figures
        else "",
        version=__version__,
    )


def write(
    path: str | os.PathLike[str], title: str, answer: str, sections: Iterable[Section], *, subtitle: str = ""
) -> Path:
    """Writes what `page` makes to a file, which appears only when whole; returns its path."""
    return write_atomically(Path(path), page(title, answer, sections, subtitle=subtitle).encode("utf-8", "replace"))


@cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("page.html")


@dataclass(frozen=True)
class _Cell:
    text: str
    key: float | None


def _views(section: Section, spent: list[int]) -> list[dict[str, Any]]:
    return [_view(part, spent) for part in section.parts]


def _view(part: Part, spent: list[int]) -> dict[str, Any]:
    """What the template shows of a part; `spent` counts the bytes of the figures so far."""
    if isinstance(part, str):
        return {"kind": "text", "text": shown(part, 4000)}
    if isinstance(part, Code):
        text = "\n".join(shown(line, 4000) for line in part.text.strip("\n").split("\n"))
        if len(text) > LONGEST_CODE:
            text = text[:LONGEST_CODE] + "\n… cut here"
        return {"kind": "code", "text": text, "title": shown(part.title, 200), "wrap": part.wrap}
    if isinstance(part, Facts):
        values = [(shown(str(name), 200), text_of(value)) for name, value in part.values.items()]
        return {"kind": "facts", "values": values, "title": shown(part.title, 200)}
    if isinstance(part, Table):
        return _table(part)
    return _figure(part, spent)


def _table(table: Table) -> dict[str, Any]:
    columns, rows = table.columns[:MOST_COLUMNS], table.rows[:MOST_ROWS]
    numeric = table.numeric[:MOST_COLUMNS]
    notes = [shown(table.note, 1000)] if table.note else []
    if len(table.rows) > MOST_ROWS:
        notes.append(f"The first {MOST_ROWS} of {len(table.rows):,} rows.")
    if len(table.columns) > MOST_COLUMNS:
        notes.append(f"The first {MOST_COLUMNS} of {len(table.columns)} columns.")
    return {
        "kind": "table",
        "title": shown(table.title, 300),
        "columns": [{"name": shown(name, 200), "number": number} for name, number in zip(columns, numeric)],
        "rows": [
            [_Cell(shown(cell, LONGEST_CELL), sort_key(cell) if number else None) for cell, number in zip(row, numeric)]
            for row in rows
        ],
        "sorts": len(rows) > 1,
        "note": " ".join(notes),
    }


def _figure(figure: Figure, spent: list[int]) -> dict[str, Any]:
    found: Embedded | None = None
    try:
        found = embedded(figure)
        why = ""
        if spent[0] + found.bytes > MOST_FIGURES:
            why = f"{figure.source} is left out: the figures of a page have at most {MOST_FIGURES / 1e6:.0f} MB"
            found = None
        else:
            spent[0] += found.bytes
    except (OSError, ValueError) as error:
        why = f"Figure not shown: {shown(str(error), 300)}"
    return {"kind": "figure", "image": found, "why": why}
