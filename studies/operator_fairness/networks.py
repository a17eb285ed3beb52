"""The models of the study: how they are built, trained and run, and what their layers hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sciops
from sciops.evaluation.probes import hidden_states, pooled
from sciops.grids import Grid
from sciops.metrics import relative_l2
from studies.kit.mixers.fields import train_steps

if TYPE_CHECKING:
    from studies.operator_fairness import Config


@dataclass(frozen=True)
class Arm:
    """model : name for `build_model`. modes : whether it takes modes

    layers, channels : modules whose outputs are probed, and where their channels are
    each_call : whether one module is called once for each block
    """

    model: str
    modes: bool
    layers: tuple[str, ...]
    channels: str
    each_call: bool = False


ARMS = {
    "FNO": Arm("fno", True, ("blocks.?",), "last"),
    "MANO": Arm("mano", False, ("blocks.?",), "last"),
    "neuralop:FNO": Arm("neuralop:FNO", True, ("model.fno_blocks",), "first", each_call=True),
}
COARSE = 4
"""Boxes of an axis whose means a content probe is given, and asked for."""


def built(arm: str, config: Config, seed: int) -> nn.Module:
    """A model with the initial weights of a seed."""
    torch.manual_seed(seed)
    options: dict[str, Any] = {"width": config.width, "depth": config.depth}
    if ARMS[arm].modes:
        options["modes"] = (config.modes, config.modes)
    return sciops.build_model(ARMS[arm].model, in_channels=1 + len(config.boundaries), out_channels=1, **options)


def trained(
    net: nn.Module, x: Tensor, y: Tensor, grid: Grid, *, seed: int, steps: int, batch: int, rate: float
) -> tuple[nn.Module, float]:
    """The net after `steps` steps of AdamW on relative L², and the seconds they took."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=1e-4)
    _, seconds = train_steps(net, optimizer, x, y, grid, seed=seed, steps=steps, batch=min(batch, len(x)))
    return net.eval(), seconds


@torch.no_grad()
def predicted(net: nn.Module, x: Tensor, grid: Grid, batch: int = 64) -> Tensor:
    """(rows, 1, n, n)."""
    return torch.cat([net(part, grid) for part in x.split(batch)])


def errors_of(net: nn.Module, x: Tensor, y: Tensor, grid: Grid) -> np.ndarray:
    """(rows,) relative L² errors, float64."""
    return np.asarray(relative_l2(predicted(net, x, grid), y, grid).double().numpy())


def features(arm: str, net: nn.Module, x: Tensor, grid: Grid) -> dict[str, np.ndarray]:
    """ "pooled, LAYER" (rows, 2 · channels), mean and deviation over points, and "coarse, LAYER", means of 4 × 4 boxes.

    The first layer, "input", is what the model is given.
    """
    how = ARMS[arm]
    states = hidden_states(
        net,
        x,
        layers=list(how.layers),
        call=lambda batch: net(batch, grid),
        pool=lambda h: _pooled(h, how.channels),
        batch_size=64,
        each_call=how.each_call,
    )
    found: dict[str, np.ndarray] = {}
    for place, h in enumerate([_pooled(x, "first"), *states.values()]):
        layer = f"block {place}" if place else "input"
        width = h.shape[1] // (2 + COARSE**2)
        found[f"pooled, {layer}"], found[f"coarse, {layer}"] = h[:, : 2 * width].numpy(), h[:, 2 * width :].numpy()
    return found


def _pooled(h: Tensor, channels: Any) -> Tensor:
    first = h if channels == "first" else h.movedim(-1, 1)
    boxes = F.adaptive_avg_pool2d(first, COARSE).flatten(1)
    return torch.cat([pooled(first, channels="first"), boxes], dim=1)


def weights_of(net: nn.Module) -> dict[str, np.ndarray]:
    """The state of a net as arrays; complex ones as they are."""
    return {
        f"weights, {name}": value.detach().numpy() for name, value in net.state_dict().items() if torch.is_tensor(value)
    }


def with_weights(net: nn.Module, arrays: Mapping[str, np.ndarray]) -> nn.Module:
    """The net with the weights of `weights_of`."""
    state = net.state_dict()
    for name, value in state.items():
        if torch.is_tensor(value):
            state[name] = torch.from_numpy(arrays[f"weights, {name}"].copy())
    net.load_state_dict(state)
    return net
