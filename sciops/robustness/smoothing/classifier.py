"""Randomised smoothing of a classifier: certified ℓ₂ radii, and predictions that abstain.

g(x) = argmax_c p_c(x), p_c(x) = E f_c(x + ε), ε ~ N(0, σ²I), with f the unit vector of the classifier's argmax or its
outputs mapped softly into the simplex, by one map for all inputs. A selection sample picks the class and the interval;
a fresh sample bounds the probabilities; the radius follows. (arXiv:1902.02918, 2309.16883, 2504.02412, 2406.17830.)

The level does not include the rounding of noise and forward passes in their dtype (arXiv:2207.07209).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from sciops.robustness.checks import check_certified, check_choice
from sciops.robustness.smoothing.certificate import ABSTAIN, Certificate, Interval, Prediction, joined
from sciops.robustness.smoothing.certifying import Plan, certify_group
from sciops.robustness.smoothing.map_choice import choose_map
from sciops.robustness.smoothing.noisy_outputs import NoisyOutputs
from sciops.robustness.smoothing.radii import Radius
from sciops.robustness.smoothing.simplex_maps import SimplexMap
from sciops.robustness.smoothing.votes import Tally
from sciops.values import check_whole


def certify(
    classifier: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    sigma: float,
    samples: int = 100_000,
    alpha: float = 0.001,
    interval: Interval = "auto",
    selection_samples: int = 1000,
    simplex: SimplexMap | Literal["argmax", "probabilities", "choose"] = "argmax",
    lipschitz: float = math.inf,
    radius: Radius = "exact",
    held_out: Tensor | None = None,
    target: float | None = None,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Certificate:
    """Certified ℓ₂ radii of the smoothed classifier g at a batch of inputs.

    With probability at least 1 − α for each input, ‖δ‖₂ < R implies g(x + δ) = g(x).

    Parameters
    ----------
    classifier : callable
        (rows, *shape) → (rows, classes), logits or probabilities, deterministic; a module must be in evaluation mode.
    x : Tensor (inputs, *shape)
        Floating, on the classifier's device.
    sigma : float
        σ, the standard deviation of the noise, in units of x.
    samples : int
        n, noisy copies of each input from which the bounds are estimated.
    alpha : float
        α.
    interval : str
        "clopper_pearson" (p_A alone, p_B = 1 − p_A), "randomized" (the same with Stevens' bound), "bonferroni", "cpm",
        "empirical_bernstein" (on the buckets of `choose_partition`), "sequence" (p_A alone, valid after every block of
        samples), or "auto" (`choose_partition` with Clopper–Pearson, or, for a soft f, with empirical Bernstein where
        the selection sample promises more).
    selection_samples : int
        n₀, separate noisy copies that select the class; 100 in the literature, 1000 also resolve rare classes.
    simplex : SimplexMap or str
        "argmax" (votes), a `SimplexMap` of the outputs, "probabilities" (the outputs lie in the simplex), or "choose"
        (`choose_map` on `held_out`). One map for all inputs, so that all certificates are of one g: balls of different
        labels do not overlap. Count intervals use labels drawn with the probabilities of a soft f.
    lipschitz : float
        An upper bound on L, ℓ₂ to ℓ₂, of the outputs with respect to x, normalisation included; with "probabilities",
        of every component. Not used for argmax.
    radius : str
        "exact" for the Lipschitz constant, "paper" (arXiv:2504.02412) or "cohen" (L = ∞).
    held_out : Tensor (others, *shape), optional
        Inputs that are not certified, for "choose": the map must not depend on an input that may be perturbed. The same
        held-out inputs give the same map in every call.
    target : float, optional
        r, for "sequence": sampling of an input stops as soon as R ≥ r is certified or refuted.
    batch_size : int, optional
        Rows given to the classifier at a time; default 4096 small inputs, or 2²³ numbers. Results do not depend on it,
        up to the rounding of the classifier's arithmetic.
    generator : torch.Generator, optional
        Of the noise, on any device; None seeds from torch's own.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        For arguments that do not fit, for a classifier that is not a function of each row by itself (a part of it in
        training mode, outputs that differ between two calls), and for outputs that are nan.
    """
    check_certified(x, sigma, samples, alpha, batch_size)
    check_whole(selection_samples=selection_samples)
    check_choice(get_args(Interval), interval=interval)
    check_choice(get_args(Radius), radius=radius)
    if target is not None and (interval != "sequence" or not target > 0):
        raise ValueError(f"target={target} with interval={interval!r}: expected a radius > 0 and interval='sequence'")
    if not isinstance(simplex, SimplexMap) and simplex not in ("argmax", "probabilities", "choose"):
        raise ValueError(f"simplex={simplex!r}: expected a SimplexMap, 'argmax', 'probabilities' or 'choose'")
    if not lipschitz > 0:
        raise ValueError(f"lipschitz={lipschitz}: expected a bound above 0, or inf where none is known")
    if simplex == "choose":
        if held_out is None:
            raise ValueError(
                "simplex='choose' needs held_out, inputs that are not certified, to choose one map for all of x: pass "
                "held_out=x_validation, or a map by its name"
            )
        how: dict[str, Any] = dict(sigma=sigma, samples=samples, alpha=alpha, lipschitz=lipschitz)
        simplex = choose_map(classifier, held_out, selection_samples=selection_samples, batch_size=batch_size, **how)
    elif held_out is not None:
        raise ValueError(f"held_out with simplex={simplex!r}: expected simplex='choose', which chooses a map by them")
    elif isinstance(simplex, str):
        simplex = SimplexMap(simplex)
    plan = Plan(sigma, samples, alpha, interval, selection_samples, simplex, lipschitz, radius, target)
    source = NoisyOutputs(classifier, x, sigma=sigma, batch_size=batch_size, generator=generator)
    return joined([certify_group(source, some, plan) for some in source.groups(samples, "certifying", progress)])


def predict(
    classifier: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    sigma: float,
    samples: int = 1000,
    alpha: float = 0.001,
    simplex: SimplexMap | Literal["argmax", "probabilities"] = "argmax",
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Prediction:
    """The smoothed classifier's label at each input by a majority vote, or −1 where the vote is not significant.

    The class with the most votes of n noisy copies is returned where a two-sided binomial test of the top two classes
    at ½ has p ≤ α. The label then differs from g(x) with probability at most α.

    Parameters
    ----------
    classifier, x, sigma, samples, alpha, batch_size, generator, progress
        As for `certify`.
    simplex : SimplexMap or str
        The map of the g that was certified, `Certificate.simplex`; another map makes another classifier.

    Returns
    -------
    Prediction

    References
    ----------
    arXiv:1902.02918.
    """

    from scipy import special

    check_certified(x, sigma, samples, alpha, batch_size)
    if not isinstance(simplex, SimplexMap) and simplex not in ("argmax", "probabilities"):
        raise ValueError(f"simplex={simplex!r}: expected a SimplexMap, 'argmax' or 'probabilities'")
    simplex = simplex if isinstance(simplex, SimplexMap) else SimplexMap(simplex)
    source = NoisyOutputs(classifier, x, sigma=sigma, batch_size=batch_size, generator=generator)
    tallies = []
    for some in source.groups(samples, "predicting", progress):
        voting, drawing = source.streams(len(some), 2)
        everyone = list(range(len(some)))
        for number, (_, outputs) in enumerate(source.blocks(some, voting, samples, everyone)):
            if not number:
                tallies.append(Tally(simplex, len(some), outputs.shape[-1], x.device, drawing=drawing))
            tallies[-1].add(everyone, outputs)
    counts = torch.cat([tally.counts for tally in tallies])
    top = counts.topk(2, -1).values.cpu().numpy().astype(np.float64)
    # P(Binomial(k₁ + k₂, ½) ≥ k₁), doubled: the two tails are equal
    p_value = np.minimum(1.0, 2 * special.betainc(top[:, 0], top[:, 1] + 1, 0.5))
    p_value = torch.from_numpy(p_value).to(x.device)
    return Prediction(torch.where(p_value <= alpha, counts.argmax(-1), ABSTAIN), counts, p_value)
