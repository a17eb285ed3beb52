"""The native file among the writers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sciops.datasets.native import write_native

if TYPE_CHECKING:
    import xarray as xr


def write(groups: list[xr.Dataset], path: Path) -> None:
    """One group per data set, with all that they hold."""
    write_native(path, groups, overwrite=True)  # `convert` has asked
