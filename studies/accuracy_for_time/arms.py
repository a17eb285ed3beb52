"""Who takes part in the study of accuracy for time: models, how each is trained, and what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KINDS = {
    "network": "ours, learns from solutions alone",
    "endless": "ours, makes its fields while it trains, within its seconds, and sees each once or a few times",
    "hybrid": "ours, is given the equation and solves it",
    "peer": "another package's model or method",
}


@dataclass(frozen=True)
class Arm:
    """A model and its training.

    model, options : for `sciops.build_model`
    kind : a key of `KINDS`
    learning_rate, weight_decay : of AdamW
    gradient_weight : of the relative gradient error in the loss
    coarse_share : share of the time in which it trains on the nested grid of half as many intervals
    optimizer, precision : of `TrainConfig`
    endless : whether fields are made while it trains and within its seconds, without end; and how often each comes
    """

    model: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 4e-3
    weight_decay: float = 1e-3
    gradient_weight: float = 0.3
    coarse_share: float = 0.0
    optimizer: str = "adamw"
    precision: str = "float32"
    endless: int = 0


_SPINE: dict[str, Any] = {
    "width": 32,
    "depth": 4,
    "mlp": "plain",
    "mlp_ratio": 2.0,
    "mixer_activation": False,
    "wall": "zero",
}
_WALLS = {"modes": (16, 16), "basis": "sine-cosine", "coordinates": "wall"}
_BANKED = _SPINE | {
    "mixer": ("spectral", "spectral", "gradient_products", "gradient_products"),
    "mixer_options": {
        "spectral": {"modes": 16, "basis": "sine-cosine"},
        "gradient_products": {"modes": 16},
    },
    "coordinates": "wall",
}
_TRANSPOSED = _BANKED | {
    "mixer_options": {name: {**options, "symmetric": True} for name, options in _BANKED["mixer_options"].items()},
    "coordinates": "symmetric-wall",
}
_GATED = _TRANSPOSED | {
    "mixer_options": _TRANSPOSED["mixer_options"]
    | {"gradient_products": {**_TRANSPOSED["mixer_options"]["gradient_products"], "gate": True}}
}
_PEER = {"learning_rate": 3e-3, "weight_decay": 1e-4}
# the correction is small and local in origin: more weights than these fit the training samples' noise
_LEAN = {"width": 32, "depth": 4, "modes": (24, 24), "basis": "sine-cosine", "weights": "diagonal", "local": True}

ARMS: dict[str, Arm] = {
    "fno": Arm("fno", "network", _SPINE | {"modes": (16, 16)}),
    "sine-cosine": Arm("fno", "network", _SPINE | _WALLS, coarse_share=0.3),
    "sine-cosine, one grid": Arm("fno", "network", _SPINE | _WALLS),
    "sine-cosine, bf16": Arm("fno", "network", _SPINE | _WALLS, coarse_share=0.3, precision="bf16"),
    "sine-cosine, endless": Arm("fno", "endless", _SPINE | _WALLS, endless=1),
    # each of these four has one part more than the one before
    "+ gradient products": Arm("operator", "network", _BANKED, coarse_share=0.3),
    "+ Muon": Arm("operator", "network", _BANKED, coarse_share=0.3, optimizer="muon"),
    "+ transposition": Arm("operator", "network", _TRANSPOSED, coarse_share=0.3, optimizer="muon"),
    "+ gate": Arm("operator", "network", _GATED, coarse_share=0.3, optimizer="muon"),
    "+ gate, longer coarse": Arm("operator", "network", _GATED, coarse_share=0.6, optimizer="muon"),
    "+ transposition, endless, 4 passes": Arm(
        "operator", "endless", _TRANSPOSED, coarse_share=0.3, optimizer="muon", endless=4
    ),
    "transposition, Muon for modes": Arm(
        "operator", "network", _TRANSPOSED, coarse_share=0.3, optimizer="stacked-muon"
    ),
    "+ transposition, endless": Arm("operator", "endless", _TRANSPOSED, optimizer="muon", endless=1),
    "mano": Arm("mano", "network", _SPINE | {"window": 4, "heads": 4, "aggregate": "sum"}, learning_rate=2e-3),
    "spectral–multipole": Arm("hybrid", "network", _SPINE | _WALLS | {"weights": "dense", "window": 4, "heads": 4}),
    "corrector": Arm("corrector", "hybrid", _LEAN | {"refine": 2}, learning_rate=3e-3, gradient_weight=0.0),
    "effective coefficient": Arm(
        "effective_coefficient", "hybrid", {"refine": 2}, learning_rate=3e-3, gradient_weight=0.0
    ),
    "neuralop:FNO": Arm("neuralop:FNO", "peer", {"width": 32, "depth": 4, "modes": (16, 16)}, **_PEER),
    "neuralop:TFNO": Arm("neuralop:TFNO", "peer", {"width": 32, "depth": 4, "modes": (16, 16)}, **_PEER),
    "neuralop:UNO": Arm("neuralop:UNO", "peer", {"width": 32, "depth": 5, "modes": (12, 12)}, **_PEER),
    "Transolver-style": Arm(
        "operator",
        "peer",
        _SPINE | {"mixer": "slices", "mixer_options": {"heads": 4, "slices": 32}, "norm": "layer", "wall": "none"},
        learning_rate=2e-3,
        weight_decay=1e-4,
    ),
}

# each answers one question about an arm, and takes part only where it is named
VARIANTS = ("sine-cosine, one grid", "sine-cosine, bf16", "sine-cosine, endless", "+ gate, longer coarse")
VARIANTS += ("+ transposition, endless, 4 passes", "transposition, Muon for modes")
