"""What `fit` needs of several processes: this one's device and rank, averaged gradients, sums over processes.

What `accelerate` does here: it starts the process group with the backend of the device, wraps the model in
DistributedDataParallel, and passes sums, objects and barriers on to `torch.distributed`; `trackers` takes its adapters
of two trackers. It does not do mixed precision (`setup.autocast`), sharding (`sharding`: torch's `fully_shard`),
accumulation or checkpoints, since each of these has to be exact and resumable in ways that it does not offer.

Decision: it does not carry its weight beside `torch.distributed`, of which each of its calls is a thin wrapper, and it
holds process-wide state, which keeps the first device for the life of the process (hence the override of the device
below). It stays until this module is next changed on a machine with several GPUs: start-up there (backend, device of a
local rank) is what it gets right, and what tests on CPUs cannot check.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn

from sciops.training.checkpoints import model_tensors
from sciops.training.config import TrainConfig
from sciops.training.parallel import sharding

# Process 0 alone reads all fields before the first step, and writes: others wait for longer than torch's 10 minutes.
_PATIENCE = timedelta(hours=6)


class Processes:
    """The processes that torchrun started, or this one alone.

    device, rank, count : of this process
    main : whether it is the one that writes files and draws the bar
    sharded : whether the model is spread over the processes (strategy "fsdp", and more than one)
    wide : the dtype of sums over many samples: float64 where the device has it

    Raises ValueError for a device that is not there, for more processes than devices, and for a time budget with
    several processes, whose clocks would disagree.
    """

    def __init__(self, config: TrainConfig) -> None:
        from accelerate import Accelerator, InitProcessGroupKwargs

        several = int(os.environ.get("WORLD_SIZE", "1")) > 1
        _check_device(config.device, several)
        on_cpu = not torch.cuda.is_available() or (several and config.device == "cpu")
        patience = [InitProcessGroupKwargs(timeout=_PATIENCE)] if several else []
        # precision is the loop's own affair: accelerate fixes it once for the life of the process
        self._accelerator = Accelerator(mixed_precision="no", cpu=on_cpu, kwargs_handlers=patience)
        self.rank, self.count = self._accelerator.process_index, self._accelerator.num_processes
        self.main = self._accelerator.is_main_process
        self.device = self._accelerator.device
        self.sharded = self.count > 1 and config.strategy == "fsdp"
        if config.device != "auto" and self.count == 1:
            self.device = torch.device(config.device)
        self.wide = torch.float32 if self.device.type == "mps" else torch.float64
        if self.count > 1 and config.seconds is not None:
            raise ValueError(f"seconds={config.seconds} is for one process, got {self.count}; set epochs instead")

    def place(self, model: nn.Module) -> nn.Module:
        """The model to train: `model` on this process's device, or a copy of it that is spread over the processes."""
        return sharding.sharded_copy(model.to("cpu"), self.device) if self.sharded else model.to(self.device)

    def prepare(self, front: nn.Module) -> nn.Module:
        """`front`, or its DistributedDataParallel wrapper where every process has a whole model."""
        if self.count == 1 or self.sharded:
            return front
        return self._accelerator.prepare_model(front, device_placement=False)

    @contextlib.contextmanager
    def backward(self, front: nn.Module, parameters: Sequence[nn.Parameter], *, last: bool) -> Iterator[None]:
        """Around one micro-batch: gradients are exchanged with the last one of a step alone."""
        if self.sharded:
            front.model.set_requires_gradient_sync(last)
            yield
            if last:
                sharding.average_whole(parameters)
        elif self.count > 1 and not last:
            with front.no_sync():
                yield
        else:
            yield
            if self.count > 1:
                _check_all_used(front)

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        gradients = [p.grad for p in parameters if p.grad is not None]
        return sharding.total_norm(gradients) if self.sharded else nn.utils.get_total_norm(gradients)

    def clip(self, parameters: Sequence[nn.Parameter], largest: float, norm: Tensor) -> None:
        if self.sharded:
            sharding.clip_([p.grad for p in parameters if p.grad is not None], largest, norm)
        else:
            nn.utils.clip_grads_with_norm_(parameters, largest, norm)

    def share_buffers(self, model: nn.Module) -> None:
        """Gives every process the buffers of process 0, whose model is written: running statistics are each one's own
        while it trains."""
        if self.count == 1:
            return
        parameters = {f"model/{name}" for name, _ in model.named_parameters(remove_duplicate=False)}
        for name, tensor in model_tensors(model).items():
            if name not in parameters:
                whole = tensor.detach().contiguous()
                torch.distributed.broadcast(whole, 0)
                tensor.copy_(whole)

    def sum(self, value: Tensor) -> Tensor:
        """Σ over the processes, the same bits on each."""
        return self._accelerator.reduce(value, reduction="sum") if self.count > 1 else value

    def first(self, action: Callable[[], Any]) -> Any:
        """What `action` returns on process 0, given to all; what it raises there is raised on all."""
        if self.count == 1:
            return action()
        from accelerate.utils import broadcast_object_list

        said: list[Any] = [None, None]
        if self.main:
            try:
                said[0] = action()
            except (ValueError, TypeError, OSError) as error:
                said[1] = error
        broadcast_object_list(said)
        if said[1] is not None:
            raise said[1]
        return said[0]

    def agree(self, **values: Any) -> None:
        """Raises ValueError, on every process, unless all have the same values: with other numbers of steps they would
        wait for one another for ever."""
        if self.count == 1:
            return
        from accelerate.utils import gather_object

        everyone = gather_object([values])
        for name, value in everyone[0].items():
            for rank, other in enumerate(everyone):
                if other[name] != value:
                    raise ValueError(
                        f"process {rank} has {name.replace('_', ' ')} {other[name]}, process 0 {value}: every machine "
                        "has to see the same data and the same folder"
                    )

    def wait(self) -> None:
        if self.count > 1:
            self._accelerator.wait_for_everyone()


def _check_all_used(front: nn.Module) -> None:
    """Raises ValueError for a parameter without a gradient, for which DistributedDataParallel would wait."""
    for name, parameter in front.named_parameters():
        if parameter.requires_grad and parameter.grad is None:
            raise ValueError(
                f"the loss of this step does not depend on parameter {name.removeprefix('module.model.')!r}, and "
                "strategy='ddp' averages those that it depends on: freeze it with requires_grad_(False) where it is "
                "never used, or pass strategy='fsdp'"
            )


def _check_device(name: str, several: bool) -> None:
    """Raises ValueError for a device that is not there, or that several processes cannot share."""
    if name == "auto":
        kind, number = "cuda" if torch.cuda.is_available() else "cpu", None
    else:
        try:
            kind, number = torch.device(name).type, torch.device(name).index
        except RuntimeError:
            raise ValueError(f"device={name!r}: expected 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps'") from None
    if several and (number is not None or kind not in ("cpu", "cuda")):
        raise ValueError(f"device={name!r} is for one process; several take a device each: pass device='auto' or 'cpu'")
    if kind != "cuda":
        return
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if devices == 0:
        raise ValueError(f"device={name!r}: there is no CUDA device here; pass device='auto' or 'cpu'")
    if number is not None and number >= devices:
        raise ValueError(f"device={name!r}: expected a number below {devices}, the CUDA devices there are")
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if several and here > devices:
        raise ValueError(
            f"{here} processes on this machine, which has {devices} CUDA devices: start at most as many, or pass "
            "device='cpu'"
        )
