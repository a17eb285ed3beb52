"""The models of the study, and several of them, one a seed, trained as one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from sciops.models import build_model
from studies.interference.equations import grid_of
from studies.interference.tasks import SIDE

_EMBEDDED = 16  # numbers of a character


class CharacterNet(nn.Module):
    """Logits of a character from those around it, (batch, 2 SIDE) → (batch, symbols), by one hidden layer."""

    def __init__(self, symbols: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(symbols, _EMBEDDED) / 4)
        self.hidden = nn.Linear(2 * SIDE * _EMBEDDED, width)
        self.out = nn.Linear(width, symbols)

    def forward(self, context: Tensor) -> Tensor:
        return self.out(F.gelu(self.hidden(F.embedding(context, self.embedding).flatten(-2))))


def field_net(tasks: int, points: int, *, width: int, depth: int, modes: int) -> nn.Module:
    """The classic FNO of a field and of `tasks` constant channels that name the task.

    (batch, 1 + tasks, points) → (batch, 1, points). Without norms, which are slow under `torch.func.vmap`.
    """
    size = {"width": width, "depth": depth, "modes": (modes,), "block": "classic", "norm": "none"}
    return build_model("fno", in_channels=1 + tasks, out_channels=1, grid=grid_of(points), **size)


class SideBySide(nn.Module):
    """Networks of one architecture that run as one: (networks, batch, …) → (networks, batch, …).

    There is one for each seed, `copies` times in turn. Those of a seed have the initial weights that ``make()`` gives
    after ``torch.manual_seed(seed)``. No number of
    one enters another: a sum of their losses trains each as it would be trained alone, by an optimiser that treats
    every parameter by itself.
    """

    def __init__(self, make: Callable[[], nn.Module], seeds: Sequence[int], *, copies: int = 1) -> None:
        super().__init__()
        nets = []
        for seed in seeds:
            torch.manual_seed(seed)
            nets.append(make())
        parameters, buffers = stack_module_state(copies * nets)  # type: ignore[arg-type]
        self.names = list(parameters)
        self.stacked = nn.ParameterList([nn.Parameter(value.detach()) for value in parameters.values()])
        self._buffers_of_nets = buffers
        self._skeleton = [copy.deepcopy(nets[0])]  # in a list: its parameters are not trained
        self.each = sum(value[0].numel() for value in parameters.values())

    def forward(self, x: Tensor) -> Tensor:
        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
            result: Tensor = functional_call(self._skeleton[0], (parameters, buffers), (x,))
            return result

        return vmap(one)(dict(zip(self.names, self.stacked)), self._buffers_of_nets, x)
