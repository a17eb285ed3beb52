"""Models of neuraloperator with the interface of ours."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import cache
from numbers import Integral
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from sciops.arrays.compiling import transformed
from sciops.grids import Grid
from sciops.models.operators.neuralop_resizing import correct_resizing
from sciops.models.operators.neuralop_spectral import correct, corrected
from sciops.models.spine.operator import description
from sciops.models.summary import model_text


class NeuralopModel(nn.Module):
    """A model of neuraloperator: "FNO", "TFNO", "UNO", or another of its classes that maps a field to a field.

    ``forward(x, grid=None)`` maps (batch, in_channels, *grid) to (batch, out_channels, *grid). The grid is ignored:
    these models append positions 0 … 1 counted in points. The weights are complex64 even after `.double()`, so float64
    input raises TypeError.

    Parameters
    ----------
    architecture : str
        Name of the class.
    in_channels, out_channels : int
        Number of fields in and out.
    compat_shift : bool
        False corrects the spectral layers where the installed neuraloperator is measured to be wrong and gives the
        Fourier sum of the weights at every size. True gives what neuraloperator 2.0.0 computes with real data,
        whichever version is installed, for weights that were trained with it; see Notes.
    modes : sequence of int, optional
        Per axis (a number means one axis), counted as in `SpectralMixer`: rows −k … k−1, columns 0 … k−1 on the last
        axis. Passed on as n_modes=(2·kx, …, 2·(ky − 1)); pass n_modes instead to count as neuraloperator does.
    width, depth : int, optional
        hidden_channels and n_layers.
    **options
        Passed on unchanged. They must be numbers, strings, lists or dicts, so that the model can be saved.

    Raises
    ------
    ImportError
        Without neuraloperator.
    ValueError
        For an unknown architecture, one that does not map one field to another, or an unknown kind of spectral layer.
    TypeError
        For an unknown or missing option.

    Notes
    -----
    2.0.0 moves a spectrum back with fftshift where ifftshift is its inverse, which rolls the result by one mode along
    every leading axis of odd size (85, 421); where a layer changes the resolution (UNO) it drops or misplaces negative
    modes; where an odd number of an even number of stored rows is in use (a grid of 7 points and modes=(4, 4)), weights
    act one mode too low. Even sizes that hold all modes are the same either way. On three and more axes the skips of
    layers that change the resolution are corrected as well, where the installed ones misplace modes of odd sizes.
    """

    __repr__ = model_text

    def __init__(
        self,
        architecture: str,
        in_channels: int,
        out_channels: int,
        *,
        compat_shift: bool = False,
        modes: Sequence[int] | None = None,
        width: int | None = None,
        depth: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        models = _import()
        known: dict[str, Any] = {name: value for name, value in vars(models).items() if inspect.isclass(value)}
        if architecture not in known:
            raise ValueError(f"neuralop:{architecture}: unknown; this neuraloperator has {', '.join(sorted(known))}")
        kind = known[architecture]
        takes, needs = _parameters(kind)
        given = dict(options)
        _expect_fields(architecture, kind, takes)
        if modes is not None:
            modes = _counts(architecture, modes=modes)
        for name, value in (("width", width), ("depth", depth)):
            if value is not None:
                _counts(architecture, **{name: value})
        renamed: tuple[tuple[str, str, Any], ...] = (
            ("modes", "n_modes", None if modes is None else (*(2 * k for k in modes[:-1]), 2 * (modes[-1] - 1))),
            ("width", "hidden_channels", width),
            ("depth", "n_layers", depth),
        )
        for ours, theirs, value in renamed:
            if value is None:
                continue
            if theirs in given:
                raise TypeError(f"neuralop:{architecture}: got both {ours} and {theirs}; they mean the same, give one")
            given[theirs] = value
        if architecture == "UNO":
            given = _u_shape(given)
        if "n_modes" in options:
            given["n_modes"] = _counts(architecture, n_modes=given["n_modes"])
        unknown = [k for k in given if k not in takes]
        if unknown:
            raise TypeError(
                f"neuralop:{architecture}: unknown option {unknown[0]!r}; it takes modes, width, depth, compat_shift, "
                + ", ".join(sorted(takes - {"in_channels", "out_channels"}))
            )
        missing = [_OURS.get(k, k) for k in needs if k not in {"in_channels", "out_channels", *given}]
        if missing:
            raise TypeError(f"neuralop:{architecture}: pass {' and '.join(missing)}")
        described = dict(in_channels=in_channels, out_channels=out_channels, compat_shift=compat_shift, **options)
        described |= {k: v for k, v in dict(modes=modes, width=width, depth=depth).items() if v is not None}
        self.config = description(f"neuralop:{architecture}", described)
        # UNO prints its skips while it is built
        with redirect_stdout(None):
            self.model: Any = kind(in_channels=in_channels, out_channels=out_channels, **given)
        original, _ = _spectral_classes()
        for module in self.model.modules():
            if type(module) is original:
                correct(module, rolled=compat_shift)
        orders: set[Any] = {module.order for module in self.model.modules() if isinstance(module, original)}
        if orders and not compat_shift:
            correct_resizing(self.model, max(orders))

    def _expect(self, x: Any) -> None:
        name, channels = self.config["name"], self.config["options"]["in_channels"]
        if not torch.is_tensor(x):
            raise TypeError(f"{name}: got {type(x).__name__}; expected a tensor: pass torch.as_tensor(x)")
        complex_data = getattr(self.model, "complex_data", False)
        if x.is_complex() != complex_data:
            raise TypeError(
                f"{name} with complex_data={complex_data}: got {x.dtype}; pass real and imaginary parts as channels, "
                f"or build it with complex_data={x.is_complex()}"
            )
        axes = getattr(self.model, "n_dim", None)
        if name in _ON_GRIDS and axes is not None and (x.ndim != axes + 2 or x.shape[1] != channels):
            raise ValueError(
                f"{name} with in_channels={channels} and modes for {axes} axes: got x of shape {tuple(x.shape)}; "
                f"expected (batch, {channels}, and {axes} axes)"
            )

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        self._expect(x)
        if x.dtype == torch.float64:
            raise TypeError(
                "neuraloperator computes its spectra in complex64 only: "
                "pass x.float(), or train with precision='float32'"
            )
        traced = transformed()
        for module in self.model.modules():
            positions = getattr(module, "_grid", None)
            if positions is not None and (traced or positions[0].device != x.device):
                module._grid = None  # they are kept from an earlier call, wherever the model has moved since
        try:
            y = self.model(x)
        except RuntimeError as error:
            if "vmap: inplace" not in str(error):
                raise
            raise NotImplementedError(
                f"{self.config['name']} writes its spectra in place, which torch.func.vmap cannot: loop over the "
                "samples, or use build_model('fno')"
            ) from None
        if not torch.is_tensor(y):
            raise TypeError(f"{self.config['name']} returns {type(y).__name__}, not a field: use .model itself")
        for module in self.model.modules() if traced else ():
            if getattr(module, "_grid", None) is not None:
                module._grid = None  # no later call may meet traced ones
        return y

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """The tensors alone: neuraloperator puts its constructor arguments, functions among them, beside them."""
        state = super().state_dict(*args, **kwargs)
        state.pop("_metadata", None)
        return state


@cache
def _spectral_classes() -> tuple[type[nn.Module], type[nn.Module]]:
    _import()
    try:
        from neuralop.layers.spectral_convolution import SpectralConv
    except ImportError as error:
        raise ImportError(f"this neuraloperator is not a known one ({error}): install neuraloperator 2.0.0") from None
    return SpectralConv, corrected(SpectralConv)


@cache
def _import() -> ModuleType:
    # the import replaces the process's warning filters; the context puts them back
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from neuralop import models
        except ImportError as error:
            raise ImportError(f"neuraloperator is not installed ({error}); pip install neuraloperator") from None
    return models


# the classes whose input is known to be (batch, channels, *grid)
_ON_GRIDS = ("neuralop:FNO", "neuralop:TFNO", "neuralop:UNO")
_OURS = {"n_modes": "modes=(kx, ky) (one number per axis)", "hidden_channels": "width=…", "n_layers": "depth=…"}


def _counts(architecture: str, **option: Any) -> tuple[int, ...]:
    """The numbers of an option as a tuple; one number means one axis."""
    ((name, value),) = option.items()
    several = "modes" in name
    numbers = tuple(value) if several and isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    if not numbers or any(isinstance(k, bool) or not isinstance(k, Integral) or k < 1 for k in numbers):
        wanted = "a whole number of 1 or more" + (" for each axis of the grid" if several else "")
        raise ValueError(f"neuralop:{architecture}: {name}={value!r}; expected {wanted}")
    return tuple(int(k) for k in numbers)


def _expect_fields(architecture: str, kind: Any, takes: set[str]) -> None:
    """Raises ValueError for a class that is not a map from fields to fields of given channels."""
    lacking = [name for name in ("in_channels", "out_channels") if name not in takes]
    if lacking:
        raise ValueError(
            f"neuralop:{architecture} has no option {' and no option '.join(lacking)}: "
            "build it with neuralop.models itself"
        )
    inputs = [p for p in inspect.signature(kind.forward).parameters.values() if p.default is p.empty]
    names = [p.name for p in inputs[1:] if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(names) != 1:
        raise ValueError(
            f"neuralop:{architecture} is called with {', '.join(names)}, not with one field: "
            "build it with neuralop.models itself"
        )


def _parameters(kind: Any) -> tuple[set[str], list[str]]:
    """The names of all options of the constructors, and those of the outermost one without a default value."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names: set[str] = set()
    needs: list[str] | None = None
    for one in kind.__mro__:
        if one is nn.Module:
            break
        if "__init__" in vars(one):
            found = [p for p in list(inspect.signature(one.__init__).parameters.values())[1:] if p.kind in named]
            names |= {p.name for p in found}
            if found and needs is None:
                needs = [p.name for p in found if p.default is p.empty]
    return names, needs or []


def _u_shape(given: dict[str, Any]) -> dict[str, Any]:
    """UNO needs its shape layer by layer: half the resolution from the second layer on, back in the last but one."""
    depth = given.setdefault("n_layers", 5)
    modes = given.pop("n_modes", None)
    width = given.setdefault("hidden_channels", 32)
    if "uno_n_modes" not in given and modes is not None:
        given["uno_n_modes"] = [list(modes)] * depth
    if "uno_n_modes" not in given:
        raise TypeError("neuralop:UNO: needs modes=(kx, ky), or uno_n_modes with one list per layer")
    if depth < 3 and "uno_scalings" not in given:
        raise ValueError(f"neuralop:UNO: depth={depth}; expected 3 or more, or uno_scalings")
    axes = len(given["uno_n_modes"][0])
    factors = [1.0] * depth
    factors[1], factors[-2 if depth > 3 else -1] = 0.5, 2.0
    given.setdefault("uno_scalings", [[f] * axes for f in factors])
    given.setdefault("uno_out_channels", [width] * depth)
    # their default gate cannot change the number of channels, which the joined skips do
    given.setdefault("channel_mlp_skip", "linear")
    return given
