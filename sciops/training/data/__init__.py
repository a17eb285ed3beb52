"""Batches for `sciops.training.fit`: from data sets (`Samples`) or by a function of the step (`Stream`)."""

from __future__ import annotations

from sciops.training.data.batches import Batch
from sciops.training.data.loader import Loader
from sciops.training.data.source import Loss, Source, source_of

__all__ = ["Batch", "Loader", "Loss", "Source", "source_of"]
