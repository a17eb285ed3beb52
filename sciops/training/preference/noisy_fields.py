"""Fields that ignore part of their coefficient: the rejected side of a pair for surrogates, made without labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sciops.grids import Grid, check_on_grid
from sciops.values import check_whole

__all__ = ["mask_inputs", "mixed_rollout", "mixed_tiles", "mixed_with_another", "tile_weights"]


def mask_inputs(
    x: Tensor, *, probability: float = 0.15, blank: Tensor | float = 0.0, generator: torch.Generator | None = None
) -> Tensor:
    """Inputs of which some samples are replaced by a blank one, so that one network also learns the blind prior.

    A network that is trained on these predicts the mean field where it is given the blank input, and its usual answer
    elsewhere, as in classifier-free guidance (arXiv:2207.12598).

    Parameters
    ----------
    x : Tensor
        (batch, channels, *grid).
    probability : float
        Share of the samples that are masked, 0 ≤ p ≤ 1; 0.1 to 0.2 is usual.
    blank : Tensor or float
        What replaces an input, of a shape that broadcasts to one sample: the mean of the training inputs, as a rule,
        which is 0 where they are normalised.
    generator : torch.Generator, optional
        On the device of x.

    Returns
    -------
    Tensor
        A new tensor; x is not changed.

    Raises
    ------
    ValueError
        For a probability out of range.
    """
    _check_share("probability", probability)
    hidden = torch.rand(len(x), generator=generator, device=x.device) < probability
    blank = torch.as_tensor(blank, dtype=x.dtype, device=x.device)
    return torch.where(hidden.view(-1, *(1,) * (x.ndim - 1)), blank, x)


def mixed_with_another(
    prediction: Tensor, *, alpha: float, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Predictions that are mixed with that for another input of the batch, (1 − α) û(a_i) + α û(a_j), j ≠ i.

    Parameters
    ----------
    prediction : Tensor
        (batch, channels, *grid), at least two samples.
    alpha : float
        0 ≤ α ≤ 1; 1 gives the prediction for the wrong coefficient itself.
    generator : torch.Generator, optional
        On the device of the prediction.

    Returns
    -------
    (Tensor, Tensor)
        The mixed fields, and (batch,) the numbers j; each sample is another's partner once, so that the mean over the
        batch does not change.

    Raises
    ------
    ValueError
        For fewer than two samples and an α out of range.
    """
    _check_share("alpha", alpha)
    n = len(prediction)
    if n < 2:
        raise ValueError(f"a batch of {n}: expected at least two samples, of which each is mixed with another")
    # a cyclic shift of a random order has no fixed point
    order = torch.randperm(n, generator=generator, device=prediction.device)
    partner = torch.empty_like(order).scatter(0, order, order.roll(1))
    return (1 - alpha) * prediction + alpha * prediction[partner], partner


def tile_weights(
    samples: int,
    grid: Grid,
    *,
    tiles: int | Sequence[int],
    alpha: float,
    seam: float = 0.5,
    generator: torch.Generator | None = None,
    like: Tensor | None = None,
) -> Tensor:
    """Weights of the conditional prediction by tiles, each tile kept with probability 1 − α, smooth at the seams.

    W(x) = Σ_k b_k φ_k(x) with b_k ~ Bernoulli(1 − α) and φ_k ≥ 0 a bump over tile k; Σ_k φ_k = 1 everywhere, so that
    the mean of W over many draws is 1 − α at every point.

    Parameters
    ----------
    samples : int
    grid : Grid
        Periodic grids have tiles that wrap.
    tiles : int or sequence of int
        Number of tiles per axis.
    alpha : float
        0 ≤ α ≤ 1, the expected share that the blind prediction takes over.
    seam : float
        Width of the passage from one tile to the next, as a share of a tile, 0 ≤ seam ≤ 1. With 0 the tiles are sharp,
        and a model could tell the mixed field by its jumps alone.
    generator : torch.Generator, optional
    like : Tensor, optional
        Gives the dtype and the device; float32 on the CPU by default.

    Returns
    -------
    Tensor
        (samples, 1, *grid), in [0, 1].

    Raises
    ------
    ValueError
        For numbers out of range.
    """
    _check_share("alpha", alpha)
    _check_share("seam", seam)
    numbers = (tiles,) * grid.ndim if isinstance(tiles, int) else tuple(tiles)
    if len(numbers) != grid.ndim or any(not 1 <= k <= n for k, n in zip(numbers, grid.shape)):
        raise ValueError(f"tiles={tiles!r}: expected 1 … points of the axis, for each axis of the grid {grid.shape}")
    like = torch.empty(0) if like is None else like
    weights = torch.rand(samples, *numbers, generator=generator, device=like.device).lt(1 - alpha).to(like.dtype)
    for axis, (count, one) in enumerate(zip(numbers, grid.axes), start=1):
        bumps = _bumps(torch.from_numpy(one.fractions()[0]), count, seam, wrapped=grid.centering == "periodic")
        weights = (weights.movedim(axis, -1) @ bumps.to(weights).mT).movedim(-1, axis)
    return weights.unsqueeze(1)


def mixed_tiles(
    conditional: Tensor,
    blind: Tensor,
    grid: Grid,
    *,
    tiles: int | Sequence[int],
    alpha: float,
    seam: float = 0.5,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Fields whose tiles are taken over by a blind prediction, W ⊙ û(a) + (1 − W) ⊙ û_blind.

    Parameters
    ----------
    conditional, blind : Tensor
        (batch, channels, *grid) predictions with the input and without it; one blind field (1, channels, *grid) serves
        all samples.
    grid, tiles, alpha, seam, generator
        As in `tile_weights`.

    Returns
    -------
    (Tensor, Tensor)
        The mixed fields, and W (batch, 1, *grid).

    Raises
    ------
    ValueError
        For fields of other shapes, and as `tile_weights`.
    """
    check_on_grid(conditional, grid, "conditional")
    if blind.shape[1:] != conditional.shape[1:] or len(blind) not in (1, len(conditional)):
        raise ValueError(
            f"conditional {tuple(conditional.shape)} and blind {tuple(blind.shape)}: expected equal shapes, or one "
            "blind field for all"
        )
    weights = tile_weights(
        len(conditional), grid, tiles=tiles, alpha=alpha, seam=seam, generator=generator, like=conditional
    )
    return weights * conditional + (1 - weights) * blind, weights


@torch.no_grad()
def mixed_rollout(
    conditional: Callable[[Tensor], Tensor],
    blind: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    steps: int,
    alpha: float,
    untouched: int = 0,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """A rollout in which a blind step is taken with probability α, drawn for each sample and step.

    u_{k+1} = F(u_k) or, with probability α after the first `untouched` steps, G(u_k); both continue from the same u_k.

    Parameters
    ----------
    conditional, blind : callables
        F and G, (batch, channels, *grid) → same: the step with the coefficient or forcing, and the step without it.
    start : Tensor
        (batch, channels, *grid), u_0.
    steps, untouched : int
        Number of steps, and of the first ones that are F's.
    alpha : float
        0 ≤ α ≤ 1.
    generator : torch.Generator, optional
        On the device of `start`.

    Returns
    -------
    (Tensor, Tensor)
        u_1 … u_steps (batch, steps, channels, *grid), and (batch, steps) bool, which steps were blind.

    Raises
    ------
    ValueError
        For numbers out of range and a step that returns another shape.
    """
    _check_share("alpha", alpha)
    check_whole(steps=steps)
    check_whole(0, untouched=untouched)
    frames, marks, u = [], [], start
    for k in range(int(steps)):
        used = torch.rand(len(u), generator=generator, device=u.device) < (alpha if k >= untouched else 0.0)
        pair = conditional(u), blind(u)
        if not pair[0].shape == pair[1].shape == u.shape:
            raise ValueError(f"steps from {tuple(u.shape)} to {[tuple(v.shape) for v in pair]}: expected equal shapes")
        u = torch.where(used.view(-1, *(1,) * (u.ndim - 1)), pair[1], pair[0])
        frames.append(u)
        marks.append(used)
    return torch.stack(frames, 1), torch.stack(marks, 1)


def _bumps(x: Tensor, count: int, seam: float, *, wrapped: bool) -> Tensor:
    """(points, tiles): φ of each tile at x in [0, 1], differences of rises at the edges, which add up to 1."""
    beyond = count * x[:, None] - torch.arange(count + 1, dtype=x.dtype)  # each edge, in tiles
    if wrapped:
        risen = sum((_rise(beyond + period * count, seam) for period in (-1, 0, 1)), torch.zeros(()))
    else:
        risen = _rise(beyond, seam)
        risen[:, 0], risen[:, -1] = 1.0, 0.0  # no passage at the walls
    return risen[:, :-1] - risen[:, 1:]


def _rise(t: Tensor, seam: float) -> Tensor:
    """0 before an edge and 1 after it, half a cosine of width `seam` in between; rise(t) + rise(−t) = 1."""
    if seam == 0:
        return (t >= 0).to(t.dtype)
    return 0.5 - 0.5 * torch.cos(math.pi * (t / seam + 0.5).clamp(0, 1))


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name}={value!r}: expected a number in 0 … 1")
