"""One operator task for every mixer: the same network, data and training, in which the mixer alone differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from sciops.grids import Grid
from sciops.metrics import relative_l2
from sciops.mixers import MIXERS, mixer_names, options_by_mixer, resolved_options
from sciops.models.spine.features import coordinate_channels, coordinate_count
from sciops.models.spine.norms import make_norm
from studies.kit.stepping import shuffled, train_by_step

Mixer = str | Sequence[str]


@dataclass(frozen=True)
class FieldTask:
    """x ↦ y, (samples, *grid) float32 in units of the training set's deviation: training and test on `grid`, and the
    same test functions on `fine`, a grid of half the spacing that training never sees."""

    name: str
    grid: Grid
    fine: Grid
    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    test_fine: tuple[Tensor, Tensor]
    coordinates: str
    kernel: int


class FieldNet(nn.Module):
    """u = Q ∘ norm ∘ B_depth ∘ … ∘ B_1 ∘ P(x, ξ), (batch, *grid) → same, with blocks

    h ← h + conv(n₁h);  h ← h + mixer(n₂h);  h ← h + W₂(W₀n₃h ⊙ GELU(W₁n₃h)).

    conv : depthwise, `task.kernel` taps an axis, spread on a finer grid so that it keeps its physical reach; a periodic
        grid is wrapped, others are padded with the nearest value
    mixer : a name in `MIXERS`, or several that alternate block by block; options by name for several
    mlp_ratio : hidden width of the last branch over `width`
    """

    def __init__(
        self,
        task: FieldTask,
        mixer: Mixer,
        mixer_options: Mapping[str, Any] | None,
        *,
        width: int,
        depth: int,
        mlp_ratio: float = 2.0,
    ) -> None:
        super().__init__()
        names = mixer_names(mixer)
        ndim = task.grid.ndim
        options = options_by_mixer(names, mixer_options or {})
        options = {name: resolved_options(name, options[name], ndim) for name in options}
        self.coordinates, self.reference = task.coordinates, task.grid
        self.lift = nn.Linear(1 + coordinate_count(task.coordinates, ndim), width)
        self.blocks, hidden = nn.ModuleList(), max(1, round(mlp_ratio * width))
        for i in range(depth):
            name = names[i % len(names)]
            taps = (nn.Conv1d, nn.Conv2d)[ndim - 1](width, width, task.kernel, groups=width)
            parts = {"conv": taps, "mixer": MIXERS[name](width, **options[name])}
            parts |= {f"norm{j}": make_norm("rms", width) for j in (1, 2, 3)}
            parts |= {name: nn.Linear(width, hidden) for name in ("mlp_in", "mlp_gate")}
            self.blocks.append(nn.ModuleDict(parts | {"mlp_out": nn.Linear(hidden, width)}))
        self.norm, self.project = make_norm("rms", width), nn.Linear(width, 1)

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        xi = coordinate_channels(grid, self.coordinates, x.dtype, x.device)
        h = self.lift(torch.cat([x.unsqueeze(-1), xi.expand(len(x), *xi.shape)], dim=-1))
        spread = [max(1, round(a / b)) for a, b in zip(self.reference.spacing, grid.spacing)]
        for block in self.blocks:
            h = h + _convolved(block["conv"], block["norm1"](h), spread, wrap=grid.centering == "periodic")
            h = h + block["mixer"](block["norm2"](h), grid)
            z = block["norm3"](h)
            h = h + block["mlp_out"](block["mlp_in"](z) * F.gelu(block["mlp_gate"](z)))
        return self.project(self.norm(h)).squeeze(-1)


def _convolved(conv: nn.Module, z: Tensor, spread: list[int], *, wrap: bool) -> Tensor:
    z = z.movedim(-1, 1)
    margins = [m for size, s in zip(reversed(conv.kernel_size), reversed(spread)) for m in 2 * [size // 2 * s]]
    z = F.pad(z, margins, mode="circular" if wrap else "replicate")
    convolve = F.conv1d if len(spread) == 1 else F.conv2d
    return convolve(z, conv.weight, conv.bias, dilation=tuple(spread), groups=conv.groups).movedim(1, -1)


def train_field(
    task: FieldTask,
    mixer: Mixer,
    mixer_options: Mapping[str, Any] | None = None,
    *,
    seed: int,
    steps: int,
    width: int = 48,
    depth: int = 4,
    mlp_ratio: float = 2.0,
    batch: int = 16,
    rate: float = 3e-3,
    progress: str | None = None,
) -> dict[str, Any]:
    """Trains a `FieldNet` on relative L² by AdamW with one cycle of the rate, gradients clipped at 1.

    progress : name of a progress bar, None for none

    returns : plain numbers. error, error_fine (mean relative L² over the test functions, on the grid of training and on
        the finer one), input_error (that of y = x), mean_error (that of the training set's mean), loss (mean of the
        last 5 % of steps), curve [{"step", "loss"}], parameters, seconds (of training), and what was asked for

    Raises `NonFiniteLoss` naming the step at which the loss is not finite.
    """
    torch.manual_seed(seed)
    net = FieldNet(task, mixer, mixer_options, width=width, depth=depth, mlp_ratio=mlp_ratio)
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=1e-4)
    y, test = task.train[1], task.test
    batch = min(batch, len(y))
    how = {"steps": steps, "batch": batch, "progress": progress}
    losses, seconds = train_steps(net, optimizer, *task.train, task.grid, seed=seed, **how)
    tenth = max(1, steps // 10)
    mean = y.mean(0, keepdim=True).expand_as(test[1])
    asked = {"seed": seed, "steps": steps, "width": width, "depth": depth, "mlp_ratio": mlp_ratio, "batch": batch}
    return {
        "task": task.name,
        "mixer": mixer if isinstance(mixer, str) else list(mixer),
        "mixer_options": dict(mixer_options or {}),
        **asked,
        "rate": rate,
        "error": error_on(net, test, task.grid),
        "error_fine": error_on(net, task.test_fine, task.fine),
        "input_error": float(relative_l2(test[0], test[1], task.grid).mean()),
        "mean_error": float(relative_l2(mean, test[1], task.grid).mean()),
        "loss": float(np.mean(losses[-max(1, steps // 20) :])),
        "curve": [{"step": i + tenth, "loss": float(np.mean(losses[i : i + tenth]))} for i in range(0, steps, tenth)],
        "parameters": sum(p.numel() for p in net.parameters()),
        "seconds": seconds,
    }


def error_on_task(
    task: Callable[..., FieldTask],
    mixer: Mixer,
    mixer_options: Mapping[str, Any] | None = None,
    *,
    data: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    **training: Any,
) -> dict[str, Any]:
    """The record of one training of a mixer on the task that ``task(folder=folder, **data)`` makes.

    data : options of the task, such as dict(points=128, train=128, test=32)
    training : options of `train_field`
    """
    return train_field(task(folder=folder, **(data or {})), mixer, mixer_options, **training)


def train_steps(
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    grid: Grid,
    *,
    seed: int,
    steps: int,
    batch: int,
    progress: str | None = None,
) -> tuple[list[float], float]:
    """Trains ``net(x, grid)`` on relative L² with one cycle of the rate, gradients clipped at 1, on shuffled batches.

    progress : name of a progress bar, None for none

    returns : (the loss of every step, seconds of training); raises `NonFiniteLoss` naming the step
    """
    rows = shuffled(len(x), batch, partial(torch.randperm, generator=torch.Generator().manual_seed(seed)))
    losses: list[float] = []

    def loss_of(net: nn.Module, chosen: np.ndarray) -> Tensor:
        return relative_l2(net(x[chosen], grid), y[chosen], grid).mean()

    def keep(_: Any, record: Mapping[str, Any]) -> None:
        losses.append(float(record["loss"]))
        bar.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
        bar.update()

    with tqdm(total=steps, desc=progress, disable=progress is None or None) as bar:
        run = train_by_step(net, lambda _: next(rows), loss_of, optimizer, steps=steps, after=keep)
    return losses, run.seconds


@torch.no_grad()
def error_on(net: nn.Module, pair: tuple[Tensor, Tensor], grid: Grid, *, batch: int = 16) -> float:
    """Mean relative L² of a net over pairs (x, y) on a grid."""
    net.eval()
    errors = [relative_l2(net(x, grid), y, grid) for x, y in zip(pair[0].split(batch), pair[1].split(batch))]
    net.train()
    return float(torch.cat(errors).mean())


def field_task(
    name: str,
    arrays: Mapping[str, np.ndarray],
    grids: tuple[Grid, Grid],
    *,
    train: int,
    coordinates: str,
    kernel: int,
    centre: float = 0.0,
) -> FieldTask:
    """The task of arrays x, y, x_fine, y_fine (samples, *grid), the first `train` of them for training.

    centre : taken from x before it is scaled
    """
    x, y = (arrays[key][:train] for key in ("x", "y"))
    units = {"x": float((x - centre).std()), "y": float(y.std())}
    tensors = {}
    for key, values in arrays.items():
        shifted = values - centre if key[0] == "x" else values
        tensors[key] = torch.from_numpy(np.ascontiguousarray(shifted / units[key[0]])).float()
    learnt = tensors["x"][:train], tensors["y"][:train]
    tests = ((tensors[f"x{on}"][train:], tensors[f"y{on}"][train:]) for on in ("", "_fine"))
    return FieldTask(name, *grids, learnt, *tests, coordinates, kernel)
