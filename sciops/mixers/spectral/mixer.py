"""`SpectralMixer`: a linear map between the low modes of a field, in a Fourier, sine or cosine basis."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import permutations
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.arrays.compiling import exporting
from sciops.grids import Grid
from sciops.mixers.checks import check_choice, check_field
from sciops.mixers.precision import full_precision, working_dtype
from sciops.mixers.spectral import fourier, walls
from sciops.mixers.spectral.mode_matrices import mode_matrices
from sciops.mixers.traits import Matrices, Traits
from sciops.values import check_whole

_GAIN = 0.1  # root-mean-square gain per mode at the start

Basis = Literal["fourier", "sine", "cosine", "sine-cosine"]
Weights = Literal["dense", "diagonal"]


class SpectralMixer(nn.Module):
    """Linear map between the low modes of a field, one channel matrix per mode, in a Fourier, sine or cosine basis.

    y = Σ_m φ_m · R_m x̂_m, with x̂ the coefficients of x in the kept modes φ_m; x : (batch, *grid, channels), one to
    three grid axes of any sizes → (batch, *grid, out_channels).

    Parameters
    ----------
    channels : int
        Number of channels of x.
    modes : int or sequence of int
        One number per grid axis; an int means one axis.

        * ``fourier`` with modes (kx, ky): rows −kx … kx−1 of every leading axis and columns 0 … ky−1 of the half
          spectrum of the last one, as `torch.fft.rfft2` orders them. The result is ``irfft2(R · rfft2(x))`` with all
          other modes zero; what irfft2 ignores (after the inverse along the leading axes, the imaginary part of column
          0 and, at even n, of column n/2) is ignored here too. neuraloperator's ``n_modes=(2·kx, 2·(ky−1))`` keeps the
          same modes.
        * ``sine``: sin(kπ(x − lo)/L), k = 1 … K, per axis; the result vanishes on the walls of the domain
        * ``cosine``: cos(kπ(x − lo)/L), k = 0 … K−1; the normal derivative of the result vanishes there
        * ``sine-cosine``: the first half of the channels in sines, the rest in cosines
    basis : {"fourier", "sine", "cosine", "sine-cosine"}
        The modes φ_m.
    weights : {"dense", "diagonal"}
        ``dense``: R_m is a full channel matrix, complex for Fourier. ``diagonal``: R_m = diag(r_m)·M, one weight per
        mode and channel after one linear map M that all modes share.
    out_channels : int, optional
        Number of channels of the result; `channels` by default.
    bias : bool
        Adds one number per output channel.
    clip_modes : bool
        On grids too coarse for the modes, uses the ones that fit instead of raising.
    compat_shift : bool
        On odd sizes of a leading axis, moves the output down by one mode along it, as neuraloperator 2.0.0 does (its
        second fftshift should be an ifftshift); for networks trained there. Fourier only.
    symmetric : bool
        Weights equal under every exchange of axes, R_(k,l) = R_(l,k), so that the layer commutes with it on grids that
        are alike along all axes. Sine and cosine bases with the same number of modes on every axis only; such layers
        commute with mirror images whatever their weights.

    Raises
    ------
    ValueError
        For options outside these, modes that do not fit the grid, and a grid that is not that of x.

    Notes
    -----
    The sine and cosine layers act on the function, not on the array: modes are evaluated at the positions of `grid` in
    its `domain`, and coefficients are trapezoid sums on nodes that reach the walls (DST-I, DCT-I) and least squares
    elsewhere. A function of these modes therefore gives the same result on every grid. `grid=None` means nodes on the
    unit box. The Fourier layer does not read positions and takes n points as one period, also on nodes that include
    both ends, where the true period is n − 1 spacings.

    Weights are real parameters, mode-major: (*modes, channels, 2, out) for Fourier, with [Re, Im] in the second-last
    axis and leading modes in the order 0 … k−1, −1 … −k. They start Gaussian with gain 0.1 per mode, E‖R_m v‖² =
    0.01·‖v‖² for as many channels out as in (in column 0 half of that is ignored by irfft2): residual networks trained
    more slowly with gain 1. Under half precision and autocast, the layer computes in float32 and returns the dtype of
    x.
    """

    def __init__(
        self,
        channels: int,
        modes: int | Sequence[int] = (12, 12),
        *,
        basis: Basis = "fourier",
        weights: Weights = "dense",
        out_channels: int | None = None,
        bias: bool = False,
        clip_modes: bool = False,
        compat_shift: bool = False,
        symmetric: bool = False,
    ) -> None:
        super().__init__()
        self.modes = (modes,) if isinstance(modes, int) else tuple(int(k) for k in modes)
        self.channels, self.out_channels = channels, channels if out_channels is None else out_channels
        self.basis, self.weights, self.compat_shift = basis, weights, compat_shift
        check_choice("basis", basis, Basis)
        check_choice("weights", weights, Weights)
        check_whole(out_channels=self.out_channels)
        if not 1 <= len(self.modes) <= 3 or min(self.modes) < 1:
            raise ValueError(f"modes={modes!r}: expected one to three positive whole numbers, one per grid axis")
        if compat_shift and basis != "fourier":
            raise ValueError(f"compat_shift=True with basis={basis!r}: it repeats a fault of Fourier layers only")
        if symmetric and (basis == "fourier" or len(set(self.modes)) > 1):
            raise ValueError(
                f"symmetric=True with basis={basis!r} and modes={self.modes}: expected a sine or cosine basis and "
                "as many modes on every axis"
            )
        self.symmetric = symmetric
        kinds, diagonal = basis.split("-"), weights == "diagonal"
        if min(channels, self.out_channels) < len(kinds):
            raise ValueError(f"channels={channels}: 'sine-cosine' needs at least two, one for each basis")
        self.parts = nn.ModuleList()
        for i, kind in enumerate(kinds):
            # of two bases the first gets the odd channel
            sizes = [(c + len(kinds) - 1 - i) // len(kinds) for c in (channels, self.out_channels)]
            if basis == "fourier":
                part = FourierModes(*sizes, self.modes, diagonal, clip_modes, compat_shift)
            else:
                part = (SymmetricWallModes if symmetric else WallModes)(*sizes, self.modes, kind, diagonal, clip_modes)
            self.parts.append(part)
        self.bias = nn.Parameter(torch.zeros(self.out_channels)) if bias else None

    @classmethod
    def traits(cls, *, basis: Basis = "fourier", **_: Any) -> Traits:
        """A sine basis knows the walls, cosines do not; frequencies −1 and 0 are the fewest of a Fourier layer."""
        if basis == "fourier":
            return Traits(periodic=True, least_points=2)
        return Traits(coordinates="none" if basis == "sine" else "wall", least_points=2)

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        check_field(x, self.channels, len(self.modes))
        if grid is None and self.basis != "fourier":
            grid = Grid(tuple(x.shape[1:-1]))
        if grid is not None and grid.shape != tuple(x.shape[1:-1]):
            raise ValueError(f"x lives on {tuple(x.shape[1:-1])} points but grid has {grid.shape}: pass the grid of x")
        with full_precision(x):
            y = x.to(working_dtype(x))
            if len(self.parts) == 1:
                y = self.parts[0](y, grid)
            else:
                pieces = y.split([part.channels for part in self.parts], dim=-1)
                y = torch.cat([part(piece, grid) for part, piece in zip(self.parts, pieces)], dim=-1)
            if self.bias is not None:
                y = y + self.bias.to(y.dtype)
            return y.to(x.dtype)

    lipschitz_quadrature = True

    def lipschitz_rule(self, setting: Any) -> tuple[Tensor, str]:
        """max_m ‖R_m‖, times the factor by which modes of grids that end at walls are not orthogonal."""
        return setting.spectral(self), f"{self.basis} layer, mode by mode"

    def lipschitz_rule_with_skip(self, skip: Tensor, setting: Any) -> tuple[Tensor, str] | None:
        """The rule of x ↦ S x + mixer(x), mode by mode; None where modes are not orthogonal."""
        value = setting.spectral(self, skip)
        return None if value is None else (value, f"max(‖W‖, ‖W + R(k)‖) over the modes, {self.basis}")

    def linear_matrices(self, shape: Sequence[int] | None, *, passes: bool = False) -> list[Matrices]:
        """The matrices R_m of dense Fourier or sine weights, in- by out-channels, as real fields meet them.

        Parameters
        ----------
        shape : sequence of int or None
            Points per axis, which Fourier layers depend on; None for a grid finer than the modes need.
        passes : bool
            Other modes meet the identity, not zero.

        Raises
        ------
        TypeError
            For other bases and weights, and with `compat_shift`.
        ValueError
            For modes that do not fit the grid.
        """
        return mode_matrices(self, shape, passes)

    def extra_repr(self) -> str:
        return f"{self.channels}, modes={self.modes}, basis={self.basis!r}, weights={self.weights!r}"

    @classmethod
    def from_neuralop(cls, conv: Any, *, compat_shift: bool = False, clip_modes: bool = False) -> SpectralMixer:
        """A mixer with the weights of a neuraloperator `SpectralConv` for real data, of any factorization.

        Both keep frequencies centred on 0; an odd n_modes has one negative row less, which becomes a row of zeros here.

        Parameters
        ----------
        conv : neuralop.layers.spectral_convolution.SpectralConv
            One to three axes.
        compat_shift : bool
            Reproduces the output of neuraloperator 2.0.0 at odd leading sizes, which is shifted by one mode.
        clip_modes : bool
            As in the constructor.

        Raises
        ------
        ValueError
            For complex data and for built-in resolution scaling.
        """
        if getattr(conv, "complex_data", False) or getattr(conv, "resolution_scaling_factor", None) is not None:
            raise ValueError("from_neuralop: expected a SpectralConv for real data without resolution_scaling_factor")
        weight = conv.weight if torch.is_tensor(conv.weight) else conv.weight.to_tensor()
        weight = weight.detach()
        separable, order = conv.separable, conv.order
        # n_modes may be below the stored maximum: the rows in use are the central ones, the columns the first ones
        *rows, columns = conv.n_modes
        first = 1 if separable else 2
        for axis, n in enumerate(rows, start=first):
            weight = weight.narrow(axis, weight.shape[axis] // 2 - n // 2, n)
        weight = weight.narrow(first + order - 1, 0, columns)
        rows = weight.shape[first:-1]
        modes = tuple((n + 1) // 2 for n in rows) + (columns,)
        mixer = cls(
            conv.in_channels,
            modes,
            weights="diagonal" if separable else "dense",
            out_channels=conv.out_channels,
            bias=conv.bias is not None,
            compat_shift=compat_shift,
            clip_modes=clip_modes,
        )
        for axis, (n, k) in enumerate(zip(rows, modes), start=first):
            if n % 2:
                weight = torch.cat([torch.zeros_like(weight.narrow(axis, 0, 1)), weight], axis)
            order_here = [*range(k, 2 * k), *range(k - 1, -1, -1)]
            weight = weight.index_select(axis, torch.tensor(order_here, device=weight.device))
        pair = torch.stack([weight.real, weight.imag], first - 1)  # (…, 2, out, *modes) or (2, channel, *modes)
        mixer = mixer.to(device=weight.device, dtype=weight.real.dtype)
        with torch.no_grad():
            mixer.parts[0].weight.copy_(pair.permute(*range(pair.ndim - order, pair.ndim), *range(pair.ndim - order)))
            if separable:
                mixer.parts[0].shared.copy_(torch.eye(conv.in_channels))
            if mixer.bias is not None:
                mixer.bias.copy_(conv.bias.detach().flatten())
        return mixer


class FourierModes(nn.Module):
    """irfft(R · rfft(x)) on the kept modes."""

    method: fourier.Method = "auto"

    def __init__(self, channels, out_channels, modes, diagonal, clip, compat_shift) -> None:
        super().__init__()
        self.channels, self.modes, self.clip, self.compat_shift = channels, modes, clip, compat_shift
        kept = (*(2 * k for k in modes[:-1]), modes[-1])
        shape = (2, out_channels) if diagonal else (channels, 2, out_channels)
        scale = _GAIN * math.sqrt(0.5 if diagonal else 0.5 / channels)
        self.weight = nn.Parameter(scale * torch.randn(*kept, *shape))
        self.shared = nn.Parameter(torch.randn(channels, out_channels) / math.sqrt(channels)) if diagonal else None

    def forward(self, x: Tensor, grid: Grid | None) -> Tensor:
        sizes = tuple(operator.index(n) for n in x.shape[1:-1])  # a compiler must not make symbols of them
        modes, weight = self.modes_on(sizes), self.weight
        for axis, (k, full) in enumerate(zip(modes[:-1], self.modes[:-1])):
            if k < full:
                weight = torch.cat([weight.narrow(axis, 0, k), weight.narrow(axis, full, k)], axis)
        if modes[-1] < self.modes[-1]:
            weight = weight.narrow(len(modes) - 1, 0, modes[-1])
        weight = weight.to(x.dtype)
        # ONNX has no complex numbers: exported programs hold products alone
        place = x.dtype, x.device, "product" if exporting() else self.method
        leading, analysis, synthesis = fourier.tables(sizes, modes, *place)
        z = fourier.transform(x, leading, analysis)
        shape = z.shape[:-1]
        z = z.flatten(2, -2)
        if self.shared is None:
            z = fourier.multiply(z, weight.reshape(z.shape[2], x.shape[-1], -1))
        else:
            z = fourier.scale(z @ self.shared.to(x.dtype), weight.reshape(z.shape[2], 2, -1))
        z = z.reshape(*shape, z.shape[-1])
        if self.compat_shift:
            shifted = list(modes)
            for axis, (n, k) in enumerate(zip(sizes, modes[:-1])):
                if n % 2:
                    z = _lowered(z, axis + 2, k)
                    shifted[axis] = k + 1
            leading, _, synthesis = fourier.tables(sizes, tuple(shifted), *place)
        return fourier.transpose(z, sizes, leading, synthesis)

    def matrix_stacks(self) -> list[tuple[nn.Parameter, bool]]:
        """[(weight, whether it is complex)] of one matrix per mode, for `sciops.training.muon`."""
        return [(self.weight, True)] if self.shared is None else []

    def modes_on(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The modes in use on a grid of these sizes."""
        most = (*(n // 2 for n in sizes[:-1]), sizes[-1] // 2 + 1)
        least = (*(2 * k for k in self.modes[:-1]), max(2 * self.modes[-1] - 2, 1))
        return _fitting(self.modes, most, sizes, self.clip, least)


class WallModes(nn.Module):
    """S · R · P x with P the analysis and S the synthesis in sines or cosines of the domain."""

    def __init__(self, channels, out_channels, modes, kind, diagonal, clip) -> None:
        super().__init__()
        self.channels, self.modes, self.kind, self.clip = channels, modes, kind, clip
        shape = (out_channels,) if diagonal else (channels, out_channels)
        scale = _GAIN if diagonal else _GAIN / math.sqrt(channels)
        self._begin(scale * torch.randn(*modes, *shape))
        self.shared = nn.Parameter(torch.randn(channels, out_channels) / math.sqrt(channels)) if diagonal else None

    def _begin(self, weight: Tensor) -> None:
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        modes = self.modes_on(grid)
        weight = self.weight if modes == self.modes else self.weight[tuple(slice(k) for k in modes)]
        weight = weight.to(x.dtype)
        tables = walls.wall_tables(grid, self.kind, modes, x.dtype, x.device)
        z = walls.analyse(x, tables)
        if self.shared is None:
            flat = z.flatten(1, -2).transpose(0, 1)
            z = torch.bmm(flat, weight.reshape(flat.shape[0], x.shape[-1], -1)).transpose(0, 1)
        else:
            z = (z @ self.shared.to(x.dtype)) * weight
        return walls.synthesise(z.reshape(x.shape[0], *modes, z.shape[-1]), tables)

    def matrix_stacks(self) -> list[tuple[nn.Parameter, bool]]:
        """[(weight, whether it is complex)] of one matrix per mode, for `sciops.training.muon`."""
        return [(self._trained(), False)] if self.shared is None else []

    def _trained(self) -> nn.Parameter:
        return self.weight

    def modes_on(self, grid: Grid) -> tuple[int, ...]:
        """The modes in use on this grid."""
        most, least = walls.fitting_modes(grid, self.kind), walls.least_points(grid, self.kind, self.modes)
        return _fitting(self.modes, most, grid.shape, self.clip, least)


class SymmetricWallModes(WallModes):
    """`WallModes` whose weight is the mean of a free one over all orders of the axes."""

    def _begin(self, weight: Tensor) -> None:
        # a weight that depends on the sorted mode numbers alone is symmetric, and keeps the gain of a free one
        axes = len(self.modes)
        numbers = torch.stack(torch.meshgrid(*(torch.arange(k) for k in self.modes), indexing="ij")).sort(0).values
        self.free = nn.Parameter(weight[tuple(numbers[i] for i in range(axes))].contiguous())

    def _trained(self) -> nn.Parameter:
        return self.free

    @property
    def weight(self) -> Tensor:
        axes = len(self.modes)
        orders = list(permutations(range(axes)))
        rest = range(axes, self.free.ndim)
        return torch.stack([self.free.permute(*order, *rest) for order in orders]).mean(0)


def _fitting(modes, most, sizes, clip: bool, least) -> tuple[int, ...]:
    """The modes that are used on this grid; `least`: the grid that would hold them all, None when not known."""
    fitting = tuple(min(k, m) for k, m in zip(modes, most))
    if fitting == modes or (clip and min(fitting) > 0):
        return fitting
    here = "×".join(str(n) for n in sizes)
    advice = "a finer grid" if least is None else f"a grid of at least {'×'.join(str(n) for n in least)} points"
    lower = f"pass modes={fitting}, clip_modes=True or" if min(fitting) > 0 else "pass"
    raise ValueError(f"modes={modes} do not fit a {here} grid: at most {tuple(most)}; {lower} {advice}")


def _lowered(z: Tensor, axis: int, k: int) -> Tensor:
    """Frequency f goes to f − 1: modes 0 … k−1, −1 … −k become 0 … k, −1 … −k−1 with two empty rows."""
    zero = torch.zeros_like(z.narrow(axis, 0, 1))
    return torch.cat([z.narrow(axis, 1, k - 1), zero, zero, z.narrow(axis, 0, 1), z.narrow(axis, k, k)], axis)
