"""A training holds as many tensors at its end as after its first steps."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
import torch
from test_resume import QUIET, fields, network

from sciops.datasets import Splits
from sciops.training import GRADIENTS, fit

STEPS = 30


@pytest.fixture(autouse=True)
def _only_what_is_new():
    """Objects of earlier tests are left out of the collections and counts below."""
    gc.collect()
    gc.freeze()


def tensors_alive() -> int:
    gc.collect()
    return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("leaks", [False, True], ids=["as it is", "with a rule that keeps its losses"])
def test_no_tensor_of_a_step_outlives_it(monkeypatch, accumulate, leaks):
    counts, kept, calls = [], [], 0

    def counting(model, loss_fn, batch):
        nonlocal calls
        calls += 1
        loss = GRADIENTS["backprop"](model, loss_fn, batch)
        if leaks:
            kept.append(loss)
        if calls % (STEPS * accumulate) in (5, STEPS * accumulate - 5):
            counts.append(tensors_alive())
        return loss

    monkeypatch.setitem(GRADIENTS, "counting", counting)
    config = replace(QUIET, epochs=2, batch_size=2, accumulate=accumulate, gradients="counting", ema=0.9)
    fit(network(), Splits(fields(2 * STEPS, 0), fields(4, 1)), config)
    assert len(counts) == 4
    growth = [after - before for before, after in zip(counts, counts[1:])]
    # between the two counts of an epoch and between epochs, where best parameters may be kept besides those of the end
    assert (max(growth[0], growth[2]) <= 2 and growth[1] < STEPS) is not leaks, counts
