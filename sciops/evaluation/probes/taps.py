"""What a model holds between its layers: hidden states by name, pooled to vectors."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.models.apply import evaluating
from sciops.models.taps import caught


def tap_names(model: nn.Module, layers: Sequence[str] | None = None) -> list[str]:
    """Names of the modules whose outputs are taken, in the order of the model.

    Parameters
    ----------
    model : torch module
    layers : module paths with wildcards, such as ``["lift", "blocks.?"]``; by default the members of the longest
        `ModuleList` or `Sequential` whose members are of one class: the blocks of a spine, the layers of an encoder

    Raises
    ------
    ValueError
        A pattern names no module, or there are no repeated blocks to take by default.
    """
    known = [name for name, _ in model.named_modules() if name]
    if layers is not None:
        for pattern in layers:
            if not fnmatch.filter(known, pattern):
                raise ValueError(f"layers: {pattern!r} names no module; the model has {', '.join(known[:12])}, …")
        return [name for name in known if any(fnmatch.fnmatchcase(name, pattern) for pattern in layers)]
    stacks = [
        (len(module), name)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList | nn.Sequential) and len({type(child) for child in module}) == 1
    ]
    if not stacks:
        raise ValueError("the model has no stack of equal blocks: pass layers=[…], module paths with wildcards")
    count, longest = max(stacks, key=lambda stack: stack[0])
    return [f"{longest}.{i}" if longest else str(i) for i in range(count)]


@contextmanager
def tapped(model: nn.Module, layers: Sequence[str] | None = None, *, each_call: bool = False) -> Iterator[_Kept]:
    """Within the block the mapping that is yielded holds the layers' outputs of the latest forward pass.

    Where a module returns a tuple its first tensor counts. A layer that is called twice keeps its last output, or with
    `each_call` all of them as "name:0", "name:1", … until the mapping is cleared: for a module that holds all blocks
    and is called once for each, as neuraloperator's ``fno_blocks``. The hooks are removed at the end of the block;
    nothing else of the model is touched.
    """
    names = tap_names(model, layers)
    with caught(model, names) as held:
        yield _Kept(held, each_call)


class _Kept(Mapping[str, Tensor]):
    """The last tensor that each name kept, or all of them as "name:0", "name:1", …; names without one are left out."""

    def __init__(self, held: dict[str, list[Any]], each_call: bool) -> None:
        self.held, self.each_call = held, each_call

    def _tensors(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for name, kept in self.held.items():
            tensors = [value for value in kept if isinstance(value, Tensor)]
            if self.each_call:
                found |= {f"{name}:{call}": value for call, value in enumerate(tensors)}
            elif tensors:
                found[name] = tensors[-1]
        return found

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors())

    def __len__(self) -> int:
        return len(self._tensors())

    def clear(self) -> None:
        for kept in self.held.values():
            kept.clear()


def hidden_states(
    model: nn.Module,
    inputs: Any,
    *,
    layers: Sequence[str] | None = None,
    call: Callable[[Any], Any] | None = None,
    pool: Callable[[Tensor], Tensor] | None = None,
    batch_size: int = 32,
    each_call: bool = False,
) -> dict[str, Tensor]:
    """Outputs of the layers for all inputs, on the CPU, without gradients and in evaluation mode.

    Parameters
    ----------
    model : torch module; its mode, weights and buffers are as before afterwards
    inputs : (samples, …) tensor, or whatever slices by sample
    layers : see `tap_names`
    call : runs the model on a batch, for models that take more than the batch; by default ``model(batch)``
    pool : maps an output (batch, …) to (batch, features), such as `pooled`; by default outputs are kept whole
    batch_size : samples per forward pass
    each_call : keeps every call of a layer, as "name:0", "name:1", …; see `tapped`

    Returns
    -------
    name → (samples, …), in the order of the model (with `each_call` of the calls), as in the ``hidden_states`` of s3prl
    and transformers

    Raises
    ------
    ValueError
        There are no samples, a layer was not run, or its output does not start with the batch.
    """
    count = len(inputs)
    if count == 0:
        raise ValueError("inputs: there are no samples")
    names, found = tap_names(model, layers), dict[str, list[Tensor]]()
    with evaluating(model), torch.no_grad(), tapped(model, layers, each_call=each_call) as held:
        for start in range(0, count, batch_size):
            held.clear()
            batch = inputs[start : start + batch_size]
            (call or model)(batch)
            states = dict(held)
            called = {name.rpartition(":")[0] for name in states} if each_call else {*states}
            missing = [name for name in names if name not in called]
            if missing:
                raise ValueError(f"layer {missing[0]!r} was not run, or returns no tensor: leave it out of layers")
            for name in states if each_call else names:
                value = states[name]
                if value.shape[:1] != (len(batch),):
                    raise ValueError(f"layer {name!r} returns {tuple(value.shape)}: expected ({len(batch)}, …)")
                found.setdefault(name, []).append((pool(value) if pool else value).detach().cpu())
    return {name: torch.cat(parts) for name, parts in found.items()}


def pooled(states: Tensor, *, channels: Literal["first", "last"] = "last", mask: Tensor | None = None) -> Tensor:
    """(batch, 2D): mean and standard deviation over all positions of every feature.

    Parameters
    ----------
    states : (batch, *positions, D), or (batch, D, *positions) with ``channels="first"``
    channels : where the features are
    mask : (batch, *positions) True where a position counts: padding is left out

    Raises
    ------
    ValueError
        There are no positions, or a sample has none that counts.
    """
    if states.ndim < 3:
        raise ValueError(f"states of shape {tuple(states.shape)}: expected (batch, positions…, features)")
    flat = states.flatten(1, -2) if channels == "last" else states.flatten(2).transpose(1, 2)
    weights = torch.ones_like(flat[..., :1]) if mask is None else mask.flatten(1)[..., None].to(flat.dtype)
    total = weights.sum(1)
    if bool((total == 0).any()):
        raise ValueError("mask: a sample has no position that counts")
    mean = (flat * weights).sum(1) / total
    variance = ((flat - mean[:, None]).square() * weights).sum(1) / total
    return torch.cat([mean, variance.sqrt()], dim=1)
