"""The HDF5 output from its parts, in any order: as they are made, or read back from the disk."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np

from sciops.datasets.native.content import groups_of, root_attributes_of
from sciops.datasets.native.files import now
from sciops.datasets.native.layout import create_group, set_attributes, stored_bytes
from sciops.datasets.native.parts import Plan, read_part
from sciops.files.locks import exclusive
from sciops.files.whole_files import replacing

_SPARE = 64 << 20  # bytes that stay free on a disk while the output grows beside the parts


class Assembly:
    """``plan.output`` while it is filled; nothing is left of it unless `finish` is reached before the block ends."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._file, self._added = plan, None, set()
        self._locked, self._within = contextlib.ExitStack(), contextlib.ExitStack()
        self._mine = self._short = False

    def __enter__(self) -> Assembly:
        return self

    def __exit__(self, *error: Any) -> None:
        self._abandon()
        self._locked.close()

    def lock(self) -> bool:
        """Whether this process is the one that writes the output, until the block ends."""
        if not self._mine:
            with contextlib.ExitStack() as trial:
                self._mine = trial.enter_context(exclusive(self._plan.parts / "lock"))
                if self._mine:
                    self._locked.push(trial.pop_all())
        return self._mine

    def offer(self, index: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Adds a part that was just made, unless another process writes the output or the disk is short.

        What is not taken now is read again by `finish`.
        """
        if self._short or not self.lock():
            return
        try:
            self.add(index, arrays)
        except OSError:  # the parts come first; `finish` tells of it if nothing has changed by then
            self._short = True
            self._abandon()

    def add(self, index: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes the arrays of one part.

        Raises OSError before the disk is full, since HDF5 may bring the process down when it is.
        """
        if self._file is None:
            self._open(arrays)
        elif shutil.disk_usage(self._plan.parts).free < _SPARE + sum(values.nbytes for values in arrays.values()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        start, stop = self._plan.bounds(index)
        for key, values in arrays.items():
            group, name = key.split("/")
            # netCDF has no booleans
            values = values.astype("int8") if values.dtype.kind == "b" else values
            self._file[group].variables[name][start:stop] = values
        self._added.add(index)

    def finish(self, *, progress: bool) -> None:
        """Adds the parts that are still missing from the disk, and gives the output its name.

        Raises OSError when a part is damaged: it is removed, and the same command makes it again.
        """
        from tqdm.auto import tqdm

        missing = [index for index in range(self._plan.chunks) if index not in self._added]
        sizes = {index: stop - start for index in missing for start, stop in [self._plan.bounds(index)]}
        hidden = not progress or not missing
        with tqdm(total=sum(sizes.values()), unit="sample", desc="assembling", disable=hidden) as bar:
            for index in missing:
                self.add(index, read_part(self._plan, index))
                bar.update(sizes[index])
        self._within.close()

    def _abandon(self) -> None:
        unfinished = RuntimeError("unfinished")
        self._within.__exit__(type(unfinished), unfinished, None)
        self._file, self._added = None, set()

    def _open(self, arrays: Mapping[str, np.ndarray]) -> None:
        import h5netcdf

        plan = self._plan
        groups = groups_of(plan, arrays)
        shapes = [
            (dims, tuple(group.sizes[d] for d in dims), dtype)
            for group in groups
            for dims, dtype, _ in group.variables.values()
        ]
        size = 0 if plan.compression is not None else stored_bytes(shapes)
        temporary = self._within.enter_context(replacing(plan.output, beside=plan.parts / "assembling", size=size))
        self._file = file = self._within.enter_context(h5netcdf.File(temporary, "w"))
        set_attributes(file, {**root_attributes_of(plan), "created": now()})
        for group in groups:
            create_group(
                file, group.name, group.sizes, group.variables, attrs=group.attrs, compression=plan.compression
            )
            for name, values in group.fixed.items():
                file[group.name].variables[name][:] = values
