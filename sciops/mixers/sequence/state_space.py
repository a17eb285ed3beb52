"""`StateSpaceMixer`: gated long convolutions with the kernels of a diagonal state space, both ways or causal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from sciops.mixers.bounds import PRODUCTS
from sciops.mixers.checks import check_choice, check_heads
from sciops.mixers.precision import full_precision, working_dtype
from sciops.mixers.sequence.base import SequenceMixer, lengths_of
from sciops.mixers.sequence.diagonal_kernel import DiagonalKernel, Hold, circular
from sciops.mixers.sequence.exponential_sums import Powers, exponential_sum, powers, weighted_past
from sciops.mixers.sequence.long_convolution import convolved, fast_length
from sciops.mixers.sequence.segments import in_segments
from sciops.mixers.sequence.streamed_convolution import convolved_by_modes

_SEGMENT = 4096  # tokens whose gates are computed at once
_CHUNK = 16_384  # tokens of a prefill that are convolved at once; a state joins the chunks


class StateSpaceState(NamedTuple):
    """s_t = Σ_{j ≤ t} e^{ΔA(t−j)} z_j of every channel, (batch, channels, state/2) complex: its size is that of the
    first token, however many follow."""

    past: Tensor


class StateSpaceMixer(SequenceMixer):
    """Gated long convolutions with the kernels of a diagonal state space, bidirectional or causal.

    y = W_o(g ⊙ (K ⊛ z + D ⊙ z)) + b_o with z = W_k x + b_k, masked, and g = W_q x + b_q; K is that of `DiagonalKernel`,
    and

        bidirectional  (K ⊛ z)_i = Σ_{j≤i} K→_{i−j} z_j + Σ_{j≥i} K←_{j−i} z_j    (both kernels at lag 0, and D)
        causal         (K ⊛ z)_t = 2 Re Σ_n C̄_n s_{t,n},  s_t = e^{ΔA} s_{t−1} + z_t, a state of fixed size.

    x : (batch, *grid, channels) → same, in O(n log n) time and O(n) memory, forward and backward. No positions are
    added, and n may be larger than in training.

    Parameters
    ----------
    channels : int
        Number of channels.
    state : int
        N, real numbers per channel, that is, N/2 complex modes; even.
    heads : int
        Number of channels that share a kernel, c with c mod (channels/heads); 1 gives each channel its own.
    causal : bool
        Output t depends on the inputs up to t alone.
    gate : bool
        Multiplies by g.
    hold : {"zero", "first"}
        "zero", as published, or "first": finer grids then agree to second order in the spacing instead of first.
    dt_min, dt_max : float
        Range of Δ at the start.
    dt_scale : float
        Factor on Δ; 1/r on a grid refined by r.
    reference_spacing : float or sequence of float, optional
        Sets that factor from the grid: Δ is multiplied by the grid's spacing over this one, a length or one per axis.
    periodic : {"auto", True, False}
        Convolves around the ring of points with the periodised kernel; "auto" does so on periodic grids without a mask.
        Not for causal mixers.
    axes : int
        Number of grid axes, each with kernels of its own along its lines, the results summed; 1 shares one set by all.
    flatten : bool
        Reads a grid of more axes row by row instead, as one sequence.

    Raises
    ------
    ValueError
        For an odd state, heads that do not divide channels, an empty range of Δ, a periodic causal mixer, a mask on a
        ring, and a grid that is not that of x or whose number of axes is not `axes`.

    References
    ----------
    S4D, arXiv:2206.11893; bidirectional and gated, LOCOST, arXiv:2401.17919.
    """

    lipschitz_rule = PRODUCTS

    def __init__(
        self,
        channels: int,
        *,
        state: int = 64,
        heads: int = 1,
        causal: bool = False,
        gate: bool = True,
        hold: Hold = "zero",
        dt_min: float = 1e-3,
        dt_max: float = 0.1,
        dt_scale: float = 1.0,
        reference_spacing: float | Sequence[float] | None = None,
        periodic: Literal["auto"] | bool = "auto",
        axes: int = 1,
        flatten: bool = False,
    ) -> None:
        super().__init__(channels, causal=causal)
        if state < 2 or state % 2:
            raise ValueError(f"state={state}: expected an even number, real and imaginary parts of state/2 modes")
        check_heads(channels, heads)
        check_choice("hold", hold, Hold)
        if not 0 < dt_min <= dt_max:
            raise ValueError(f"dt_min={dt_min}, dt_max={dt_max}: expected 0 < dt_min ≤ dt_max")
        if not dt_scale > 0:
            raise ValueError(f"dt_scale={dt_scale}: expected a positive factor")
        check_choice("periodic", periodic, Literal["auto", True, False])
        if periodic is True and causal:
            raise ValueError("periodic=True with causal=True: on a ring every point is before every other; drop one")
        if axes < 1 or (axes > 1 and flatten):
            raise ValueError(f"axes={axes}, flatten={flatten}: expected at least 1, and exactly 1 where flattened")
        self.heads, self.state, self.periodic, self.axes, self.flatten = heads, state, periodic, axes, flatten
        self.dt_scale, self.reference_spacing = dt_scale, _lengths(reference_spacing)
        self.key = nn.Linear(channels, channels)
        self.query = nn.Linear(channels, channels) if gate else None
        self.out = nn.Linear(channels, channels)
        kernels, directions = channels // heads, 1 if causal else 2
        self.kernel = DiagonalKernel(
            kernels, state // 2, directions=directions, axes=axes, dt_min=dt_min, dt_max=dt_max, hold=hold
        )
        self.skip = nn.Parameter(torch.randn(kernels))

    def mix(self, x: Tensor, mask: Tensor | None, grid: Any) -> Tensor:
        self._check_axes(1)
        if mask is not None and self.periodic is True:
            raise ValueError("a mask with periodic=True: padding would lie on the ring; pass periodic=False or 'auto'")
        ring = mask is None and self._on_ring(grid)
        y = self._convolved(self._input(x, mask), 0, self._scale(grid, -1), ring)
        gated: Any = in_segments(self, self._gated, x, size=_SEGMENT, along=(y,))[0]
        return gated

    def mix_grid(self, x: Tensor, grid: Any) -> Tensor:
        if self.flatten:
            z = self._input(x.flatten(1, -2), None)
            return self._output(x, self._convolved(z, 0, self._scale(grid, -1), self.periodic is True).view(x.shape))
        self._check_axes(x.ndim - 2)
        z, ring = self._input(x, None), self._on_ring(grid)
        y = self._convolved(z, 0, self._scale(grid, 0), ring)
        for axis in range(1, x.ndim - 2):
            y = y + self._convolved(z, axis, self._scale(grid, axis), ring)
        return self._output(x, y)

    def extend(self, x: Tensor, state: StateSpaceState | None, mask: Tensor | None) -> tuple[Tensor, StateSpaceState]:
        past, parts, of_length = None if state is None else state.past, [], {}
        with full_precision(x):
            rates, now, before = self.kernel.discretised(0, scale=self.dt_scale, dtype=working_dtype(x))
            of_past = now[0] * rates.exp() if before is None else now[0] * rates.exp() + before[0]
        for start in range(0, x.shape[1], _CHUNK):
            piece = x[:, start : start + _CHUNK]
            real = None if mask is None else mask[:, start : start + _CHUNK]
            z, length = self._input(piece, real), piece.shape[1]
            with full_precision(x):
                if length not in of_length:
                    of_length[length] = self._lags(length, 0, self.dt_scale, False, z.dtype), powers(rates, length)
                kernel, tables = of_length[length]
                y = convolved(self._by_kernel(z), *kernel)
                if past is not None:
                    y = y + exponential_sum(of_past * self._shared(past), rates, length, tables)
                past = self._after(past, z, real, rates, tables)
            parts.append(self._output(piece, y.flatten(1, 2).mT))
        if past is None:
            past = torch.zeros(x.shape[0], self.channels, self.state // 2, dtype=rates.dtype, device=x.device)
        return torch.cat(parts, 1) if parts else self._output(x, self._input(x, mask)), StateSpaceState(past)

    def advance(self, x: Tensor, state: StateSpaceState | None) -> tuple[Tensor, StateSpaceState]:
        z = self._input(x, None)
        with full_precision(x):
            rates, now, before = self.kernel.discretised(0, scale=self.dt_scale, dtype=z.dtype)
            by_kernel = z.unflatten(1, (self.heads, -1))
            past = by_kernel.unsqueeze(-1).to(rates.dtype).expand(*by_kernel.shape, rates.shape[-1])
            if state is not None:
                past = torch.addcmul(past, self._shared(state.past), rates.exp())
            y = 2 * (past * now[0]).sum(-1).real + self.skip.to(z.dtype) * by_kernel
            if state is not None and before is not None:
                y = y + 2 * (self._shared(state.past) * before[0]).sum(-1).real
        return self._output(x, y.flatten(1, 2)), StateSpaceState(past.flatten(1, 2))

    def _input(self, x: Tensor, mask: Tensor | None) -> Tensor:
        z = self.key(x)
        if mask is not None:  # after the bias, which padding would have as well
            z = z * mask.unsqueeze(-1).to(z.dtype)
        return z.to(working_dtype(z))

    def _output(self, x: Tensor, y: Tensor) -> Tensor:
        if self.query is None:
            return self.out(y.to(x.dtype))
        g = self.query(x)
        return self.out(g * y.to(g.dtype))

    def _gated(self, x: Tensor, carry: Any, along: Sequence[Any], shared: Sequence[Tensor]) -> tuple[Tensor, None]:
        """`_output` of a segment; the backward pass of a long sequence computes g again, and keeps no g ⊙ y."""
        return self._output(x, along[0]), None

    def _convolved(self, z: Tensor, axis: int, scale: float, ring: bool) -> Tensor:
        """K ⊛ z, with D ⊙ z on the first axis, along an axis of z (batch, *grid, channels)."""
        with full_precision(z):
            lines = self._by_kernel(z, axis + 1)
            modes = self.kernel.discretised(axis % self.axes, scale=scale, dtype=z.dtype)
            n = _circle(lines.shape[-1], ring)
            y = convolved_by_modes(lines, *modes, None if axis else self.skip, n, periodic=ring)
            return y.flatten(-3, -2).movedim(-1, axis + 1)

    def _lags(self, length: int, axis: int, scale: float, ring: bool, dtype: torch.dtype) -> tuple[Tensor, int]:
        """The kernel of a circular convolution, (kernels, lags), and the length of the circle."""
        n = _circle(length, ring)
        sampled = self.kernel(length, axis=axis % self.axes, scale=scale, periodic=ring, dtype=dtype)
        return circular(sampled, None if axis else self.skip, n, periodic=ring), n

    def _by_kernel(self, z: Tensor, axis: int = 1) -> Tensor:
        """z (batch, *grid, channels) → (batch, *other axes, heads, kernels, n)."""
        return z.movedim(axis, -1).unflatten(-2, (self.heads, -1))

    def _shared(self, past: Tensor) -> Tensor:
        return past.unflatten(1, (self.heads, -1))

    def _after(self, past: Tensor | None, z: Tensor, mask: Tensor | None, rates: Tensor, tables: Powers) -> Tensor:
        """The state after z (batch, n, channels), 0 at padding."""
        n, lengths = z.shape[1], lengths_of(z, mask)
        if mask is not None:  # the last tokens of all sequences side by side
            at = torch.arange(n, device=z.device) - (n - lengths)[:, None]
            z = z.gather(1, at.clamp(min=0).unsqueeze(-1).expand_as(z)) * (at >= 0).unsqueeze(-1).to(z.dtype)
        new = weighted_past(self._by_kernel(z), rates, tables)
        if past is not None:
            new = new + self._shared(past) * (rates * lengths.view(-1, 1, 1, 1).to(z.dtype)).exp()
        return new.flatten(1, 2)

    def _on_ring(self, grid: Any) -> bool:
        if self.periodic == "auto":
            return not self.causal and grid is not None and grid.centering == "periodic"
        return self.periodic

    def _scale(self, grid: Any, axis: int) -> float:
        reference = self.reference_spacing
        if reference is None or grid is None:
            return self.dt_scale
        if len(reference) not in (1, grid.ndim):
            raise ValueError(
                f"reference_spacing={reference} for a grid of {grid.ndim} axes: pass one length, or one each"
            )
        return self.dt_scale * grid.spacing[axis] / reference[axis if len(reference) > 1 else 0]

    def _check_axes(self, axes: int) -> None:
        if self.axes not in (1, axes):
            raise ValueError(
                f"axes={self.axes} for a grid of {axes}: pass axes={axes}, or axes=1 for kernels that all share"
            )

    def extra_repr(self) -> str:
        return (
            f"{self.channels}, state={self.state}, heads={self.heads}, causal={self.causal}, periodic={self.periodic!r}"
        )


def state_space_groups(model: nn.Module, *, weight_decay: float, rate: float | None = None) -> list[dict[str, Any]]:
    """Parameter groups for `torch.optim.AdamW`: weight decay for matrices alone, and a learning rate for A, B and Δ.

    Weight decay pulls A and Δ of a `StateSpaceMixer` towards another memory, and a learning rate that suits matrices
    makes it jump. `sciops.training` decays matrices alone, and these are vectors, so it needs no groups.

    Parameters
    ----------
    model : nn.Module
        Any model; parameters without a gradient are left out.
    weight_decay : float
        Of matrices; vectors have none.
    rate : float, optional
        Learning rate of A, B and Δ.
    """
    dynamics = {id(p) for m in model.modules() if isinstance(m, DiagonalKernel) for p in m.dynamics()}
    trained = [p for p in model.parameters() if p.requires_grad]
    rest = [p for p in trained if id(p) not in dynamics]
    groups = [
        {"params": [p for p in rest if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
        {"params": [p for p in trained if id(p) in dynamics], "weight_decay": 0.0}
        | ({} if rate is None else {"lr": rate}),
    ]
    return [group for group in groups if group["params"]]


def _circle(length: int, ring: bool) -> int:
    """Points of a circular convolution of this length, or on a ring of this length."""
    return length if ring and fast_length(length) == length else fast_length(2 * length - 1)


def _lengths(value: float | Sequence[float] | None) -> tuple[float, ...] | None:
    if value is None:
        return None
    values = (float(value),) if isinstance(value, (int, float)) else tuple(float(v) for v in value)
    if not values or min(values) <= 0:
        raise ValueError(f"reference_spacing={value!r}: expected a positive length, or one an axis")
    return values
