"""Attacks on operators and classifiers: perturbations in a ball, found by gradients; lower bounds of the worst case."""

from sciops.robustness.attacks.fields import Attack, pgd, random_perturbations

__all__ = ["Attack", "pgd", "random_perturbations"]
