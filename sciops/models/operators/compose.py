"""How a named model is made: defaults over the spine, and options that find their part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciops._options import check_options, options_of
from sciops.mixers import default_options
from sciops.models.spine.operator import Operator, description


def compose(name: str, in_channels: int, out_channels: int, mixers: Sequence[str], options: dict[str, Any]) -> Operator:
    """An `Operator` with these mixers; each option goes to the spine or to the mixer that takes it.

    Its `.config` is {"name": name, "options": …} with every option spelled out, so that a saved model does not change
    when a default does. Raises TypeError for an unknown option, naming the known ones.
    """
    spine = options_of(Operator, "in_channels", "out_channels", "mixer", "mixer_options")
    takes = {mixer: default_options(mixer) for mixer in mixers}
    check_options(name, options, spine.keys() | set().union(*takes.values()))
    by_mixer = {
        mixer: {k: v for k, v in options.items() if k in names and k not in spine} for mixer, names in takes.items()
    }
    given = {k: v for k, v in options.items() if k in spine}
    model = Operator(in_channels, out_channels, mixer=tuple(mixers), mixer_options=by_mixer, **given)
    resolved = dict(model.config["options"])
    del resolved["mixer"]
    chosen = resolved.pop("mixer_options")
    for one in [chosen] if len(takes) == 1 else chosen.values():
        resolved.update({k: v for k, v in one.items() if k not in spine})
    model.config = description(name, **resolved)
    return model
