"""Robustness of models: certificates by random noise, attacks, and prediction sets with a stated coverage."""

from sciops.robustness.attacks.coefficients import coefficient_attack
from sciops.robustness.attacks.fields import Attack, pgd, random_perturbations
from sciops.robustness.attacks.images import ImageAttack, autoattack, foolbox_attack, image_pgd, robust_accuracy
from sciops.robustness.attacks.objectives import Objective, distance_to, distance_to_solver, self_difference
from sciops.robustness.attacks.phase_flip import phase_flip_attack
from sciops.robustness.conformal import (
    Conformal,
    Coverage,
    ball_scores,
    band_scores,
    calibrate,
    coverage,
    fraction_scores,
)
from sciops.robustness.darcy_stability import darcy_lipschitz, neighbour_ratio
from sciops.robustness.field_norm import field_norm
from sciops.robustness.jacobian import dense_jacobian_norm, jacobian_norm
from sciops.robustness.smoothing.center import CenterCertificate, Centers, certify_centers, smooth_centers
from sciops.robustness.smoothing.certificate import ABSTAIN, Certificate, Interval, Prediction
from sciops.robustness.smoothing.classifier import certify, predict
from sciops.robustness.smoothing.counts import bounds_from_counts
from sciops.robustness.smoothing.map_choice import choose_map
from sciops.robustness.smoothing.mean import (
    MeanSmoothed,
    mean_lipschitz,
    mean_sampling_error,
    mean_shift,
    mean_smoothing,
)
from sciops.robustness.smoothing.median import MedianBounds, median_smoothing
from sciops.robustness.smoothing.noise import GaussianFieldNoise, Noise, WhiteNoise
from sciops.robustness.smoothing.partitioning import (
    Partition,
    bucket_bounds,
    choose_partition,
    class_partition,
    every_class,
    one_bucket,
)
from sciops.robustness.smoothing.radii import (
    Radius,
    cohen_radius,
    lipschitz_radius,
    margin_radius,
    paper_radius,
    smoothed_lipschitz,
)
from sciops.robustness.smoothing.simplex_maps import SimplexMap, sparsemax
from sciops.robustness.statistics.intervals import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    empirical_bernstein_radius,
    randomized_lower,
)
from sciops.robustness.statistics.sequences import log_evidence, planned_lower, sequence_lower, sequence_upper

__all__ = [
    "ABSTAIN",
    "Attack",
    "CenterCertificate",
    "Centers",
    "Certificate",
    "Conformal",
    "Coverage",
    "GaussianFieldNoise",
    "ImageAttack",
    "Interval",
    "MeanSmoothed",
    "MedianBounds",
    "Noise",
    "Objective",
    "Partition",
    "Prediction",
    "Radius",
    "SimplexMap",
    "WhiteNoise",
    "autoattack",
    "ball_scores",
    "band_scores",
    "bounds_from_counts",
    "bucket_bounds",
    "calibrate",
    "certify",
    "certify_centers",
    "choose_map",
    "choose_partition",
    "class_partition",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "coefficient_attack",
    "cohen_radius",
    "coverage",
    "darcy_lipschitz",
    "dense_jacobian_norm",
    "distance_to",
    "distance_to_solver",
    "empirical_bernstein_radius",
    "every_class",
    "field_norm",
    "foolbox_attack",
    "fraction_scores",
    "image_pgd",
    "jacobian_norm",
    "lipschitz_radius",
    "log_evidence",
    "margin_radius",
    "mean_lipschitz",
    "mean_sampling_error",
    "mean_shift",
    "mean_smoothing",
    "median_smoothing",
    "neighbour_ratio",
    "one_bucket",
    "paper_radius",
    "pgd",
    "phase_flip_attack",
    "planned_lower",
    "predict",
    "random_perturbations",
    "randomized_lower",
    "robust_accuracy",
    "self_difference",
    "sequence_lower",
    "sequence_upper",
    "smooth_centers",
    "smoothed_lipschitz",
    "sparsemax",
]
