"""The models that the resolution-shift study compares, as data: one `Arm` a row of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sciops.grids import Grid


@dataclass(frozen=True)
class Arm:
    """A model, how it is trained, and which remedy it carries.

    model : name for `sciops.build_model`
    options : its options; ``modes`` is a cap per axis, lowered to what the training grid holds
    learning_rate : peak rate of the one-cycle schedule
    weight_decay : of AdamW
    epochs : where it differs from the study's; a model that over-fits sooner has fewer
    second_grid : also train, in a tenth of the batches, on the next finer or the finest of the test grids; an epoch
        then has twice as many steps
    latent : apply the trained model on its training grid whatever the grid of the input (CROP, ICLR 2025)
    dealiased : apply it with nonlinearities evaluated on so many times the points, on every grid (`Dealiased`)
    same_period : apply it with Fourier modes of the period of its training grid (`SamePeriod`)
    zero_wall : set its output to 0 on the walls, for models that have no such option (`ZeroWall`)
    """

    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 4e-3
    weight_decay: float = 1e-3
    epochs: int | None = None
    second_grid: Literal["next", "finest"] | None = None
    latent: bool = False
    dealiased: int = 1
    same_period: bool = False
    zero_wall: bool = False

    @property
    def trained(self) -> Arm:
        """The arm without what is done after the training: arms in which it is the same share their weights."""
        return replace(self, latent=False, dealiased=1, same_period=False, zero_wall=False)

    @property
    def trained_as_is(self) -> bool:
        """Whether it is evaluated as it was trained, but for known wall values."""
        return replace(self, zero_wall=False) == self.trained

    def resolved(self, grid: Grid) -> dict[str, Any]:
        """The options with `modes` lowered to what `grid` holds: 2k rows and k columns of its half spectrum."""
        options = dict(self.options)
        if "modes" in options:
            periodic = options.get("basis", "fourier") == "fourier"
            options["modes"] = tuple(min(options["modes"], n // 2 if periodic else n - 2) for n in grid.shape)
        return options


_SPINE = {"width": 32, "depth": 4, "mlp": "gated", "mlp_ratio": 1.5}
_REAL16 = _SPINE | {"local": True}
_FOURIER = _REAL16 | {"modes": 8, "weights": "diagonal", "coordinates": "linear"}
_SINE = _REAL16 | {"modes": 8, "basis": "sine", "coordinates": "none"}
_BLOCK = {"norm": "rms", "mixer_activation": True}
_ATTENTION = {"window": 4, "heads": 4, "aggregate": "sum"}

_DARCY = {
    "fno": Arm("fno", _SPINE | {"modes": 12}),
    "fno+instance": Arm("fno", _SPINE | {"modes": 12, "norm": "instance"}),
    "sine-cosine": Arm("fno", _SPINE | {"modes": 16, "basis": "sine-cosine", "wall": "zero"}),
    "mano": Arm("mano", _SPINE | _ATTENTION | _BLOCK),
    "neuralop:FNO": Arm("neuralop:FNO", {"width": 32, "depth": 4, "modes": 12}, learning_rate=3e-3),
    "fno+dealias": Arm("fno", _SPINE | {"modes": 12, "dealias": 2}),
    "fno+multi": Arm("fno", _SPINE | {"modes": 12}, second_grid="finest"),
    "fno+latent": Arm("fno", _SPINE | {"modes": 12}, latent=True),
    "fno+period": Arm("fno", _SPINE | {"modes": 12}, same_period=True),
}

# Small models, in which five seeds of every arm are a matter of minutes.
_SMALL = _SPINE | {"width": 16}
_SMALL_SINE = _SMALL | {"modes": 8, "basis": "sine", "coordinates": "none", "wall": "zero"}


def _truncated(width: int, modes: int) -> dict[str, Arm]:
    """Models that keep fewer modes than the training grid holds; all are told that u = 0 on the walls.

    "+all modes" is the same network without the truncation; the others with a "+" have the weights of a model without.
    """
    spine = _SPINE | {"width": width, "modes": modes, "wall": "zero"}
    peer = {"width": width, "depth": 4, "modes": modes}
    return {
        "fno": Arm("fno", spine),
        "fno+period": Arm("fno", spine, same_period=True),
        "fno+dealiased": Arm("fno", spine, dealiased=2),
        "fno+latent": Arm("fno", spine, latent=True),
        "fno+all modes": Arm("fno", spine | {"modes": 64}),
        "sine-cosine": Arm("fno", spine | {"modes": 2 * modes, "basis": "sine-cosine"}),
        "neuralop:FNO": Arm("neuralop:FNO", peer, zero_wall=True),
        "neuralop:FNO+period": Arm("neuralop:FNO", peer, same_period=True, zero_wall=True),
    }


ARMS: dict[str, dict[str, Arm]] = {
    # Self-generated fields on node grids that reach their walls.
    "darcy": _DARCY,
    "small": {
        "fno": Arm("fno", _SMALL | {"modes": 8}),
        "fno+latent": Arm("fno", _SMALL | {"modes": 8}, latent=True),
        "sine": Arm("fno", _SMALL_SINE, learning_rate=7e-3),
        "sine+multi": Arm("fno", _SMALL_SINE, learning_rate=7e-3, second_grid="next"),
        "mano": Arm("mano", _SMALL | _ATTENTION | _BLOCK),
        "neuralop:FNO": Arm("neuralop:FNO", {"width": 16, "depth": 4, "modes": 8}, learning_rate=5e-3),
    },
    # 6 of the 11 modes of 22 nodes, or of the 21 of 43.
    "truncated": _truncated(width=24, modes=6),
    # As in Li et al.'s models: 12 of the 21 modes of 43 nodes, or of the 42 of 85.
    "truncated-12": _truncated(width=32, modes=12),
    # neuraloperator's 16-grid files: few points, so few spectral weights and a local 3×3 path pay.
    "real16": {
        "fno": Arm("fno", _FOURIER, learning_rate=7e-3, weight_decay=0.1),
        "fno+instance": Arm("fno", _FOURIER | {"norm": "instance"}, learning_rate=7e-3, weight_decay=0.1),
        "sine": Arm("fno", _SINE, learning_rate=7e-3, weight_decay=0.3, epochs=25),
        "sine+replicate": Arm(
            "fno", _SINE | {"local_padding": "replicate"}, learning_rate=7e-3, weight_decay=0.3, epochs=25
        ),
        "mano": Arm("mano", _REAL16 | _ATTENTION | _BLOCK | {"coordinates": "linear"}, learning_rate=7e-3),
        "hybrid": Arm("hybrid", _FOURIER | _ATTENTION, learning_rate=7e-3, weight_decay=0.1),
        "neuralop:FNO": Arm("neuralop:FNO", {"width": 32, "depth": 4, "modes": 8}, learning_rate=5e-3),
    },
}


def weights_of(recipe: str, name: str) -> str:
    """The first arm of a recipe that is trained as the arm `name` is, often itself: both have the same weights."""
    arms = ARMS[recipe]
    return next(other for other, arm in arms.items() if arm.trained == arms[name].trained)
