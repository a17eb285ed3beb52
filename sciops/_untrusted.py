"""What others wrote: regular files alone are opened, JSON has bounds, and a library's panic is an error."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LARGEST_JSON = 1 << 27  # bytes; more than safetensors allows the header of a file
DEEPEST_JSON = 100


def check_regular(path: str | os.PathLike[str]) -> Path:
    """The path, where it leads to a regular file: reading from a pipe waits for ever, a device may not end.

    Raises FileNotFoundError, IsADirectoryError, and ValueError for a pipe or a device, in one line.
    """
    path = Path(path)
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{path} does not exist") from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{path} is a folder, a file is expected")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} is not a regular file (a pipe or a device): copy the data into a file first")
    return path


def parse_json(text: str | bytes, *, largest: int = LARGEST_JSON) -> Any:
    """What ``json.loads(text)`` returns, of a text of at most `largest` bytes, at most 100 levels deep.

    Raises json.JSONDecodeError, a ValueError, for a text that is not JSON, too long or too deep, UnicodeDecodeError for
    bytes that are not text, and TypeError for anything else.
    """
    if isinstance(text, (str, bytes)) and len(text) > largest:
        raise json.JSONDecodeError(f"longer than the {largest} bytes that are read", "", 0)
    try:
        content = json.loads(text)
        deepest = _is_deeper(content, DEEPEST_JSON)
    except RecursionError:
        deepest = True
    if deepest:
        raise json.JSONDecodeError(f"nested more than {DEEPEST_JSON} levels deep", "", 0)
    return content


def read_json(path: str | os.PathLike[str], *, largest: int = LARGEST_JSON) -> Any:
    """The content of a JSON file; bounds as in `parse_json`.

    Raises what `check_regular` raises, and ValueError without the file's name for content that is not JSON in UTF-8.
    """
    with open(check_regular(path), "rb") as file:
        return parse_json(file.read(largest + 1), largest=largest)


def _is_deeper(content: Any, levels: int) -> bool:
    """Whether lists and dictionaries are nested in more than this number of levels."""
    level = [content]
    for _ in range(levels + 1):
        held = [one for one in level if isinstance(one, (list, dict))]
        level = [item for one in held for item in (one.values() if isinstance(one, dict) else one)]
        if not held:
            return False
    return True


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turns a panic of a library in Rust, which no ``except Exception`` meets, into a ValueError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # each such library has a class of its own, which none exports
            raise
        raise ValueError(f"the library panicked: {' '.join(str(error).split())[:200]}") from None
