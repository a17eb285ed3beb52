"""Symmetries of a problem on a grid: the elements of the group, and what each of them does to every channel."""

from sciops.symmetry.elements import GROUPS, Element, elements_of
from sciops.symmetry.problem import Symmetry

__all__ = ["GROUPS", "Element", "Symmetry", "elements_of"]
