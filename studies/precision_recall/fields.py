"""Surrogates of Burgers' equation with planted failures, as clouds of fields."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import sciops
from sciops.evaluation import (
    activation_features,
    field_features,
    joint_features,
    joint_weight,
    spectrum_features,
)
from sciops.metrics import relative_l2
from studies.kit.cells import cell_name, kept
from studies.kit.mixers.fields import train_steps
from studies.precision_recall.equation import MEANS, burgers_fields, grid_of
from studies.precision_recall.scoring import ablated, compared

ARMS = {
    "solver": "the equation, solved",
    "FNO": "an FNO",
    "brief": "an FNO that trained for a few steps",
    "two families": "an FNO that was trained on, and is asked for, two of the four families",
    "coarse input": "an FNO that sees the input's wavenumbers 0 and 1 only",
    "smoothed": "the FNO's output without wavenumbers above 4",
    "noise": "the FNO's output with white noise",
    "repeats": "16 of the FNO's outputs, again and again",
    "exchanged": "the FNO's outputs, given to other inputs",
}
FEATURES = ("fields", "spectra", "activations", "pairs")
PREPARED: dict[str, dict[str, Any]] = {
    "fields": {},
    "spectra": {"normalize": "zscore"},
    "activations": {"normalize": "zscore"},
    "pairs": {},
}
SHARE = {"fit": "reference", "residual": True, "explained": 0.99}
REPEATED = 16
READER = 10_000  # seed of the reader, which no judged model has


def field_cell(folder: Path, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """The record of one seed: scores by arm and features, relative L2 errors, and the ablations."""
    made_by = dict(options, seed=seed, arms=ARMS)
    return kept(folder / "cells", f"fields-{seed}", made_by, lambda: _measured(folder, seed, options))


def _measured(folder: Path, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(1)
    grid = grid_of(options["points"])
    data = burgers_fields(folder / "data", options["fields"], options["points"])
    a, u = (torch.from_numpy(data[name]).float()[:, None] for name in ("a", "u"))
    n, train = options["samples"], options["train"]
    own = np.arange(2 * n) + train + (2 + 2 * seed) * n
    two = own[own % len(MEANS) < 2][:n]
    given = {"every": (a[own[:n]], u[own[:n]]), "two families": (a[two], u[two])}
    reference = {"a": a[train : train + 2 * n], "u": u[train : train + 2 * n]}
    learnt = (a[:train], u[:train])
    made = outputs(learnt, given, grid, seed, options)
    reader = reader_of(folder, options)
    real = features(reader, reference["a"], reference["u"], grid)
    weight = joint_weight(real["inputs"], real["fields"])
    pairs = joint_features(real["inputs"], real["fields"], weight=weight)
    arms: dict[str, Any] = {}
    for arm, (x, y) in made.items():
        own = features(reader, x, y, grid)
        own["pairs"] = joint_features(own["inputs"], own["fields"], weight=weight)
        arms[arm] = {
            name: compared(pairs if name == "pairs" else real[name], own[name], options, seed=seed, **SHARE, **how)
            for name, how in PREPARED.items()
        }
        truth = given.get(arm, given["every"])[1]
        arms[arm]["error"] = float(relative_l2(y, truth, grid).mean())
        if arm in ("FNO", "repeats"):
            arms[arm]["ablation"] = ablated(real["fields"], own["fields"], options, **SHARE)
    shown = {arm: y[:4, 0].tolist() for arm, (_, y) in made.items()}
    return {"arms": arms, "shown": shown}


def reader_of(folder: Path, options: Mapping[str, Any]) -> nn.Module:
    """The FNO whose activations are compared, never one of those that are judged: trained once for all seeds."""
    train, grid = options["train"], grid_of(options["points"])
    path = folder / "data" / cell_name("field-reader", dict(options))
    if not path.exists():
        data = burgers_fields(folder / "data", options["fields"], options["points"])
        learnt = tuple(torch.from_numpy(data[name][:train]).float()[:, None] for name in ("a", "u"))
        sciops.save_model(trained((learnt[0], learnt[1]), grid, READER, options["field_steps"]), path)
    return sciops.load_model(path).eval()


def outputs(
    learnt: tuple[Tensor, Tensor],
    given: Mapping[str, tuple[Tensor, Tensor]],
    grid: Any,
    seed: int,
    options: Mapping[str, Any],
) -> dict[str, tuple[Tensor, Tensor]]:
    """Arm → (inputs, outputs), (samples, 1, points). given : inputs and solutions of every family, and of two."""
    steps, (asked, truth) = options["field_steps"], given["every"]
    few, n = given["two families"][0], len(asked)
    random = torch.Generator().manual_seed(seed)
    of_two = torch.arange(len(learnt[0])) % len(MEANS) < 2
    whole = predicted(trained(learnt, grid, seed, steps), asked, grid)
    brief = trained(learnt, grid, seed, options["brief_steps"])
    narrow = trained((learnt[0][of_two], learnt[1][of_two]), grid, seed, steps)
    blind = trained((lowest(learnt[0], 1), learnt[1]), grid, seed, steps)
    noise = options["noise"] * truth.std() * torch.randn(whole.shape, generator=random)
    again = torch.arange(n) % REPEATED
    return {
        "solver": (asked, truth),
        "FNO": (asked, whole),
        "brief": (asked, predicted(brief, asked, grid)),
        "two families": (few, predicted(narrow, few, grid)),
        "coarse input": (asked, predicted(blind, lowest(asked, 1), grid)),
        "smoothed": (asked, lowest(whole, 4)),
        "noise": (asked, whole + noise),
        "repeats": (asked[again], whole[again]),
        "exchanged": (asked, whole[torch.randperm(n, generator=random)]),
    }


def trained(learnt: tuple[Tensor, Tensor], grid: Any, seed: int, steps: int) -> nn.Module:
    """An FNO after `steps` steps on the pairs."""
    torch.manual_seed(seed)
    net = sciops.build_model("fno", in_channels=1, out_channels=1, width=24, depth=3, modes=12, grid=grid)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-4)
    train_steps(net, optimizer, *learnt, grid, seed=seed, steps=steps, batch=min(16, len(learnt[0])))
    return net.eval()


def predicted(net: nn.Module, x: Tensor, grid: Any) -> Tensor:
    return sciops.predict(net, x, grid)


def lowest(u: Tensor, wavenumber: int) -> Tensor:
    """The part of u of wavenumbers up to this one."""
    modes = torch.fft.rfft(u)
    modes[..., wavenumber + 1 :] = 0
    return torch.fft.irfft(modes, u.shape[-1])


def features(reader: nn.Module, a: Tensor, u: Tensor, grid: Any) -> dict[str, np.ndarray]:
    """{"fields", "spectra", "activations"} of the outputs, and the "inputs", in float64."""
    found = {
        "fields": field_features(u, grid),
        "spectra": spectrum_features(u, grid),
        "activations": activation_features(reader, u, grid),
        "inputs": field_features(a, grid),
    }
    return {name: np.asarray(value, dtype=np.float64) for name, value in found.items()}
