"""Attacks on operators: perturbations of a field that change the output most, lower bounds of the worst case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from sciops.grids import Grid, check_on_grid
from sciops.robustness.attacks.objectives import Objective, check_values, value_and_gradient
from sciops.robustness.attacks.projection import project_l2, project_linf
from sciops.robustness.checks import check_choice, check_positive
from sciops.robustness.field_norm import field_norm, per_sample, unit, weights_like
from sciops.robustness.smoothing.noise import Noise, WhiteNoise
from sciops.values import check_whole

__all__ = ["Attack", "pgd", "random_perturbations"]

Norm = Literal["l2", "linf"]

_ROUNDING = 1e-12  # of a feasible δ's size, in float64


@dataclass(frozen=True)
class Attack:
    """The result of an attack: the best perturbation that was found.

    delta : like a, float64: what was added, as the operator saw it after rounding to a's dtype
    value : (batch,) of the objective at a + δ
    size : (batch,) norm of δ, at most ε
    history : (restarts, steps + 1, batch) values at each step; (samples, batch) of random perturbations
    """

    delta: Tensor
    value: Tensor
    size: Tensor
    history: Tensor


def pgd(
    objective: Objective,
    a: Tensor,
    grid: Grid | None,
    *,
    epsilon: float | Tensor,
    norm: Norm = "l2",
    steps: int = 50,
    restarts: int = 3,
    step: float | None = None,
    lower: float | Tensor | None = None,
    upper: float | Tensor | None = None,
    starts: Sequence[Tensor] = (),
    start_noise: Noise | None = None,
    seed: int,
) -> Attack:
    """Projected gradient ascent of an objective over perturbations in a ball.

    δ ← Π(δ + η g/‖g‖), Π the projection onto {‖δ‖ ≤ ε} ∩ {lower ≤ a + δ ≤ upper}.

    Parameters
    ----------
    objective : callable
        (batch, channels, *grid) → (batch,).
    a : Tensor (batch, channels, *grid)
        Within the bounds; δ is computed in float64 whatever its dtype.
    grid : Grid or None
        None for weights 1, the Euclidean norm.
    epsilon : float or Tensor (batch,)
        ε.
    norm : str
        "l2": ‖·‖_h with quadrature weights w; g is the gradient in that norm, w^{−1}∂J/∂δ. "linf": max|δ|, with
        sign(∂J/∂δ) for g/‖g‖.
    steps : int
        Steps from each start.
    restarts : int
        Random starts on the sphere.
    step : float, optional
        A constant η/ε, such as 2.5/steps. Default: η starts at ε; a step that does not raise the value is taken back
        and η halved, otherwise η grows by half up to 2ε. Constant steps reach even a linear functional only to about 2
        % in 50 steps of 2.5/steps.
    lower, upper : float or Tensor, optional
        Bounds on a + δ, such as lower=a_min for coefficients that must stay positive.
    starts : sequence of Tensor
        Further starts, each like a.
    start_noise : Noise, optional
        Direction of the random starts; default white noise, which excites all frequencies equally.
    seed : int
        Of the random starts.

    Returns
    -------
    Attack

    Raises
    ------
    ValueError
        For numbers out of range, when a is outside the bounds and for an objective that is not finite.

    Notes
    -----
    Π is the nearest point of the intersection, not one projection after the other. Every δ is checked to be feasible in
    float64.
    """
    check_whole(steps=steps)
    check_whole(0, restarts=restarts)
    if restarts + len(starts) < 1:
        raise ValueError(f"steps={steps}, restarts={restarts}: expected at least one step from at least one start")
    if step is not None:
        check_positive(step=step)
    ball = _Ball(a, grid, epsilon, norm, lower, upper)
    history: list[Tensor] = []
    best: Any = None
    begins = [ball.direction(r, seed, start_noise) for r in range(restarts)]
    for begin in [*begins, *(s.double().to(a.device) for s in starts)]:
        delta = ball.project(begin)
        x, value, ascent = ball.climb(objective, delta)
        best, values = ball.better(best, x, value), [value]
        eta = ball.epsilon * (1.0 if step is None else step)
        for _ in range(steps):
            trial = ball.project(delta + per_sample(eta, delta) * ascent)
            x, new, direction = ball.climb(objective, trial)
            best = ball.better(best, x, new)
            wins = torch.ones_like(new, dtype=torch.bool) if step is not None else new > value
            if step is None:
                eta = torch.where(wins, (1.5 * eta).minimum(2 * ball.epsilon), 0.5 * eta)
            take = per_sample(wins, delta)
            delta, ascent = torch.where(take, trial, delta), torch.where(take, direction, ascent)
            value = torch.where(wins, new, value)
            values.append(value)
        history.append(torch.stack(values))
    return ball.attack(best, torch.stack(history))


def random_perturbations(
    objective: Objective,
    a: Tensor,
    grid: Grid | None,
    *,
    epsilon: float | Tensor,
    samples: int,
    norm: Norm = "l2",
    lower: float | Tensor | None = None,
    upper: float | Tensor | None = None,
    noise: Noise | None = None,
    seed: int,
) -> Attack:
    """The best of random perturbations on the sphere ‖δ‖ = ε, projected to the bounds as in `pgd`.

    Parameters
    ----------
    objective, a, grid, epsilon, norm, lower, upper, seed
        As for `pgd`, with the same checks and errors.
    samples : int
        Number of perturbations.
    noise : Noise, optional
        Law of the direction; default white noise. "linf" takes its signs.

    Returns
    -------
    Attack
    """
    check_whole(samples=samples)
    ball = _Ball(a, grid, epsilon, norm, lower, upper)
    values: list[Tensor] = []
    best: Any = None
    with torch.no_grad():
        for i in range(samples):
            x = ball.shifted(ball.project(ball.direction(i, seed, noise)))
            value = objective(x)
            check_values(value)
            values.append(value.double())
            best = ball.better(best, x, values[-1])
    return ball.attack(best, torch.stack(values))


class _Ball:
    """{‖δ‖ ≤ ε, lower ≤ a + δ ≤ upper}, its projection and its steepest directions."""

    def __init__(self, a: Tensor, grid: Grid | None, epsilon: Any, norm: str, lower: Any, upper: Any) -> None:
        check_choice(("l2", "linf"), norm=norm)
        if not a.is_floating_point():
            raise TypeError(f"a has dtype {a.dtype}; expected floating point")
        if grid is not None:
            check_on_grid(a, grid, "a")
        self.a, self.grid, self.norm = a.detach(), grid, norm
        self.wide = self.a.double()
        self.epsilon = torch.as_tensor(epsilon, dtype=torch.float64, device=a.device).expand(len(a))
        if not bool((self.epsilon >= 0).all() and self.epsilon.isfinite().all()):
            raise ValueError(f"epsilon={epsilon}: expected sizes of at least 0")
        self.weights = None if grid is None else weights_like(grid, self.wide)
        self.low, self.high = (None if b is None else torch.as_tensor(b, device=a.device) for b in (lower, upper))
        for bound, right, word in ((self.low, torch.ge, "below lower"), (self.high, torch.le, "above upper")):
            if bound is not None and not bool(right(self.a, bound.to(self.a)).all()):
                raise ValueError(f"a has values {word}={float(bound.min()):g}: the unperturbed input must be feasible")
        infinity = self.wide.new_tensor(torch.inf)
        boxed = self.low is not None or self.high is not None
        self.least = (-infinity if self.low is None else self.low.double() - self.wide).clamp(max=0) if boxed else None
        self.most = (infinity if self.high is None else self.high.double() - self.wide).clamp(min=0) if boxed else None

    def project(self, delta: Tensor) -> Tensor:
        if self.norm == "l2":
            delta = project_l2(delta, self.epsilon, self.weights, self.least, self.most)
        else:
            delta = project_linf(delta, self.epsilon, self.least, self.most)
        if bool((self.size(delta) > self.epsilon * (1 + _ROUNDING)).any()):
            raise ArithmeticError("a projected perturbation is longer than epsilon")
        return delta

    def shifted(self, delta: Tensor) -> Tensor:
        """a + δ as the operator gets it; rounding may not cross a bound."""
        x = (self.wide + delta).to(self.a.dtype)
        if self.low is not None:
            x = torch.maximum(x, self.low.to(x))
        return x if self.high is None else torch.minimum(x, self.high.to(x))

    def size(self, delta: Tensor) -> Tensor:
        return field_norm(delta, self.grid) if self.norm == "l2" else delta.flatten(1).abs().amax(1)

    def steepest(self, gradient: Tensor) -> Tensor:
        """The direction of length 1 in which the objective grows fastest; 0 where the gradient vanishes."""
        if self.norm == "linf":
            return gradient.sign()
        return unit(gradient if self.weights is None else gradient / self.weights, self.grid)

    def climb(self, objective: Objective, delta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """a + δ, the objective there and its steepest direction."""
        x = self.shifted(delta)
        value, gradient = value_and_gradient(objective, x)
        return x, value, self.steepest(gradient.double())

    def direction(self, index: int, seed: int, noise: Noise | None) -> Tensor:
        """The index-th random δ on the sphere."""
        grid = Grid((self.a[0].numel(),), centering="cell") if self.grid is None else self.grid
        count = self.a.numel() // grid.size
        noise = WhiteNoise(1.0) if noise is None else noise
        xi = noise.draw(grid, count, seed=seed, first=index * count).to(self.a.device).reshape(self.a.shape)
        if self.norm == "linf":
            return xi.sign() * per_sample(self.epsilon, xi)
        return xi * per_sample(self.epsilon / self.size(xi), xi)

    def better(self, best: tuple[Tensor, Tensor] | None, x: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        if best is None:
            return x, value
        wins = value > best[1]
        return torch.where(per_sample(wins, x), x, best[0]), torch.where(wins, value, best[1])

    def attack(self, best: tuple[Tensor, Tensor], history: Tensor) -> Attack:
        delta = best[0].double() - self.wide
        size = self.size(delta)
        # float32 inputs round what is added: by half a unit in the last place of a + δ
        slack = torch.finfo(self.a.dtype).eps * self.size(best[0].double())
        if bool((size > self.epsilon * (1 + _ROUNDING) + slack).any()):
            raise ArithmeticError("the perturbation is longer than epsilon")
        return Attack(delta, best[1], size, history)
