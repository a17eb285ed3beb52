"""Bounds of the image classifier, in Euclidean norms of pixels and logits."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from torch import Tensor, nn

from sciops.grids import Grid
from sciops.lipschitz.as_written import changed, exactly
from sciops.lipschitz.bounds.lookup import unchanged
from sciops.lipschitz.bounds.parts import Part, Setting, chain, expect, no_bound, one, refuse
from sciops.lipschitz.bounds.pointwise import of_norm
from sciops.lipschitz.bounds.spine import of_blocks, of_last_norm
from sciops.models.images.classifier import Classifier
from sciops.models.images.stages import PatchEmbedding, PatchMerging, SinCosPosition, Stage


def of_classifier(model: Classifier, setting: Setting) -> Part:
    """The parts of the classifier, by stage.

    Patches and merged cells do not overlap, so that the entry of a stage has the norm of its matrix. The mean over P
    cells has the norm 1/√P.
    """
    stages: Any = model.stages
    if not exactly(stages, nn.ModuleList) or changed(stages):
        return no_bound("stages", "no rule: the list of stages was changed")
    parts: list[Part] = []
    sizes = tuple(setting.grid.shape)
    for i, stage in enumerate(stages):
        step = getattr(stage.enter, "patch", 2)
        parts.append(one(f"stage {i} entry", partial(_entry, stage, setting)))
        sizes = tuple(max(-(-n // step), stage.least) for n in sizes)
        here = setting.on(Grid(sizes, centering="cell"))
        parts += of_blocks(f"stage {i} block", stage.blocks, here, (1,) * len(sizes))
    parts += of_last_norm(model.norm, setting)
    cells = math.prod(sizes)
    parts.append(one("mean", lambda: (1 / math.sqrt(cells) * (1 + 1e-15), f"over {cells} cells")))
    parts.append(one("head", lambda: _head(model.head, setting)))
    part = chain(parts)
    return Part(part.value, part.rows, flat=True)


def _entry(stage: Any, setting: Setting) -> tuple[Tensor, str]:
    expect(stage, Stage, place="a stage")
    unchanged(stage, inside=False)
    enter = stage.enter
    expect(enter, PatchEmbedding, PatchMerging, place="the entry of a stage")
    unchanged(enter)
    if stage.position is not None:
        expect(stage.position, SinCosPosition, place="position")
        unchanged(stage.position)
    slope, _ = of_norm(enter.norm, setting)
    if exactly(enter, PatchMerging):
        expect(enter.reduce, nn.Linear, place="reduce")
        weight = enter.reduce.weight
    else:
        project = enter.project
        expect(project, nn.Conv2d, place="project")
        whole = (enter.patch, enter.patch)
        options = (project.kernel_size, project.stride, project.padding, project.dilation, project.groups)
        if options != (whole, whole, (0, 0), (1, 1), 1):
            refuse("patches that overlap or leave gaps: no rule")
        weight = project.weight.flatten(1)
    return setting.sigma(weight) * slope, "a linear map of cells that do not overlap"


def _head(head: Any, setting: Setting) -> tuple[Tensor, str]:
    expect(head, nn.Linear, place="head")
    unchanged(head)
    return setting.sigma(head.weight), "a linear map"
