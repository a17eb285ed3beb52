"""One step of the optimiser: learning rates, gradients summed over micro-batches, clipping, averaged parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sciops.training.averaging import Average
from sciops.training.config import TrainConfig
from sciops.training.data import Rule
from sciops.training.muon import MuonAdamW, StackedMuon, is_matrix
from sciops.training.parallel import Processes, is_sharded
from sciops.training.schedule import cycled_beta1, rate_factor
from sciops.training.setup import autocast


class Optimization:
    """The optimiser of a training and what goes with it.

    names : the trained parameters and their names
    optimizer : the caller's own, or None for AdamW as the config says

    Raises ValueError for an optimiser of other parameters, and where there is nothing to train.
    """

    def __init__(
        self,
        names: Mapping[nn.Parameter, str],
        optimizer: torch.optim.Optimizer | None,
        config: TrainConfig,
        processes: Processes,
        stacks: Mapping[nn.Parameter, bool] | None = None,
    ) -> None:
        self.names, self.config, self.processes = names, config, processes
        if optimizer is None:
            optimizer = make_optimizer(list(names), config, processes.device, stacks or {})
        self.optimizer = optimizer
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        if not names.keys() >= set(self.parameters):
            raise ValueError("the optimizer has parameters that are not trained ones of the model (fsdp trains a copy)")
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=config.precision == "fp16")
        self.average = Average(names, config.ema)

    def set_rates(self, done: float) -> float:
        """Sets the learning rate of each group, its peak being the one it began with, when the share `done` of the
        training is over; returns that of the first. A constant rate is left as it is."""
        config = self.config
        factor = rate_factor(config.schedule, done, warmup=config.warmup)
        for group in self.optimizer.param_groups:
            if config.schedule != "constant":
                group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor
            if config.cycle_beta1 and config.schedule == "onecycle":
                group["betas"] = (cycled_beta1(done, warmup=config.warmup), config.betas[1])
        return self.optimizer.param_groups[0]["lr"]

    def gradients(self, front: nn.Module, rule: Rule, step: Iterable[tuple[Any, int]]) -> Tensor:
        """The loss of a step, whose gradients by `rule` are then in ``.grad``, scaled where the precision is fp16.

        step : the micro-batches, numbered so that the last one has number 0
        """
        self.optimizer.zero_grad(set_to_none=True)
        losses = []
        for batch, number in step:
            with (
                self.processes.backward(front, self.parameters, last=number == 0),
                autocast(self.config, self.processes.device),
            ):
                losses.append(rule(front, batch))
        loss = sum(losses[1:], losses[0])
        return loss / self.scaler.get_scale() if self.scaler.is_enabled() else loss

    def gradient_norm(self) -> Tensor:
        """The norm of all gradients, after removing the scale of fp16 from them."""
        self.scaler.unscale_(self.optimizer)
        return self.processes.gradient_norm(self.parameters)

    def update(self, norm: Tensor, steps: int) -> None:
        """Clips the gradients, whose norm is `norm`, and takes the step, after which there have been `steps`."""
        if self.config.clip is not None:
            self.processes.clip(self.parameters, self.config.clip, norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.average.update(steps)


def make_optimizer(
    parameters: Sequence[nn.Parameter],
    config: TrainConfig,
    device: torch.device,
    stacks: Mapping[nn.Parameter, bool] | None = None,
) -> torch.optim.Optimizer:
    """AdamW (arXiv:1711.05101) that decays parameters of two or more axes only, or `MuonAdamW` as the config says.

    stacks : of the model, by `sciops.training.muon.matrix_stacks`
    """
    if not parameters:
        raise ValueError("the model has no parameter to train: it has none, or requires_grad is False for all")
    if config.optimizer == "adamw":
        adamw = _adamw(parameters, config, device)
        assert adamw is not None
        return adamw
    matrices = [p for p in parameters if is_matrix(p)]
    stacked = {p: pairs for p, pairs in (stacks or {}).items() if config.optimizer == "stacked-muon"}
    if not matrices and not stacked:
        raise ValueError(f"optimizer='{config.optimizer}' trains matrices, and the model has none: pass 'adamw'")
    if config.optimizer == "stacked-muon" and not stacked:
        raise ValueError("optimizer='stacked-muon' is for dense spectral layers, and the model has none: pass 'muon'")
    rates = {"learning_rate": config.learning_rate, "weight_decay": config.weight_decay}
    own = {id(p) for p in (*matrices, *stacked)}
    return MuonAdamW(
        matrices,
        _adamw([p for p in parameters if id(p) not in own], config, device),
        StackedMuon(stacked, **rates) if stacked else None,
        **rates,
    )


def _adamw(
    parameters: Sequence[nn.Parameter], config: TrainConfig, device: torch.device
) -> torch.optim.Optimizer | None:
    """None where there is nothing to train."""
    # torch's fused steps take sharded and whole tensors, but not both in one group
    groups = [
        {
            "params": [p for p in parameters if (p.ndim >= 2) == matrix and is_sharded(p) == sharded],
            "weight_decay": config.weight_decay if matrix else 0.0,
        }
        for matrix in (True, False)
        for sharded in (False, True)
    ]
    fused = device.type in ("cpu", "cuda") and all(p.is_floating_point() for p in parameters)
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=fused) if groups else None
