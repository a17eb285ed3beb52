"""Operators by name: the spine with given mixers, and the options of both in one list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sciops.mixers import default_options
from sciops.models.spine import Operator, SpineOptions, description
from sciops.options import check_options, names_of, read_options


def compose(name: str, kind: type[SpineOptions], mixers: Sequence[str], given: Mapping[str, Any]) -> Operator:
    """An `Operator` with these mixers, each option passed to the spine or to the mixers that take it.

    Its config is {"name": name, "options": …} with the value of every option, so that a saved model does not change
    when a default does.

    Parameters
    ----------
    name : str
        The model's name in `MODELS`.
    kind : type
        Options of the spine with this model's defaults, and those of its mixers whose defaults are its own.
    mixers : sequence of str
        Names in `sciops.mixers.MIXERS`, which alternate block by block.
    given : mapping
        Options by name: fields of `kind` and options of the mixers.

    Raises
    ------
    TypeError
        For an unknown option, naming the known ones.
    """
    takes = {mixer: default_options(mixer) for mixer in mixers}
    own, spine = names_of(kind), names_of(SpineOptions)
    check_options(name, given, set(own).union(*takes.values()))
    o = vars(read_options(kind, name, {k: v for k, v in given.items() if k in own}))
    mixing = {k: v for k, v in {**given, **o}.items() if k not in spine}
    by_mixer = {mixer: {k: v for k, v in mixing.items() if k in names} for mixer, names in takes.items()}
    model = Operator(mixer=tuple(mixers), mixer_options=by_mixer, **{k: o[k] for k in spine})
    resolved = model.config["options"]
    chosen = resolved["mixer_options"]
    options = {k: v for k, v in resolved.items() if k in spine}
    for one in [chosen] if len(takes) == 1 else chosen.values():
        options.update({k: v for k, v in one.items() if k not in spine})
    model.config = description(name, options)
    return model
