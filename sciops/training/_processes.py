"""What `fit` needs of several processes: this one's device and rank, averaged gradients, sums over processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sciops.training import _sharding
from sciops.training.config import TrainConfig


class Processes:
    """The processes that torchrun started, or this one alone.

    device, rank, count : of this process
    main : whether it is the one that writes files and draws the bar
    sharded : whether the model is spread over the processes (strategy "fsdp", and more than one)

    Raises ValueError for a device that is not there, and for a time budget with several processes, whose clocks would
    disagree.
    """

    def __init__(self, config: TrainConfig) -> None:
        from accelerate import Accelerator

        several = int(os.environ.get("WORLD_SIZE", "1")) > 1
        on_cpu = not torch.cuda.is_available() or (several and config.device == "cpu")
        # precision is the loop's own affair: accelerate fixes it once for the life of the process
        self._accelerator = Accelerator(mixed_precision="no", cpu=on_cpu)
        self.rank, self.count = self._accelerator.process_index, self._accelerator.num_processes
        self.main = self._accelerator.is_main_process
        self.device = self._accelerator.device
        self.sharded = self.count > 1 and config.strategy == "fsdp"
        if config.device != "auto" and self.count == 1:
            self.device = torch.device(config.device)
            if self.device.type == "cuda" and not torch.cuda.is_available():
                raise ValueError(f"device={config.device!r}: there is no CUDA device here; pass device='auto' or 'cpu'")
        if self.count > 1 and config.seconds is not None:
            raise ValueError(f"seconds={config.seconds} is for one process, got {self.count}; set epochs instead")

    def place(self, model: nn.Module) -> nn.Module:
        """The model to train: `model` on this process's device, or a copy of it that is spread over the processes."""
        return _sharding.sharded_copy(model.to("cpu"), self.device) if self.sharded else model.to(self.device)

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
                _sharding.average_whole(parameters)
        elif self.count > 1 and not last:
            with front.no_sync():
                yield
        else:
            yield

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        gradients = [p.grad for p in parameters if p.grad is not None]
        return _sharding.total_norm(gradients) if self.sharded else nn.utils.get_total_norm(gradients)

    def clip(self, parameters: Sequence[nn.Parameter], largest: float, norm: Tensor) -> None:
        if self.sharded:
            _sharding.clip_([p.grad for p in parameters if p.grad is not None], largest, norm)
        else:
            nn.utils.clip_grads_with_norm_(parameters, largest, norm)

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

    def wait(self) -> None:
        if self.count > 1:
            self._accelerator.wait_for_everyone()
