"""A training holds no more memory after many steps than after a few: what grows by step would fill any machine."""

import os
from collections.abc import Mapping

import numpy as np
import psutil
import pytest

from sciops import Grid, build_model
from sciops.datasets import FreshFields, Splits
from sciops.training import TrainConfig, fit

STEPS, SETTLED, BATCH, POINTS = 120, 40, 8, 32
ONE = 8 * BATCH * POINTS**2 * 4  # bytes of one array of the network's channels


def _fields(numbers: np.ndarray) -> Mapping[str, np.ndarray]:
    made = np.stack([np.random.default_rng(int(i)).standard_normal((1, POINTS, POINTS)) for i in numbers])
    return {"x": made, "y": made}


@pytest.mark.parametrize("endless, kept", [(False, 0), (True, 0), (False, 1)])
def test_memory_does_not_grow_with_the_steps(endless, kept):
    """With one array kept a step, of the forty or so that a step makes, the same measurement sees the growth."""
    stream = FreshFields(_fields, Grid((POINTS, POINTS)), length=20 * BATCH, about="noise")
    training = stream if endless else stream.subset(range(20 * BATCH))
    held, leaked = [], []

    def watch(run, record):
        if "gradient_norm" in record and "validation" not in record:  # not that of an epoch
            leaked.extend(np.ones(ONE // 8) for _ in range(kept))
            held.append(psutil.Process(os.getpid()).memory_info().rss)

    splits = Splits(training, stream.subset(range(4)), None)
    config = TrainConfig(epochs=STEPS // 20, batch_size=BATCH, progress=False)
    fit(build_model("fno", width=8, depth=2, modes=(6, 6)), splits, config, callbacks=[watch])
    growth = max(held[SETTLED:]) - held[SETTLED]
    assert len(held) == STEPS and (growth < ONE * (STEPS - SETTLED) / 3) == (not kept)
