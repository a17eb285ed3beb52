"""Randomised smoothing of classifiers and of operators: certificates by Gaussian noise."""

from sciops.robustness.smoothing.classifier import certify, predict

__all__ = ["certify", "predict"]
