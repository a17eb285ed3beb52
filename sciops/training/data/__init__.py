"""Batches for `sciops.training.fit`: from data sets (`Samples`) or by a function of the step (`Stream`)."""

from __future__ import annotations

from sciops.training.data.batches import Batch
from sciops.training.data.loader import Loader
from sciops.training.data.samples import Samples
from sciops.training.data.source import Loss, Rule, Source
from sciops.training.data.stream import Stream

__all__ = ["Batch", "Loader", "Loss", "Rule", "Samples", "Source", "Stream"]
