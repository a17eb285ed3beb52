"""Peak memory is that of the call alone, and a first call's buffers are no part of a step."""

import pytest
import torch

from studies.gap_sentences import cost as gap_costs
from studies.kit.timing import peak_memory
from studies.mixer_zoo import cost as zoo_costs

_HOLES = """
def prepare(megabytes):
    keep, freed = [], [bytearray(2000) for _ in range(500 * megabytes)]
    keep.append(bytearray(2000))  # at the top of the heap, so that what is freed below stays with the process
    freed.clear()

    def call():
        keep.extend(bytearray(2000) for _ in range(500 * megabytes))

    return call
"""


def test_memory_that_was_freed_before_the_call_counts(tmp_path, monkeypatch):
    (tmp_path / "holes.py").write_text(_HOLES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    assert peak_memory("holes:prepare", 20) == pytest.approx(20e6, rel=0.2)


def test_a_step_is_made_before_the_one_that_is_measured(monkeypatch):
    stack, seen = torch.nn.Linear(8, 8), []
    stack.register_forward_pre_hook(lambda module, given: seen.append(tuple(given[0].shape)))
    monkeypatch.setattr(zoo_costs, "_stack", lambda *_: stack)
    step = zoo_costs.training_step("attention", 8, 1, 32, 2)
    assert seen == [(1, 16, 8)]
    step()
    assert seen[1:] == [(2, 32, 8)] and stack.weight.grad is None

    lengths, loss_of = [], gap_costs.token_loss
    monkeypatch.setattr(gap_costs, "token_loss", lambda *call: lengths.append(len(call[1][0][0])) or loss_of(*call))
    sizes = dict(width=8, depth=1, state=4, heads=2, batch=1, rate=0.1, tuning=(0.1,), dropout=0.0)
    sizes |= dict(pretraining=1, steps=1, checks=1, beams=1, target_length=5, window=4)
    step = gap_costs.step_of("state_space", 20, sizes, 50)
    assert lengths == [8]
    step()
    assert lengths[1:] == [20]
