"""Why two groups differ: served worse in the same cells, or found more often in the cells that are served worse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sciops.evaluation.fairness.observations import Observations


@dataclass(frozen=True)
class Split:
    """The gap R_B − R_A of two pooled rates as the sum of two effects.

    first, second : names of A and B
    gap : R_B − R_A over the cells that both have
    rate_effect : Σ_c ½(π_cA + π_cB)(r_Bc − r_Ac): the same cells, served differently
    composition_effect : Σ_c ½(r_Ac + r_Bc)(π_cB − π_cA): other shares of the cells
    left_out : share of the exposure of A and B in cells that one of them lacks
    """

    first: str
    second: str
    gap: float
    rate_effect: float
    composition_effect: float
    left_out: float

    @property
    def misleading(self) -> bool:
        """Whether the gap says little of how the groups are served.

        The rate effect has the other sign, or composition makes more than half of the gap.
        """
        return self.rate_effect * self.gap < 0 or abs(self.composition_effect) > 0.5 * abs(self.gap)


def kitagawa(observations: Observations, factor: str, first: str, second: str, *, within: tuple[str, ...]) -> Split:
    """The split of Kitagawa (1955) and Oaxaca of the gap between two groups, over the cells of other factors.

    R_B − R_A = Σ_c ½(π_cA + π_cB)(r_Bc − r_Ac) + Σ_c ½(r_Ac + r_Bc)(π_cB − π_cA)

    with r_gc the pooled rate of group g in cell c and π_cg its share of the exposure of g. An exact identity. Cells
    that one group lacks are left out; `left_out` is their share of the exposure.

    Parameters
    ----------
    observations : Observations
    factor : the factor of the groups
    first, second : levels A and B
    within : factors whose joint levels are the cells

    Returns
    -------
    Split

    Raises
    ------
    ValueError
        A name is unknown, `within` is empty or holds the factor, or the groups share no cell.
    """
    if not within or factor in within:
        raise ValueError(f"within={within}: expected other factors than {factor!r}")
    groups = observations.factor(factor)
    for level in (first, second):
        if level not in observations.levels(factor):
            raise ValueError(f"{level!r}: {factor} has the levels {', '.join(observations.levels(factor))}")
    columns = [observations.factor(name).tolist() for name in within]
    cells, index = np.unique(np.array([" × ".join(levels) for levels in zip(*columns)], dtype=str), return_inverse=True)
    sums = {}
    for level in (first, second):
        mine = groups == level
        sums[level] = [
            np.bincount(index[mine], weights=values[mine], minlength=len(cells))
            for values in (observations.errors, observations.exposure)
        ]
    shared = (sums[first][1] > 0) & (sums[second][1] > 0)
    if not shared.any():
        raise ValueError(f"{first!r} and {second!r} share no cell of {', '.join(within)}: nothing to compare")
    (errors_a, exposure_a), (errors_b, exposure_b) = ([values[shared] for values in sums[g]] for g in (first, second))
    rate_a, rate_b = errors_a / exposure_a, errors_b / exposure_b
    share_a, share_b = exposure_a / exposure_a.sum(), exposure_b / exposure_b.sum()
    total = sums[first][1].sum() + sums[second][1].sum()
    return Split(
        first=first,
        second=second,
        gap=float(errors_b.sum() / exposure_b.sum() - errors_a.sum() / exposure_a.sum()),
        rate_effect=float((0.5 * (share_a + share_b) * (rate_b - rate_a)).sum()),
        composition_effect=float((0.5 * (rate_a + rate_b) * (share_b - share_a)).sum()),
        left_out=float(1.0 - (exposure_a.sum() + exposure_b.sum()) / total),
    )
