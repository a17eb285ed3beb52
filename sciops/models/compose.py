"""How a named model is made: defaults over the spine, and options that find their part."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from sciops.mixers import MIXERS
from sciops.models.operator import Operator, description


def compose(name: str, in_channels: int, out_channels: int, mixers: Sequence[str], options: dict[str, Any]) -> Operator:
    """An `Operator` with these mixers; each option goes to the spine or to the mixer that takes it.

    Its `.config` is {"name": name, "options": …} with every option spelled out, so that a saved model does not change
    when a default does. Raises TypeError for an unknown option, naming the known ones.
    """
    spine = _parameters(Operator) - {"in_channels", "out_channels", "mixer", "mixer_options"}
    takes = {mixer: _parameters(MIXERS[mixer]) - {"channels", "out_channels"} for mixer in dict.fromkeys(mixers)}
    known = spine.union(*takes.values())
    unknown = [key for key in options if key not in known]
    if unknown:
        raise TypeError(f"{name}: unknown option {unknown[0]!r}; it takes {', '.join(sorted(known))}")
    mixer_options = {
        mixer: {k: v for k, v in options.items() if k in names and k not in spine} for mixer, names in takes.items()
    }
    given = {k: v for k, v in options.items() if k in spine}
    model = Operator(in_channels, out_channels, mixer=tuple(mixers), mixer_options=mixer_options, **given)
    resolved = dict(model.config["options"])
    del resolved["mixer"]
    chosen = resolved.pop("mixer_options")
    for one in [chosen] if len(takes) == 1 else chosen.values():
        resolved.update({k: v for k, v in one.items() if k not in spine})
    model.config = description(name, **resolved)
    return model


def _parameters(callable_: Any) -> set[str]:
    return {
        p.name
        for p in inspect.signature(callable_).parameters.values()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
