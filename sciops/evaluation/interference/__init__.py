"""Interference between tasks that one model learns together: who loses by whom, what explains it, which to group."""

from sciops.evaluation.interference.additive import AdditiveModel, additive_model
from sciops.evaluation.interference.asymmetry import Asymmetry, asymmetry, asymmetry_share
from sciops.evaluation.interference.grouping import TaskGroups, best_groups, group_tasks
from sciops.evaluation.interference.mantel import Mantel, mantel
from sciops.evaluation.interference.matrix import Budget, InterferenceMatrix, Score, interference_matrix, score_losses
from sciops.evaluation.interference.measure import MixtureTraining, measure_interference, pair_trainings
from sciops.evaluation.interference.mixtures import MixtureScores, mixture_scores, predict_mixture
from sciops.evaluation.interference.regression import MatrixRegression, matrix_regression

__all__ = [
    "AdditiveModel",
    "Asymmetry",
    "Budget",
    "InterferenceMatrix",
    "Mantel",
    "MatrixRegression",
    "MixtureScores",
    "MixtureTraining",
    "Score",
    "TaskGroups",
    "additive_model",
    "asymmetry",
    "asymmetry_share",
    "best_groups",
    "group_tasks",
    "interference_matrix",
    "mantel",
    "matrix_regression",
    "measure_interference",
    "mixture_scores",
    "pair_trainings",
    "predict_mixture",
    "score_losses",
]
