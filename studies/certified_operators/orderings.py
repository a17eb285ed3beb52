"""Random ≤ attack ≤ true ≤ certificate: on linear operators whose norm is known, and on the trained ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from sciops.bases import frequencies
from sciops.grids import Grid
from sciops.lipschitz import lipschitz_bound, spectral_norm
from sciops.mixers import SpectralMixer
from sciops.robustness import (
    dense_jacobian_norm,
    distance_to,
    distance_to_solver,
    field_norm,
    jacobian_norm,
    pgd,
    random_perturbations,
    self_difference,
)
from studies.certified_operators.models import Fields, operator_of

if TYPE_CHECKING:
    from studies.certified_operators import Config

_ROUNDING = 1e-9


def linear_references(config: Config) -> list[dict[str, Any]]:
    """(−Δ + 1)^{−1} with natural walls, norm 1, on every grid; and a random layer whose dense matrix is decomposed."""
    rows = []
    for points in config.grids:
        grid = Grid((points, points))
        rows.append(_linear_row("(−Δ + 1)⁻¹", _screened_poisson(config.modes), grid, 1.0, config))
    grid = Grid((17, 17))
    torch.manual_seed(config.seed)
    layer = SpectralMixer(1, (6, 6), basis=config.basis if config.basis != "sine-cosine" else "cosine").double()
    operator = _layer_operator(layer, grid)
    exact = float(dense_jacobian_norm(operator, torch.zeros(1, 1, 17, 17, dtype=torch.float64), grid)[0])
    rows.append(_linear_row("random spectral layer", layer, grid, exact, config))
    return rows


def _screened_poisson(modes: int) -> SpectralMixer:
    layer = SpectralMixer(1, (modes, modes), basis="cosine").double()
    k = torch.from_numpy(frequencies("cosine", modes))
    with torch.no_grad():
        gain = 1 / (1 + k[:, None] ** 2 + k[None] ** 2)
        layer.parts[0].weight.copy_(gain.reshape(layer.parts[0].weight.shape))
    return layer


def _layer_operator(layer: nn.Module, grid: Grid):
    return lambda x: layer(x.movedim(1, -1), grid).movedim(-1, 1)


def _linear_row(name: str, layer: nn.Module, grid: Grid, exact: float, config: Config) -> dict[str, Any]:
    operator, epsilon = _layer_operator(layer.requires_grad_(False), grid), 0.1
    a = torch.ones(2, 1, *grid.shape, dtype=torch.float64)
    objective = self_difference(operator, a, grid)
    found = pgd(objective, a, grid, epsilon=epsilon, steps=50, restarts=1, seed=config.seed)
    random = random_perturbations(objective, a, grid, epsilon=epsilon, samples=10, seed=config.seed)
    return {
        "operator": name,
        "points": grid.shape[0],
        "random": float(random.value.max()) / epsilon,
        "attack": float(found.value.min()) / epsilon,
        "true": exact,
        "certificate": float(spectral_norm(layer, grid=grid).upper),
    }


def certificate(model: nn.Module, grid: Grid) -> float:
    """L of the model on a grid; RuntimeError naming the block without a finite one."""
    bound = lipschitz_bound(model, grid)
    if bound.value is None:
        reasons = "; ".join(f"{name}: {reason}" for name, value, reason in bound.blocks if value is None)
        raise RuntimeError(f"the model has no finite Lipschitz bound: {reasons}")
    return float(bound.value)


def slopes(model: nn.Module, data: Fields, config: Config, *, dense: bool) -> dict[str, Any]:
    """Jacobian norms at the attacked fields: by power iteration, and whole by SVD where asked for."""
    operator, a = operator_of(model, data.grid), data.a[: config.attacked]
    power, direction = jacobian_norm(operator, a, data.grid, iterations=config.power_iterations, seed=config.seed)
    exact = dense_jacobian_norm(operator, a[: config.dense_fields], data.grid) if dense else None
    return {"power": power.tolist(), "dense": None if exact is None else exact.tolist(), "direction": direction}


def sandwich(
    model: nn.Module, data: Fields, share: float, bound: float, direction: torch.Tensor, config: Config
) -> dict[str, Any]:
    """One ε = share·‖a‖_h: per field the best random, the best attack and L·ε, all as shares of ‖G(a)‖_h."""
    operator, a, grid = operator_of(model, data.grid), data.a[: config.attacked], data.grid
    epsilon = share * field_norm(a, grid)
    objective = self_difference(operator, a, grid)
    how = dict(epsilon=epsilon, lower=config.least, seed=config.seed)
    random = random_perturbations(objective, a, grid, samples=config.random_samples, **how)
    start = direction * epsilon[:, None, None, None]
    found = pgd(objective, a, grid, steps=config.steps, restarts=config.restarts, starts=[start, random.delta], **how)
    with torch.no_grad():
        size = field_norm(operator(a), grid)
    return {
        "points": grid.shape[0],
        "share": share,
        "epsilon": epsilon.tolist(),
        "random": (random.value / size).tolist(),
        "attack": (found.value / size).tolist(),
        "certificate": (bound * epsilon / size).tolist(),
        "tightness": float((bound * epsilon / found.value).mean()),
        "least": float((a + found.delta).min()),
    }


def solver_attacks(model: nn.Module, data: Fields, config: Config) -> list[dict[str, Any]]:
    """True relative errors ‖G(a + δ) − S(a + δ)‖/‖S(a + δ)‖ under δ found by three objectives, per ε."""
    operator, a, u, grid = (
        operator_of(model, data.grid),
        data.a[: config.attacked],
        data.u[: config.attacked],
        data.grid,
    )
    real = distance_to_solver(operator, grid)
    solution = distance_to_solver(lambda x: 0 * x, grid)
    moved = distance_to_solver(lambda x: u + 0 * x, grid)
    objectives = {"difference": self_difference(operator, a, grid), "fixed truth": distance_to(operator, u, grid)}

    def error(delta: torch.Tensor) -> float:
        with torch.no_grad():
            return float((real(a + delta) / solution(a + delta)).mean())

    rows = []
    for share in config.shares:
        how = dict(epsilon=share * field_norm(a, grid), lower=config.least, steps=config.steps, seed=config.seed)
        found = {name: pgd(objective, a, grid, restarts=1, **how) for name, objective in objectives.items()}
        found["solver inside"] = pgd(
            real, a, grid, restarts=1, starts=[attack.delta for attack in found.values()], **how
        )
        with torch.no_grad():
            shift = float((moved(a + found["difference"].delta) / field_norm(u, grid)).mean())
        rows.append(
            {
                "share": share,
                "clean": error(torch.zeros_like(a)),
                "solution_moves": shift,
                "errors": {name: error(attack.delta) for name, attack in found.items()},
                "distances": {name: real(a + attack.delta).tolist() for name, attack in found.items()},
            }
        )
    return rows


def inversions(results: dict[str, Any]) -> list[str]:
    """Everything that stands in the wrong order, in words."""
    found = []

    def ordered(where: str, **values: Any) -> None:
        names, numbers = list(values), [np.asarray(v, dtype=float) for v in values.values()]
        for low, high, p, q in zip(names, names[1:], numbers, numbers[1:]):
            if not bool(np.all(p <= q * (1 + _ROUNDING))):
                found.append(f"{where}: {low} {p.max():.6g} above {high} {q.min():.6g}")

    for row in results["linear"]:
        where = f"{row['operator']} at {row['points']}"
        ordered(where, **{key: row[key] for key in ("random", "attack", "true", "certificate")})
        if row["attack"] < 0.999 * row["true"]:
            found.append(f"{where}: the attack reaches {row['attack'] / row['true']:.4f} of the norm")
    for model in results["models"]:
        for slope in model["slopes"]:
            where = f"penalty {model['penalty']:g} at {slope['points']}"
            chain = {"power": slope["power"], "certificate": slope["bound"]}
            if slope["dense"] is not None:
                count = len(slope["dense"])
                chain = {"power": slope["power"][:count], "dense": slope["dense"], "certificate": slope["bound"]}
            ordered(where, **chain)
        for row in model["sandwich"]:
            where = f"penalty {model['penalty']:g} at {row['points']}, ε {100 * row['share']:g} %"
            ordered(where, **{key: row[key] for key in ("random", "attack", "certificate")})
        for row in model["solver"]:
            for name in ("difference", "fixed truth"):
                ordered(
                    f"penalty {model['penalty']:g}, solver, ε {100 * row['share']:g} %",
                    **{name: row["distances"][name], "inside": row["distances"]["solver inside"]},
                )
    return found
