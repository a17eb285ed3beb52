"""Training on several processes: process group, gradients averaged or sharded."""

from __future__ import annotations

from sciops.training.parallel.processes import Processes
from sciops.training.parallel.sharding import gathered, is_sharded, like

__all__ = ["Processes", "gathered", "is_sharded", "like"]
