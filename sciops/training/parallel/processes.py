"""What `fit` needs of several processes: this one's device and rank, averaged gradients, sums over the processes.

All of it is `torch.distributed`. torchrun sets the environment of every process (RANK, LOCAL_RANK, WORLD_SIZE,
MASTER_ADDR, MASTER_PORT); under another launcher, such as srun or mpirun, set the same five variables. The process
group lives as long as the process, so that several trainings in one script share it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sciops.arrays.devices import device_called, device_named
from sciops.training.config import TrainConfig
from sciops.training.parallel import sharding

# Process 0 alone reads all fields before the first step, and writes: others wait for longer than torch's 10 minutes.
_PATIENCE = timedelta(hours=6)
Result = TypeVar("Result")


class Processes:
    """The processes that torchrun started, or this one alone.

    device, rank, count : of this process; on GPUs its device is the one numbered LOCAL_RANK
    main : whether it is the one that writes files and draws the progress bar
    sharded : whether the model is spread over the processes (strategy "fsdp", and more than one)
    wide : the dtype of sums over many samples: float64 where the device has it

    Raises ValueError for a device that is not there, for more processes than devices, and for a time budget with
    several processes, whose clocks would disagree.
    """

    def __init__(self, config: TrainConfig) -> None:
        several = int(os.environ.get("WORLD_SIZE", "1")) > 1
        self.device = _device(config.device, several)
        self.rank, self.count = _joined(self.device) if several else (0, 1)
        self.main = self.rank == 0
        self.sharded = self.count > 1 and config.strategy == "fsdp"
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
        return nn.parallel.DistributedDataParallel(front, [self.device] if self.device.type == "cuda" else None)

    @contextlib.contextmanager
    def backward(self, front: Any, parameters: Sequence[nn.Parameter], *, last: bool) -> Iterator[None]:
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
        """The norm of all gradients together, the same on every process."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        return sharding.total_norm(gradients) if self.sharded else nn.utils.get_total_norm(gradients)

    def clip(self, parameters: Sequence[nn.Parameter], largest: float, norm: Tensor) -> None:
        """Scales all gradients, whose norm is `norm`, to a norm of at most `largest`."""
        if self.sharded:
            sharding.clip_([p.grad for p in parameters if p.grad is not None], largest, norm)
        else:
            nn.utils.clip_grads_with_norm_(parameters, largest, norm)

    def share_buffers(self, model: nn.Module) -> None:
        """Gives every process the buffers of process 0, whose model is written: running statistics differ by process
        during training."""
        if self.count == 1:
            return
        parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        for name, tensor in model.state_dict().items():
            if isinstance(tensor, Tensor) and name not in parameters:
                whole = tensor.detach().contiguous()
                dist.broadcast(whole, 0)
                tensor.copy_(whole)

    def sum(self, value: Tensor) -> Tensor:
        """Σ over the processes, the same bits on each."""
        if self.count == 1:
            return value
        total = value.clone()
        dist.all_reduce(total)
        return total

    def first(self, action: Callable[[], Result]) -> Result:
        """What `action` returns on process 0, given to all; what it raises there is raised on all."""
        if self.count == 1:
            return action()
        said: list[Any] = [None, None]
        if self.main:
            try:
                said[0] = action()
            except (ValueError, TypeError, OSError) as error:
                said[1] = error
        dist.broadcast_object_list(said, 0)
        if said[1] is not None:
            raise said[1]
        return said[0]

    def agree(self, **values: Any) -> None:
        """Raises ValueError on every process unless all have the same values: with different numbers of steps they
        would wait for one another without end."""
        if self.count == 1:
            return
        everyone: list[Any] = [None] * self.count
        dist.all_gather_object(everyone, values)
        for name, value in everyone[0].items():
            for rank, other in enumerate(everyone):
                if other[name] != value:
                    raise ValueError(
                        f"process {rank} has {name.replace('_', ' ')} {other[name]}, process 0 {value}: every machine "
                        "has to see the same data and the same folder"
                    )

    def wait(self) -> None:
        """Returns when every process has come here."""
        if self.count > 1:
            dist.barrier()


def _joined(device: torch.device) -> tuple[int, int]:
    """(rank, number of processes), after joining the process group: by gloo on CPUs, by NCCL on GPUs."""
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)  # objects are exchanged by way of the current device
    if not dist.is_initialized():
        backend, bound = ("nccl", device) if on_gpu else ("gloo", None)
        dist.init_process_group(backend, timeout=_PATIENCE, device_id=bound)
    return dist.get_rank(), dist.get_world_size()


def _device(name: str, several: bool) -> torch.device:
    """The device of this process; raises ValueError for one that is not there, or that several processes cannot
    share."""
    device = device_named(name)
    if several and (device.index is not None or device.type not in ("cpu", "cuda")):
        raise ValueError(f"device={name!r} is for one process; several take a device each: pass device='auto' or 'cpu'")
    if device_called(name).type != "cuda":
        return device
    devices = torch.cuda.device_count()
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if several and here > devices:
        raise ValueError(
            f"{here} processes on this machine, which has {devices} CUDA devices: start at most as many, or pass "
            "device='cpu'"
        )
    # a launcher that gives each process one visible device numbers it 0
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % devices) if several else device


def _check_all_used(front: nn.Module) -> None:
    """Raises ValueError for a parameter without a gradient, for which DistributedDataParallel would wait."""
    for name, parameter in front.named_parameters():
        if parameter.requires_grad and parameter.grad is None:
            raise ValueError(
                f"the loss of this step does not depend on parameter {name.removeprefix('module.model.')!r}, and "
                "strategy='ddp' averages those that it depends on: freeze it with requires_grad_(False) where it is "
                "never used, or pass strategy='fsdp'"
            )
