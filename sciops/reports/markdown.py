"""The part of Markdown that the project's own reports use: headings, paragraphs, tables and pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from sciops.files.json_files import write_atomically
from sciops.reports.parts import Figure, Part, Section
from sciops.reports.tables import Table

_RULE = re.compile(r"\|?[\s:|-]+\|?$")
_PICTURE = re.compile(r"!\[(.*)\]\(([^()\s]+)\)$")


def write_markdown(path: Path, title: str, answer: str, sections: Sequence[Section]) -> Path:
    """Writes a report: the title, the answer below it, then the sections; pictures are linked relative to the file.

    Returns the path, where the report appears only when whole.

    Raises TypeError for parts other than paragraphs, tables and pictures.
    """
    lines = [f"# {title}", "", f"**{answer}**", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        for part in section.parts:
            lines += [*_written(part, path.parent), ""]
    return write_atomically(path, "\n".join(lines).encode())


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


def _written(part: Part, folder: Path) -> list[str]:
    if isinstance(part, str):
        return [part]
    if isinstance(part, Figure):
        return [f"![{part.caption}]({Path(os.path.relpath(part.source, folder)).as_posix()})"]
    if not isinstance(part, Table):
        raise TypeError(f"{type(part).__name__} has no form in Markdown: expected text, a Table or a Figure")
    # padded, so that it also reads well on a terminal
    widths = [max(map(len, column)) for column in zip(part.columns, *part.rows)]
    rows = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |" for row in (part.columns, *part.rows)]
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return [rows[0], rule, *rows[1:], *(["", part.note] if part.note else [])]


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
