"""Prose out of a docstring: without doctests, tables, directives and markup."""

from __future__ import annotations

import re

from sciops.datasets.text.words import words

_ROLE = re.compile(r":[a-zA-Z:]+:`~?([^`<]*?)(?:\s*<[^`]*>)?`")
_LINK = re.compile(r"`([^`<]+?)\s*<[^`]*>`_+")
_FIELD = re.compile(r"^\s*:(?:param|type|returns?|rtype|raises?|arg|keyword|ivar|cvar)\b[^:]*:\s*")
_UNDERLINE = re.compile(r"^\s*([-=~^\"'`*#+.])\1{2,}\s*$")
_TABLE = re.compile(r"^\s*(\+[-=+]{3,}|\||={2,}\s+={2,}|-{2,}\s+-{2,})")


def cleaned(docstring: str) -> tuple[str, str] | None:
    """(text with paragraphs on lines of their own, the first paragraph); None where that is no sentence or all."""
    paragraphs = re.split(r"\n\s*\n", docstring.strip())
    summary = _prose(paragraphs[0].split("\n"))
    if not _reads_like_a_sentence(summary) or any(_UNDERLINE.match(line) for line in paragraphs[0].split("\n")):
        return None
    lines = []
    for paragraph in paragraphs[1:]:
        rows = paragraph.split("\n")
        if rows[0].lstrip().startswith((">>>", "...", ".. ", "$ ", "% ")):
            continue
        kept = [row for row in rows if not _UNDERLINE.match(row) and not _TABLE.match(row)]
        for i, row in enumerate(kept):
            if row.lstrip().startswith(">>>"):  # what follows it in the paragraph is output
                kept = kept[:i]
                break
        text = _prose(kept)
        if len(words(text)) > 2:  # else the name of a section whose body went
            lines.append(text)
    return ("\n".join(lines), summary) if lines else None


def _prose(rows: list[str]) -> str:
    text = " ".join(_FIELD.sub("", row).strip() for row in rows)
    text = _LINK.sub(r"\1", _ROLE.sub(r"\1", text))
    text = re.sub(r"\[\d+\]_", "", text)
    text = re.sub(r"``?([^`]*)``?_?", r"\1", text).replace("**", "").replace("::", ":")
    return " ".join(text.split())


def _reads_like_a_sentence(text: str) -> bool:
    """Whether most of it is words: no signature, no path, no copyright line."""
    if not text or not text[0].isalpha() or "->" in text or ">>>" in text or "opyright" in text:
        return False
    letters = sum(c.isalpha() or c == " " for c in text)
    return letters > 0.85 * len(text)
