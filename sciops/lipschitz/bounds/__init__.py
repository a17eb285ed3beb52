"""Lipschitz bounds of whole models: the rules by class of module, and the product over the parts of a model."""

from sciops.lipschitz.bounds.bound import Block, Bound, lipschitz_bound

__all__ = ["Block", "Bound", "lipschitz_bound"]
