"""What `fit` needs of accelerate: this process's device and rank, averaged gradients, sums over processes."""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

from sciops.training.config import TrainConfig


class Processes:
    """The processes that torchrun started, or this one alone.

    device, rank, count : of this process
    main : whether it is the one that writes files and draws the bar

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
        if config.device != "auto" and self.count == 1:
            self.device = torch.device(config.device)
            if self.device.type == "cuda" and not torch.cuda.is_available():
                raise ValueError(f"device={config.device!r}: there is no CUDA device here; pass device='auto' or 'cpu'")
        if self.count > 1 and config.seconds is not None:
            raise ValueError(f"seconds={config.seconds} is for one process, got {self.count}; set epochs instead")

    def prepare(self, module: nn.Module) -> nn.Module:
        """`module`, or its DistributedDataParallel wrapper where there are several processes."""
        return self._accelerator.prepare_model(module, device_placement=False) if self.count > 1 else module

    def sum(self, value: Tensor) -> Tensor:
        """Σ over the processes, the same bits on each."""
        return self._accelerator.reduce(value, reduction="sum") if self.count > 1 else value

    def wait(self) -> None:
        if self.count > 1:
            self._accelerator.wait_for_everyone()
