"""Checks of any torch model on fields: the properties that users of an operator rely on, in one table."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.arrays.scale import norm_of
from sciops.grids import Grid
from sciops.models.apply import apply_model, config_of, in_precision, placed_for, unwrapped
from sciops.models.persistence import load_model, save_model
from sciops.models.spine.operator import Operator
from sciops.models.wrappers.symmetry import SymmetryAveraged
from sciops.symmetry import Symmetry


@dataclass(frozen=True)
class Row:
    """One check: the measured value, whether it passed (None: nothing is claimed), and what it means."""

    name: str
    value: float | None
    passed: bool | None
    note: str


@dataclass(frozen=True)
class CheckTable:
    """The checks of one model on one grid; `str()` prints them, ``table["shift equivariance"]`` is one of them."""

    model: str
    grid: Grid
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(row.passed is not False for row in self.rows)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r}: expected one of {[row.name for row in self.rows]}")

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.rows)
        mark = {True: "ok", False: "FAILS", None: "-"}
        lines = [f"{self.model} on {'×'.join(map(str, self.grid.shape))} {self.grid.centering} points"]
        for row in self.rows:
            value = "" if row.value is None else f"{row.value:.2g}"
            lines.append(f"{row.name:<{width}}  {value:>8}  {mark[row.passed]:<5}  {row.note}".rstrip())
        return "\n".join(lines)


def check_operator(
    model: nn.Module,
    grid: Grid,
    *,
    in_channels: int | None = None,
    symmetry: Symmetry | None = None,
    seed: int = 0,
) -> CheckTable:
    """Checks a model on fields of a grid for the properties that users of an operator rely on.

    ========================  ==================================================================================
    gradients in float64      directional derivative in input and weights against central differences, < 1e-6
    odd sizes                 runs on grids with odd and unequal numbers of points
    autocast                  bfloat16 autocast against the model's own precision, relative, < 0.1
    parameters used           parameters whose gradient vanishes entirely: expected 0
    state dict                a second model that loads it computes the same result bit for bit
    save and load             the same for a model saved to a folder and loaded
    batch independence        a sample alone against the same one in a batch, relative, < 1e-4
    resolution consistency    sin 2πx cos 4πy on this grid and a nested finer one, relative difference at the shared
                              points; reported without a verdict
    shift equivariance        periodic grids: F(shifted a) against shifted F(a), relative; < 1e-4 where the model
                              claims it (Fourier mixers without coordinates)
    symmetries                F(g a) against g F(a) for the exchanges and mirror images g of the axes that the problem
                              has, the largest relative difference; < 1e-4 for `SymmetryAveraged` and its own group,
                              reported without a verdict for other models, which needs `symmetry`
    ========================  ==================================================================================

    A check that does not apply is listed with the reason.

    Parameters
    ----------
    model : nn.Module
        Any torch model on (batch, channels, *grid); a copy is used, in evaluation mode.
    grid : Grid
        Grid of the fields.
    in_channels : int, optional
        Number of input fields; by default that in the model's config.
    symmetry : Symmetry, optional
        Symmetry of the problem, such as ``dataset.symmetry``: its elements, and how they act on each channel.
    seed : int
        Seed of the random fields and directions.

    Raises
    ------
    ValueError
        Where in_channels is not known.
    """
    channels = _channels(model) if in_channels is None else in_channels
    # weights that are initially zero hide what they multiply: those of a copy are perturbed
    own = deepcopy(unwrapped(model)).eval()
    generator = torch.Generator().manual_seed(seed)
    moved = deepcopy(own)
    with torch.no_grad():
        for p in moved.parameters():
            if not (p.is_floating_point() or p.is_complex()):
                continue
            p.add_(0.02 * torch.randn(p.shape, generator=generator, dtype=p.dtype).to(p.device))

    def field(on: Grid, batch: int = 2) -> Tensor:
        return placed_for(own, torch.randn(batch, channels, *on.shape, generator=generator))

    x = field(grid)
    checks: dict[str, Callable[[], Row]] = {
        "gradients in float64": lambda: _gradients(moved, x, grid, generator),
        "odd sizes": lambda: _odd_sizes(own, field, grid),
        "autocast": lambda: _autocast(own, x, grid),
        "parameters used": lambda: _used(moved, x, grid),
        "state dict": lambda: _state_dict(own, x, grid),
        "save and load": lambda: _save_load(own, x, grid),
        "batch independence": lambda: _batch(own, field(grid, 3), grid),
        "resolution consistency": lambda: _resolution(own, channels, grid),
        "shift equivariance": lambda: _shift(own, x, grid),
        "symmetries": lambda: _symmetries(own, x, grid, symmetry),
    }
    rows = []
    for name, check in checks.items():
        try:
            rows.append(check())
        except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
            failed = None if isinstance(error, _CannotBeMadeError) else False
            rows.append(Row(name, None, failed, str(error).split("\n")[0]))
    return CheckTable(_name(model), grid, tuple(rows))


class _CannotBeMadeError(ValueError):
    """A check that does not apply to this model."""


def _gradients(model: nn.Module, x: Tensor, grid: Grid, generator: torch.Generator) -> Row:
    model, x = in_precision(deepcopy(model), torch.float64), x.double().requires_grad_()
    try:
        y = apply_model(model, x, grid)
    except (TypeError, RuntimeError) as error:
        raise _CannotBeMadeError(f"no float64: {error}".split("\n")[0]) from None
    weight = torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.device)
    inputs = [x, *(p for p in model.parameters() if p.requires_grad)]
    grads = torch.autograd.grad((y * weight).sum(), inputs, allow_unused=True)
    steps = [torch.randn(t.shape, generator=generator, dtype=t.dtype).to(t.device) for t in inputs]
    expected: Any = sum((g.conj() * s).real.sum() for g, s in zip(grads, steps) if g is not None)
    values = []
    with torch.no_grad():
        for sign in (1, -2):
            for t, s in zip(inputs, steps):
                t.add_(s, alpha=sign * 1e-6)
            values.append((apply_model(model, x, grid) * weight).sum())
    measured = (values[0] - values[1]) / 2e-6
    off = ((measured - expected).abs() / expected.abs()).item()
    return Row("gradients in float64", off, off < 1e-6, "relative error of a directional derivative")


def _odd_sizes(model: nn.Module, field: Callable[[Grid], Tensor], grid: Grid) -> Row:
    shapes = [tuple(n | 1 for n in grid.shape), tuple((n | 1) + 2 * axis for axis, n in enumerate(grid.shape))]
    for shape in shapes:
        on = Grid(shape, grid.extent, grid.centering, grid.domain)
        with torch.no_grad():
            y = apply_model(model, field(on), on)
        if y.shape[2:] != shape or not torch.isfinite(y).all():
            return Row("odd sizes", None, False, f"{shape} points in, {tuple(y.shape[2:])} out, or not finite")
    return Row("odd sizes", None, True, " and ".join("×".join(map(str, s)) for s in shapes))


def _autocast(model: nn.Module, x: Tensor, grid: Grid) -> Row:
    with torch.no_grad():
        y = apply_model(model, x, grid)
        with torch.autocast(x.device.type, torch.bfloat16):
            z = apply_model(model, x, grid)
    error = _relative(z.to(y.dtype), y)
    return Row("autocast", error, error < 0.1, "bfloat16 against full precision")


def _used(model: nn.Module, x: Tensor, grid: Grid) -> Row:
    y = apply_model(model, x, grid)
    weight = torch.linspace(-1, 1, y.numel(), device=y.device, dtype=y.dtype).view_as(y).cos()
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    if not named:
        raise _CannotBeMadeError("the model has no trainable parameters")
    grads = torch.autograd.grad((y * weight).sum(), [p for _, p in named], allow_unused=True)
    unused = [n for (n, _), g in zip(named, grads) if g is None or not g.any()]
    live = sum(int(torch.count_nonzero(g)) for g in grads if g is not None) / sum(p.numel() for _, p in named)
    note = f"{live:.1%} of the entries have a gradient" if not unused else f"no gradient: {', '.join(unused[:3])}"
    return Row("parameters used", len(unused), not unused, note)


def _state_dict(model: nn.Module, x: Tensor, grid: Grid) -> Row:
    other = deepcopy(model)
    with torch.no_grad():
        for t in other.state_dict().values():
            t.zero_() if isinstance(t, Tensor) else None
        other.load_state_dict({k: v for k, v in model.state_dict().items() if isinstance(v, Tensor)})
        same = torch.equal(apply_model(other, x, grid), apply_model(model, x, grid))
    foreign = [k for k, v in model.state_dict().items() if not isinstance(v, Tensor)]
    note = f"not a tensor: {foreign[0]}" if foreign else "strict, bit for bit"
    return Row("state dict", None, same and not foreign, note)


def _save_load(model: nn.Module, x: Tensor, grid: Grid) -> Row:
    try:
        config_of(model)
    except TypeError as error:
        raise _CannotBeMadeError(str(error)) from None
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        loaded = load_model(save_model(model, folder), device=x.device)
        same = torch.equal(apply_model(loaded, x, grid), apply_model(model, x, grid))
    return Row("save and load", None, same, "bit for bit")


def _batch(model: nn.Module, x: Tensor, grid: Grid) -> Row:
    with torch.no_grad():
        error = _relative(apply_model(model, x[1:2], grid), apply_model(model, x, grid)[1:2])
    return Row("batch independence", error, error < 1e-4, "one sample alone against the same in a batch of three")


def _resolution(model: nn.Module, channels: int, grid: Grid) -> Row:
    # three cells for one keep the centre of the middle one
    factor, first = (3, 1) if grid.centering == "cell" else (2, 0)
    shape = tuple((n - 1) * factor + 1 if grid.centering == "node" else n * factor for n in grid.shape)
    fine = Grid(shape, grid.extent, grid.centering, grid.domain)
    results: list[Any] = []
    for on in (grid, fine):
        a = placed_for(model, torch.from_numpy(_smooth(on, channels)))
        with torch.no_grad():
            results.append(apply_model(model, a, on))
    shared = results[1][..., *(slice(first, None, factor) for _ in shape)]
    error = _relative(shared, results[0])
    return Row("resolution consistency", error, None, f"against {'×'.join(map(str, shape))} points, smooth input")


def _shift(model: nn.Module, x: Tensor, grid: Grid) -> Row:
    if grid.centering != "periodic":
        raise _CannotBeMadeError("only on periodic grids")
    axes, steps = tuple(range(2, x.ndim)), (1,) * grid.ndim
    with torch.no_grad():
        error = _relative(apply_model(model, x.roll(steps, axes), grid), apply_model(model, x, grid).roll(steps, axes))
    claimed = _claims_shifts(model)
    note = "shifted by one point along every axis" + ("" if claimed else "; not claimed")
    return Row("shift equivariance", error, error < 1e-4 if claimed else None, note)


def _symmetries(model: nn.Module, x: Tensor, grid: Grid, symmetry: Symmetry | None) -> Row:
    own = model if isinstance(model, SymmetryAveraged) else None
    claimed, group = own is not None, own.group if own else "allowed"
    symmetry = symmetry or (own.symmetry if own else None)
    if symmetry is None:
        raise _CannotBeMadeError("which ones the problem has is not known: pass symmetry=dataset.symmetry")
    try:
        elements = symmetry.elements(grid, group)[1:]
    except ValueError as error:
        raise _CannotBeMadeError(str(error)) from None
    with torch.no_grad():
        y = apply_model(model, x, grid)
        moved = [(symmetry.move(x, g, grid), symmetry.move(y, g, grid, "outputs")) for g in elements]
        largest = max(_relative(apply_model(model, gx, grid), gy) for gx, gy in moved)
    note = f"largest of {', '.join(map(str, elements))}" + ("" if claimed else "; not claimed")
    return Row("symmetries", largest, largest < 1e-4 if claimed else None, note)


def _claims_shifts(model: nn.Module) -> bool:
    spines = [m for m in model.modules() if isinstance(m, Operator)]
    return len(spines) == 1 and all(
        m.coordinates == "none" and all(getattr(b.mixer, "basis", None) == "fourier" for b in m.blocks) for m in spines
    )


def _smooth(grid: Grid, channels: int) -> np.ndarray:
    """sin 2πx · cos 4πy · cos 2πz in the domain, with another phase along x for every channel."""
    position = [(p - left) / (right - left) for p, (left, right) in zip(grid.meshgrid(), grid.domain)]
    rest = np.ones(grid.shape)
    for p, k in zip(position[1:], (2, 1, 1)):
        rest = rest * np.cos(2 * np.pi * k * p)
    return np.stack([np.sin(2 * np.pi * position[0] + 0.7 * c) * rest for c in range(channels)])[None]


def _relative(a: Tensor, b: Tensor) -> float:
    a, b = a.double(), b.double()
    error, size = (norm_of(v.flatten(), 0) for v in (a - b, b))
    return (error / size).item() if size > 0 else error.item()


def _channels(model: nn.Module) -> int:
    with suppress(TypeError, KeyError):
        options = config_of(model)["options"]
        while "in_channels" not in options:
            options = options["model"]["options"]
        return options["in_channels"]
    raise ValueError(f"{type(model).__name__} has no config with its number of input fields: pass in_channels=")


def _name(model: nn.Module) -> str:
    try:
        return str(config_of(model)["name"])
    except TypeError:
        return type(unwrapped(model)).__name__
