"""What a training shows while it runs: a bar on a terminal, lines in a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from tqdm.auto import tqdm

_APART = 2.0  # seconds between two lines at least


class Progress:
    """The epochs of a training, on standard error; a context manager.

    On a terminal a bar with the last losses; elsewhere, such as in the log file of a batch job, a line an epoch, at
    most one in two seconds, besides the first and the last.

    done, end : number of epochs that are done, and after which the training ends
    shown : False shows nothing
    """

    def __init__(self, done: int, end: int, *, shown: bool) -> None:
        self.end, self.begun = end, time.monotonic()
        self._next = self.begun
        self._lines = shown and not sys.stderr.isatty()
        self._bar = tqdm(total=end, initial=min(done, end), unit="epoch", disable=not shown or self._lines)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.close()

    def say(self, text: str) -> None:
        """A line of its own."""
        if self._lines:
            print(text, file=sys.stderr, flush=True)
        elif not self._bar.disable:
            self._bar.write(text, file=sys.stderr)

    def show(self, record: Mapping[str, Any], *, last: bool) -> None:
        """The epoch that `record` describes."""
        values = {key: f"{record[key]:.4g}" for key in ("loss", "validation") if key in record}
        self._bar.set_postfix(values, refresh=False)
        self._bar.update()
        now = time.monotonic()
        if last or now >= self._next:
            self._next = now + _APART
            if self._lines:
                numbers = "".join(f"  {key} {value}" for key, value in values.items())
                self.say(f"epoch {record['epoch']}/{self.end}{numbers}  {record['seconds']:.1f} s")
