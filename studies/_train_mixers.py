"""Training of the spine with any mixer: what ``--mixer NAME`` of `studies.train` means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sciops.grids import Grid
from sciops.mixers import MIXERS, SequenceMixer


def with_mixer(config: Any) -> Any:
    """The config, with the spine as its model where mixers are named.

    Raises ValueError for an unknown mixer, naming the known ones, and for another model.
    """
    unknown = [name for name in config.mixer if name not in MIXERS]
    if unknown:
        raise ValueError(f"--mixer {unknown[0]}: expected one of {', '.join(MIXERS)}")
    if config.mixer and config.model not in ("operator", type(config).model):
        raise ValueError(f"--mixer {config.mixer[0]} makes the model 'operator': leave --model {config.model} out")
    return replace(config, model="operator") if config.mixer else config


def mixer_options(config: Any, given: Mapping[str, Any], grid: Grid, most: Sequence[int]) -> dict[str, Any]:
    """The options of `Operator` that mixers by name need, besides those that are given."""
    names = config.mixer
    options: dict[str, Any] = {"mixer": names[0] if len(names) == 1 else names}
    if "spectral" in names:
        own = dict(given.get("mixer_options", {}))
        modes = {"modes": tuple(min(config.modes, k) for k in most)}
        by_mixer = own | {"spectral": modes | own.get("spectral", {})}
        options["mixer_options"] = modes | own if len(set(names)) == 1 else by_mixer
    if "coordinates" not in given and grid.centering == "periodic":
        # the spine gives none on a period, but most mixers of sequences do not know where a point lies
        if any(issubclass(MIXERS[name], SequenceMixer) for name in names):
            options["coordinates"] = "periodic"
    return options
