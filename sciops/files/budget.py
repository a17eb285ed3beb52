"""The budget of files that others wrote: how much memory, how many objects and how much time opening one may take."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, TypeVar

from sciops.files.remote import local_or_remote

F = TypeVar("F", bound=Callable[..., Any])

MOST_DIMENSIONS = 32  # of an array: numpy held no more for long, and work on axes grows with their number


@dataclass(frozen=True)
class Budget:
    """What opening one file may take, so that a small file cannot use up a machine.

    Parameters
    ----------
    bytes : float
        Memory that is made of the file, besides as many bytes as it has on the disk. Numbers that are read on demand
        count when they are read.
    objects : int
        Groups, arrays, attributes, members and tensors together.
    seconds : float
        Of computing (processor time).

    Raises
    ------
    ValueError
        For a limit that is not positive.

    Examples
    --------
    >>> Budget(bytes=8e9).seconds
    10.0
    """

    bytes: float = 1e9
    objects: int = 100_000
    seconds: float = 10.0

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not (isinstance(value, (int, float)) and value > 0):
                raise ValueError(f"{one.name}={value}: a budget has positive limits, such as Budget(bytes=8e9)")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """The budget of a command's option, "bytes=8e9,seconds=60"; limits that are not named keep their defaults."""
        given: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            try:
                given[name.strip()] = float(value)
                replace(cls(), **given)
            except (TypeError, ValueError):
                raise ValueError(f"budget {text!r}: expected limits such as bytes=8e9,objects=1e6,seconds=60") from None
        return cls(**given)


class OverBudget(ValueError):
    """A file that would take more than its budget; the message says what to do with one that is trusted."""


_CURRENT: ContextVar[Budget] = ContextVar("budget")


def current_budget() -> Budget:
    """The budget of files that are opened here."""
    return _CURRENT.get(None) or Budget()


@contextmanager
def opening_within(budget: Budget | None) -> Iterator[Budget]:
    """Files that are opened in this block have this budget; None leaves the one there is."""
    token = _CURRENT.set(current_budget() if budget is None else budget)
    try:
        yield current_budget()
    finally:
        _CURRENT.reset(token)


def within_budget(f: F) -> F:
    """The function f, which opens files within the budget that is given to it by the keyword `budget`."""

    @wraps(f)
    def opened(*args: Any, **kwargs: Any) -> Any:
        with opening_within(kwargs.get("budget")):
            return f(*args, **kwargs)

    return opened  # type: ignore[return-value]


class Spending:
    """What one file has taken of its budget so far.

    path : of the file, or a store's folder; named in messages
    size : bytes that it has on the disk; found where it is not given
    budget : default `current_budget`
    """

    def __init__(self, path: str | os.PathLike[str], *, size: int | None = None, budget: Budget | None = None) -> None:
        self.path, self.budget = local_or_remote(path), budget or current_budget()
        self.size = self.path.stat().st_size if size is None else size
        self.bytes, self.objects = 0.0, 0
        self._began = time.thread_time()

    def take(self, *, bytes: float = 0, objects: int = 0, what: str = "it") -> None:
        """Counts memory that is about to be made and objects that are about to be read, and the time until now.

        Raises OverBudget, in one line, where the file has then taken more than its budget.
        """
        self.bytes += bytes
        self.objects += objects
        if self.bytes > self.budget.bytes + self.size:
            raise over_budget(self.path, "bytes", self.bytes, self.budget, what)
        if self.objects > self.budget.objects:
            raise over_budget(self.path, "objects", self.objects, self.budget, what)
        seconds = time.thread_time() - self._began
        if seconds > self.budget.seconds:
            raise over_budget(self.path, "seconds", seconds, self.budget, what)


def over_budget(
    path: str | os.PathLike[str], limit: str, wanted: float | None, budget: Budget, what: str = "it"
) -> OverBudget:
    """The error of a file that wants more than a limit ("bytes", "objects" or "seconds") allows.

    wanted : None where nobody can say how much
    """
    most = getattr(budget, limit)
    words = {
        "bytes": f"of memory, more than the {most:.4g} besides its own size",
        "objects": f"(arrays, groups, entries, …), more than the {most:.6g}",
        "seconds": f"of computing, more than the {most:.3g}",
    }[limit]
    amount = f"{wanted:.3g} " if wanted is not None else ""
    option = f"{limit}={4 * max(most, wanted or most):.0e}".replace("e+0", "e")
    return OverBudget(
        f"{path}: {what} takes {amount}{limit} {words} that a file may take; where you trust the file, pass "
        f"budget=sciops.Budget({option}), on the command line --budget {option}"
    )


def check_rank(path: str | os.PathLike[str], name: str, rank: int) -> None:
    """Raises ValueError for an array with more dimensions than are read."""
    if rank > MOST_DIMENSIONS:
        raise ValueError(f"{path}: {name} has {rank} dimensions, at most {MOST_DIMENSIONS} are read")
