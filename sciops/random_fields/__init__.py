"""Random coefficient fields by their Karhunen–Loève sum, so that every grid sees the same field.

A sample is a set of coefficients, not a set of values: they are drawn once from (seed, index) and the sum is evaluated
at the true positions of whatever grid is asked for. Coarse and fine versions of a sample are therefore one function,
in any batch, on any shard, on node grids, cell grids and grids that stop short of their walls.
"""

from sciops.random_fields.coefficients import log_normal, two_phase
from sciops.random_fields.gaussian import gaussian_random_field, normal_coefficients
from sciops.random_fields.karhunen_loeve import KarhunenLoeve
from sciops.random_fields.waves import random_waves

__all__ = [
    "KarhunenLoeve",
    "gaussian_random_field",
    "log_normal",
    "normal_coefficients",
    "random_waves",
    "two_phase",
]
