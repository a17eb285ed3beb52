"""Micro-batches take the step of the whole batch, to rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_resume import QUIET, data, fields, network
from torch import nn

from sciops.datasets import Splits
from sciops.training import GRADIENTS, TrainConfig, fit
from sciops.training.data.batches import epoch_steps, micro_batches

EXACT = replace(QUIET, epochs=3, precision="float64", augment="square", clip=0.3, weight_decay=0.1)


def plain() -> nn.Module:
    return nn.Sequential(*(m for m in network() if not isinstance(m, (nn.BatchNorm2d, nn.Dropout))))


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
@pytest.mark.parametrize("accumulate", [1, 2, 3, 8])
def test_pieces_of_all_processes_give_the_mean_of_the_step(processes, accumulate):
    values = np.random.default_rng(0).standard_normal(20)
    for step in epoch_steps((20,), TrainConfig(batch_size=7), 0):
        ranks = [micro_batches(step, rank, processes, accumulate) for rank in range(processes)]
        # as many exchanges on each process, none larger than asked for
        assert len({len(pieces) for pieces in ranks}) == 1
        assert all(len(s.indices) <= -(-7 // processes // accumulate) + 1 for pieces in ranks for s, _ in pieces)
        sums = [sum(values[piece.indices].sum() * weight for piece, weight in pieces) for pieces in ranks]
        assert sum(sums) / processes == pytest.approx(values[step.indices].mean(), rel=1e-13)
        used = np.concatenate([p.indices for pieces in ranks for p, weight in pieces if weight > 0])
        assert sorted(used) == sorted(step.indices)
        codes = {i: c for pieces in ranks for p, _ in pieces for i, c in zip(p.indices, p.codes)}
        assert all(codes[i] == c for i, c in zip(step.indices, step.codes))


@pytest.mark.parametrize("accumulate", [2, 3, 5, 100])
def test_the_curve_of_a_run_does_not_depend_on_the_pieces(accumulate):
    # 20 and 9 fields in batches of 8: pieces of 3, 3, 2 and of 4, and of the single field that is left
    whole = fit(plain(), data(), EXACT)
    pieces = fit(plain(), data(), replace(EXACT, accumulate=accumulate))
    assert pieces.steps == whole.steps
    for a, b in zip(whole.history, pieces.history):
        for key in ("loss", "validation", "gradient_norm", "rate"):
            assert b[key] == pytest.approx(a[key], rel=1e-12)
    for p, q in zip(whole.model.state_dict().values(), pieces.model.state_dict().values()):
        torch.testing.assert_close(q, p, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("precision", ["float32", "fp16", "bf16"])
def test_precisions_accumulate_too(precision):
    config = replace(QUIET, epochs=2, precision=precision)
    whole, pieces = (fit(plain(), data(), replace(config, accumulate=n)) for n in (1, 3))
    for a, b in zip(whole.history, pieces.history):
        assert b["loss"] == pytest.approx(a["loss"], rel=1e-5 if precision == "float32" else 1e-2)


def test_a_step_holds_no_more_than_its_piece_and_one_optimiser_step_follows():
    seen = []

    def watching(model, loss_fn, batch):
        seen.append(len(batch.x))
        return GRADIENTS["backprop"](model, loss_fn, batch)

    GRADIENTS["watching"] = watching
    try:
        run = fit(plain(), Splits(fields(11, 0)), replace(QUIET, epochs=1, gradients="watching", accumulate=3))
    finally:
        del GRADIENTS["watching"]
    assert seen == [3, 3, 2, 1, 1, 1] and run.steps == 2


def test_a_run_goes_on_with_other_pieces(tmp_path):
    whole = fit(plain(), data(), EXACT)
    fit(plain(), data(), replace(EXACT, folder=tmp_path, stop_after=1))
    rest = fit(plain(), data(), replace(EXACT, folder=tmp_path, resume=True, accumulate=4))
    assert rest.history[-1]["loss"] == pytest.approx(whole.history[-1]["loss"], rel=1e-12)
    with pytest.raises(ValueError, match="accumulate=0: expected a whole number of at least 1"):
        replace(EXACT, accumulate=0)
