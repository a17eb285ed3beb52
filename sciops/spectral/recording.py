"""Watching a model run: every module's output and every pointwise nonlinearity, as fields on the grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sciops.grids import Grid
from sciops.mixers import MIXERS

Channels = Literal["auto", "first", "last"]

# names that torch, torch.nn.functional and Tensor share; in-place forms add an underscore
_ACTIVATIONS = frozenset(
    "celu elu gelu hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu sigmoid silu sin softplus "
    "softsign tanh".split()
)
_PRODUCTS = frozenset(("mul", "multiply", "__mul__", "__rmul__"))
_CHANNEL_FIRST = ("Conv", "BatchNorm", "InstanceNorm", "GroupNorm")
_CHANNEL_LAST = ("Linear", "LayerNorm", "RMSNorm")
_TRANSPARENT = (nn.Identity, nn.Dropout)


@dataclass(frozen=True)
class Operation:
    """A pointwise nonlinearity met in a forward pass: ``function(*fields)``, all (batch, channel, *points)."""

    function: Callable[..., Tensor]
    fields: tuple[Tensor, ...]


@dataclass
class Records:
    """What `watch` saw, in the order of the computation."""

    labels: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, label: str, kind: str, value: Any) -> None:
        self.labels.append(label)
        self.kinds.append(kind)
        self.values.append(value)


def watch(
    model: nn.Module,
    x: Tensor,
    grid: Grid,
    *,
    on_output: Callable[[Tensor], Any] | None = None,
    on_operation: Callable[[Operation], Any] | None = None,
    layers: Sequence[str] | None = None,
    channels: Channels = "auto",
) -> Records:
    """Runs ``model(x)`` once, in evaluation mode and without gradients, and keeps what the callbacks make of it.

    on_output(field) : called with the input, the output of every module and of every activation that is a plain
        function; field (batch, channel, *grid)
    on_operation(operation) : called with every activation and every product of two fields
    layers : patterns (`fnmatch`) that labels must match; default all

    Labels are module paths ("blocks.0.mixer"); a function adds its name ("blocks.0.gelu"), a second call "#2". A
    container that returns its last child's output takes that child's place. Hooks are removed and training flags
    restored even after an error.

    Raises ValueError when a pattern matches no label.
    """
    from sciops.models.apply import apply_model, evaluating, placed_for

    x = placed_for(model, x)
    watcher = _Watcher(grid, len(x), on_output, on_operation, layers, channels)
    handles = []
    try:
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(watcher.entering(name)))
            handles.append(module.register_forward_hook(watcher.leaving(name)))
        with evaluating(model), torch.no_grad():
            watcher.output("input", "input", x, "first")
            with watcher:
                apply_model(model, x, grid)
    finally:
        for handle in handles:
            handle.remove()
    watcher.check_patterns()
    return watcher.records


class _Watcher(TorchFunctionMode):
    """Hooks for modules, and a torch function mode for the activations that models call as plain functions."""

    def __init__(
        self, grid: Grid, batch: int, on_output: Any, on_operation: Any, layers: Any, channels: Channels
    ) -> None:
        super().__init__()
        if channels not in ("auto", "first", "last"):
            raise ValueError(f"channels={channels!r}: expected 'auto', 'first' or 'last'")
        self.grid, self.batch, self.channels = grid, batch, channels
        self.on_output, self.on_operation = on_output, on_operation
        self.patterns = None if layers is None else ([layers] if isinstance(layers, str) else list(layers))
        self.records = Records()
        self.stack: list[str] = []
        self.calls: Counter[str] = Counter()
        self.seen: list[str] = []
        self.used: set[str] = set()
        self.latest: Tensor | None = None  # the output behind the newest record
        self.layout = "first"

    def entering(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any) -> None:
            self.stack.append(name)

        return hook

    def leaving(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            self.stack.pop()
            if not isinstance(module, _TRANSPARENT):
                with torch._C.DisableTorchFunction():
                    self.output(
                        name or "output", type(module).__name__, output, _layout_of(module) if name else "first"
                    )

        return hook

    def output(self, label: str, kind: str, output: Any, default: str | None = None) -> None:
        real = isinstance(output, Tensor) and output.is_floating_point()
        layout = self.layout_of(output, default) if real else None
        if layout is not None:
            self.layout = layout.split()[0]
        if self.on_output is None:
            return
        records = self.records
        if self.patterns is None and output is self.latest and records.labels[-1].startswith(f"{label}."):
            records.labels[-1], records.kinds[-1] = self.numbered(label), kind
            return
        label = self.numbered(label)
        if not self.wanted(label):
            return
        if layout is None:
            records.skipped.append(f"{label}: {_what(output)} is not a field on the grid {self.grid.shape}")
            return
        records.add(label, kind, self.on_output(_channel_first(output, layout, self.grid)))
        self.latest = output

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        field = bool(args) and isinstance(args[0], Tensor) and args[0].ndim > 1 and len(args[0]) == self.batch
        activation = name.rstrip("_") in _ACTIVATIONS and field
        if not activation and not (name in _PRODUCTS and _two_fields(args)):
            return function(*args, **kwargs)
        name = name.rstrip("_") if activation else "mul"
        path = self.stack[-1] if self.stack else ""
        label = f"{path}.{name}" if path else name
        if self.on_operation is not None:
            self.operation(label, name, function, args, kwargs, log=activation)
        result = function(*args, **kwargs)
        if activation:
            self.output(label, name, result)
        return result

    def operation(self, label: str, name: str, function: Any, args: Any, kwargs: Any, log: bool) -> None:
        shape = args[0].shape
        fields = [a for a in args if isinstance(a, Tensor) and a.shape == shape]
        rest = [a for a in args if not (isinstance(a, Tensor) and a.shape == shape)]
        options = {k: v for k, v in kwargs.items() if k not in ("inplace", "out")}
        real = all(a.is_floating_point() for a in fields)
        layout = self.layout_of(fields[0]) if real else None
        if layout is None and not log:
            return
        label = self.numbered(label)
        if not self.wanted(label):
            return
        if layout is None:
            self.records.skipped.append(f"{label}: {_what(args[0])} is not a field on the grid {self.grid.shape}")
            return
        last = layout.startswith("last")

        def on_fields(*refined: Tensor) -> Tensor:
            # clones, because an in-place activation writes into its argument
            refined = tuple((r.movedim(1, -1) if last else r).clone() for r in refined)
            result = function(*refined, *rest, **options)
            return result.movedim(-1, 1) if last else result

        value = self.on_operation(Operation(on_fields, tuple(_channel_first(a, layout, self.grid) for a in fields)))
        self.records.add(label, name, value)

    def numbered(self, label: str) -> str:
        self.calls[label] += 1
        return label if self.calls[label] == 1 else f"{label}#{self.calls[label]}"

    def wanted(self, label: str) -> bool:
        self.seen.append(label)
        if self.patterns is None:
            return True
        hits = [p for p in self.patterns if fnmatchcase(label, p)]
        self.used.update(hits)
        return bool(hits)

    def check_patterns(self) -> None:
        missing = [p for p in self.patterns or () if p not in self.used]
        if missing:
            raise ValueError(f"layers={missing}: no such layer; this model has {', '.join(self.seen)}")

    def layout_of(self, t: Tensor, default: str | None = None) -> str | None:
        """Where the channels are, "first" or "last", plus " flat" when the points are one axis; None off the grid."""
        if t.ndim < 2 or t.shape[0] != self.batch:
            return None
        shape, d = self.grid.shape, self.grid.ndim
        found = []
        if tuple(t.shape[2:]) == shape or (d > 1 and tuple(t.shape[1:]) == shape):
            found.append("first")
        if t.ndim == d + 2 and tuple(t.shape[1:-1]) == shape:
            found.append("last")
        if d > 1 and t.ndim == 3:
            found += [f"{end} flat" for end, n in (("first", t.shape[2]), ("last", t.shape[1])) if n == self.grid.size]
        if self.channels != "auto":
            found = [f for f in found if f.startswith(self.channels)] or found
        # as many channels as points along an axis: the kind of module decides, else the layer before
        wanted = default or self.layout
        return next((f for f in found if f.startswith(wanted)), found[0] if found else None)


def _channel_first(t: Tensor, layout: str, grid: Grid) -> Tensor:
    """t as (batch, channel, *grid)."""
    if layout.startswith("last"):
        t = t.movedim(-1, 1)
    if layout.endswith("flat"):
        t = t.unflatten(2, grid.shape)
    return t if t.ndim == grid.ndim + 2 else t.unsqueeze(1)


def _layout_of(module: nn.Module) -> str | None:
    """What the kind of the module says about its channels, or None."""
    ours = type(module).__module__.startswith(
        ("sciops.mixers", "sciops.models.spine.blocks", "sciops.models.spine.norms")
    )
    if ours or isinstance(module, tuple(MIXERS.values())):
        return "last"
    name = type(module).__name__
    if name.startswith(_CHANNEL_FIRST):
        return "first"
    return "last" if name.startswith(_CHANNEL_LAST) else None


def _what(output: Any) -> str:
    if not isinstance(output, Tensor):
        return f"a {type(output).__name__}"
    return f"shape {tuple(output.shape)}" + ("" if output.is_floating_point() else f" of {output.dtype}")


def _two_fields(args: Any) -> bool:
    return len(args) >= 2 and all(isinstance(a, Tensor) for a in args[:2]) and args[0].shape == args[1].shape
