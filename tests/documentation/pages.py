"""The code blocks of README.md and docs/, with the marks before them.

A mark is an HTML comment, which no reader sees:

``<!-- not run: REASON -->``            the next block needs data, a program or hours that a test does not have
``<!-- tested with: A → B; C → D -->``  the next block is run with B for A and D for C, such as a smaller number
``<!-- test`` … ``-->``                 lines that are run at this point, such as those that write the file of a reader
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)]

_TOKEN = re.compile(
    r"^<!-- (?P<mark>tested with|not run|test)(?P<rest>.*?)-->\n+"
    r"|^(?P<fence>```+)(?P<language>[^\n]*)\n(?P<code>.*?)^(?P=fence)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A block as it is to be run: line in the page, language ("test" for a mark's lines), code, why it is not run."""

    line: int
    language: str
    code: str
    not_run: str = ""


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page in order; raises ValueError for a mark without a block, or one whose A does not occur."""
    text = page.read_text(encoding="utf-8")
    blocks: list[Block] = []
    mark = rest = ""
    end = 0
    for found in _TOKEN.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        where = f"{page.name}:{line}"
        if mark and text[end : found.start()].strip():
            raise ValueError(f"{where}: the mark {mark!r} before it stands before no block")
        if found["mark"] == "test":
            blocks.append(Block(line, "test", found["rest"].strip("\n") + "\n"))
        elif found["mark"]:
            mark, rest, end = found["mark"], found["rest"].strip(" :\n"), found.end()
        else:
            code = found["code"]
            if mark == "tested with":
                for pair in rest.split("; "):
                    old, new = pair.split(" → ")
                    if old not in code:
                        raise ValueError(f"{where}: {old!r} of its mark does not occur in it")
                    code = code.replace(old, new)
            blocks.append(Block(line, found["language"].strip(), code, rest if mark == "not run" else ""))
            mark = ""
    return blocks
