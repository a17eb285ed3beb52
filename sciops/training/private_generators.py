"""Training of small generators with differential privacy: diffusion models, and adversarial pairs."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sciops.models.generative import AdversarialNetworks, DiffusionNetworks
from sciops.training.averaging import Average
from sciops.training.private import PrivateGradients
from sciops.training.private_stacks import poisson_batches, stacked_private_gradients

Networks = TypeVar("Networks", bound=nn.Module)


@dataclass(frozen=True, kw_only=True)
class GeneratorTraining:
    """How a stack of generators is trained.

    steps : T, gradient steps on records, of the discriminator in an adversarial pair: what the accountant counts
    rate : q, the probability with which a record is in a batch
    records : n, the number of training records that is published; batches have q·n records on average
    noise : σ, in units of the clip; 0 without privacy
    clip : C, largest norm of one record's gradient; infinity without privacy
    repeats : K, noise levels per record that a diffusion model averages over before its gradient is cut
    discriminator_steps : n_D, steps of the discriminator for one of the generator
    learning_rate : of Adam
    decay : of the running mean of weights that is returned; 0 for the last weights

    Raises ValueError for a number out of range.
    """

    steps: int
    rate: float
    records: int
    noise: float = 0.0
    clip: float = math.inf
    repeats: int = 4
    discriminator_steps: int = 4
    learning_rate: float = 2e-3
    decay: float = 0.98

    def __post_init__(self) -> None:
        least = min(self.steps, self.records, self.repeats, self.discriminator_steps)
        if least < 1 or not 0 < self.rate <= 1 or not self.learning_rate > 0 or not 0 <= self.decay < 1:
            raise ValueError(
                f"{self}: expected positive counts and learning rate, a rate in (0, 1] and a decay in [0, 1)"
            )
        _ = self.private

    @property
    def private(self) -> PrivateGradients:
        return PrivateGradients(self.noise, self.clip, self.rate * self.records)


def train_diffusion(
    networks: DiffusionNetworks,
    records: Tensor,
    member: Tensor,
    training: GeneratorTraining,
    *,
    labels: Tensor | None = None,
    checkpoints: Sequence[int] = (),
    seed: int = 0,
) -> Iterator[tuple[int, DiffusionNetworks]]:
    """Trains in place; yields the step and a copy with averaged weights at every checkpoint, and at the end.

    The loss of a record is the mean of |v − v̂|² over K draws of t ~ U(0, 1) and e, whose gradient is cut as a whole: K
    lowers its variance and costs no privacy.

    Parameters
    ----------
    networks : DiffusionNetworks
    records : (pool, size), on the device of the networks, as are the next two
    member : (models, pool) True where a model trains on the record
    training : GeneratorTraining
    labels : (pool,) integers, where the networks have classes
    checkpoints : steps after which weights are yielded too
    seed : of batches, draws and private noise

    References
    ----------
    Dockhorn et al., "Differentially private diffusion models", arXiv:2210.09929.
    """
    generator = torch.Generator(records.device).manual_seed(seed)
    optimizer = torch.optim.Adam(networks.network.parameters(), lr=training.learning_rate)
    average = _average(networks, training.decay)
    for step in range(1, training.steps + 1):
        batch, present = poisson_batches(member, training.rate, generator=generator)
        x, own = records[batch], None if labels is None else labels[batch]
        t = torch.rand(*batch.shape, training.repeats, generator=generator, dtype=x.dtype, device=x.device)
        e = torch.randn(*t.shape, networks.size, generator=generator, dtype=x.dtype, device=x.device)

        def loss(call, x=x, t=t, e=e, own=own):
            return networks.errors(x, t, e, own, call=call).mean(-1)

        stacked_private_gradients(networks.network, loss, present, private=training.private, generator=generator)
        optimizer.step()
        average.update(step)
        if step in checkpoints or step == training.steps:
            yield step, _averaged(networks, average)


def train_adversarial(
    networks: AdversarialNetworks,
    records: Tensor,
    member: Tensor,
    training: GeneratorTraining,
    *,
    labels: Tensor | None = None,
    checkpoints: Sequence[int] = (),
    seed: int = 0,
) -> Iterator[tuple[int, AdversarialNetworks]]:
    """Trains in place; yields the step and a copy with averaged weights at every checkpoint, and at the end.

    Only the discriminator sees records. Its step adds the private gradient on records to the gradient on generated
    samples, which is computed from networks that are private already; the generator takes one step after every n_D of
    these and needs no noise: it is post-processing. Labels of generated samples are drawn evenly from all classes.

    Parameters
    ----------
    networks : AdversarialNetworks
    records, member, training, labels, checkpoints, seed : as for `train_diffusion`

    References
    ----------
    Xie et al., arXiv:1802.06739; Bie, Kamath, Zhang, "Private GANs, revisited", arXiv:2302.02936 (n_D).
    """
    generator = torch.Generator(records.device).manual_seed(seed)
    judge, maker = (
        torch.optim.Adam(part.parameters(), lr=training.learning_rate, betas=(0.5, 0.9))
        for part in (networks.discriminator, networks.generator)
    )
    count = max(round(training.rate * training.records), 1)
    average = _average(networks, training.decay)

    def drawn_labels() -> Tensor | None:
        if not networks.classes:
            return None
        shape = (networks.models, count)
        return torch.randint(networks.classes, shape, generator=generator, device=records.device)

    for step in range(1, training.steps + 1):
        batch, present = poisson_batches(member, training.rate, generator=generator)
        x, own = records[batch], None if labels is None else labels[batch]
        inputs = networks.with_labels(x, own)

        def loss(call, inputs=inputs):
            return F.softplus(-call(inputs)[..., 0])

        stacked_private_gradients(networks.discriminator, loss, present, private=training.private, generator=generator)
        chosen = drawn_labels()
        with torch.no_grad():
            made = networks.generated(networks.noise(count, generator), chosen)
        F.softplus(networks.judged(made, chosen)).mean(1).sum().backward()  # added to the private gradient
        judge.step()
        if step % training.discriminator_steps == 0:
            chosen = drawn_labels()
            value = F.softplus(-networks.judged(networks.generated(networks.noise(count, generator), chosen), chosen))
            own_parameters = list(networks.generator.parameters())
            for parameter, g in zip(own_parameters, torch.autograd.grad(value.mean(1).sum(), own_parameters)):
                parameter.grad = g
            maker.step()
        average.update(step)
        if step in checkpoints or step == training.steps:
            yield step, _averaged(networks, average)


def _average(networks: nn.Module, decay: float) -> Average:
    return Average({parameter: name for name, parameter in networks.named_parameters()}, decay or None)


def _averaged(networks: Networks, average: Average) -> Networks:
    """A copy that holds the average."""
    with average.in_place():
        return copy.deepcopy(networks).requires_grad_(False)
