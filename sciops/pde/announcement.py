"""One line on standard error when a solver is compiled, which takes seconds; none when numba has it on disk."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from numba.core import event


class _Compilations(event.Listener):
    """Speaks once, when one of the functions is compiled; numba reports those within them too."""

    def __init__(self, functions: Collection[Callable], what: str) -> None:
        self.functions, self.what, self.said = functions, what, False

    def on_start(self, event: event.Event) -> None:
        if not self.said and event.data["dispatcher"] in self.functions:
            self.said = True
            print(f"compiling {self.what} …", file=sys.stderr, flush=True)

    def on_end(self, event: event.Event) -> None:
        pass


@contextmanager
def announced(functions: Collection[Callable], what: str) -> Iterator[None]:
    """Says "compiling" and what, where one of numba's functions is compiled inside."""
    with event.install_listener("numba:compile", _Compilations(functions, what)):
        yield
