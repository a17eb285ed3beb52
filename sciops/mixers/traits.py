"""What a mixer declares about itself to the code that uses it: `Traits`, and its `Matrices` where it is linear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor


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


@dataclass(frozen=True)
class Matrices:
    """Matrices by which a linear layer acts, between orthonormal bases: what ``linear_matrices(shape)`` returns.

    Parameters
    ----------
    read : callable
        read() returns them, (count, rows, columns).
    write : callable
        write(new) replaces them by as many of the same shape, in place.
    rounds : int
        How often they have to be written and read again until what is read is what was written.
    """

    read: Callable[[], Tensor]
    write: Callable[..., Any]
    rounds: int = 1
