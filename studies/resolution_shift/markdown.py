"""The report as Markdown: the title, the answer below it, then sections of paragraphs, tables and figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """A picture and its caption."""

    source: Path
    caption: str = ""


@dataclass(frozen=True)
class Table:
    """A table whose cells are text; `note` stands below it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; a string is a paragraph."""

    title: str
    parts: Sequence[str | Table | Figure] = field(default_factory=tuple)


def write(path: Path, title: str, answer: str, sections: Sequence[Section]) -> Path:
    """Writes the report with its figures linked relative to it; it appears only when whole. Returns its path."""
    from sciops.files.json_files import write_atomically

    lines = [f"# {title}", "", f"**{answer}**", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        for part in section.parts:
            lines += [*_lines(part, path.parent), ""]
    return write_atomically(path, "\n".join(lines).encode())


def _lines(part: str | Table | Figure, folder: Path) -> list[str]:
    if isinstance(part, str):
        return [part]
    if isinstance(part, Figure):
        return [f"![{part.caption}]({Path(os.path.relpath(part.source, folder)).as_posix()})"]
    # padded, so that it also reads well on a terminal
    widths = [max(map(len, column)) for column in zip(part.columns, *part.rows)]
    rows = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |" for row in (part.columns, *part.rows)]
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return [rows[0], rule, *rows[1:], *(["", part.note] if part.note else [])]
