"""Comparison of a rule's gradient with backpropagation's: cosine and ratio of norms, by group of parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Diagnosis:
    """Compares every ``config.diagnose_every`` steps, from the first on; what it finds is in ``found``.

    The truth is computed before the rule runs, on the same batch with the same random numbers (dropout), and buffers
    (running statistics) are restored, so that training continues as without the comparison. It costs a step of
    backpropagation and a copy of its gradient.
    """

    def __init__(self, front: nn.Module, config: Any) -> None:
        self.front, self.every = front, config.diagnose_every
        self.parameters = {name: p for name, p in front.named_parameters() if p.requires_grad}
        self.found: list[dict[str, Any]] = []
        self.truth: dict[str, Tensor | None] = {}

    def is_due(self, steps: int) -> bool:
        return self.every is not None and steps % self.every == 0

    def remember_truth(self, fill: Callable[[], Any]) -> None:
        """Keeps the gradient that `fill` leaves in ``.grad``, and undoes what else it changed."""
        devices = {p.device for p in self.parameters.values() if p.device.type == "cuda"}
        buffers = [(b, b.clone()) for b in self.front.buffers()]
        with torch.random.fork_rng(devices=list(devices)):
            fill()
        for buffer, before in buffers:
            buffer.copy_(before)
        self.truth = {name: None if p.grad is None else p.grad.clone() for name, p in self.parameters.items()}

    def compare(self, step: int) -> None:
        """Adds the comparison of ``.grad`` with the truth under the number of this step, from 1."""
        gradients = {name: p.grad for name, p in self.parameters.items()}
        self.found.append({"step": step, **compared(gradients, self.truth, groups_of(self.front))})
        self.truth = {}


def compared(
    gradients: Mapping[str, Tensor | None], truth: Mapping[str, Tensor | None], groups: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Compares two gradients: cosine ⟨g, t⟩/(‖g‖‖t‖) and norm ratio ‖g‖/‖t‖, by group of parameters and of all.

    gradients, truth : by parameter name, None counts as 0
    groups : names of parameters by group
    returns : {"cosine": {group: …, "all": …}, "norm_ratio": {…}}, summed in float64; a cosine with 0 is nan, and so is
        0/0
    """
    sums = {}
    for name, g in gradients.items():
        g, t = (None if x is None else _whole(x) for x in (g, truth[name]))
        inner = 0.0 if g is None or t is None else _product(g, t)
        sums[name] = inner, *(0.0 if x is None else _product(x, x) for x in (g, t))
    found: dict[str, dict[str, float]] = {"cosine": {}, "norm_ratio": {}}
    for group, names in {**groups, "all": list(gradients)}.items():
        inner, own, true = (math.fsum(sums[name][i] for name in names) for i in range(3))
        # two roots, since the product of small squares may vanish
        scale = math.sqrt(own) * math.sqrt(true)
        found["cosine"][group] = inner / scale if scale > 0 else math.nan
        found["norm_ratio"][group] = math.sqrt(own) / math.sqrt(true) if true > 0 else (math.inf if own else math.nan)
    return found


def groups_of(model: nn.Module) -> dict[str, list[str]]:
    """Names of the trained parameters: "blocks", "stem" before the first of them and "head" after the last.

    Blocks are the members of lists called ``blocks`` (`Operator`, `Classifier`, many a transformer), else of the
    outermost `nn.ModuleList`s; what lies between two blocks, such as the merging of patches, counts with them. A model
    without any has no groups.
    """
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    lists = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    found = [name for name in lists if name.split(".")[-1] == "blocks"] or lists
    prefixes = tuple(f"{name}." for name in found)
    inside = [i for i, name in enumerate(names) if name.startswith(prefixes)] if prefixes else []
    if not inside:
        return {}
    first, last = inside[0], inside[-1] + 1
    groups = {"stem": names[:first], "blocks": names[first:last], "head": names[last:]}
    return {group: members for group, members in groups.items() if members}


def _whole(gradient: Tensor) -> Tensor:
    """All of a gradient that several processes share (an exchange between them), or the gradient itself."""
    return gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient


def _product(a: Tensor, b: Tensor) -> float:
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    return (a.double() * b.double()).sum().item()
