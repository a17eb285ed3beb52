"""Random compositions of torch's layers, as they are and shared, nested, hooked, reweighted, patched, in training."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrizations, parametrize, prune

from studies.lipschitz_fuzz.layers import activation, first_layer, grid_of, layers, output, sequence
from studies.lipschitz_fuzz.truth import Case

Build = Callable[[random.Random], Case]

_FIELDS = ("convolution", "activation", "activation", "padding", "norm")
_LINEAR = ("linear", "activation")


def composed(
    draw: random.Random, then: tuple[str, ...] = (), first: str = ""
) -> tuple[list[nn.Module], dict[str, Any]]:
    """Layers, and the other options of their case."""
    first = first or draw.choice(("linear", "convolution"))
    grid = grid_of(draw)
    found, shape = sequence(draw, grid, first=first, then=then or (_LINEAR if first == "linear" else _FIELDS))
    if draw.random() < 0.3:
        found.insert(0, activation(draw, shape))
    return found, dict(grid=grid, shape=shape, last=first == "linear", vacuous=draw.random() < 0.8)


def in_double(model: nn.Module, options: dict[str, Any], **more: Any) -> Case:
    return Case(model.double(), **(options | more))


def plain(first: str, *then: str) -> Build:
    """Layers of some families, nothing special."""

    def build(draw: random.Random) -> Case:
        found, options = composed(draw, then, first)
        if first == "linear" and draw.random() < 0.3:  # of all points at once
            grid, channels = options["grid"], options["shape"][-1]
            head = nn.Linear(grid.size * channels, draw.randint(1, 5))
            rest, _ = layers(draw, (1, head.out_features), then, 3)
            found = [nn.Flatten(), head, *rest]
            options |= dict(shape=(1, channels, *grid.shape), last=False)
        if draw.random() < 0.1:
            return Case(nn.Sequential(*found), **options, dtype=torch.float32)
        return in_double(nn.Sequential(*found), options)

    return build


def repeated(draw: random.Random) -> Case:
    """Layers that keep the shape, several times: the same module, the same weight, the same nested sequence."""
    grid = grid_of(draw)
    first = draw.choice(("linear", "convolution"))
    while True:
        head, shape = first_layer(draw, grid, first)
        if output(head, torch.zeros(shape)).shape == shape:
            break
    twin = copy.deepcopy(head)
    twin.weight = head.weight
    act, other = activation(draw, shape), activation(draw, shape)
    part = nn.Sequential(act, head)
    choices = (head, twin, act, other, part, part * 2, nn.Sequential(part, act), nn.Identity())
    found = [head, *(draw.choice(choices) for _ in range(draw.randint(1, 4)))]
    options = dict(grid=grid, shape=shape, last=first == "linear")
    return in_double(nn.Sequential(*found), options)


class Described(nn.Sequential):
    """A constructor and a method of its own, and the code of its base."""

    def __init__(self, *found: nn.Module) -> None:
        super().__init__(*found)
        self.note = "a sequence"

    def count(self) -> int:
        return len(self)


class Narrow(nn.Conv1d):
    def extra_repr(self) -> str:
        return "a convolution"


class Listed(nn.Module):
    """A list of layers that its own code runs."""

    def __init__(self, found: list[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(found)

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x


def contained(draw: random.Random) -> Case:
    found, options = composed(draw)
    cut = draw.randint(0, len(found))
    makers = (
        lambda: Described(*found),
        lambda: nn.Sequential(nn.Sequential(*found[:cut]), Described(nn.Sequential(*found[cut:]))),
        lambda: nn.DataParallel(nn.Sequential(*found)),
        lambda: copy.deepcopy(nn.Sequential(*found)),
        lambda: torch.fx.symbolic_trace(nn.Sequential(*found)),
        lambda: nn.Sequential(*found[:cut], Listed(found[cut:])),
        lambda: nn.Sequential(nn.ModuleDict({"a": found[0]})["a"], *found[1:]),
    )
    return in_double(draw.choice(makers)(), options)


def hooked(draw: random.Random) -> Case:
    """Hooks on one part; a third of them are removed again."""
    found, options = composed(draw)
    model = nn.Sequential(*found[:1], nn.Sequential(*found[1:]))
    parts = [part for part in model.modules() if part is not model or draw.random() < 0.2]
    part = draw.choice(parts)
    way = draw.choice(("forward", "pre", "keyword", "backward", "backward pre", "all modules"))
    if way == "all modules":

        @contextmanager
        def everywhere() -> Iterator[None]:
            handle = torch_module.register_module_forward_hook(
                lambda module, x, y: 10 * y if isinstance(module, nn.Sequential) else None
            )
            try:
                yield
            finally:
                handle.remove()

        return in_double(model, options, inside=everywhere)
    handle = {
        "forward": lambda: part.register_forward_hook(lambda module, x, y: 10 * y),
        "pre": lambda: part.register_forward_pre_hook(lambda module, x: (10 * x[0],)),
        "keyword": lambda: part.register_forward_hook(lambda module, x, options, y: 10 * y, with_kwargs=True),
        "backward": lambda: part.register_full_backward_hook(lambda module, x, y: None),
        "backward pre": lambda: part.register_full_backward_pre_hook(lambda module, y: (2 * y[0],)),
    }[way]()
    if draw.random() < 0.33:
        handle.remove()
    return in_double(model, options)


class Tripled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 3 * weight


class Noisy(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight * (1 + 9 * torch.rand(()))


def reweighted(draw: random.Random) -> Case:
    """Weights made by torch.nn.utils, changed afterwards, some of them made permanent."""
    found, options = composed(draw)
    layer = next(one for one in found if hasattr(one, "weight") and one.weight.ndim > 1)
    makers: dict[str, Callable[[], Any]] = {
        "weight_norm": lambda: nn.utils.weight_norm(layer),
        "spectral_norm": lambda: nn.utils.spectral_norm(layer),
        "pruned": lambda: prune.random_unstructured(layer, "weight", amount=0.5),
        "parametrized weight_norm": lambda: parametrizations.weight_norm(layer),
        "parametrized spectral_norm": lambda: parametrizations.spectral_norm(layer),
        "orthogonal": lambda: parametrizations.orthogonal(layer),
        "tripled": lambda: parametrize.register_parametrization(layer, "weight", Tripled()),
        "noisy": lambda: parametrize.register_parametrization(layer, "weight", Noisy()),
    }
    way = draw.choice(tuple(makers))
    model = nn.Sequential(*found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of these are deprecated, and in use
        try:
            makers[way]()
        except ValueError:  # of a matrix of another kind
            makers["tripled"]()
            way = "tripled"
    permanent = draw.random() < 0.3
    if permanent:
        remove = {
            "weight_norm": lambda: nn.utils.remove_weight_norm(layer),
            "spectral_norm": lambda: nn.utils.remove_spectral_norm(layer),
            "pruned": lambda: prune.remove(layer, "weight"),
        }
        remove.get(way, lambda: parametrize.remove_parametrizations(layer, "weight"))()
    model = model.double().train(draw.random() < 0.3)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "weight" in name:
                p.mul_(3.0)  # the layer has not run since
    return Case(model, **(options | dict(alone=True)))


def patched(draw: random.Random) -> Case:
    """Methods replaced on an instance or on a class, and options changed after a layer was built."""
    found, options = composed(draw)
    model = nn.Sequential(*found).double()
    part = draw.choice(found)
    way = draw.choice(("forward", "compiled", "class", "bound", "weight", "option", "option"))
    if way == "forward":
        part.forward = lambda x: 10 * type(part).forward(part, x)
    elif way == "compiled":
        part._compiled_call_impl = lambda x: 10 * part._call_impl(x)
    elif way == "bound":
        part.forward = type(part).forward.__get__(part)
    elif way == "weight":
        for p in model.parameters():
            p.data = 5 * p.data
    elif way == "option":
        for one in found:
            changed_option(one, draw)
    else:
        kind = type(part)
        name = "_conv_forward" if hasattr(kind, "_conv_forward") and draw.random() < 0.5 else "forward"
        return Case(model, **options, inside=lambda: replaced(kind, name))
    return Case(model, **options)


def changed_option(layer: nn.Module, draw: random.Random) -> None:
    """Sets an option of the layer to another value, where the layer still runs."""
    values = {"negative_slope": -7.0, "alpha": 6.0, "eps": 1e-7, "beta": 3.0, "p": 0.9, "approximate": "tanh"}
    values |= {"padding_mode": "zeros", "padding": (1,), "dilation": (1,), "in_features": 1, "out_channels": 1}
    names = [name for name in values if hasattr(layer, name)]
    if names:
        name = draw.choice(names)
        axes = len(layer.kernel_size) if isinstance(getattr(layer, "kernel_size", None), tuple) else 1
        value = values[name]
        setattr(layer, name, value * axes if isinstance(value, tuple) else value)


@contextmanager
def replaced(kind: type, name: str) -> Iterator[None]:
    """Within, the method of the class gives ten times as much."""
    own, inherited = vars(kind).get(name), getattr(kind, name)
    setattr(kind, name, lambda self, *arguments: 10 * inherited(self, *arguments))
    try:
        yield
    finally:
        if own is None:
            delattr(kind, name)
        else:
            setattr(kind, name, own)


def training(draw: random.Random) -> Case:
    """Layers in training mode, all of them or one."""
    found, options = composed(draw, ("convolution", "activation", "norm", "norm"), "convolution")
    p = draw.choice((0.0, 0.3, 0.5))
    axes = len(options["grid"].shape)
    drops = (nn.Dropout(p), nn.AlphaDropout(p), (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)[axes - 1](p), nn.RReLU())
    found.insert(draw.randint(0, len(found)), draw.choice(drops))
    model = nn.Sequential(*found).double().eval()
    if draw.random() < 0.6:
        model.train()
    else:
        draw.choice(found).train()
    return Case(model, **(options | dict(alone=True)))
