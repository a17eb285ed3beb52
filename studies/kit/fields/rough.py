"""Darcy flow on smooth and rough coefficients of three contrasts, and what layers of a surrogate hold of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sciops
from sciops.evaluation.probes import hidden_states
from sciops.grids import Grid
from sciops.metrics import relative_l2
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field, two_phase
from studies.kit.cells import kept_arrays
from studies.kit.mixers.fields import train_steps

CONTRASTS = (2.0, 2.1, 2.2)  # high value of a over its low value, which is 1
ROUGHNESS = {"smooth": 2.0, "rough": 1.2}  # exponent α of the covariance (−Δ + τ²)^{−α}
OPTIONS = "points fields field_steps field_width field_depth"
NETWORKS = {"FNO": "fno", "MANO": "mano"}
SHARE = 0.8  # of smooth fields among those that a surrogate is trained on


def rough_fields(folder: Path, count: int, points: int) -> dict[str, np.ndarray]:
    """Darcy's a and u (2·count, points, points), `count` fields of each roughness, with group, contrast and content.

    contrast : index in `CONTRASTS`. content : 0 to 3, the signs of the sine coefficients (2, 1) and (1, 2) of u, which
    say where the solution leans to
    """
    grid = Grid((points, points))

    def make() -> dict[str, np.ndarray]:
        parts = [
            gaussian_random_field(grid, count, tau=3.0, alpha=alpha, seed=i, modes=points, normalize=True)
            for i, alpha in enumerate(ROUGHNESS.values())
        ]
        contrast = np.tile(np.arange(count) % len(CONTRASTS), 2)
        high = np.asarray(CONTRASTS)[contrast][:, None, None]
        a = np.where(two_phase(np.concatenate(parts), 0.0, 1.0) > 0, high, 1.0)
        u = darcy.solve(a, grid).u
        x = np.linspace(0, 1, points)
        modes = [np.einsum("nij,i,j->n", u, np.sin(p * np.pi * x), np.sin(q * np.pi * x)) for p, q in ((2, 1), (1, 2))]
        content = 2 * (modes[0] > 0) + (modes[1] > 0)
        return {"a": a, "u": u, "contrast": contrast, "content": content, "rough": np.repeat([0, 1], count)}

    law = {"count": count, "points": points, "contrasts": CONTRASTS, "roughness": ROUGHNESS}
    return kept_arrays(folder, "rough", law, make)


class FieldStates(NamedTuple):
    """Of fields that a surrogate was not trained on.

    labels : "group", "content" and "identity" of every field; states : arm → layer → (samples, D)
    errors : roughness → mean relative L² error; prediction, target : (samples, points, points)
    """

    labels: dict[str, np.ndarray]
    states: dict[str, dict[str, np.ndarray]]
    errors: dict[str, float]
    prediction: np.ndarray
    target: np.ndarray


def field_states(folder: Path, network: str, seed: int, options: Mapping[str, Any]) -> FieldStates:
    """States of one surrogate of a seed.

    The surrogate is trained on the first half of the fields, `SHARE` of them smooth. Arms: "input" (the coefficient),
    "random" (before training) and "trained". A layer's features are block means of its channels, 4 × 4 blocks.
    """
    torch.set_num_threads(1)
    data = rough_fields(folder, options["fields"], options["points"])
    grid, half = Grid((options["points"],) * 2), options["fields"] // 2
    smooth, rough = (np.flatnonzero(data["rough"] == g) for g in (0, 1))
    rows = np.concatenate([smooth[:half], rough[: round(half * (1 - SHARE) / SHARE)]])
    test = np.concatenate([smooth[half:], rough[half:]])
    a, u = (torch.from_numpy(data[name]).float()[:, None] for name in ("a", "u"))
    a, u = (a - a[rows].mean()) / a[rows].std(), u / u[rows].std()
    torch.manual_seed(seed)
    shape = {"width": options["field_width"], "depth": options["field_depth"]}
    extra = {"modes": (6, 6)} if network == "FNO" else {}
    net = sciops.build_model(NETWORKS[network], in_channels=1, out_channels=1, grid=grid, **shape, **extra)
    found = {"input": {"input": _blocks(a[test]).numpy()}}
    found["random"] = _layers(net, a[test])
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-4)
    train_steps(net, optimizer, a[rows], u[rows], grid, seed=seed, steps=options["field_steps"], batch=16)
    found["trained"] = _layers(net, a[test])
    net.eval()
    with torch.no_grad():
        prediction = net(a[test])
    error = relative_l2(prediction, u[test], grid).numpy()
    group = np.where(data["rough"][test] == 0, "smooth", "rough")
    labels = {"group": group, "content": data["content"][test], "identity": data["contrast"][test]}
    errors = {g: float(error[group == g].mean()) for g in ROUGHNESS}
    return FieldStates(labels, found, errors, prediction[:, 0].numpy(), u[test, 0].numpy())


def _layers(net: nn.Module, a: Tensor) -> dict[str, np.ndarray]:
    names = [f"blocks.{i}" for i in range(len(net.blocks))]
    states = hidden_states(net, a, layers=names, pool=lambda h: _blocks(h.movedim(-1, 1)), batch_size=64)
    return {f"block {i + 1}": states[name].numpy() for i, name in enumerate(names)}


def _blocks(h: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(h, 4).flatten(1).double()
