"""Choice of the map into the simplex: one for all inputs, before any input is certified."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from sciops.robustness.checks import check_certified
from sciops.robustness.smoothing.noisy_outputs import NoisyOutputs
from sciops.robustness.smoothing.partitioning import choose_partition, expected_bounds
from sciops.robustness.smoothing.simplex_maps import SimplexMap, default_maps, soft_radius
from sciops.values import check_whole

_SEED = 0x5EED_0F_7E_C401CE  # the choice is a function of its arguments; no certificate draws from this seed by habit


def choose_map(
    classifier: Callable[[Tensor], Tensor],
    held_out: Tensor,
    *,
    sigma: float,
    samples: int = 100_000,
    alpha: float = 0.001,
    selection_samples: int = 1000,
    lipschitz: float = math.inf,
    maps: Sequence[SimplexMap] | None = None,
    batch_size: int | None = None,
) -> SimplexMap:
    """The map into the simplex with the largest expected mean radius, estimated on inputs that will not be certified.

    Parameters
    ----------
    classifier : callable
        (rows, *shape) → (rows, classes), as for `certify`.
    held_out : Tensor (inputs, *shape)
        Such as 50 validation inputs that will not be certified.
    sigma, samples, alpha, lipschitz, batch_size
        Of the certificates to come, as for `certify`.
    selection_samples : int
        Noisy copies of each held-out input.
    maps : sequence of SimplexMap, optional
        Candidates; default `default_maps`.

    Returns
    -------
    SimplexMap
        The candidate with the largest mean of max(R, 0), R the radius at the bounds that `samples` samples would give
        if they were like the selection sample. An input counts as 0 for maps whose class is not that of the votes. The
        first of equal ones; argmax where no map certifies anything.

    Notes
    -----
    All certificates must be of one smoothed classifier g, and g includes the map. If the map is chosen input by input,
    as in arXiv:2309.16883, there are as many classifiers as inputs: two certificates can promise different labels for
    the same point. (That procedure also takes the largest of some 409 radii on the samples that it certifies with,
    without a union bound.) Here the map is chosen once, from held-out inputs, before a certificate draws its samples.
    This keeps the level at α however many maps are tried, and no perturbation of a certified input can change the map.

    The noise of the choice has a fixed seed, so that every call with the same arguments finds the same map.
    """
    check_certified(held_out, sigma, samples, alpha, batch_size, "held_out")
    check_whole(selection_samples=selection_samples)
    candidates = tuple(maps) if maps is not None else default_maps()
    if not candidates:
        raise ValueError("maps is empty: expected at least one SimplexMap, or None for the default ones")
    generator = torch.Generator().manual_seed(_SEED)
    source = NoisyOutputs(classifier, held_out, sigma=sigma, batch_size=batch_size, generator=generator)
    total = np.zeros(len(candidates))
    for one in held_out.split(1):
        (stream,) = source.streams(1, 1)
        outputs = torch.cat([out[0] for _, out in source.blocks(one, stream, selection_samples, [0])])
        total += expected_radii(outputs, candidates, sigma=sigma, samples=samples, alpha=alpha, lipschitz=lipschitz)
    return candidates[int(total.argmax())] if total.max() > 0 else SimplexMap()


def expected_radii(
    outputs: Tensor,
    maps: Sequence[SimplexMap],
    *,
    sigma: float,
    samples: int,
    alpha: float,
    lipschitz: float = math.inf,
) -> np.ndarray:
    """The expected radius max(R, 0) of each map at one input, from outputs (n₀, classes) on noisy copies of it.

    Bounds are those of `samples` samples that are like the n₀: by empirical Bernstein, for argmax by Clopper–Pearson.
    The radius is 0 for maps whose class is not that of the votes.
    """
    classes = outputs.shape[1]
    soft = torch.stack([candidate(outputs) for candidate in maps])
    vote = int(SimplexMap()(outputs).sum(0).argmax())
    sums = soft.sum(1).cpu().numpy()
    by_counts, by_sums = expected_bounds(choose_partition(sums, samples, alpha), soft, samples, alpha)
    radii = np.zeros(len(maps))
    for i, candidate in enumerate(maps):
        if int(sums[i].argmax()) == vote:
            top, other = (bound[i] for bound in (by_counts if candidate.name == "argmax" else by_sums))
            radius = soft_radius(top, other, candidate, sigma=sigma, lipschitz=lipschitz, classes=classes)
            radii[i] = max(float(radius), 0.0)
    return radii
