"""Docstrings as reStructuredText: formulas stay text, parameters become definition lists, layouts stay as they are.

Two forms are read: numpydoc's sections, and the short form with a line ``name : what it is`` per argument, continued
on indented lines. Everything else is paragraphs, lists with ``*``, indented formulas and ``>>>`` examples. No character
has a meaning of its own: |k|, *grid and x_j are set as written, and `name` between backticks is code, which is linked.
"""

import re

_SPECIAL = re.compile(r"([\\*|_<>])")
_ITEM = re.compile(r"^(?P<names>(?:\*{0,2}[^\W\d][\w.]*)(?:, \*{0,2}[^\W\d][\w.]*)*) : (?P<text>\S.*)$")
_NAME = re.compile(r"\*{0,2}[^\W\d][\w.]*")
_FIELDS = ("Parameters", "Returns", "Yields", "Raises", "Warns", "Attributes")
_COLUMNS = re.compile(r"\S {3,}\S")


def typeset(lines: list[str]) -> list[str]:
    """The lines of a docstring as lines of reStructuredText."""
    lines = [line.rstrip() for line in lines]
    out: list[str] = []
    for heading, body in _sections(lines):
        if heading:
            out += [f".. rubric:: {heading}", ""]
        out += _definitions(body, section=True) if heading in _FIELDS else _blocks(body)
    return out


def _sections(lines: list[str]) -> list[tuple[str, list[str]]]:
    """(heading, lines) of the text before the first heading, whose heading is "", and of every numpydoc section."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if following and set(following) == {"-"} and line and line[0] != " ":
            sections.append((line, []))
        elif not (line and set(line) == {"-"}):
            sections[-1][1].append(line)
    return sections


def _blocks(lines: list[str]) -> list[str]:
    """Paragraphs, lists, formulas, examples and the short form of arguments, each followed by an empty line."""
    out: list[str] = []
    i = 0
    while i < len(lines):
        if not lines[i]:
            i += 1
            continue
        end = i
        while end < len(lines) and lines[end]:
            end += 1
        block = lines[i:end]
        if block[0].startswith(" "):  # a formula or a layout, up to the next line that is not indented
            while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
                end += 1
            out += _literal(lines[i:end])
        elif block[0].startswith(">>> "):
            out += [*block, ""]
        else:
            out += _paragraphs(block)
        i = end
    return out


def _paragraphs(block: list[str]) -> list[str]:
    """What stands between two empty lines: text, then lists or arguments that begin without an empty line."""
    if not any(_ITEM.match(line) or line.startswith("* ") for line in block):
        if len(block) > 1 and sum(bool(_COLUMNS.search(line)) for line in block) > 1:
            return _literal(block)
    out: list[str] = []
    i = 0
    while i < len(block):
        end = i + 1
        if block[i].startswith(" "):  # a formula inside a paragraph
            while end < len(block) and block[end].startswith(" "):
                end += 1
            out += _literal(block[i:end])
        elif _ITEM.match(block[i]):
            while end < len(block) and (block[end].startswith(" ") or _ITEM.match(block[end])):
                end += 1
            out += _definitions(block[i:end])
        elif block[i].startswith("* "):
            while end < len(block) and block[end].startswith("  "):
                end += 1
            words = [block[i][2:], *(line.strip() for line in block[i + 1 : end])]
            out += ["* " + _inline(" ".join(words)), ""]
        else:
            while end < len(block) and not block[end].startswith((" ", "* ")) and not _ITEM.match(block[end]):
                end += 1
            text = _inline(" ".join(block[i:end]))
            out += ["\\ " + text.removesuffix("::") + (":" if text.endswith("::") else ""), ""]
        i = end
    return out


def _definitions(lines: list[str], *, section: bool = False) -> list[str]:
    """A definition list of items ``names : type``, in a section, or ``names : text``, with what is below them."""
    items: list[tuple[str, list[str]]] = []
    for line in lines:
        if line and not line.startswith(" "):
            items.append((line, []))
        elif items:
            items[-1][1].append(line)
        elif line:
            return _blocks(lines)
    if not any(_indented(below) for _, below in items) and not all(_ITEM.match(head) for head, _ in items):
        return _blocks(lines)  # a sentence, not a list
    out = [".. container:: arguments", ""]
    for head, below in items:
        found = _ITEM.match(head)
        names, text = (found["names"], found["text"]) if found else (head, "")
        kind, gap, rest = re.sub(r" {3,}", "\t", text).partition("\t")
        if not (gap or section and _indented(below)):
            kind, body = (kind, [rest]) if gap else ("", [text])
            body += _dedented(below)
        else:
            body = ([rest] if rest else []) + _dedented(below)
        named = found or all(_NAME.fullmatch(name) for name in names.split(", "))
        bold = ", ".join(f"**{_escaped(name)}**" if named else _inline(name) for name in names.split(", "))
        out += ["   " + bold + (f" : {_inline(kind)}" if kind else "")]
        content = _blocks([line for line in body if line] if not any(_indented(body)) else body) or ["\\ ", ""]
        out += ["       " + line if line else "" for line in content]
    return [*out, ""]


def _indented(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(" ")]


def _dedented(lines: list[str]) -> list[str]:
    depth = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    return [line[depth:] for line in lines]


def _literal(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return [".. code-block:: none", "   :class: layout", "", *("   " + line for line in _dedented(lines)), ""]


def _inline(text: str) -> str:
    """Text with code between backticks; the rest has no markup."""
    text = re.sub(r"  +", " ", text)
    pieces = text.replace("``", "`").split("`")
    if len(pieces) % 2 == 0:
        return _escaped(text.replace("`", "'"))
    return "".join(
        (f"\\ ``{piece.strip()}``\\ " if piece.strip() else "") if i % 2 else _escaped(piece)
        for i, piece in enumerate(pieces)
    )


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
