"""`Traits`: what a mixer declares about itself to the models that use it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Traits:
    """What a model has to know about a mixer before it makes one.

    A mixer declares them as a class attribute, ``traits = Traits(…)``, or, where they depend on its options, as a class
    method, ``traits(cls, **options) -> Traits``. One that declares nothing has the defaults.

    Parameters
    ----------
    coordinates : str
        Position features that a model adds by default on grids with walls, see `coordinates` of `Operator`; linear ones
        where a model alternates mixers that differ in this.
    periodic : bool
        The mixer takes the n points of an axis as one period; a model without a grid then assumes a periodic one.
    least_points : int
        Fewest points per axis that the mixer works on.
    shifts : bool
        The option `shift` moves its windows, and image classifiers do so in every second block by default.
    """

    coordinates: str = "linear"
    periodic: bool = False
    least_points: int = 1
    shifts: bool = False
