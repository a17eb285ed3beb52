"""Tiny files in the exact layouts of other programs, written with plain h5py, SciPy, NumPy and torch.

For trying a reader, a command or a training run without a download. Our own writers take no part in them, so that a
reader that agrees with them agrees with the layout. The fields are smooth solutions of the equation the layout is for
(decaying sines, travelling waves), with true parameters and coordinates: 8 samples where the layout holds more than
one, at least 16 points per axis.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

from sciops.files.writable import writable_file

__all__ = ["SAMPLES", "Sample", "write_sample"]

Sample = Callable[..., None]
"""``(path, *, seed)``: writes one file."""

_MODULES = ("pdebench", "well", "arrays", "flow")


def _collected() -> dict[str, Sample]:
    merged: dict[str, Sample] = {}
    for name in _MODULES:
        if importlib.util.find_spec(f"sciops.datasets.formats.samples.{name}") is not None:
            merged |= importlib.import_module(f"sciops.datasets.formats.samples.{name}").SAMPLES
    return merged


SAMPLES: dict[str, Sample] = _collected()


def write_sample(layout: str, path: str | os.PathLike, *, seed: int = 0) -> Path:
    """Writes a tiny file of `layout` and returns its path.

    layout : a key of ``SAMPLES``. Layouts that come in several forms have one key for each, such as "pdebench-cfd-3d"
    seed : of the random amplitudes and phases; equal seeds give equal numbers

    Raises ValueError for a layout there is no sample of, OSError where the file cannot be written.

    >>> path = write_sample("pdebench-1d", "burgers.h5")    # doctest: +SKIP
    """
    if layout not in SAMPLES:
        raise ValueError(f"layout={layout!r}: expected one of {', '.join(SAMPLES)}")
    path = writable_file(path)
    SAMPLES[layout](path, seed=seed)
    return path
