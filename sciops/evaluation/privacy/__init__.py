"""What a trained model gives away of the records it was trained on: attacks, their curves, and what they prove."""

from sciops.evaluation.privacy.attacks import (
    deterministic_error_score,
    diffusion_loss_score,
    discriminator_score,
    nearest_sample_score,
    reconstruction_score,
)
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
from sciops.evaluation.privacy.likelihood_ratio import (
    bootstrap_area,
    membership_scores,
    shadow_masks,
    target_areas,
)
from sciops.evaluation.privacy.loss_distribution import composed_epsilon
from sciops.evaluation.privacy.one_training import one_training_epsilon

__all__ = [
    "Roc",
    "bootstrap_area",
    "composed_epsilon",
    "deterministic_error_score",
    "diffusion_loss_score",
    "discriminator_score",
    "epsilon_lower_bound",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_roc",
    "largest_advantage",
    "mean_release_mu",
    "membership_scores",
    "nearest_sample_score",
    "one_training_epsilon",
    "reconstruction_score",
    "roc",
    "shadow_masks",
    "target_areas",
]
