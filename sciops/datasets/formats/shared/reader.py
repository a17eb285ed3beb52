"""One layout: how to recognise, open and write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciops.datasets.formats.containers.sniff import Probe

if TYPE_CHECKING:
    import xarray as xr

Resolution = int | tuple[int, ...] | None
Writer = Callable[[list[Any], Path], None]
"""Writes the data sets of one file (native: one per resolution, otherwise exactly one) to a path; refuses in one line
what its layout cannot hold."""


@dataclass(frozen=True)
class Reader:
    """A layout on disk.

    name : as in ``READERS`` and in ``dataset.attrs["layout"]``
    expects : what such a file holds, for messages
    matches : whether a probed file has this layout; looks at the table of contents alone
    recognises : the same when nobody named the layout, for those that do not show by themselves; default `matches`
    read : the file as a data set in the common form, lazy where the format allows, on its (finest) grid
    named : whether `read` goes by the names that the file gives to the axes of its arrays; for other layouts, which
        have none, a file that names its axes in another order is refused
    read_at : the file at a resolution, for a layout that stores several; of others the nested nodes are taken
    resolutions : those that a file stores, finest first, for such a layout
    """

    name: str
    expects: str
    matches: Callable[[Probe], bool]
    read: Callable[[Probe], xr.Dataset]
    recognises: Callable[[Probe], bool] | None = None
    named: bool = False
    read_at: Callable[[Probe, Resolution], xr.Dataset] | None = None
    resolutions: Callable[[Probe], tuple[tuple[int, ...], ...]] | None = None
