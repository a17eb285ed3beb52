"""Options of the mixers of a model, found by mixer and spelled out."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from sciops.mixers import MIXERS


def options_by_mixer(names: Sequence[str], options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    by_name = {name: options for name in names}
    by_mixer = options and set(options) <= set(names)
    if by_mixer and all(isinstance(one, Mapping) for one in options.values()):  # slices is an option of slices too
        by_name = {name: dict(options.get(name, {})) for name in names}
    elif len(set(names)) > 1 and options:
        raise ValueError(f"mixer_options has the keys {list(options)}; expected one dict per mixer in {list(names)}")
    return {name: {k: tuple(v) if isinstance(v, list) else v for k, v in o.items()} for name, o in by_name.items()}


def spelled_out(name: str, given: dict[str, Any], ndim: int) -> dict[str, Any]:
    """The options of a mixer with its defaults, so that a saved model does not change when a default does.

    One number of `modes` is that of every axis. Raises ValueError for modes and axes that are not those of the model.
    """
    parameters = inspect.signature(MIXERS[name]).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.name not in ("channels", "out_channels")}
    unknown = [key for key in given if key not in defaults]
    if unknown:
        raise TypeError(f"mixer {name!r}: unknown option {unknown[0]!r}; it takes {', '.join(sorted(defaults))}")
    if "axes" in defaults:
        defaults["axes"] = 1 if given.get("flatten") else ndim
        if given.get("axes", defaults["axes"]) != defaults["axes"]:
            raise ValueError(f"axes={given['axes']!r} of mixer {name!r}: the model has {ndim}; leave axes out")
    options = {**defaults, **given}
    if "modes" in options:
        modes = given["modes"] if "modes" in given else options["modes"][0]
        options["modes"] = (modes,) * ndim if isinstance(modes, Integral) else tuple(modes)
        if len(options["modes"]) != ndim:
            raise ValueError(f"modes={modes!r} of a model on {ndim} axes: expected one number, or one for each axis")
    return options
