"""What a page is made of: sections of paragraphs, tables, figures, lists of facts and text as it was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sciops.files.messages import shown
from sciops.reports.tables import Table

LONGEST_CELL = 400  # characters of a value in a table or list of facts


@dataclass(frozen=True)
class Figure:
    """A picture of a page.

    source : a PNG, JPEG or GIF file
    caption : the text below it; by default what the file says of itself, and else its name in words
    alt : the text read to those who do not see it; by default the caption
    """

    source: Path
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True)
class Code:
    """Text that is shown as it was written, such as a command or BibTeX.

    title : what stands above it
    wrap : whether long lines are broken, as those of commands may be
    """

    text: str
    title: str = ""
    wrap: bool = False


@dataclass(frozen=True)
class Facts:
    """Names and values, one pair a line, such as a configuration."""

    values: Mapping[str, Any]
    title: str = ""


Part = str | Table | Figure | Code | Facts


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading.

    parts : a string is a paragraph
    folded : whether it is closed until the reader opens it
    """

    title: str
    parts: Sequence[Part] = field(default_factory=tuple)
    folded: bool = False


def text_of(value: Any) -> str:
    """A value in one line, as cells and facts show it: floats with four digits, a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return shown(", ".join(f"{name}: {text_of(one)}" for name, one in value.items()) or "–", LONGEST_CELL)
    if isinstance(value, (list, tuple)):
        if len(value) > 12:
            return f"{len(value)} values, {text_of(value[0])} … {text_of(value[-1])}"
        return shown(", ".join(map(text_of, value)) or "–", LONGEST_CELL)
    return shown(str(value), LONGEST_CELL) or "–"
