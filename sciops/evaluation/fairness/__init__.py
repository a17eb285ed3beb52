"""Whether groups of clusters are served differently: declared hypotheses, tests over clusters, and their verdicts.

Nothing here is about speech. A cluster is a speaker or an instance of an equation; the exposure is words or grid cells.
"""

from sciops.evaluation.fairness.cells import Cell, CellTable, intersectional_cells
from sciops.evaluation.fairness.decision import (
    REST,
    Assessment,
    Finding,
    assess,
    equivalence_p,
)
from sciops.evaluation.fairness.hypothesis import Hypothesis
from sciops.evaluation.fairness.mixed import MixedRegression, mixed_poisson
from sciops.evaluation.fairness.observations import (
    ClusterTable,
    GroupRate,
    Observations,
    cluster_table,
    group_rates,
)
from sciops.evaluation.fairness.pages import observations_digest, report, verdict_sentence
from sciops.evaluation.fairness.regimes import LevelEffect, RegimeCell, RegimeErrors, regime_errors
from sciops.evaluation.fairness.regression import Regression, poisson_regression, score_bootstrap
from sciops.evaluation.fairness.resampling import (
    PermutationTest,
    bootstrap_rates,
    expected_range,
    permutation_test,
)
from sciops.evaluation.fairness.seed_split import SeedSplit, seed_split
from sciops.evaluation.fairness.standardisation import Split, kitagawa

__all__ = [
    "REST",
    "Assessment",
    "Cell",
    "CellTable",
    "ClusterTable",
    "Finding",
    "GroupRate",
    "Hypothesis",
    "LevelEffect",
    "MixedRegression",
    "Observations",
    "PermutationTest",
    "RegimeCell",
    "RegimeErrors",
    "Regression",
    "SeedSplit",
    "Split",
    "assess",
    "bootstrap_rates",
    "cluster_table",
    "equivalence_p",
    "expected_range",
    "group_rates",
    "intersectional_cells",
    "kitagawa",
    "mixed_poisson",
    "observations_digest",
    "permutation_test",
    "poisson_regression",
    "report",
    "score_bootstrap",
    "verdict_sentence",
    "regime_errors",
    "seed_split",
]
