"""What others wrote: regular files alone are opened, text and JSON have bounds, and a library's panic is an error."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sciops.files.budget import OverBudget, Spending, current_budget, over_budget
from sciops.files.messages import shown

LARGEST_JSON = 1 << 27  # bytes; more than safetensors allows the header of a file
DEEPEST_JSON = 100
_LONGEST_MESSAGE = 800  # characters of what content led to
_JSON_VALUE = 96  # bytes of one in a list or dictionary, its name included; texts are as long as in the file


def check_regular(path: str | os.PathLike[str], *, missing: str = " does not exist") -> Path:
    """The path, where it leads to a regular file: reading from a pipe waits for ever, a device may not end.

    missing : what the message says after the path where nothing is there

    Raises FileNotFoundError, IsADirectoryError, and ValueError for a pipe or a device, in one line.
    """
    path = Path(path)
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{path}{missing}") from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{path} is a folder, a file is expected")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} is not a regular file (a pipe or a device): copy the data into a file first")
    return path


def read_text(path: str | os.PathLike[str], spent: Spending | None = None) -> str:
    """The text of a UTF-8 file, without a byte order mark; `spent` counts the memory it takes.

    Raises what `check_regular` raises, UnicodeDecodeError for bytes that are not text, and OverBudget.
    """
    spent = spent or Spending(check_regular(path))
    with open(check_regular(path), "rb") as file:
        content = file.read(spent.size + 1)
    if len(content) > spent.size:
        raise ValueError(f"{path} grew while it was read: try again when it is written")
    largest = np.frombuffer(content, np.uint8).max(initial=0)
    width = 4 if largest >= 0xF0 else 2 if largest >= 0xC4 else 1  # bytes Python keeps for every character
    spent.take(bytes=width * len(content), what="its text")
    return content.decode("utf-8-sig")


def parse_json(text: str | bytes, *, largest: int = LARGEST_JSON, source: str | os.PathLike[str] = "a text") -> Any:
    """What ``json.loads(text)`` returns, of a text of at most `largest` bytes, at most 100 levels deep, whose values
    take no more memory than `current_budget` allows.

    source : the file it is of, for the message of OverBudget

    Raises json.JSONDecodeError, a ValueError, for a text that is not JSON, too long or too deep, OverBudget for one of
    too many values, UnicodeDecodeError for bytes that are not text, and TypeError for anything else.
    """
    if isinstance(text, (str, bytes)) and len(text) > largest:
        raise json.JSONDecodeError(f"longer than the {largest} bytes that are read", "", 0)
    opened = DEEPEST_JSON + 1
    if isinstance(text, (str, bytes)):
        marks: Any = "[{," if isinstance(text, str) else (b"[", b"{", b",")
        square, curly, commas = map(text.count, marks)
        opened = square + curly
        values = opened + commas
        if _JSON_VALUE * values > current_budget().bytes + len(text):
            raise over_budget(source, "bytes", _JSON_VALUE * values, current_budget(), "its JSON")
    try:
        content = json.loads(text)
        deepest = opened > DEEPEST_JSON and _is_deeper(content, DEEPEST_JSON)
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
        size = os.fstat(file.fileno()).st_size  # a read makes room for all that it is asked for
        return parse_json(file.read(min(size, largest) + 1), largest=largest, source=path)


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
def in_one_line(source: str | os.PathLike[str], *passing: type[Exception]) -> Iterator[None]:
    """Turns whatever content that others wrote leads to into a ValueError in one line that names the file.

    passing : exceptions that are left as they are, besides ImportError, MemoryError and OverBudget
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (ImportError, MemoryError, OverBudget, *passing)):
            raise
        text = " ".join(str(error).split())
        text = text if isinstance(error, (ValueError, TypeError, RuntimeError)) else f"{type(error).__name__} {text}"
        text = shown(text, _LONGEST_MESSAGE)
        raise ValueError(text if text.startswith(str(source)) else f"{source}: {text}") from None


@contextmanager
def refusing(message: str, *caught: type[Exception]) -> Iterator[None]:
    """Turns an exception that a damaged file leads to into a ValueError in one line; OverBudget is passed on.

    message : the text of that error, in which {error} stands for what the exception says
    caught : kinds of exceptions that a damaged file leads to; default all of them
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OverBudget) or not isinstance(error, caught or Exception):
            raise
        text = str(error) or type(error).__name__
        text = f"{type(error).__name__} {text}" if isinstance(error, (KeyError, TypeError, AttributeError)) else text
        raise ValueError(message.replace("{error}", shown(text, 200))) from None


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turns a panic of a library in Rust, which no ``except Exception`` meets, into a ValueError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # each such library has a class of its own, which none exports
            raise
        raise ValueError(f"the library panicked: {' '.join(str(error).split())[:200]}") from None
