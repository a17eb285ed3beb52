"""The options of a rule: which ones it takes, and their values during training."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any


def options_at(options: Mapping[str, Any], done: float) -> dict[str, Any]:
    """The options when the share `done` of the training is over; a schedule {share: value} gives its latest value."""
    return {
        name: option[max((share for share in option if share <= done), default=min(option))]
        if isinstance(option, Mapping)
        else option
        for name, option in options.items()
    }


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raises ValueError, naming the option, for one that the rule `name` does not take and for a bad schedule."""
    from sciops.training.gradients import GRADIENTS

    if not isinstance(options, Mapping):
        raise ValueError(f"gradient_options={options!r}: expected a dict of the rule's options by name")
    parameters = inspect.signature(GRADIENTS[name]).parameters.values()
    known = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for option, value in options.items():
        if option not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ValueError(f"gradient_options: gradients={name!r} has no option {option!r}; {takes}")
        if isinstance(value, Mapping):
            numbers = all(isinstance(share, (int, float)) for share in value)
            if not value or not numbers or min(value) != 0 or max(value) >= 1:
                raise ValueError(
                    f"gradient_options: {option}={value!r}: a schedule has values by share of the training, from 0 on "
                    "and below 1, such as {0: 1, 0.5: 2}"
                )
