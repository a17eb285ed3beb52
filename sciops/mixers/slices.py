"""`SliceAttention`: points gather into slices, slices attend to each other, and the result goes back to the points."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.mixers.bounds import UP, expect_linear
from sciops.mixers.checks import check_field, check_grid, check_heads
from sciops.mixers.precision import full_precision
from sciops.mixers.quadrature import quadrature
from sciops.values import check_whole

_EMPTY = 1e-8  # share of the points below which a slice counts as empty and its token goes to zero
_TEMPERATURES = (0.1, 5.0)


class SliceAttention(nn.Module):
    """Physics attention: every point belongs to M soft slices, and only slices attend to each other.

    Per head,

        (z, f)ₙ = W xₙ + b,    wₙ = softmaxₘ((S zₙ + s)/τ),    tₘ = Σₙ wₙₘ fₙ / (εN + Σₙ wₙₘ),
        (q, k, v)ₘ = A tₘ,     oₘ = Σₗ softmaxₗ(qₘ·kₗ/√d) vₗ,    yₙ = Σₘ wₙₘ oₘ,

    then the heads are concatenated and mapped by W_o y + b_o. The heads share S, s and A; τ is learned per head and
    clamped to [0.1, 5]; ε = 1e-8 is for slices without points. x : (batch, *grid, channels), any number of axes → same.

    Parameters
    ----------
    channels : int
        Number of channels, a multiple of `heads`; d = channels / heads.
    heads : int
        Number of heads.
    slices : int
        M. Time and memory are proportional to points · slices; attention itself costs slices² only.
    local : bool
        W is a 3×3 convolution with zeros outside the grid, for two axes. It spans points, so it is physically smaller
        on a finer grid. Without it the points are a set: permuting them permutes the result.
    weighted : bool
        Σₙ takes the quadrature weights of the grid, divided by their mean, so that tokens on a finer grid approach
        those of the integral; False weighs every point alike, as in the paper. This is the only use of `grid`.

    Raises
    ------
    ValueError
        When heads do not divide channels, for x that does not fit, and when `weighted` gets no grid.

    Notes
    -----
    Derivatives of every order exist. There is no positional term: positions enter as channels of x. The paper has
    εN = 1e-5; a share of the N points means the same on every grid.

    References
    ----------
    Transolver, arXiv:2402.02366.
    """

    def __init__(
        self, channels: int, *, heads: int = 4, slices: int = 64, local: bool = False, weighted: bool = False
    ) -> None:
        super().__init__()
        check_heads(channels, heads)
        check_whole(slices=slices)
        self.channels, self.heads, self.slices, self.local, self.weighted = channels, heads, slices, local, weighted
        d = channels // heads
        self.project = nn.Conv2d(channels, 2 * channels, 3, padding=1) if local else nn.Linear(channels, 2 * channels)
        self.slice = nn.Linear(d, slices)
        nn.init.orthogonal_(self.slice.weight)
        self.temperature = nn.Parameter(torch.full((heads,), 0.5))
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(channels, channels)

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        if self.weighted and grid is None:
            raise ValueError("weighted=True needs the grid, got None: pass grid=Grid(...) or weighted=False")
        check_grid(x, grid)
        z, f = self._projected(x)
        # dividing the few weights by τ, not the many scores; batched products beat einsum 1.6-fold on a CPU
        sharpness = 1 / self.temperature.clamp(*_TEMPERATURES)[:, None, None]
        w = (z @ (self.slice.weight.t() * sharpness) + self.slice.bias * sharpness).softmax(-1)
        o = self._attended(self._tokens(w, f, grid))
        y = (w.to(o.dtype) @ o).transpose(1, 2).reshape(x.shape)
        return self.out(y)

    def _projected(self, x: Tensor) -> Tensor:
        """(z, f), each (batch, head, point, d)."""
        check_field(x, self.channels, 2 if self.local else None)
        both = self.project(x.movedim(-1, 1)).movedim(1, -1) if self.local else self.project(x)
        return both.flatten(1, -2).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)

    def _tokens(self, w: Tensor, f: Tensor, grid: Grid | None) -> Tensor:
        """Means of f over the slices, (batch, head, slice, d); sums over very many points overflow half precision."""
        with full_precision(f):
            f, empty = f.to(w.dtype), _EMPTY * w.shape[2]
            weights = quadrature(grid, w.dtype, w.device) if self.weighted else None
            if weights is None:
                return w.mT @ f / (w.sum(2)[..., None] + empty)
            weights = weights.unsqueeze(-1)
            return w.mT @ (f * weights) / (w.mT @ weights + empty)

    def _attended(self, tokens: Tensor) -> Tensor:
        # so few tokens that a fused kernel gains nothing, and it would end the second derivative
        q, k, v = self.qkv(tokens).chunk(3, -1)
        return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1).to(v.dtype) @ v

    def lipschitz_rule(self, setting: Any) -> tuple[Tensor, str]:
        """Points to slices to points, head by head, every weight w at least w̃ and every token in the hull of the f.

        Tokens t = Σ p f with p = ωw/D, D ≥ N(w̃ + ε): ‖p‖₂ ≤ √(ω̄/(N(w̃ + ε))), and by dw: 2F √ω̄ ‖dw‖/(√N (w̃ + ε)).
        Back: ‖w‖₂ ≤ √N, and ‖O‖ ≤ √M ‖V‖F times ‖dw‖. ‖dw‖ ≤ ½ ‖S‖/τ ‖dz‖. N cancels.
        """
        project, radius = self.project, setting.radius
        setting.expect(project, nn.Conv2d if self.local else nn.Linear, place="project")
        expect_linear(self, setting, "slice", "out")
        if self.local and (project.kernel_size, project.padding, project.groups) != ((3, 3), (1, 1), 1):
            setting.refuse("slice attention with another local kernel than 3×3: no rule")
        if radius is None:
            setting.refuse("slice attention has no bound without a ball: pass radius=")
        heads, count = self.heads, self.slices
        sharp = 1 / setting.cast(self.temperature).clamp(*_TEMPERATURES)
        weight, bias = (setting.cast(w).unflatten(0, (2, heads, -1)) for w in (project.weight, project.bias))
        s, shift = setting.cast(self.slice.weight), setting.cast(self.slice.bias)
        q, k, v = setting.cast(self.qkv.weight).chunk(3)
        weights = quadrature(setting.grid, torch.float64, torch.device("cpu")) if self.weighted else None
        most = 1.0 if weights is None else float(weights.max())

        def reached(w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            """(norm, largest value) of a linear map of channels, or of a 3×3 convolution with zeros outside."""
            taps = w.flatten(2).movedim(2, 0) if self.local else [w]
            gain = setting.convolution(w) if self.local else setting.sigma(w)
            return gain, (sum(setting.sigma(tap) for tap in taps) * radius + b.norm()) * UP

        each = []
        for h in range(heads):
            (z_gain, z_ball), (f_gain, f_ball) = (reached(weight[i, h], bias[i, h]) for i in (0, 1))
            spread = sharp[h] * (2 * s.norm(dim=1).max() * z_ball + shift.max() - shift.min())
            least = 1 / (1 + (count - 1) * torch.exp(spread)) + _EMPTY
            dw = 0.5 * setting.sigma(s) * sharp[h] * z_gain
            token = (most / least).sqrt() * f_gain + 2 * f_ball * math.sqrt(most) / least * dw
            among = setting.attention(q, k, v, tokens=count, radius=f_ball)
            each.append(among * token + math.sqrt(count) * setting.sigma(v) * f_ball * dw)
        joined = torch.stack(each).square().sum().sqrt() * setting.sigma(self.out.weight)
        return joined * UP, f"{count} slices, tokens of norm ≤ {setting.shown(radius)}"

    def extra_repr(self) -> str:
        return f"{self.channels}, heads={self.heads}, slices={self.slices}, weighted={self.weighted}"
