"""`MeanPool`: tokens read each other through one mean; `NoMixer`: tokens do not read each other."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.mixers.bounds import UP
from sciops.mixers.precision import working_dtype
from sciops.mixers.quadrature import token_weights
from sciops.mixers.sequence.base import SequenceMixer, lengths_of, only_tokens


class PoolState(NamedTuple):
    """total (batch, hidden), the sum of summaries; count (batch,), of tokens."""

    total: Tensor
    count: Tensor


class MeanPool(SequenceMixer):
    """SummaryMixing in one layer: tokens read each other through one mean.

    y_i = W_o GELU(W_l x_i + W_m s̄), s̄ = mean_j GELU(W_s x_j); x : (batch, n, channels) → same, in O(n) time with a
    state of one vector. A field of more axes has one mean over all points, with the quadrature weights of its grid.

    Parameters
    ----------
    channels : int
        Number of channels.
    hidden : int, optional
        Size of the summary; `channels` by default, which gives as many weights as self-attention has.
    causal : bool
        The mean is taken over j ≤ i.

    Raises
    ------
    ValueError
        For a size below 1 and shapes that do not fit.

    References
    ----------
    SummaryMixing, arXiv:2307.07421.
    """

    def __init__(self, channels: int, *, hidden: int | None = None, causal: bool = False) -> None:
        super().__init__(channels, causal=causal)
        hidden = channels if hidden is None else hidden
        if hidden < 1:
            raise ValueError(f"hidden={hidden}: expected at least 1")
        self.of_token, self.of_summary = nn.Linear(channels, hidden), nn.Linear(channels, hidden)
        self.of_mean = nn.Linear(hidden, hidden, bias=False)
        self.out = nn.Linear(hidden, channels)

    def mix(self, x: Tensor, mask: Tensor | None, grid: Any) -> Tensor:
        if self.causal:
            return self.extend(x, None, mask)[0]
        s = self._summaries(x, mask)
        weights = token_weights(x, mask, grid, s.dtype).unsqueeze(1)
        size = weights.sum(-1, keepdim=True)
        return self._read(x, weights @ s / torch.where(size > 0, size, 1.0))

    def extend(self, x: Tensor, state: PoolState | None, mask: Tensor | None) -> tuple[Tensor, PoolState]:
        s, lengths = self._summaries(x, mask), lengths_of(x, mask)
        if state is None:
            state = PoolState(s.new_zeros(s.shape[0], s.shape[-1]), torch.zeros_like(lengths))
        sums = torch.cat([state.total.unsqueeze(1), s], dim=1).cumsum(1)
        at = state.count[:, None] + torch.arange(1, x.shape[1] + 1, device=x.device)
        after = PoolState(sums[:, -1].clone(), state.count + lengths)  # a view would keep the sums of all tokens
        return self._read(x, sums[:, 1:] / at.unsqueeze(-1)), after

    def _summaries(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return only_tokens(F.gelu(self.of_summary(x)).to(working_dtype(x)), mask)

    def _read(self, x: Tensor, mean: Tensor) -> Tensor:
        return self.out(F.gelu(self.of_token(x) + self.of_mean(mean.to(x.dtype))))

    lipschitz_quadrature = True

    def lipschitz_rule(self, setting: Any) -> tuple[Tensor, str]:
        """‖W_o‖ γ (‖W_l‖ + ‖W_m‖ γ ‖W_s‖ m), γ the slope of GELU, m the norm of the mean spread over the points.

        The quadrature mean is a projection in the quadrature norm; without weights in the norm m = √n ‖w‖₂/Σw. Running
        means are Cesàro's operator, of norm below 2 (Hardy).
        """
        names = ("of_token", "of_mean", "of_summary", "out")
        for name in names:
            setting.expect(getattr(self, name), nn.Linear, place=name)
        own, of_mean, of_summary, out = (setting.sigma(getattr(self, name).weight) for name in names)
        if self.causal:
            m = 2.0 * setting.ends
        else:
            w = setting.grid.weights()
            m = 1.0 if setting.weighted else math.sqrt(w.size) * float((w**2).sum()) ** 0.5 / float(w.sum())
        gelu, mean = setting.slope(F.gelu), "running mean" if self.causal else "mean"
        value = out * gelu * (own + of_mean * gelu * of_summary * m) * UP
        return value, f"‖W_o‖ γ (‖W_l‖ + γ ‖W_m‖ ‖W_s‖), {mean}"

    def extra_repr(self) -> str:
        return f"{self.channels}, causal={self.causal}"


class NoState(NamedTuple):
    """The empty state of `NoMixer`."""


class NoMixer(SequenceMixer):
    """The baseline without mixing, y = 0·x: in a residual block tokens pass unchanged."""

    def lipschitz_rule(self, setting: Any) -> tuple[float, str]:
        return 0.0, "nothing moves"

    def mix(self, x: Tensor, mask: Tensor | None, grid: Any) -> Tensor:
        return 0 * x

    def extend(self, x: Tensor, state: NoState | None, mask: Tensor | None) -> tuple[Tensor, NoState]:
        return 0 * x, NoState()
