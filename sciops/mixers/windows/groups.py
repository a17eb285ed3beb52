"""Fields cut into bands of whole windows, the unit of work that stays in the cache."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from sciops.arrays.compiling import kept, uncompiled
from sciops.mixers.windows.tiling import Tiling


@dataclass(frozen=True)
class Band:
    """Rows `start` to `stop` of the first grid axis of one field; windows do not reach out of it.

    across : start and stop on the other axes; empty: all of them
    """

    field: int
    sample: int | None
    """the first sample in the band; None: of all samples"""
    batch: int | None
    """samples in the band; None: all, whatever their number"""
    start: int
    stop: int
    tiling: Tiling
    across: tuple[tuple[int, int], ...] = ()

    @cached_property
    def windows(self) -> int:
        """In the band, or in one of its samples where their number is open."""
        return (1 if self.batch is None else self.batch) * math.prod(self.tiling.counts)

    def of(self, x: Tensor) -> Tensor:
        """The band of a field (batch, *sizes, channels), as a view where x is contiguous."""
        if self.sample is not None:
            x = x[self.sample : self.sample + self.batch]
        elif self.batch is not None and self.batch != x.shape[0]:
            x = x.flatten(0, 1)[None]
        x = x[:, self.start : self.stop]
        for axis, (start, stop) in enumerate(self.across, start=2):
            x = x.narrow(axis, start, stop - start)
        return x


@dataclass(frozen=True)
class Group:
    """Bands whose windows have the same number of cells; they are worked on together."""

    bands: tuple[Band, ...]

    @property
    def tokens(self) -> int:
        return self.bands[0].tiling.tokens

    @cached_property
    def windows(self) -> int:
        return sum(band.windows for band in self.bands)

    def gather(self, fields: Sequence[Tensor], out: Tensor, token_first: bool) -> Tensor:
        """All cells of all windows in `out`: (window·token, channels), or (token·window, channels) if `token_first`."""
        for band, part in self._parts(out, token_first):
            band.tiling.cut(band.of(fields[band.field]), token_first, out=part)
        return out

    def scatter(self, y: Tensor, fields: Sequence[Tensor], token_first: bool, add: bool = False) -> None:
        """The inverse of `gather`: writes into contiguous fields, or adds to them."""
        for band, part in self._parts(y, token_first):
            band.tiling.write(part, token_first, band.of(fields[band.field]), add)

    def mask(self, token_first: bool, dtype: torch.dtype, device: torch.device) -> Tensor | None:
        """0 for cells that exist and −∞ for others, (windows, tokens) or (tokens, windows); None where all exist.

        Of one sample where the number of samples is open.
        """
        if all(band.tiling.padded == band.tiling.sizes for band in self.bands):
            return None
        return _mask(self, token_first, dtype, device)

    def _parts(self, x: Tensor, token_first: bool):
        x = x.view(*((self.tokens, -1) if token_first else (-1, self.tokens)), *x.shape[1:])
        parts = x.split([band.windows for band in self.bands], 1 if token_first else 0)
        return zip(self.bands, parts)


@uncompiled
@lru_cache(maxsize=256)
def groups_of(
    shapes: tuple[tuple[int, ...], ...],
    window: int,
    stride: int,
    cells: int = sys.maxsize,
    windows: int = sys.maxsize,
    whole: bool = False,
    shift: int = 0,
) -> tuple[Group, ...]:
    """All windows of fields with these shapes (batch, *sizes), in groups of at most about `cells` and `windows`.

    Windows that overlap need their neighbours: such a field is one band. Samples of a batch lie on top of each other
    where no window would hold cells of two, otherwise each has bands of its own. whole : see `Tiling`

    shift : size of the first window on every axis that is longer than a window
    """
    filled: dict[int, int] = {}
    latest: dict[int, list[Band]] = {}
    groups: list[list[Band]] = []
    for field, shape in enumerate(shapes):
        limit = min(cells, windows * Tiling(shape[1:], window, stride, whole).tokens)
        if shift:
            bands = _shifted_bands(field, shape, window, shift, limit)
        else:
            bands = _bands(field, shape, window, stride, limit, whole)
        for band in bands:
            tokens, size = band.tiling.tokens, band.batch * math.prod(band.tiling.sizes)
            if tokens not in latest or filled[tokens] + size > limit:
                latest[tokens], filled[tokens] = [], 0
                groups.append(latest[tokens])
            latest[tokens].append(band)
            filled[tokens] += size
    return tuple(Group(tuple(bands)) for bands in groups)


def open_groups(sizes: tuple[tuple[int, ...], ...], window: int, stride: int, shift: int = 0) -> tuple[Group, ...]:
    """`groups_of` fields of these sizes for any number of samples: every group is one band of all of them."""
    shapes = tuple((1, *shape) for shape in sizes)
    groups = groups_of(shapes, window, stride, sys.maxsize, sys.maxsize, False, shift)
    return tuple(Group((replace(band, sample=None, batch=None),)) for group in groups for band in group.bands)


def _bands(field: int, shape: tuple[int, ...], window: int, stride: int, limit: int, whole: bool) -> Iterator[Band]:
    batch, first, *rest = shape
    if stride < window or math.prod(shape) <= limit:
        yield Band(field, None, batch, 0, first, Tiling(shape[1:], window, stride, whole))
        return
    stacked = first % window == 0
    length = first * batch if stacked else first
    rows = max(1, limit // (window * math.prod(rest))) * window
    for sample in [None] if stacked else range(batch):
        for start in range(0, length, rows):
            stop = min(start + rows, length)
            yield Band(field, sample, 1, start, stop, Tiling((stop - start, *rest), window, stride, whole))


def _shifted_bands(field: int, shape: tuple[int, ...], window: int, shift: int, limit: int) -> Iterator[Band]:
    """Bands of whole windows, and along every border those of the windows that it cuts off, which are just smaller."""
    batch, *sizes = shape
    for (first, last), *across in itertools.product(*(_segments(n, window, shift) for n in sizes)):
        others = tuple(stop - start for start, stop in across)
        cells = (last - first) * math.prod(others)
        samples = max(1, limit // cells)
        rows = last - first if cells <= limit else max(1, limit // (window * math.prod(others))) * window
        for sample in range(0, max(batch, 1), samples):  # a batch of 0 has bands too, without windows
            for start in range(first, last, rows):
                stop = min(start + rows, last)
                tiling = Tiling((stop - start, *others), window, window)
                yield Band(field, sample, min(samples, batch - sample), start, stop, tiling, tuple(across))


def _segments(n: int, window: int, shift: int) -> list[tuple[int, int]]:
    """Start and stop of the cut-off first window, of all whole windows, and of the cut-off last one."""
    if n <= window:
        return [(0, n)]
    end = n - (n - shift) % window
    return [(a, b) for a, b in ((0, shift), (shift, end), (end, n)) if a < b]


@uncompiled
@kept(256)
def _mask(group: Group, token_first: bool, dtype: torch.dtype, device: torch.device) -> Tensor:
    parts = []
    for band in group.bands:
        exists = torch.ones(1 if band.batch is None else band.batch, *band.tiling.sizes, 1)
        parts.append(band.tiling.cut(exists, token_first)[..., 0] > 0)
    exists = torch.cat(parts, 1 if token_first else 0)
    return torch.zeros(exists.shape, dtype=dtype).masked_fill(~exists, -torch.inf).to(device)


def joined(pieces: Sequence[tuple[Band, Tensor]], axes: int) -> Tensor:
    """The field whose shifted bands hold these cells: samples, rows and then the other axes are put together."""
    boxes: dict[tuple[tuple[int, int], ...], dict[tuple[int, int], list[Tensor]]] = {}
    for band, cells in pieces:
        boxes.setdefault(band.across, {}).setdefault((band.start, band.stop), []).append(cells)
    parts = {}
    for across, rows in boxes.items():
        parts[across] = cat([cat(rows[place], 0) for place in sorted(rows)], 1)
    for axis in reversed(range(2, axes + 1)):
        lines: dict[tuple[tuple[int, int], ...], list[Tensor]] = {}
        for across in sorted(parts):
            lines.setdefault(across[:-1], []).append(parts[across])
        parts = {across: cat(line, axis) for across, line in lines.items()}
    return parts[()]


def cat(parts: list[Tensor], axis: int) -> Tensor:
    """The parts along an axis, without a copy where there is one."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)
