"""Whether interference is mutual: the antisymmetric share of a matrix, and tests of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from sciops.arrays.short import fields_text
from sciops.evaluation.interference.inputs import check_permutations, generator, off_diagonal
from sciops.evaluation.interference.matrix import mean_matrix, seed_matrices

_BLOCK = 1 << 22  # numbers of signs at a time


@dataclass(frozen=True)
class Asymmetry:
    """How far harm is one-sided, with S = (I + Iᵀ)/2 and A = (I − Iᵀ)/2 of the mean over seeds.

    share : ‖A‖² / (‖A‖² + ‖S‖²), Frobenius norms off the diagonal: 0 symmetric, 1 antisymmetric, about ½ for noise
        alone
    corrected : the same after the variance of the mean over seeds was taken from both norms, between 0 and 1; NaN with
        one seed, and where nothing is left
    correlation : Pearson's, of the entries with their mirror images; NaN where all entries are equal
    flow : (tasks,) row sums of A; > 0 where a task loses more by the others than they lose by it
    p_seeds : p value of ‖A‖², I and Iᵀ exchanged as a whole at random in every seed: that another set of seeds shows
        the same asymmetry. Exact whatever the entries of one seed share, but at least 2^(1 − seeds); NaN with one seed
    p_flow : p value of ‖flow‖², entries (i, j) and (j, i) exchanged at random: whether who loses goes by task rather
        than pair by pair. It takes the pairs as independent and does not see the noise of the seeds
    seeds : number of them
    """

    share: float
    corrected: float
    correlation: float
    flow: np.ndarray
    p_seeds: float
    p_flow: float
    seeds: int

    __repr__ = fields_text


def asymmetry_share(values: Any) -> float:
    """The antisymmetric share of a matrix off its diagonal, ‖A‖² / (‖A‖² + ‖S‖²); NaN for a matrix of zeros.

    values : InterferenceMatrix, or (tasks, tasks)

    0 for symmetric, 1 for antisymmetric matrices; entries that are independent and of mean 0 give ½, not 0.
    """
    matrix = mean_matrix(values)
    scale = np.abs(matrix).max() or math.nan
    odd, even = (matrix - matrix.T) / scale, (matrix + matrix.T) / scale
    return float(np.square(odd).sum() / (np.square(odd).sum() + np.square(even).sum()))


def asymmetry(scores: Any, *, rng: np.random.Generator, permutations: int = 9999) -> Asymmetry:
    """How asymmetric an interference matrix is, and whether seeds and tasks bear it out.

    Parameters
    ----------
    scores : InterferenceMatrix, or array_like of shape (tasks, tasks) or (seeds, tasks, tasks)
    rng : numpy.random.Generator
        Draws the exchanges where there are more than `permutations` of them; otherwise all are taken.
    permutations : int
        At least 99.

    Returns
    -------
    Asymmetry

    Raises
    ------
    ValueError
        Shapes or numbers that do not fit.

    Notes
    -----
    An exchange of (i, j) and (j, i) changes the sign of A_ij and leaves A_ij² as it is. ‖A‖² of a single matrix
    therefore cannot be tested by such exchanges: every one of them gives the same value. What changes is the mean over
    seeds of exchanged matrices (`p_seeds`) and sums over the pairs of a task (`p_flow`).

    ``E‖mean A‖² = ‖A‖² + Σ var(A_ij)/seeds``, which is what `corrected` removes.
    """
    cube = seed_matrices(scores)
    check_permutations(permutations)
    rng = generator(rng)
    scale = float(np.abs(cube).max()) or 1.0
    cube = cube / scale  # squares stay in the range of float64
    seeds, n = cube.shape[:2]
    odd, even = (cube - cube.transpose(0, 2, 1)) / 2, (cube + cube.transpose(0, 2, 1)) / 2
    mean, entries = cube.mean(0), off_diagonal(cube.mean(0))
    corrected, p_seeds = math.nan, math.nan
    if seeds > 1:
        a, s = (_without_noise(part) for part in (odd, even))
        corrected = a / (a + s) if a + s > 0 else math.nan
        gram = np.einsum("sij,tij->st", odd, odd)  # ‖Σ ε_s A_s‖² = εᵀ gram ε
        p_seeds = _share_of_signs(seeds, lambda signs: ((signs @ gram) * signs).sum(1), permutations, rng)
    upper = np.triu_indices(n, 1)
    pairs = odd.mean(0)[upper]
    incidence = np.zeros((len(pairs), n))  # pair (i, j) gives A_ij to the flow of i and −A_ij to that of j
    incidence[np.arange(len(pairs)), upper[0]], incidence[np.arange(len(pairs)), upper[1]] = pairs, -pairs
    p_flow = _share_of_signs(len(pairs), lambda signs: np.square(signs @ incidence).sum(1), permutations, rng)
    mirrored = off_diagonal(mean.T)
    varied = np.ptp(entries) > 0
    return Asymmetry(
        share=asymmetry_share(mean),
        corrected=corrected,
        correlation=float(np.corrcoef(entries, mirrored)[0, 1]) if varied else math.nan,
        flow=odd.mean(0).sum(1) * scale,
        p_seeds=p_seeds,
        p_flow=p_flow,
        seeds=seeds,
    )


def _without_noise(parts: np.ndarray) -> float:
    """‖mean over seeds‖² less what the spread over seeds adds to it, at least 0."""
    return max(0.0, float(np.square(parts.mean(0)).sum() - parts.var(0, ddof=1).sum() / len(parts)))


def _share_of_signs(count: int, statistic: Any, permutations: int, rng: np.random.Generator) -> float:
    """Share of the assignments of `count` signs whose statistic is at least that of all signs +1."""
    observed = float(statistic(np.ones((1, count)))[0])
    least = observed * (1 - 1e-9)  # equal ones differ by rounding
    if count < 40 and 2**count <= permutations:
        return float(np.mean(statistic(np.array(list(product([1.0, -1.0], repeat=count)))) >= least))
    reached, left = 1, permutations
    while left:
        now = min(left, max(1, _BLOCK // count))
        reached += int((statistic(rng.choice([-1.0, 1.0], (now, count))) >= least).sum())
        left -= now
    return reached / (permutations + 1)
