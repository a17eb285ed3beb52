"""neuraloperator's models behind the same door as ours."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sciops._compiling import transformed
from sciops.grids import Grid
from sciops.models.operator import description


class NeuralopModel(nn.Module):
    """A model of neuraloperator: `architecture` names its class, "FNO", "TFNO", "UNO", …

    in_channels, out_channels : fields in and out
    compat_shift : neuraloperator 2.0.0 moves a spectrum back with fftshift where ifftshift is its inverse, which rolls
        the result by one mode along every leading axis of odd size (85, 421), and where a layer changes the resolution
        (UNO) it drops or misplaces the negative modes of those axes. Both are corrected here; True keeps them, for
        weights that were trained with them. Even sizes without scaling are the same either way
    modes : per axis, counted as `SpectralMixer` counts: rows −k … k−1, columns 0 … k−1 on the last axis. Passed on as
        n_modes=(2·kx, …, 2·(ky − 1)); give n_modes instead for their count
    width, depth : hidden_channels and n_layers
    options : passed on as they are; they must be numbers, strings, lists or dicts, so that the model can be saved

    forward(x, grid=None) : (batch, in_channels, *grid) → (batch, out_channels, *grid). The grid is ignored: these
    models append positions 0 … 1 counted in points.

    The weights are complex64 whatever `.double()` says, so float64 input raises TypeError. Raises ImportError without
    neuraloperator, ValueError for an unknown architecture, TypeError for an unknown option.
    """

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
        known = {name: value for name, value in vars(models).items() if inspect.isclass(value)}
        if architecture not in known:
            raise ValueError(f"neuralop:{architecture}: unknown; this neuraloperator has {', '.join(sorted(known))}")
        kind = known[architecture]
        takes = _parameters(kind)
        given = dict(options)
        for ours, theirs, value in (
            ("modes", "n_modes", None if modes is None else (*(2 * k for k in modes[:-1]), 2 * (modes[-1] - 1))),
            ("width", "hidden_channels", width),
            ("depth", "n_layers", depth),
        ):
            if value is None:
                continue
            if theirs in given:
                raise TypeError(f"neuralop:{architecture}: got both {ours} and {theirs}; they mean the same, give one")
            given[theirs] = value
        if architecture == "UNO":
            given = _u_shape(given)
        given = {k: tuple(v) if k == "n_modes" else v for k, v in given.items()}
        unknown = [k for k in given if k not in takes]
        if unknown:
            raise TypeError(
                f"neuralop:{architecture}: unknown option {unknown[0]!r}; it takes modes, width, depth, compat_shift, "
                + ", ".join(sorted(takes - {"self", "in_channels", "out_channels"}))
            )
        chosen = dict(modes=modes, width=width, depth=depth)
        self.config = description(
            f"neuralop:{architecture}",
            in_channels=in_channels,
            out_channels=out_channels,
            compat_shift=compat_shift,
            **{k: v for k, v in chosen.items() if v is not None},
            **options,
        )
        # UNO prints its skips while it is built
        with redirect_stdout(None):
            self.model = kind(in_channels=in_channels, out_channels=out_channels, **given)
        if not compat_shift:
            original, matched = _spectral_classes()
            for module in self.model.modules():
                if type(module) is original:
                    module.__class__ = matched

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
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
        for module in self.model.modules() if traced else ():
            if getattr(module, "_grid", None) is not None:
                module._grid = None  # no later call may meet traced ones
        return y

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The tensors alone: neuraloperator puts its constructor arguments, functions among them, beside them."""
        state = super().state_dict(*args, **kwargs)
        state.pop("_metadata", None)
        return state


class _MatchedShifts(TorchFunctionMode):
    """Within one spectral layer: the spectrum stays centred until the inverse transform, which then unpacks it rightly.

    The first fftshift centres the input's spectrum. The second, meant to undo it, is skipped, and the inverse transform
    crops or pads the centred leading axes to the output's size before it moves frequency 0 back to the front.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shifts = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.fft.fftshift or func is torch.fft.ifftshift:
            self.shifts += 1
            return args[0] if self.shifts == 2 else func(*args, **kwargs)
        if func in (torch.fft.irfftn, torch.fft.ifftn) and self.shifts == 2:
            spectrum, sizes, axes = args[0], list(kwargs["s"]), list(kwargs["dim"])
            leading = axes[:-1]
            for axis, size in zip(leading, sizes):
                spectrum = _recentre(spectrum, axis, size)
            return func(torch.fft.ifftshift(spectrum, dim=leading), **kwargs)
        return func(*args, **kwargs)


def _recentre(spectrum: Tensor, axis: int, size: int) -> Tensor:
    """Crops or pads an axis whose frequency 0 sits at n // 2 so that it sits at size // 2."""
    n = spectrum.shape[axis]
    if size == n:
        return spectrum
    start = n // 2 - size // 2
    if start >= 0 and start + size <= n:
        return spectrum.narrow(axis, start, size)
    index = torch.arange(start, start + size, device=spectrum.device)
    inside = (index >= 0) & (index < n)
    shape = [1] * spectrum.ndim
    shape[axis] = size
    return spectrum.index_select(axis, index.clamp(0, n - 1)) * inside.view(shape)


@cache
def _spectral_classes() -> tuple[type[nn.Module], type[nn.Module]]:
    _import()
    from neuralop.layers.spectral_convolution import SpectralConv

    class MatchedSpectralConv(SpectralConv):
        def forward(self, x: Tensor, output_shape: Sequence[int] | None = None) -> Tensor:
            if self.order == 1 or self.complex_data:
                return super().forward(x, output_shape)
            sizes, scaling = x.shape[2:-1], self.resolution_scaling_factor
            if output_shape is None and scaling is None and all(n % 2 == 0 for n in sizes):
                return super().forward(x)
            with _MatchedShifts():
                return super().forward(x, output_shape)

    return SpectralConv, MatchedSpectralConv


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


def _parameters(kind: type) -> set[str]:
    names: set[str] = set()
    for one in kind.__mro__:
        if one is nn.Module:
            break
        if "__init__" in vars(one):
            names |= {
                p.name
                for p in inspect.signature(one.__init__).parameters.values()
                if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            }
    return names


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
