"""How each model of the zoo is made: its fields, its training, and what it is not for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from data_gen import burgers, darcy, navier_stokes
from studies.train import PRESETS, TrainStudyConfig

TEST_SEED = 1  # of test fields; those of training have the seed 0


@dataclass(frozen=True)
class Recipe:
    """One model.

    title, equation, law : of its card
    generator : name in data_gen; `fields` its configuration, of which `samples` counts training and validation, and
        `grids` are the points of the test fields besides
    train : what ``sciops train`` is given
    method : of resampling to the grids of the card's table, those of `grids`
    limits : what the model is not for
    """

    title: str
    equation: str
    law: str
    generator: str
    fields: Any
    grids: tuple[int, ...]
    train: TrainStudyConfig
    method: str
    limits: tuple[str, ...]
    test_samples: int = 100
    kind: str = "steady"

    @property
    def make(self) -> Callable[[Any], Any]:
        """The generator's run(config)."""
        return {"darcy": darcy, "burgers": burgers, "navier_stokes": navier_stokes}[self.generator].run

    @property
    def own(self) -> int:
        """Points per axis of the training fields."""
        return self.fields.resolutions[-1]

    def training_fields(self, output: Any) -> Any:
        """Configuration of the file to train on."""
        return replace(self.fields, output=output)

    def test_fields(self, output: Any, samples: int | None = None) -> Any:
        """Configuration of the file to test on: another seed, all samples for the test, further grids."""
        count = self.test_samples if samples is None else samples
        resolutions = tuple(dict.fromkeys((*self.grids, *self.fields.resolutions)))
        split = {"samples": count, "validation": 0, "test": count - 1, "seed": TEST_SEED}  # all are tested on
        return replace(self.fields, output=output, resolutions=resolutions, **split)


_DARCY = darcy.DarcyConfig(samples=600, resolutions=(421, 85), validation=60, test=0, dtype="float32")
_DARCY_LIMITS = (
    "The law alone: other contrasts, smoother or rougher fields, walls with other values were not trained on.",
    "At this error the solver of sciops on the same coefficient is more accurate and not slower on a processor: the "
    "model is for gradients, ensembles and studies, not for single solves.",
)
_HYBRID_LIMITS = (
    _DARCY_LIMITS[0],
    "It is given the equation: each prediction solves it once on twice as many intervals. Compare it with that solve. "
    "It runs on other grids as the solve does; no gradient passes through the solve.",
)
_SMALL: dict[str, Any] = dict(
    resolution=(85,),
    epochs=10,
    batch_size=4,
    learning_rate=4e-3,
    gradient_weight=0.3,
    augment="square",
    width=24,
    depth=4,
)


def _darcy(
    title: str, model: str, options: tuple[str, ...], limits: tuple[str, ...] = _DARCY_LIMITS, **training: Any
) -> Recipe:
    return Recipe(
        title=title,
        equation="−∇·(a∇u) = 1 on the unit square, u = 0 on its walls",
        law="a = 3 or 12 by the sign of a Gaussian field of covariance 9(−Δ + 9)⁻² (li2020), solved on 421² nodes",
        generator="darcy",
        fields=_DARCY,
        grids=(211, 43),
        train=TrainStudyConfig(**{**_SMALL, **training}, model=model, options=options),
        method="sine",
        limits=limits,
        test_samples=50,
    )


RECIPES: dict[str, Recipe] = {
    "darcy85-fno": _darcy(
        "Fourier neural operator for Darcy flow on 85×85 nodes.",
        "fno",
        ("weights=diagonal", "local=true", "wall=zero"),
        modes=16,
        epochs=6,
    ),
    "darcy85-sine-cosine": _darcy(
        "Spectral operator in sines and cosines, which know the walls, for Darcy flow on 85×85 nodes.",
        "fno",
        ("weights=diagonal", "local=true", "basis=sine-cosine", "coordinates=wall", "wall=zero"),
        modes=16,
        stop_after=7,  # of the ten epochs of its schedule; the same command without this option trains on
    ),
    "darcy85-mano": _darcy(
        "Multipole attention neural operator for Darcy flow on 85×85 nodes.",
        "mano",
        ("window=4", "heads=4", "aggregate=sum", "wall=zero"),
        learning_rate=2e-3,
        epochs=8,
    ),
    "darcy85-corrector": _darcy(
        "A network that corrects a solve on the coarse coefficient, for Darcy flow on 85×85 nodes.",
        "corrector",
        ("refine=2", "weights=diagonal", "local=true", "basis=sine-cosine"),
        limits=_HYBRID_LIMITS,
        modes=24,
        learning_rate=3e-3,
        gradient_weight=0.0,
        epochs=10,
    ),
    "burgers256": Recipe(
        title="Fourier neural operator for viscous Burgers: u at time 0 to u at time 1, on 256 points.",
        equation="u_t + u u_x = ν u_xx on a period of 1, ν = 0.1",
        law="u(·, 0) Gaussian with covariance 625(−Δ + 25)⁻² (li2020), solved on 1024 points",
        generator="burgers",
        fields=replace(
            burgers.PRESETS["li2020"],
            samples=900,
            validation=100,
            test=0,
            resolutions=(256,),
            solved_on=1024,
            modes=256,
            dtype="float32",
        ),
        grids=(1024, 128),
        train=TrainStudyConfig(task="final", epochs=60, batch_size=20, learning_rate=4e-3, width=32, depth=4, modes=16),
        method="fourier",
        limits=(
            "ν = 0.1 and time 1 alone; steeper waves need more points and another training.",
            "The mean of u is conserved by the equation, and by the model only as far as it has learned it.",
        ),
        kind="final",
    ),
    "navier-stokes32-step": Recipe(
        title="A step of time of a forced flow on the torus, run on its own predictions: vorticity on 32×32 points.",
        equation="w_t + u·∇w = νΔw + f, f = 0.1(sin 2π(x + y) + cos 2π(x + y)), ν = 1e-3",
        law="w(·, 0) Gaussian with covariance 7³(−Δ + 49)^(−2.5) (li2020), 20 steps of time 0.5, solved on 32² points",
        generator="navier_stokes",
        fields=navier_stokes.NavierStokesConfig(
            samples=140,
            resolutions=(32,),
            solved_on=32,
            duration=10.0,
            every=0.5,
            dt=1 / 16,
            modes=24,
            validation=12,
            test=0,
            dtype="float32",
        ),
        grids=(),
        train=replace(
            PRESETS["step"],
            epochs=2,
            batch_size=32,
            learning_rate=3e-3,
            width=16,
            depth=3,
            modes=8,
            options=("coordinates=periodic",),  # the force has its place
        ),
        method="fourier",
        limits=(
            "ν = 1e-3, this force and steps of time 0.5 alone.",
            "Errors grow along a rollout; the card's number is that of all 20 frames together.",
        ),
        test_samples=20,
        kind="step",
    ),
}
