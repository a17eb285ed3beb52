"""Training of the spine with any mixer: what ``--mixer NAME`` of `studies.train` means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sciops.grids import Grid
from sciops.mixers import MIXERS, SequenceMixer, default_options, imported_mixer

if TYPE_CHECKING:
    from studies.train import TrainStudyConfig

_EXAMPLE = """'{"degree": 3}'"""


def with_mixer(config: TrainStudyConfig) -> Any:
    """The config, with the spine as its model where mixers are named; ``module:Class`` imports one.

    Raises ValueError for an unknown mixer, naming the known ones, and for another model.
    """
    config = replace(config, mixer=tuple(imported_mixer(name) for name in config.mixer))
    unknown = [name for name in config.mixer if name not in MIXERS]
    if unknown:
        raise ValueError(f"--mixer {unknown[0]}: expected one of {', '.join(MIXERS)}")
    if config.mixer and config.model not in ("operator", type(config).model):
        raise ValueError(f"--mixer {config.mixer[0]} makes the model 'operator': leave --model {config.model} out")
    return replace(config, model="operator") if config.mixer else config


def mixer_options(
    config: TrainStudyConfig, given: Mapping[str, Any], grid: Grid, most: Sequence[int]
) -> dict[str, Any]:
    """The options of `Operator` that mixers by name need, besides those that are given.

    Raises ValueError for mixer_options that are no object, or of several mixers not one by name.
    """
    names = config.mixer
    options: dict[str, Any] = {"mixer": names[0] if len(names) == 1 else names}
    own = given.get("mixer_options", {})
    modal = [name for name in dict.fromkeys(names) if "modes" in default_options(name)]
    by_mixer = len(set(names)) > 1 or any(name in own for name in modal)
    for one in (own, *(own.values() if by_mixer and isinstance(own, Mapping) else ())):
        if not isinstance(one, Mapping):
            raise ValueError(f"mixer_options={own!r}: expected an object such as {_EXAMPLE}, of several one by name")
    for name in modal:
        mine = {"modes": tuple(min(config.modes, k) for k in most)}
        mine |= own.get(name, {}) if by_mixer else own
        own = options["mixer_options"] = {**own, name: mine} if by_mixer else mine
    if "coordinates" not in given and grid.centering == "periodic":
        # the spine gives none on a period, but most mixers of sequences do not know where a point lies
        if any(issubclass(MIXERS[name], SequenceMixer) for name in names):
            options["coordinates"] = "periodic"
    return options
