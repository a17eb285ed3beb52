"""Diffusion models of small fields: a network that removes noise, and what is sampled and measured with it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from sciops.models.generative.dense import DenseNetworks, with_labels

FREQUENCIES = 4  # of t: cos and sin of jπt/2 are given to the network


class DiffusionNetworks(nn.Module):
    """M diffusion models with dense networks, of records in units of about one standard deviation.

    Noise is added at times t in (0, 1), and the network predicts the velocity v::

        x_t = α x + σ e,    α = cos(πt/2),  σ = sin(πt/2),  e ~ N(0, I)
        v   = α e − σ x,    so that  x = α x_t − σ v  and  e = σ x_t + α v

    The error of e is α times that of v, ‖e − ê‖ = α ‖v − v̂‖.

    Parameters
    ----------
    models : int
        Number of networks.
    size : int
        Values of a record.
    width, depth : int
        Of the hidden layers.
    classes : int
        Classes of labels that are given to the network; 0 for none.
    generator : torch.Generator, optional
        Of the weights.

    References
    ----------
    Ho, Jain, Abbeel, arXiv:2006.11239; Salimans, Ho, arXiv:2202.00512 (v); Song, Meng, Ermon, arXiv:2010.02502
    (deterministic steps).
    """

    def __init__(
        self,
        models: int,
        size: int,
        *,
        width: int = 64,
        depth: int = 2,
        classes: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.size, self.classes = size, classes
        sizes = (size + 2 * FREQUENCIES + classes, *[width] * depth, size)
        self.network = DenseNetworks(models, sizes, generator=generator)

    @property
    def models(self) -> int:
        return self.network.models

    def inputs(self, noisy: Tensor, t: Tensor, labels: Tensor | None = None) -> Tensor:
        """What the network is given: x_t, cos and sin of jπt/2, and the label; noisy (M, n, …, size), t (M, n, …)."""
        angles = t[..., None] * (torch.arange(1, FREQUENCIES + 1, dtype=t.dtype, device=t.device) * math.pi / 2)
        return with_labels(torch.cat([noisy, angles.cos(), angles.sin()], -1), labels, self.classes)

    def velocity(self, noisy: Tensor, t: Tensor, labels: Tensor | None = None) -> Tensor:
        """v̂ at x_t, of the shape of `noisy`."""
        return self.network(self.inputs(noisy, t, labels))

    def errors(
        self,
        records: Tensor,
        t: Tensor,
        noise: Tensor,
        labels: Tensor | None = None,
        *,
        call: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Mean square of v − v̂ over the values of a record, for every time and noise.

        Parameters
        ----------
        records : (models, n, size)
        t : (models, n, K) times
        noise : (models, n, K, size) e
        labels : (models, n), where there are classes
        call : runs the network; by default itself

        Returns
        -------
        (models, n, K)
        """
        alpha, sigma = (math.pi / 2 * t[..., None]).cos(), (math.pi / 2 * t[..., None]).sin()
        x = records[:, :, None]
        found = (call or self.network)(self.inputs(alpha * x + sigma * noise, t, labels))
        return (found - (alpha * noise - sigma * x)).square().mean(-1)

    @torch.no_grad()
    def sample(
        self, count: int, *, labels: Tensor | None = None, steps: int = 20, generator: torch.Generator | None = None
    ) -> Tensor:
        """(models, count, size) samples, by deterministic steps from t = 1 to 0; labels (models, count)."""
        like = self.network.weights[0]
        x = torch.randn(self.models, count, self.size, generator=generator, dtype=like.dtype, device=like.device)
        times = torch.linspace(1.0, 0.0, steps + 1).tolist()
        for now, then in zip(times, times[1:]):
            x = self.moved(x, now, then, labels)
        return x

    def moved(self, x: Tensor, now: float, then: float, labels: Tensor | None = None) -> Tensor:
        """One deterministic step from time `now` to `then`: x ← α' x̂ + σ' ê, that is, x turned by π(then − now)/2."""
        v = self.velocity(x, x.new_full(x.shape[:-1], now), labels)
        turn = math.pi / 2 * (then - now)
        return math.cos(turn) * x + math.sin(turn) * v
