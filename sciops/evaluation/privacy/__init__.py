"""What a trained model gives away of the records it was trained on: attacks, their curves, and what they prove."""

from sciops.evaluation.privacy.curves import (
    Roc,
    epsilon_lower_bound,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_roc,
    largest_advantage,
    mean_release_mu,
    roc,
)
from sciops.evaluation.privacy.likelihood_ratio import bootstrap_area, membership_scores, shadow_masks
from sciops.evaluation.privacy.loss_distribution import composed_epsilon

__all__ = [
    "Roc",
    "bootstrap_area",
    "composed_epsilon",
    "epsilon_lower_bound",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_roc",
    "largest_advantage",
    "mean_release_mu",
    "membership_scores",
    "roc",
    "shadow_masks",
]
