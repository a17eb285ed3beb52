"""A training holds no more memory after many steps than after a few: what grows by step would fill any machine."""

import ctypes
import gc
import sys
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from sciops import Grid, build_model
from sciops.datasets import FreshFields, Splits
from sciops.training import TrainConfig, fit

LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
STEPS, SETTLED, BATCH, POINTS = 80, 20, 8, 32
ONE = 8 * BATCH * POINTS**2 * 4  # bytes of one array of the network's channels, of some forty that a step makes


class Allocated(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keep",
        )
    ]


def allocated() -> int:
    """Bytes that glibc's malloc has given out and not got back, whatever the process keeps of the system's."""
    told = LIBC.mallinfo2
    told.restype = Allocated
    found = told()
    return found.uordblks + found.hblkhd


def _fields(numbers: np.ndarray) -> Mapping[str, np.ndarray]:
    made = np.stack([np.random.default_rng(int(i)).standard_normal((1, POINTS, POINTS)) for i in numbers])
    return {"x": made, "y": made}


@pytest.mark.skipif(not hasattr(LIBC, "mallinfo2"), reason="of glibc 2.33 and later")
@pytest.mark.parametrize("endless, kept", [(False, 0), (True, 0), (False, 1)])
def test_memory_does_not_grow_with_the_steps(endless, kept):
    """With one array kept a step, the same measurement sees the growth."""
    stream = FreshFields(_fields, Grid((POINTS, POINTS)), length=20 * BATCH, about="noise")
    training = stream if endless else stream.subset(range(20 * BATCH))
    held, leaked = [], []

    def watch(run, record):
        if "gradient_norm" in record and "validation" not in record:  # not that of an epoch
            leaked.extend(torch.empty(ONE, dtype=torch.uint8) for _ in range(kept))
            held.append(allocated())

    splits = Splits(training, stream.subset(range(4)), None)
    config = TrainConfig(epochs=STEPS // 20, batch_size=BATCH, progress=False)
    gc.collect()  # what other tests left must not be freed meanwhile
    fit(build_model("fno", width=8, depth=2, modes=(6, 6)), splits, config, callbacks=[watch])
    growth = (held[-1] - held[SETTLED]) / (len(held) - 1 - SETTLED) / ONE  # arrays a step
    assert len(held) == STEPS and (growth < 0.3 if not kept else 0.7 < growth < 1.3)
