"""What the state of a checkpoint has to say before a run is resumed from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def check_state(state: Any, path: Path) -> None:
    """Raises ValueError, naming the file and the first entry that is not what a run writes.

    A digest shows that a file is what was written, not that a run wrote it.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"{path} is not the checkpoint of a run: its state is {_short(state)}")
    for name, (expected, holds) in _ENTRIES.items():
        if name not in state:
            raise ValueError(f"{path} is not the checkpoint of a run: its state has no entry {name!r}")
        if not holds(state[name]):
            raise ValueError(f"{path} is damaged: its {name} is {_short(state[name])}, expected {expected}")
    if len(state["history"]) != state["epochs"] or state["best_epoch"] > state["epochs"]:
        raise ValueError(
            f"{path} is damaged: a history of {len(state['history'])} epochs, the best of which is number "
            f"{state['best_epoch']}, after {state['epochs']} epochs"
        )
    start = state.get("start")
    if start is not None and not (
        isinstance(start, dict) and start.keys() == _START and isinstance(start["left"], list)
    ):
        raise ValueError(f"{path} is damaged: its start is {_short(start)}, expected what the run began with")
    if state["steps"] != (state["history"][-1]["step"] if state["history"] else 0):
        raise ValueError(f"{path} is damaged: {state['steps']} steps are not those of its history")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _is_number(value: Any) -> bool:
    """Whether the value is a number; JSON has texts for those that are not finite."""
    return type(value) in (int, float) or value in ("nan", "inf", "-inf")


def _is_history(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(record, dict) and _is_number(record.get("step")) and _is_number(record.get("seconds"))
        for record in value
    )


def _is_duration(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


_ENTRIES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "config": ("an object of options", lambda value: isinstance(value, dict)),
    "data": ("a text", lambda value: isinstance(value, str)),
    "model": ("an object or null", lambda value: value is None or isinstance(value, dict)),
    "epochs": ("a number of epochs", _is_count),
    "steps": ("a number of steps", _is_count),
    "seconds": ("a number of seconds", _is_duration),
    "history": ("a list of objects, one an epoch", _is_history),
    "best": ("a number or null", lambda value: value is None or _is_number(value)),
    "best_epoch": ("a number of epochs", _is_count),
    "scaler": ("an object", lambda value: isinstance(value, dict)),
}
_START = {"source", "digest", "taken", "left", "statistics"}
