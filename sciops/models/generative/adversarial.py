"""Adversarial generators of small fields: a network that makes samples, and one that tells them from records."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sciops.models.generative.dense import DenseNetworks, with_labels


class AdversarialNetworks(nn.Module):
    """M pairs of a generator G, which maps noise to samples, and a discriminator D, whose logit is large for records.

        L_D = E softplus(−D(x)) + E softplus(D(G(w))),    L_G = E softplus(−D(G(w))),    w ~ N(0, I)

    Parameters
    ----------
    models : int
        Number of pairs.
    size : int
        Values of a record.
    latent : int
        Values of w.
    width, depth : int
        Of the hidden layers of both.
    classes : int
        Classes of labels that are given to both; 0 for none.
    generator : torch.Generator, optional
        Of the weights.

    References
    ----------
    Goodfellow et al., arXiv:1406.2661, with the loss of G that does not saturate.
    """

    def __init__(
        self,
        models: int,
        size: int,
        *,
        latent: int = 16,
        width: int = 64,
        depth: int = 2,
        classes: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.size, self.latent, self.classes = size, latent, classes
        hidden = [width] * depth
        self.generator = DenseNetworks(models, (latent + classes, *hidden, size), generator=generator)
        self.discriminator = DenseNetworks(
            models, (size + classes, *hidden, 1), activation="leaky_relu", generator=generator
        )

    @property
    def models(self) -> int:
        return self.generator.models

    def generated(self, w: Tensor, labels: Tensor | None = None) -> Tensor:
        """G(w): (models, n, latent) → (models, n, size)."""
        return self.generator(with_labels(w, labels, self.classes))

    def judged(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        """D(x): (models, n, size) → (models, n) logits."""
        return self.discriminator(self.with_labels(x, labels))[..., 0]

    def with_labels(self, x: Tensor, labels: Tensor | None) -> Tensor:
        """What D is given."""
        return with_labels(x, labels, self.classes)

    def noise(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """w, (models, count, latent)."""
        like = self.generator.weights[0]
        return torch.randn(self.models, count, self.latent, generator=generator, dtype=like.dtype, device=like.device)

    @torch.no_grad()
    def sample(self, count: int, *, labels: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """(models, count, size) samples; labels (models, count)."""
        return self.generated(self.noise(count, generator), labels)
