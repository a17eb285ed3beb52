"""The part of Markdown that the project's own reports use: headings, paragraphs and tables."""

from __future__ import annotations

import re
from pathlib import Path

from sciops.reports.parts import Figure, Part, Section
from sciops.reports.tables import Table

_RULE = re.compile(r"\|?[\s:|-]+\|?$")
_PICTURE = re.compile(r"!\[(.*)\]\(([^()\s]+)\)$")


def read_markdown(text: str, folder: Path) -> tuple[str, list[Section]]:
    """(title, sections) of a report; what comes before the first heading of the second level has an empty title.

    folder : where pictures lie that are named; those outside it stay text
    """
    title, current = "", ""
    sections: list[Section] = []
    parts: list[Part] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = [line.rstrip() for line in block.split("\n") if line.strip()]
        while lines and lines[0].startswith("#"):
            mark, _, heading = lines.pop(0).partition(" ")
            if mark == "#" and not title:
                title = _plain(heading)
                continue
            if parts or current:
                sections.append(Section(current, tuple(parts)))
            current, parts = _plain(heading), []
        if not lines:
            continue
        picture = _PICTURE.match(" ".join(lines))
        if len(lines) > 1 and lines[0].startswith("|") and _RULE.match(lines[1]):
            parts.append(_table(lines))
        elif picture and _inside(folder, picture[2]):
            parts.append(Figure(folder / picture[2], _plain(picture[1])))
        else:
            parts.append(_plain(" ".join(lines)))
    if parts or current:
        sections.append(Section(current, tuple(parts)))
    return title, sections


def _table(lines: list[str]) -> Table:
    rows = [[_plain(cell.strip()) for cell in line.strip().strip("|").split("|")] for line in lines if line.strip()]
    columns = tuple(rows[0])
    width = len(columns)
    body = tuple(tuple((row + [""] * width)[:width]) for row in rows[2:])
    return Table(columns, body)


def _plain(text: str) -> str:
    """The text without the marks of emphasis and code."""
    text = re.sub(r"\*\*(.+?)\*\*|`([^`]+)`", lambda found: found[1] or found[2], text)
    return re.sub(r"(?<!\w)\*(\S(?:.*?\S)?)\*(?!\w)", r"\1", text).strip()


def _inside(folder: Path, name: str) -> bool:
    return (folder / name).resolve().is_relative_to(folder.resolve()) and "://" not in name
