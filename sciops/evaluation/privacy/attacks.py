"""Scores by which an attacker tells members of a generator's training set, by what the attacker has access to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sciops.models.generative import AdversarialNetworks, DiffusionNetworks

_TINY = 1e-12  # below the logarithm of an error


def nearest_sample_score(samples: Tensor, records: Tensor) -> Tensor:
    """−log min_j ‖z − x̃_j‖: needs samples alone.

    Parameters
    ----------
    samples : (models, count, size)
    records : (pool, size)

    Returns
    -------
    (models, pool)

    References
    ----------
    Chen et al., "GAN-Leaks", arXiv:1909.03935.
    """
    _check(records)
    if samples.ndim != 3:
        raise ValueError(f"samples have shape {tuple(samples.shape)}: expected (models, count, size)")
    return -torch.cdist(records.expand(len(samples), -1, -1), samples).amin(-1).clamp_min(_TINY).log()


def reconstruction_score(
    networks: AdversarialNetworks,
    records: Tensor,
    labels: Tensor | None = None,
    *,
    starts: int = 64,
    steps: int = 30,
    learning_rate: float = 0.05,
    seed: int = 0,
) -> Tensor:
    """−log min_w ‖z − G(w)‖: needs the generator, not the discriminator.

    The nearest of `starts` samples, the same for all records of a class and all models, is improved by Adam on w.

    Parameters
    ----------
    networks : AdversarialNetworks
    records : (pool, size)
    labels : (pool,), where there are classes
    starts, steps, learning_rate, seed : of the search

    Returns
    -------
    (models, pool)

    References
    ----------
    Chen et al., "GAN-Leaks", arXiv:1909.03935.
    """
    _check(records)
    like, models, pool = networks.generator.weights[0], networks.models, len(records)
    first = torch.randn(starts, networks.latent, generator=torch.Generator().manual_seed(seed), dtype=like.dtype)
    first = first.to(like.device)
    own = None if labels is None else labels.expand(models, -1)
    best = records.new_full((models, pool), torch.inf)
    w = first.new_zeros(models, pool, networks.latent)
    with torch.no_grad():
        for start in first:
            tried = start.expand_as(w)
            distance = (networks.generated(tried, own) - records).square().sum(-1)
            w = torch.where((distance < best)[..., None], tried, w)
            best = torch.minimum(best, distance)
    w = w.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([w], lr=learning_rate)
    for _ in range(steps):
        distance = (networks.generated(w, own) - records).square().sum(-1)
        best = torch.minimum(best, distance.detach())
        (w.grad,) = torch.autograd.grad(distance.sum(), [w])
        optimizer.step()
    with torch.no_grad():
        best = torch.minimum(best, (networks.generated(w, own) - records).square().sum(-1))
    return -0.5 * best.clamp_min(_TINY**2).log()


@torch.no_grad()
def discriminator_score(networks: AdversarialNetworks, records: Tensor, labels: Tensor | None = None) -> Tensor:
    """D(z), the logit: needs the discriminator, which is seldom released.

    Returns (models, pool); records (pool, size), labels (pool,).

    References
    ----------
    Hayes et al., "LOGAN", arXiv:1705.07663.
    """
    _check(records)
    models = networks.models
    return networks.judged(records.expand(models, -1, -1), None if labels is None else labels.expand(models, -1))


@torch.no_grad()
def diffusion_loss_score(
    networks: DiffusionNetworks,
    records: Tensor,
    labels: Tensor | None = None,
    *,
    times: Sequence[float] = (0.1, 0.2, 0.3, 0.5),
    draws: int = 8,
    seed: int = 0,
) -> Tensor:
    """−mean_t log E_e ‖e − ê(α z + σ e, t)‖², the training loss: needs the network.

    The noises are the same for every record and model, so that they do not add to the differences between models.

    Parameters
    ----------
    networks : DiffusionNetworks
    records : (pool, size)
    labels : (pool,), where there are classes
    times : t in (0, 1)
    draws : noises for each
    seed : of the noises

    Returns
    -------
    (models, pool)

    Notes
    -----
    ‖e − ê‖ is α times the error of v, a factor that is the same for all records and models: it is left out.

    References
    ----------
    Carlini et al., "Extracting training data from diffusion models", arXiv:2301.13188.
    """
    _check(records)
    models, pool = networks.models, len(records)
    generator = torch.Generator().manual_seed(seed)
    e = torch.randn(len(times), draws, networks.size, generator=generator, dtype=records.dtype).to(records.device)
    own = None if labels is None else labels.expand(models, -1)
    found = records.new_zeros(models, pool)
    for time, noise in zip(times, e):
        t = records.new_full((models, pool, draws), time)
        each = networks.errors(records.expand(models, -1, -1), t, noise.expand(models, pool, -1, -1), own)
        found -= each.mean(-1).clamp_min(_TINY).log() / len(times)
    return found


@torch.no_grad()
def deterministic_error_score(
    networks: DiffusionNetworks,
    records: Tensor,
    labels: Tensor | None = None,
    *,
    time: float = 0.3,
    step: float = 0.1,
    before: int = 3,
) -> Tensor:
    """−log ‖x_t − x̂_t‖, with x̂_t after a deterministic step to t + Δ and back: needs the network, draws no noise.

    x_t is reached from the record by deterministic steps.

    Parameters
    ----------
    networks : DiffusionNetworks
    records : (pool, size)
    labels : (pool,), where there are classes
    time, step : t and Δ, t + Δ ≤ 1
    before : number of steps from 0 to t

    Returns
    -------
    (models, pool)

    References
    ----------
    Duan et al., "Are diffusion models vulnerable to membership inference attacks?", arXiv:2302.01316 (SecMI).
    """
    _check(records)
    if not 0 < time < time + step <= 1 or before < 1:
        raise ValueError(f"time={time}, step={step}, before={before}: expected 0 < time < time + step ≤ 1, before ≥ 1")
    models = networks.models
    own = None if labels is None else labels.expand(models, -1)
    x = records.expand(models, -1, -1)
    for k in range(before):
        x = networks.moved(x, time * k / before, time * (k + 1) / before, own)
    back = networks.moved(networks.moved(x, time, time + step, own), time + step, time, own)
    return -(back - x).norm(dim=-1).clamp_min(_TINY).log()


def _check(records: Tensor) -> None:
    if records.ndim != 2:
        raise ValueError(f"records have shape {tuple(records.shape)}: expected (pool, size), one row a record")
    if not bool(torch.isfinite(records).all()):
        raise ValueError(f"{int((~torch.isfinite(records)).any(1).sum())} records are not finite")
