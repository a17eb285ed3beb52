"""Every sample once an epoch, the same order from the same seed, one grid a batch, shares that add up."""

from __future__ import annotations

import numpy as np
import pytest

from sciops.training import TrainConfig
from sciops.training.data.batches import batches_per_epoch, epoch_steps, micro_batches


@pytest.mark.parametrize("sizes", [(10,), (7, 12), (5, 1, 9)])
@pytest.mark.parametrize("batch_size", [1, 4, 16])
def test_an_epoch_sees_every_sample_of_every_set_once(sizes, batch_size):
    steps = epoch_steps(sizes, TrainConfig(batch_size=batch_size), 3)
    for dataset, n in enumerate(sizes):
        seen = np.concatenate([step.indices for step in steps if step.dataset == dataset])
        assert sorted(seen) == list(range(n))
    assert all(1 <= len(step.indices) <= batch_size for step in steps)
    assert [sum(s.dataset == d for s in steps) for d in range(len(sizes))] == batches_per_epoch(
        sizes, TrainConfig(batch_size=batch_size), 3
    )


def test_the_order_is_a_function_of_seed_and_epoch():
    def order(seed, epoch):
        steps = epoch_steps((40, 30), TrainConfig(seed=seed), epoch)
        return [(s.dataset, *s.indices, *s.codes) for s in steps]

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)


def test_mixed_grids_interleave():
    steps = epoch_steps((160, 160), TrainConfig(batch_size=8), 0)
    changes = sum(a.dataset != b.dataset for a, b in zip(steps, steps[1:]))
    assert 8 < changes < 32  # 20 + 20 in random order: about 20


def test_shares_divide_the_batches_and_small_sets_are_seen_again():
    config = TrainConfig(batch_size=4, grid_shares=(3.0, 1.0))
    assert batches_per_epoch((40, 40), config, 0) == [15, 5]
    steps = epoch_steps((40, 40), config, 0)
    counts = np.bincount(np.concatenate([s.indices for s in steps if s.dataset == 0]), minlength=40)
    assert counts.sum() == 60 and counts.min() == 1 and counts.max() == 2
    with pytest.raises(ValueError, match="one share for each of the 3"):
        batches_per_epoch((4, 4, 4), config, 0)


def test_sequential_grids_take_their_shares_of_the_epochs():
    config = TrainConfig(epochs=10, batch_size=4, grid_order="sequential", grid_shares=(0.7, 0.3))
    plan = [batches_per_epoch((8, 12), config, epoch) for epoch in range(10)]
    assert plan == [[2, 0]] * 7 + [[0, 3]] * 3
    timed = [batches_per_epoch((8, 12), config, 0, done=done) for done in (0.0, 0.69, 0.71, 1.0)]
    assert timed == [[2, 0]] * 2 + [[0, 3]] * 2


@pytest.mark.parametrize("processes", [2, 3, 5])
def test_processes_divide_a_step_and_their_weighted_sums_average_to_the_mean(processes):
    values = np.random.default_rng(0).standard_normal(20)
    for step in epoch_steps((20,), TrainConfig(batch_size=4 if processes == 5 else 7), 0):
        parts = [piece for rank in range(processes) for piece in micro_batches(step, rank, processes)]
        average = sum(values[mine.indices].sum() * weight for mine, weight in parts) / processes
        assert average == pytest.approx(values[step.indices].mean(), rel=1e-14)
        used = np.concatenate([mine.indices for mine, weight in parts if weight > 0])
        assert sorted(used) == sorted(step.indices)
