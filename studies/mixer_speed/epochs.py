"""Whole training epochs on a file: `sciops.training.fit` beside neuraloperator's parts in a plain loop."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.datasets import Splits, load_splits
from sciops.training import TrainConfig, fit
from studies.kit.timing import interleaved, ratio, require_equal, threads
from studies.mixer_speed.layer import synchronizer
from studies.mixer_speed.network import Twin, our_models, their_fno


def epochs(
    folder: Path,
    width: int,
    depth: int,
    *,
    points: int = 16,
    batch: int,
    passes: int,
    rounds: int,
    count: int,
    device: str = "cpu",
    seed: int = 0,
) -> dict[str, Any]:
    """Seconds of `passes` epochs over the training fields of the steady problem in `folder`, all modes kept.

    A training is whole on both sides: normalisers fitted, batches shuffled, relative L2 in physical units, AdamW
    with a one-cycle rate. Ours clips, checks every loss and keeps a history besides. The same network with the same
    weights goes through both and must start from the same answers (1e-5); every training must end below a mean loss
    of 0.8.

    Raises RuntimeError where it does not.
    """
    data = Splits(load_splits(folder, points).train, None, None)
    fields = data.train.batch(range(len(data.train)))
    x, y = fields["x"].to(device), fields["y"].to(device)
    torch.manual_seed(seed)
    modes = points // 2
    theirs = their_fno(width, depth, modes, columns=modes + 1).to(device)
    theirs(x[:1])
    twin = Twin(theirs).to(device)
    config = TrainConfig(epochs=passes, batch_size=batch, learning_rate=1e-3, seed=seed, device=device, progress=False)
    last_loss: dict[str, float] = {}

    def by_fit(name: str, model: nn.Module) -> Callable[[], None]:
        def train() -> None:
            last_loss[name] = fit(copy.deepcopy(model), data, config).history[-1]["loss"]

        return train

    def by_hand() -> None:
        last_loss["theirs"] = plain_loop(copy.deepcopy(theirs), x, y, passes=passes, batch=batch, rate=1e-3, seed=seed)

    calls = {"theirs": by_hand, "same network": by_fit("same network", twin)}
    for name, model in our_models(width, depth, (modes, modes + 1), data.train.grid).items():
        calls[name] = by_fit(name, model)
    with threads(count):
        difference = require_equal("network before training", twin(x[:batch]), theirs(x[:batch]), 1e-5)
        times = interleaved(calls, rounds=rounds, synchronize=synchronizer(device))
    for name, loss in last_loss.items():
        if not loss < 0.8:  # a network that answers 0 has relative error 1
            raise RuntimeError(f"{name}: mean relative L2 of {loss:.3f} in the last epoch, expected below 0.8")
    return {
        "samples": len(x),
        "points": points,
        "batch": batch,
        "epochs": passes,
        "threads": count,
        "difference": difference,
        "last_loss": last_loss,
        "seconds": {name: float(np.median(t)) for name, t in times.items()},
        "ratio": {name: ratio(times["theirs"], t) for name, t in times.items() if name != "theirs"},
    }


def plain_loop(model: nn.Module, x: Tensor, y: Tensor, *, passes: int, batch: int, rate: float, seed: int) -> float:
    """neuraloperator's normaliser and loss in a plain loop over a DataLoader; returns the last epoch's mean loss."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from neuralop.data.transforms.normalizers import UnitGaussianNormalizer
        from neuralop.losses import LpLoss
    torch.manual_seed(seed)
    inputs, outputs = (UnitGaussianNormalizer(dim=[0, 2, 3]) for _ in range(2))
    inputs.fit(x), outputs.fit(y)
    inputs, outputs = inputs.to(x.device), outputs.to(x.device)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=batch, shuffle=True)
    loss_of = LpLoss(d=2, p=2, reduction="mean")
    # torch's AdamW takes their complex weights and is faster than the one they bring
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=passes * len(loader))
    for _ in range(passes):
        losses = torch.empty(len(loader))
        for i, (a, u) in enumerate(loader):
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(outputs.inverse_transform(model(inputs.transform(a))), u)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses[i] = loss.detach()
    return losses.mean().item()
