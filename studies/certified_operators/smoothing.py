"""Center smoothing with Gaussian-field noise: one certificate for one perturbation, whatever the grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from sciops.robustness import GaussianFieldNoise, WhiteNoise, certify_centers, field_norm, smooth_centers
from studies.certified_operators.models import fields_on, operator_of

if TYPE_CHECKING:
    from studies.certified_operators import Config


def smoothing_study(model: nn.Module, bound: float, config: Config) -> list[dict[str, Any]]:
    """Per grid: the norm of one smooth δ in three noises, and ε_out of center smoothing at that δ's size.

    The δ is one draw of the noise's own law, scaled to `smoothing_radius` in its Cameron–Martin norm.
    """
    rows = []
    for points in config.smoothing_grids:
        data = fields_on(config, points, 1, first=config.train_samples)
        grid, operator = data.grid, operator_of(model, data.grid)
        scale = float(field_norm(data.a, grid)[0])
        noise = GaussianFieldNoise(config.noise_share * scale, tau=3.0, smoothness=2.0, modes=config.noise_modes)
        delta = noise.draw(grid, 1, seed=config.seed + 1)[:, None]
        delta = delta * (config.smoothing_radius / noise.norm(delta, grid))
        how = dict(noise=noise, samples=config.smoothing_samples, slack=config.smoothing_slack, batch_size=64)
        centers = smooth_centers(operator, data.a, grid, seed=config.seed, **how)
        moved = smooth_centers(operator, data.a + delta, grid, seed=config.seed + 1, **how)
        found = certify_centers(
            operator, data.a, centers, grid, radius=config.smoothing_radius, seed=config.seed, **how
        )
        with torch.no_grad():
            size = float(field_norm(operator(data.a), grid)[0])
        point = WhiteNoise(noise.sigma).norm(delta, grid)
        rows.append(
            {
                "points": points,
                "cameron_martin": float(noise.norm(delta, grid)[0]),
                "white_points": float(point[0]),
                "noise_root_mean_square": noise.root_mean_square(grid) / scale,
                "delta": float(field_norm(delta, grid)[0]) / scale,
                "moved": float(field_norm(moved.center - centers.center, grid)[0]) / size,
                "smoothed": float(found.epsilon[0]) / size,
                "lipschitz": bound * float(field_norm(delta, grid)[0]) / size,
                "lipschitz_ball": bound * noise.reach(grid) * config.smoothing_radius / size,
                "abstained": bool(centers.abstained[0] or moved.abstained[0]),
            }
        )
    return rows


def smoothing_faults(rows: list[dict[str, Any]]) -> list[str]:
    """Centers that moved by more than their certificate, and norms that change with the grid."""
    faults = []
    for row in rows:
        if not row["abstained"] and row["moved"] > row["smoothed"]:
            faults.append(f"smoothing at {row['points']}: moved {row['moved']:.3g}, certified {row['smoothed']:.3g}")
        if abs(row["cameron_martin"] / rows[0]["cameron_martin"] - 1) > 1e-9:
            faults.append(f"the Cameron–Martin norm at {row['points']} is not that at {rows[0]['points']}")
    return faults
