"""What files and libraries say, in one line that a terminal shows as it is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

from sciops.files.budget import OverBudget

LONGEST = 1400  # characters of a message
# categories of characters that move a cursor, change colours or directions, end a line, or cannot be encoded
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_KINDS = (
    FileNotFoundError,
    IsADirectoryError,
    FileExistsError,
    PermissionError,
    ImportError,
    OSError,
    OverBudget,
    ValueError,
)


def shown(text: str, most: int = LONGEST) -> str:
    r"""The text in one line that a terminal shows as it is: what would do something there is escaped, the middle of a
    longer one is left out.

    >>> shown("a\x1b[2Jb"), shown("x" * 40, 20)
    ('a\\x1b[2Jb', 'xxxxxxxxxxxx … xxxxx')
    """
    text = re.sub(r"\s*[\r\n]\s*", " ", text) if "\n" in text or "\r" in text else text
    if not text.isascii() or not text.isprintable():
        text = "".join(ascii(c)[1:-1] if unicodedata.category(c) in _HIDDEN else c for c in text[: 8 * most])
    tail = most // 4
    return text if len(text) <= most else f"{text[: most - tail - 3]} … {text[-tail:]}"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Around what reads a file: errors come out of their plain kind, with a message that is `shown`."""
    try:
        yield
    except _KINDS as error:
        text = shown(str(error)) or type(error).__name__
        kind = next(kind for kind in _KINDS if isinstance(error, kind))
        if text == str(error) and type(error) is kind:
            raise
        raise kind(text) from None


@contextmanager
def reading(what: object, layout: str = "its layout", expects: str = "") -> Iterator[None]:
    """Around what looks at the contents of a file: a file may hold anything, and an error of a kind that no reader
    raises becomes a ValueError in one line.

    what : the file, as the message names it; layout, expects : what it was taken for, and what that holds
    """
    try:
        yield
    except (ValueError, OSError, ImportError, MemoryError, OverBudget):
        raise
    except Exception as error:
        raise ValueError(
            f"{what} does not hold what {layout} should ({type(error).__name__}: {shown(str(error), 120)}): it is "
            f"damaged, or another program's{expects and '; that layout is ' + expects}"
        ) from None
