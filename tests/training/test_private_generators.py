"""Stacks of generators: their private gradients against those of each record, and what the adversary's maker sees."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch.nn import functional as F

from sciops.models.generative import AdversarialNetworks, DenseNetworks, DiffusionNetworks
from sciops.training.private import PrivateGradients, private_gradients
from sciops.training.private_generators import GeneratorTraining, train_adversarial, train_diffusion
from sciops.training.private_stacks import poisson_batches, stacked_private_gradients


def alone(networks: DenseNetworks, m: int) -> DenseNetworks:
    one = DenseNetworks(1, networks.sizes, activation=networks.activation).double()
    with torch.no_grad():
        for own, every in zip(one.parameters(), networks.parameters()):
            own.copy_(every[m : m + 1])
    return one


@pytest.mark.parametrize("activation", ["silu", "leaky_relu"])
@pytest.mark.parametrize("rows", [1, 3])
def test_gradients_of_a_stack_are_those_of_its_networks_record_by_record(rows, activation):
    """The reference is vmap over grad, one network and record at a time, with the gradients held."""
    torch.manual_seed(0)
    networks = DenseNetworks(2, (4, 6, 5, 3), activation=activation).double()
    with torch.no_grad():
        for bias in networks.biases:
            bias.normal_()
    x, y = torch.randn(2, 5, rows, 4).double(), torch.randn(2, 5, rows, 3).double()
    present = torch.tensor([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]])
    clip = 6.0
    norms = stacked_private_gradients(
        networks,
        lambda call: (call(x) - y).square().mean((-1, -2)),
        present,
        private=PrivateGradients(0.0, clip, 3),
    )
    assert (norms > clip).any() and (norms < clip).any()
    for m in range(2):
        one = alone(networks, m)
        taken = present[m].bool()
        wanted = private_gradients(
            one,
            lambda call, record: (call(record[0]) - record[1]).square().mean(),
            (x[m, taken], y[m, taken]),
            private=PrivateGradients(0.0, clip, 3),
        )
        torch.testing.assert_close(norms[m, taken].double(), wanted, rtol=1e-10, atol=1e-12)
        for own, every in zip(one.parameters(), networks.parameters()):
            torch.testing.assert_close(every.grad[m : m + 1], own.grad, rtol=1e-10, atol=1e-12)


def test_private_noise_has_its_deviation_also_without_records():
    networks = DenseNetworks(3, (60, 50)).double()
    for present in (torch.zeros(3, 0), torch.zeros(3, 4)):
        x = torch.randn(3, present.shape[1], 60).double()
        stacked_private_gradients(
            networks,
            lambda call, x=x: call(x).square().sum(-1),
            present,
            private=PrivateGradients(2.0, 0.5, 8),
            generator=torch.Generator().manual_seed(0),
        )
        assert networks.weights[0].grad.std().item() == pytest.approx(2 * 0.5 / 8, rel=0.03)
        assert networks.biases[0].grad.std().item() == pytest.approx(2 * 0.5 / 8, rel=0.15)


def test_poisson_batches_take_members_alone_each_with_its_probability():
    member = torch.rand(4, 300, generator=torch.Generator().manual_seed(0)) < 0.5
    generator, counts = torch.Generator().manual_seed(1), torch.zeros(4, 300)
    for _ in range(400):
        indices, present = poisson_batches(member, 0.1, generator=generator)
        counts.scatter_add_(1, indices, present.float())
    assert not counts[~member].any()
    share = counts[member] / 400
    assert share.mean().item() == pytest.approx(0.1, rel=0.02)
    assert share.std().item() == pytest.approx(math.sqrt(0.1 * 0.9 / 400), rel=0.12)
    indices, present = poisson_batches(torch.zeros(2, 5, dtype=torch.bool), 0.5)
    assert indices.shape == present.shape == (2, 0)


def test_the_maker_gets_no_gradient_from_records():
    """One step of the maker before the judge has moved is the same for other records."""
    training = GeneratorTraining(steps=1, rate=1.0, records=6, discriminator_steps=1, decay=0.0, learning_rate=1e-3)
    made = []
    for shift in (0.0, 5.0):
        networks = AdversarialNetworks(1, 3, latent=2, width=4, depth=1, generator=torch.Generator().manual_seed(0))
        frozen = copy.deepcopy(networks.discriminator)
        records = torch.randn(6, 3, generator=torch.Generator().manual_seed(1)) + shift

        def step(self, *given, frozen=frozen, networks=networks, plain=torch.optim.Adam.step):
            plain(self, *given)
            networks.discriminator.load_state_dict(frozen.state_dict())  # what the records taught is taken back

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.optim.Adam, "step", step)
            ((_, found),) = train_adversarial(networks, records, torch.ones(1, 6, dtype=torch.bool), training)
        made.append([p.clone() for p in found.generator.parameters()])
    for one, two in zip(*made):
        assert torch.equal(one, two)


@pytest.mark.parametrize("kind", ["diffusion", "adversarial"])
def test_what_is_no_member_changes_nothing_and_a_seed_repeats_a_training(kind):
    make, train = {
        "diffusion": (DiffusionNetworks, train_diffusion),
        "adversarial": (AdversarialNetworks, train_adversarial),
    }[kind]
    training = GeneratorTraining(steps=6, rate=0.5, records=6, noise=0.5, clip=1.0, discriminator_steps=2)
    member = torch.tensor([[1, 1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1, 1]]).bool()
    records = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    found = []
    for change in (0.0, 0.0, 3.0):
        own = records.clone()
        own[7] += change  # trains the second model alone
        networks = make(2, 3, width=4, depth=1, classes=2, generator=torch.Generator().manual_seed(0))
        steps = list(train(networks, own, member, training, labels=torch.arange(8) % 2, checkpoints=(3,), seed=4))
        assert [step for step, _ in steps] == [3, 6]
        found.append([p.clone() for p in steps[-1][1].parameters()])
    for one, same, changed in zip(*found):
        assert torch.equal(one, same) and torch.equal(one[0], changed[0])
    assert any(not torch.equal(one[1], changed[1]) for one, _, changed in zip(*found))


@pytest.mark.parametrize("decay", [0.0, 0.9])
def test_checkpoints_are_copies_with_the_average_of_the_weights(decay):
    """The average of the last weights after each step, which a run without averaging yields one by one."""
    member, records = torch.ones(1, 6, dtype=torch.bool), torch.randn(6, 3, generator=torch.Generator().manual_seed(0))

    def found(own):
        training = GeneratorTraining(steps=5, rate=0.5, records=6, decay=own)
        networks = DiffusionNetworks(1, 3, width=4, depth=1, generator=torch.Generator().manual_seed(0))
        return [one for _, one in train_diffusion(networks, records, member, training, checkpoints=(1, 2, 3, 4))]

    plain, averaged = found(0.0), found(decay)
    mean = [p.clone() for p in plain[0].parameters()]
    for step, (last, one) in enumerate(zip(plain, averaged), start=1):
        share = 1.0 if not decay or step == 1 else 1 - min(decay, (1 + step) / (10 + step))
        for own, weight, wanted in zip(mean, last.parameters(), one.parameters()):
            own.lerp_(weight, share)
            torch.testing.assert_close(wanted, own)
            assert not wanted.requires_grad


def test_diffusion_learns_a_normal_law_and_its_steps_turn_records_into_noise():
    torch.manual_seed(0)
    records = torch.randn(256, 2) * torch.tensor([1.0, 0.3])
    networks = DiffusionNetworks(1, 2, width=32, generator=torch.Generator().manual_seed(0))
    training = GeneratorTraining(steps=300, rate=0.5, records=256, learning_rate=5e-3)
    *_, (_, found) = train_diffusion(networks, records, torch.ones(1, 256, dtype=torch.bool), training)
    made = found.sample(2000, generator=torch.Generator().manual_seed(1))[0]
    torch.testing.assert_close(made.std(0), records.std(0), rtol=0.15, atol=0.05)
    t, e = torch.full((1, 256, 1), 0.4), torch.randn(1, 256, 1, 2)
    error = found.errors(records[None], t, e)
    alpha, sigma = math.cos(0.2 * math.pi), math.sin(0.2 * math.pi)
    noisy = alpha * records[None, :, None] + sigma * e
    v = found.velocity(noisy, t)
    guessed = sigma * noisy + alpha * v  # ê: its error is α times that of v
    torch.testing.assert_close((guessed - e).square().mean(-1), alpha**2 * error, rtol=1e-4, atol=1e-5)


def test_noise_multiplicity_is_one_clipped_gradient_of_the_mean():
    """A record moves the sum by at most the clip, whatever K."""
    networks = DiffusionNetworks(1, 3, width=4, depth=1, generator=torch.Generator().manual_seed(0))
    for repeats in (1, 8):
        x, t, e = 50 * torch.randn(1, 1, 3), torch.rand(1, 1, repeats), torch.randn(1, 1, repeats, 3)
        stacked_private_gradients(
            networks.network,
            lambda call, x=x, t=t, e=e: networks.errors(x, t, e, call=call).mean(-1),
            torch.ones(1, 1),
            private=PrivateGradients(0.0, 0.2, 1),
        )
        total = torch.stack([p.grad.square().sum() for p in networks.network.parameters()]).sum().sqrt()
        assert total.item() == pytest.approx(0.2, rel=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DenseNetworks(0, (2, 2)), "expected at least one model"),
        (lambda: DenseNetworks(1, (2, 2), activation="gelu"), "activation='gelu'"),
        (lambda: DenseNetworks(2, (3, 1))(torch.zeros(1, 3)), r"expected \(2, …, 3\)"),
        (lambda: DiffusionNetworks(1, 3, classes=2).sample(2), "pass labels"),
        (lambda: GeneratorTraining(steps=0, rate=0.5, records=4), "expected positive counts"),
        (lambda: GeneratorTraining(steps=1, rate=0.5, records=4, noise=1.0), "protects nothing"),
        (lambda: poisson_batches(torch.ones(1, 2).bool(), 0.0), "expected a probability"),
        (
            lambda: stacked_private_gradients(
                DenseNetworks(1, (2, 1)),
                lambda call: (call(torch.ones(1, 1, 2)) + call(torch.ones(1, 1, 2)))[..., 0],
                torch.ones(1, 1),
                private=PrivateGradients(0, 1, 1),
            ),
            "a second time: expected one call",
        ),
        (
            lambda: stacked_private_gradients(
                DenseNetworks(1, (2, 1)),
                lambda call: F.softplus(call(torch.full((1, 1, 2), math.nan)))[..., 0],
                torch.ones(1, 1),
                private=PrivateGradients(0, 1, 1),
            ),
            "not finite",
        ),
    ],
)
def test_one_line_for_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
