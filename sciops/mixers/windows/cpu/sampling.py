"""The learned samplers of a pyramid and their gradients, band by band in the cache."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch
from torch import Tensor

from sciops.mixers.windows.cpu.memory import Scratch, cells_in_cache
from sciops.mixers.windows.groups import Group, groups_of


def coarsen(x: Tensor, matrix: Tensor, rate: int, scratch: Scratch) -> Tensor:
    """`coarsened` band by band; matrix : `rows_of` the kernel."""
    coarse = x.new_empty(x.shape[0], *(-(-n // rate) for n in x.shape[1:-1]), len(matrix))
    for blocks, part, _ in _blocks(x, coarse, rate, scratch):
        torch.mm(blocks, matrix.t(), out=part)
    return coarse


def coarsen_gradient(x: Tensor, g: Tensor, matrix: Tensor, rate: int, scratch: Scratch, dx: Tensor) -> Tensor:
    """The gradient by the matrix; that by x is added to dx."""
    result = torch.zeros_like(matrix)
    for blocks, part, group in _blocks(x, g, rate, scratch):
        result.addmm_(part.t(), blocks)
        torch.mm(part, matrix, out=blocks)
        group.scatter(blocks.view(-1, x.shape[-1]), [dx], False, add=True)
    return result


def refine_onto(level: Tensor, r: Tensor, matrix: Tensor, rate: int, scratch: Scratch) -> None:
    """Adds `refined` to level band by band."""
    rows = r.view(-1, r.shape[-1])
    for group, part in _bands(level, rate):
        blocks = torch.mm(rows[part], matrix, out=scratch.take("blocks", group.windows, matrix.shape[1]))
        group.scatter(blocks.view(-1, level.shape[-1]), [level], False, add=True)


def refine_gradient(g: Tensor, r: Tensor, matrix: Tensor, rate: int, scratch: Scratch) -> tuple[Tensor, Tensor]:
    """The gradients of `refined` by r and by the matrix."""
    dr, result = torch.empty_like(r), torch.zeros_like(matrix)
    rows = r.view(-1, r.shape[-1])
    done = 0
    for blocks, part, _ in _blocks(g, dr, rate, scratch):
        torch.mm(blocks, matrix.t(), out=part)
        result.addmm_(rows[done : done + len(part)].t(), blocks)
        done += len(part)
    return dr, result


def kernel_of(rows: Tensor, like: Tensor) -> Tensor:
    """The inverse of `rows_of`."""
    return rows.view(len(like), *like.shape[2:], like.shape[1]).movedim(-1, 1)


def _bands(x: Tensor, rate: int) -> Iterator[tuple[Group, slice]]:
    """Band by band: its blocks of cells, and which rows of the coarse field they become."""
    done = 0
    for group in groups_of((tuple(x.shape[:-1]),), rate, rate, cells_in_cache(), sys.maxsize, True):
        if group.windows:  # of a batch of 0 there are none
            yield group, slice(done, done + group.windows)
            done += group.windows


def _blocks(x: Tensor, coarse: Tensor, rate: int, scratch: Scratch) -> Iterator[tuple[Tensor, Tensor, Group]]:
    """Band by band: blocks of fine cells (cells, rate^axes·channels), coarse cells (cells, channels), the band."""
    rows = coarse.view(-1, coarse.shape[-1])
    for group, part in _bands(x, rate):
        blocks = scratch.take("blocks", group.windows * group.tokens, x.shape[-1])
        yield group.gather([x], blocks, False).view(group.windows, -1), rows[part], group
