"""Bounds of the image classifier, in Euclidean norms of pixels and logits."""

from __future__ import annotations

import math

from torch import Tensor, nn

from sciops.grids import Grid
from sciops.lipschitz._parts import Part, Setting, chain, one
from sciops.lipschitz._pointwise import of_norm
from sciops.lipschitz._spine import of_block, of_last_norm
from sciops.models._stages import PatchEmbedding, PatchMerging
from sciops.models.classifier import Classifier


def of_classifier(model: Classifier, setting: Setting) -> Part:
    """Patches and merged cells do not overlap, so ways in have the norm of their matrix; a mean over P cells 1/√P."""
    parts, sizes = [], tuple(setting.grid.shape)
    for i, stage in enumerate(model.stages):
        step = stage.enter.patch if isinstance(stage.enter, PatchEmbedding) else 2
        parts.append(one(f"stage {i} way in", lambda enter=stage.enter: _way_in(enter, setting)))
        sizes = tuple(-(-n // step) for n in sizes)
        here = setting.on(Grid(sizes, centering="cell"))
        parts += [of_block(f"stage {i} block {j}", b, here, (1,) * len(sizes)) for j, b in enumerate(stage.blocks)]
    if not isinstance(model.norm, nn.Identity):
        parts.append(of_last_norm(model.norm, setting))
    cells = math.prod(sizes)
    parts.append(one("mean", lambda: (1 / math.sqrt(cells) * (1 + 1e-15), f"over {cells} cells")))
    parts.append(one("head", lambda: (setting.sigma(model.head.weight), "a linear map")))
    part = chain(parts)
    return Part(part.value, part.rows, flat=True)


def _way_in(enter: PatchEmbedding | PatchMerging, setting: Setting) -> tuple[Tensor, str]:
    slope, _ = of_norm(enter.norm, setting)
    weight = enter.project.weight.flatten(1) if isinstance(enter, PatchEmbedding) else enter.reduce.weight
    return setting.sigma(weight) * slope, "a linear map of cells that do not overlap"
