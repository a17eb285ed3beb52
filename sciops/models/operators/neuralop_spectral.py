"""neuraloperator's spectral layer, corrected where the installed version is measured to be wrong.

Nothing here asks for a version. `behaviour` runs tiny layers of the installed class and compares them with the sum that
their weights stand for; `corrected` makes a subclass that uses the installed code in the situations where the two
agree, and the sum itself elsewhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Situation(NamedTuple):
    """The conditions under which versions of neuraloperator differ in a spectral layer.

    odd : a leading axis has an odd number of points
    resized : the result has another number of points
    uneven : an even number of stored rows and an odd number in use, by n_modes or by a grid too small for all of them
    """

    odd: bool
    resized: bool
    uneven: bool


def situation(conv: Any, sizes: Sequence[int], out_sizes: Sequence[int]) -> Situation:
    """That of a layer between two grids; every axis of complex data counts as a leading one."""
    leading = len(sizes) if conv.complex_data else len(sizes) - 1
    stored = list(conv.max_n_modes)[:leading]
    used = [min(m, n, s) for m, n, s in zip(conv.n_modes, sizes, stored)]
    return Situation(
        any(n % 2 == 1 for n in sizes[:leading]),
        any(n != m for n, m in zip(sizes, out_sizes)),
        any(s % 2 == 0 and k % 2 == 1 for s, k in zip(stored, used)),
    )


def output_sizes(conv: Any, sizes: Sequence[int], output_shape: Sequence[int] | None) -> tuple[int, ...]:
    """The points per axis of the result: `output_shape`, or the layer's own scaling of `sizes`."""
    if output_shape is not None:
        return tuple(output_shape)
    if conv.resolution_scaling_factor is None:
        return tuple(sizes)
    return tuple(round(n * factor) for n, factor in zip(sizes, conv.resolution_scaling_factor))


def spectral_sum(conv: Any, x: Tensor, output_shape: Sequence[int] | None = None, *, rolled: bool = False) -> Tensor:
    """A spectral layer written out: y(s) = Re Σ_k R_k X(k) exp(ik·s) + bias, at any sizes before and after.

    The stored weights belong to the frequencies −⌊W/2⌋ … of a leading axis and 0 … W − 1 of the last one; of complex
    data every axis is a leading one.

    Parameters
    ----------
    conv : a spectral layer with neuraloperator's attributes
    x : (batch, channels, *sizes)
    output_shape : sizes of the result; the layer's own unless given
    rolled : compute what neuraloperator 2.0.0 computes for real data: ``fftshift`` where ``ifftshift`` is the inverse,
        negative frequencies lost or misplaced between sizes, weights one frequency too low in an `uneven` situation
    """
    order, sizes = conv.order, list(x.shape[2:])
    out_sizes = list(output_sizes(conv, sizes, output_shape))
    axes = list(range(-order, 0))
    centred = axes if conv.complex_data else axes[:-1]
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    transform = torch.fft.fftn if conv.complex_data else torch.fft.rfftn
    spectrum = _shifted(torch.fft.fftshift, transform(x, dim=axes, norm=conv.fft_norm), centred)
    if not conv.complex_data:
        sizes[-1], out_columns = sizes[-1] // 2 + 1, out_sizes[-1] // 2 + 1
    targets = out_sizes if conv.complex_data else [*out_sizes[:-1], out_columns]
    taken, weights, starts, places = [], [], [], []
    for axis, n, m, used, stored in zip(axes, sizes, targets, conv.n_modes, conv.max_n_modes):
        k = min(n, used, stored)
        inside = axis in centred
        start = n // 2 - k // 2 if inside else 0
        first = ((stored - k) // 2 if rolled else stored // 2 - k // 2) if inside else 0
        taken.append(slice(start, start + k))
        weights.append(slice(first, first + k))
        starts.append(start)
        places.append(m // 2 - k // 2 if inside else 0)
    block = spectrum[(slice(None), slice(None), *taken)]
    weight = conv.weight[(*[slice(None)] * (1 if conv.separable else 2), *weights)]
    if conv.fno_block_precision == "full":
        block = conv._contract(block, weight, separable=conv.separable)
    else:
        block = conv._contract(block.chalf(), weight, separable=conv.separable).to(spectrum.dtype)
    if rolled:
        spectrum = _shifted(torch.fft.fftshift, _placed(block, starts, sizes), centred)
        spectrum = _placed(spectrum, [0] * order, targets)
    else:
        spectrum = _shifted(torch.fft.ifftshift, _placed(block, places, targets), centred)
    y = _inverse(spectrum, out_sizes, axes, conv.complex_data, conv.fft_norm)
    return y if conv.bias is None else y + conv.bias


def _shifted(shift, spectrum: Tensor, axes: Sequence[int]) -> Tensor:
    return shift(spectrum, dim=tuple(axes)) if axes else spectrum


def _placed(block: Tensor, starts: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """The block from `starts` on in zeros of `sizes` (last axes), without what lies outside."""
    pads: list[int] = []
    for start, size, n in reversed(list(zip(starts, sizes, block.shape[-len(sizes) :]))):
        pads += [start, size - n - start]
    return nn.functional.pad(block, pads)


def _inverse(spectrum: Tensor, sizes: Sequence[int], axes: Sequence[int], is_complex: bool, norm: str) -> Tensor:
    if is_complex:
        return torch.fft.ifftn(spectrum, dim=axes, norm=norm)
    if len(axes) > 1:
        spectrum = torch.fft.ifftn(spectrum, dim=axes[:-1], norm=norm)
    # some GPU transforms do not ignore these imaginary parts
    ends = [0, sizes[-1] // 2] if sizes[-1] % 2 == 0 else [0]
    column = torch.arange(spectrum.shape[-1], device=spectrum.device)
    inside = torch.stack([column != end for end in ends]).all(0)
    spectrum = torch.complex(spectrum.real, spectrum.imag * inside)
    return torch.fft.irfft(spectrum, n=sizes[-1], dim=-1, norm=norm)


@cache
def behaviour(kind: type, order: int, complex_data: bool) -> Mapping[Situation, frozenset[str]]:
    """What the installed class `kind` computes in each situation, measured on tiny layers.

    "sum" where it is `spectral_sum`, "rolled" where it is the rolled one; on even sizes it is both. A situation in
    which it fails, or computes something else, has an empty set.
    """
    found: dict[Situation, frozenset[str]] = {}
    leading = order if complex_data else order - 1
    with torch.random.fork_rng(devices=[]), torch.no_grad(), torch.device("cpu"), torch.autocast("cpu", enabled=False):
        torch.manual_seed(0)
        for sizes in itertools.product((8, 7), repeat=order):
            for out_sizes in {sizes, tuple(2 * n for n in sizes), tuple(n // 2 + 1 for n in sizes)}:
                for kept, stored in ((4, 4), (5, 6), (9, 10)):
                    conv = _layer(kind, order, leading, complex_data, kept, stored)
                    x = torch.randn(1, 1, *sizes, dtype=torch.complex64 if complex_data else torch.float32)
                    case = situation(conv, sizes, out_sizes)
                    found[case] = found.get(case, frozenset({"sum", "rolled"})) & _agrees(conv, x, sizes, out_sizes)
    return MappingProxyType(found)


def _layer(kind: type, order: int, leading: int, complex_data: bool, kept: int, stored: int) -> Any:
    """One channel; `kept` of `stored` rows on leading axes, all columns of the largest probe on the last one."""
    modes = [kept] * leading + [16] * (order - leading)
    most = [stored] * leading + [9] * (order - leading)
    return kind(1, 1, modes, max_n_modes=most, bias=False, complex_data=complex_data)


def _agrees(conv: Any, x: Tensor, sizes: Sequence[int], out_sizes: Sequence[int]) -> frozenset[str]:
    output_shape = None if tuple(sizes) == tuple(out_sizes) else out_sizes
    try:
        theirs = conv(x) if output_shape is None else conv(x, output_shape=output_shape)
    except Exception:  # whatever it raises, it does not compute the sum
        return frozenset()
    names = {"sum": False} if conv.complex_data else {"sum": False, "rolled": True}
    return frozenset(
        name
        for name, rolled in names.items()
        if _close(theirs, spectral_sum(conv, x, output_shape, rolled=rolled), scale=math.prod(sizes))
    )


def _close(a: Tensor, b: Tensor, *, scale: float) -> bool:
    return a.shape == b.shape and bool((a - b).abs().max() <= 1e-5 * max(float(b.abs().max()), 1 / scale))


@cache
def corrected(kind: type) -> type:
    """A subclass of the installed spectral layer `kind` that is the Fourier sum in every situation.

    Its objects carry `rolled`; True computes what neuraloperator 2.0.0 computes for real data instead, and leaves
    complex data as installed.
    """

    class MatchedSpectralConv(kind):
        rolled = False
        trusted: frozenset[Situation] | None = None

        def forward(self, x: Tensor, output_shape: Sequence[int] | None = None) -> Tensor:
            if self.trusted is None:
                self.trusted = _trusted(kind, self)
            sizes = x.shape[2:]
            if situation(self, sizes, output_sizes(self, sizes, output_shape)) in self.trusted:
                return super().forward(x, output_shape)
            return spectral_sum(self, x, output_shape, rolled=self.rolled)

    return MatchedSpectralConv


def _trusted(kind: type, conv: Any) -> frozenset[Situation]:
    """The situations in which the installed code computes what is asked of this layer."""
    measured = behaviour(kind, conv.order, conv.complex_data)
    if conv.rolled and conv.complex_data:
        return frozenset(measured)
    return frozenset(case for case, names in measured.items() if ("rolled" if conv.rolled else "sum") in names)


def correct(conv: Any, *, rolled: bool) -> None:
    """Turns a layer of the installed class into its `corrected` one, in place.

    Raises ValueError where the class is not a Fourier sum even on even sizes, so that its weights cannot be read.
    """
    kind: Any = type(conv)
    measured = behaviour(kind, conv.order, conv.complex_data)
    if not conv.complex_data and "sum" not in measured[Situation(False, False, False)]:
        raise ValueError(
            f"neuraloperator's {kind.__name__} is not a known Fourier layer on even grids of {conv.order} axes: "
            "install neuraloperator 2.0.0, or use build_model('fno', …)"
        )
    conv.__class__, conv.rolled = corrected(kind), rolled
    conv.trusted = _trusted(kind, conv)


def computes(conv: Any, sizes: Sequence[int], out_sizes: Sequence[int]) -> str | None:
    """ "sum" or "rolled" (see `spectral_sum`), whichever this layer computes between two grids; None where neither."""
    if hasattr(type(conv), "rolled"):
        return "rolled" if conv.rolled else "sum"
    named = [kind for kind in type(conv).__mro__ if kind.__name__ == "SpectralConv"]
    measured = behaviour(named[0] if named else type(conv), conv.order, conv.complex_data)
    names = measured.get(situation(conv, sizes, out_sizes), frozenset())
    return "sum" if "sum" in names else next(iter(names), None)
