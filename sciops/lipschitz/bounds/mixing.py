"""Bounds of mixers and local kernels on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from sciops.bases import Centering
from sciops.grids import Grid
from sciops.lipschitz.bounds.lookup import look_up, measure
from sciops.lipschitz.bounds.parts import Setting, expect, matrix_norm
from sciops.lipschitz.norms.fourier import axis_weights
from sciops.models.spine.blocks import LocalKernel
from sciops.models.spine.dealiasing import finer_grid_tables


def of_mixer_with_skip(mixer: nn.Module, skip: Tensor, setting: Setting) -> tuple[Tensor, str]:
    """The bound of x ↦ S x + mixer(x) with S (out, in) at every point."""
    apart, reason = measure(mixer, setting)
    together = look_up(mixer, setting.rules).with_skip
    known = None if together is None else together(mixer, skip, setting)
    return (setting.sigma(skip) + apart, f"‖W‖ + ‖K‖, {reason}") if known is None else known


def of_local(kernel: LocalKernel, setting: Setting, dilation: Sequence[int]) -> Tensor:
    """The bound of a `LocalKernel`."""
    expect(kernel, LocalKernel, place="a local kernel")
    mode = "circular" if setting.grid.centering == "periodic" else kernel.padding
    groups, dilation = len(kernel.weight), tuple(dilation)
    return setting.convolution(kernel.weight, dilation=dilation, groups=groups, padding_mode=mode) * setting.ends


def of_finer_grid(factor: int, periodic: bool, setting: Setting) -> tuple[float, float]:
    """Factors of `on_finer_grid`: (‖down‖·‖up‖, the largest factor by which `up` increases the largest value).

    Between the two the map is pointwise, so that any norm can be used on the finer grid: the better of two is taken.
    """
    if factor == 1:
        return 1.0, 1.0
    grid = setting.grid
    kind = "periodic" if periodic else grid.centering
    gain = spread = 1.0
    for n, w in zip(grid.shape, axis_weights(grid, setting.weighted)):
        up, down, fine = _dealiasing_tables(int(n), factor, kind)
        root = np.sqrt(w / w.sum())
        norms = ((f[:, None] * up / root, root[:, None] * down / f) for f in (fine, np.ones_like(fine)))
        gain *= min(matrix_norm(there) * matrix_norm(back) for there, back in norms)
        spread *= float(np.abs(up).sum(1).max())
    return gain * (1 + 1e-12), spread * (1 + 1e-12)


@lru_cache(maxsize=64)
def _dealiasing_tables(n: int, factor: int, kind: Centering) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    up, down = (t.numpy() for t in finer_grid_tables(n, factor, kind, torch.float64, torch.device("cpu")))
    return up, down, np.sqrt(Grid((up.shape[0],), centering=kind).weights())
