"""Batches of shuffled rows, and trainings that draw a batch a step."""

from itertools import islice

import numpy as np
import pytest
import torch

from studies.kit.stepping import shuffled, train_by_step


@pytest.mark.parametrize("whole", [False, True])
def test_every_permutation_is_used_once_and_in_its_order(whole):
    drawn = []

    def permuted(count):
        drawn.append(np.random.default_rng(len(drawn)).permutation(count))
        return drawn[-1]

    batches = list(islice(shuffled(10, 4, permuted, whole=whole), 6))
    assert [len(batch) for batch in batches] == ([4, 4, 2, 4, 4, 2] if whole else [4] * 6)
    taken = np.concatenate(batches)
    np.testing.assert_array_equal(taken, np.concatenate(drawn)[: len(taken)])
    assert len(drawn) == (2 if whole else 3)  # none is drawn before it is needed


def test_a_training_by_steps_is_the_plain_loop():
    x = torch.arange(12.0, dtype=torch.float64).reshape(6, 2)
    seen = []

    def made():
        net = torch.nn.Linear(2, 1, bias=False).double()
        torch.nn.init.constant_(net.weight, 0.5)
        return net, torch.optim.SGD(net.parameters(), lr=1e-3)

    def after(run, record):
        seen.append(record["step"])
        return record["step"] == 4  # ends the training

    loss = lambda net, rows: net(x[rows]).square().mean()  # noqa: E731
    net, optimizer = made()
    options = {"schedule": "constant", "clip": None}
    run = train_by_step(net, lambda step: [step, step + 1], loss, optimizer, steps=5, after=after, **options)
    plain, optimizer = made()
    for step in range(4):
        optimizer.zero_grad()
        loss(plain, [step, step + 1]).backward()
        optimizer.step()
    torch.testing.assert_close(net.weight, plain.weight, rtol=1e-12, atol=0)
    assert seen == [1, 2, 3, 4] and not run.complete
