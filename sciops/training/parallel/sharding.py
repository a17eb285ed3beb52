"""Fully sharded data parallelism (torch's FSDP2, `fully_shard`): every process holds a part of the model.

Real parameters of one axis or more are sharded along their first axis, and with them their gradients and the
optimiser's state. The blocks of `sciops.models.Operator` are gathered one by one when they run; any other model is
gathered as a whole, since a block of it may return a view, which FSDP cannot guard. What cannot be sharded stays whole
on every process, and its gradient is averaged as DistributedDataParallel does: complex parameters, such as the spectral
weights of ``neuralop:FNO``, and parameters without an axis. Buffers, such as normalisers, are whole everywhere too.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sciops.models import Operator

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def sharded_copy(model: nn.Module, device: torch.device) -> nn.Module:
    """A copy of process 0's `model`, sharded over all processes; `model` itself stays whole, where it is."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = copy.deepcopy(model).to(device)
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor.detach(), 0)
    options: dict[str, Any] = {"mesh": init_device_mesh(device.type, (dist.get_world_size(),))}
    whole = {p for p in model.parameters() if p.is_complex() or p.ndim == 0}
    if whole:
        options["ignored_params"] = whole
    blocks = [block for module in model.modules() if isinstance(module, Operator) for block in module.blocks]
    for block in [*blocks, model]:
        fully_shard(block, **options)
    return model


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether the tensor is spread over the processes."""
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)


def gathered(tensor: Tensor) -> Tensor:
    """The whole tensor on the CPU; an exchange that every process takes part in where it is sharded."""
    whole: Any = tensor.detach()
    if is_sharded(tensor):
        whole = whole.to(tensor.device_mesh.device_type).full_tensor()
    return whole.to("cpu")


def like(tensor: Tensor, target: Tensor) -> Tensor:
    """`tensor`, or this process's shard of it where `target`, of the same shape, is sharded."""
    if is_sharded(target) and not is_sharded(tensor):
        from torch.distributed.tensor import distribute_tensor

        whole = tensor.to(target.device_mesh.device_type)
        return distribute_tensor(whole, target.device_mesh, target.placements, src_data_rank=None)
    return tensor


def average_whole(parameters: Iterable[nn.Parameter]) -> None:
    """Averages over the processes the gradients of the parameters that are not sharded."""
    for parameter in parameters:
        if parameter.grad is not None and not is_sharded(parameter):
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """√(Σ g²) over the gradients of the whole model, the same on every process."""
    shards, whole = _local(gradients)
    squares = nn.utils.get_total_norm(shards).square()
    dist.all_reduce(squares)
    return (squares + nn.utils.get_total_norm(whole).square()).sqrt()


def clip_(gradients: Sequence[Tensor], largest: float, norm: Tensor) -> None:
    """Multiplies all gradients by the factor that `torch.nn.utils.clip_grads_with_norm_` has."""
    factor = (largest / (norm + 1e-6)).clamp(max=1.0)
    for gradient in (g for kind in _local(gradients) for g in kind):
        gradient.mul_(factor)


def _local(gradients: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """(this process's shards, gradients that are whole)."""
    return (
        [g.to_local() for g in gradients if is_sharded(g)],
        [g for g in gradients if not is_sharded(g)],
    )
