"""What files and libraries say, made fit for a message: names and attributes of a file can hold anything."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sciops.files.budget import OverBudget
from sciops.files.messages import LONGEST, shown

__all__ = ["LONGEST", "plain_errors", "shown"]

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


@contextlib.contextmanager
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
