"""The mixers that studies compare, by the names they are shown under."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from sciops.mixers import MIXERS, imported_mixer
from studies.kit.choices import require_known

NO_MIXER = "no mixer"


@dataclass(frozen=True)
class Arm:
    """mixer : a name in `sciops.mixers.MIXERS`, or several that alternate block by block
    tokens, fields : options along a sequence of tokens, and on a grid; by name for several mixers
    """

    mixer: str | Sequence[str]
    tokens: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)


_ROPE = {"positions": "rope"}
_WINDOW = {"window": 16, **_ROPE}
_LEAN = {"expansion": 1}  # of 2 by default, which would have more parameters than the others' blocks without a branch
ARMS: dict[str, Arm] = {
    NO_MIXER: Arm("none"),
    "mean": Arm("mean_pool"),
    "attention": Arm("self_attention", _ROPE),
    "local attention": Arm("self_attention", _WINDOW, {"window": 16}),
    "linear attention": Arm("linear_attention"),
    "state space": Arm("state_space", {}, {"state": 16}),  # of 64, kernels each way would outweigh all the rest
    "polynomial": Arm("polynomial", _LEAN, _LEAN),
    "ChaCAL": Arm("resolvent", _ROPE),
    "Block-ChaCAL": Arm("block_resolvent", {"block": 8, **_ROPE}),  # n^{1/3} of 512; decoding needs a number
    "2^k recurrence": Arm("recurrence", {"pattern": "powers"}, {"pattern": "powers"}),
    "k²+1 recurrence": Arm("recurrence", {"pattern": "squares"}, {"pattern": "squares"}),
    "polynomial + local": Arm(
        ("polynomial", "self_attention"),
        {"polynomial": _LEAN, "self_attention": _WINDOW},
        {"polynomial": _LEAN, "self_attention": {"window": 16}},
    ),
}


def arm_of(name: str) -> Arm:
    """The arm called `name`, or that of a mixer with its own options, by its name in `MIXERS` or as ``module:Class``.

    Raises ValueError for an unknown one, naming the known arms.
    """
    if name in ARMS:
        return ARMS[name]
    mixer = imported_mixer(name)
    require_known("--arms", [mixer], [*ARMS, *MIXERS, "module:Class"])
    return Arm(mixer)


def chosen_arms(names: Sequence[str]) -> dict[str, Arm]:
    """The arms called `names`, all of `ARMS` where there are none; see `arm_of`."""
    return {name: arm_of(name) for name in names or ARMS}


def matched_ratio(make: Any, wanted: int, *, width: int, depth: int, least: float = 0.25) -> float:
    """The hidden width over the width at which make(ratio), a module with `depth` gated branches, has as many
    parameters as `wanted`, rounded to whole units; `least` where even that is too many."""
    start = 2.0
    per_unit = depth * (3 * width + 2)  # of W₀, W₁ with biases, and W₂
    units = round(start * width) + (wanted - parameters_of(make(start))) / per_unit
    return max(least, round(units) / width)


def parameters_of(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
