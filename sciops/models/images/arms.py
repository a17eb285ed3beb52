"""Classifiers with equal numbers of parameters: the same stages with different mixers, and ViT and SwinV2."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from sciops.models.images.classifier import Classifier
from sciops.models.images.huggingface import HuggingFaceClassifier

TOLERANCE = 0.03
_Recipe = Callable[[int, float], tuple[Callable[..., nn.Module], dict[str, Any]]]
_RATIOS = (0.5, 8.0)  # of the hidden width of an MLP to the width


def classifier_arms(
    image_size: int | Sequence[int],
    channels: int,
    classes: int,
    parameters: int,
    *,
    patch: int = 2,
    depths: Sequence[int] = (2, 2),
    window: int = 4,
    heads: int = 4,
    mlp_ratio: float = 2.0,
    only: Sequence[str] | None = None,
    **options: Any,
) -> dict[str, Callable[[], nn.Module]]:
    """Constructors, by name, of classifiers with `parameters` ± 3 % parameters each.

    * ``multipole``, ``window`` (shifted in every second block), ``attention`` (full), ``spectral``: `Classifier`s with
      these mixers, stage i twice as wide as stage i − 1, on patches of `patch` pixels
    * ``ViT``: as many blocks on patches of 2·`patch` pixels
    * ``SwinV2``: the same stages, windows of as many cells as the last stage has, up to 7

    A constructor draws the weights from torch's global generator: seed it before the call.

    Parameters
    ----------
    image_size : int or sequence of int
        Pixels per axis. It determines the positions of ViT, SwinV2's windows and the spectral modes: half of the points
        of every stage, at most 8. All arms accept other sizes too.
    channels, classes, parameters : int
        Number of image channels, of classes and of parameters.
    patch, depths, window, heads
        As in `ClassifierOptions`.
    mlp_ratio : float
        Target for hidden width over width: widths are multiples of `heads`, and the hidden width is chosen to match the
        number of parameters.
    only : sequence of str, optional
        Names to make; by default all.
    **options
        Of `Classifier`, for the arms that are classifiers, and drop_path for all.

    Raises
    ------
    ValueError
        Where no width fits.
    ImportError
        For ViT and SwinV2 without transformers.
    """
    height, width = (image_size,) * 2 if isinstance(image_size, int) else image_size
    grids = [tuple(-(-n // (patch * 2**i)) for n in (height, width)) for i in range(len(depths))]
    common = dict(in_channels=channels, out_channels=classes)
    stages = dict(common, patch=patch, depths=tuple(depths), heads=heads, window=window, **options)
    theirs = dict(common, image_size=(height, width), heads=heads)
    theirs |= {k: v for k, v in options.items() if k == "drop_path"}
    modes = [tuple(max(1, min(8, n // 2)) for n in grid) for grid in grids]

    def hierarchical(mixer: str, **more: Any) -> _Recipe:
        def recipe(width: int, ratio: float) -> tuple[Callable[..., nn.Module], dict[str, Any]]:
            widths = tuple(width * 2**i for i in range(len(depths)))
            return Classifier, dict(stages, mixer=mixer, widths=widths, mlp_ratio=ratio, **more)

        return recipe

    spectral = dict(mixer_options=[dict(modes=m, weights="diagonal") for m in modes])
    vit = dict(theirs, patch=2 * patch, depth=sum(depths))
    vit.pop("drop_path", None)
    swin = dict(theirs, patch=patch, depths=tuple(depths), window=max(1, min(7, *grids[-1])))
    recipes: dict[str, _Recipe] = {
        "multipole": hierarchical("multipole"),
        "window": hierarchical("window"),
        "attention": hierarchical("attention"),
        "spectral": hierarchical("spectral", **spectral),
        "ViT": lambda w, ratio: (partial(HuggingFaceClassifier, "ViT"), dict(vit, width=w, mlp_ratio=ratio)),
        "SwinV2": lambda w, ratio: (partial(HuggingFaceClassifier, "SwinV2"), dict(swin, width=w, mlp_ratio=ratio)),
    }
    names = tuple(recipes) if only is None else tuple(only)
    unknown = [name for name in names if name not in recipes]
    if unknown:
        raise ValueError(f"only={only!r}: {unknown[0]!r} is not one of {tuple(recipes)}")
    arms: dict[str, Callable[[], nn.Module]] = {}
    for name in names:
        try:
            chosen = match_parameters(partial(_build, recipes[name]), parameters, step=heads, mlp_ratio=mlp_ratio)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        arms[name] = partial(_build, recipes[name], *chosen)
    return arms


def match_parameters(
    make: Callable[[int, float], nn.Module], parameters: int, *, step: int = 4, mlp_ratio: float = 2.0
) -> tuple[int, float]:
    """A width and MLP ratio for which make(width, ratio) has `parameters` ± 3 % parameters.

    Of all widths that are multiples of `step` and fit with a ratio between 0.5 and 8, the one whose ratio is closest to
    `mlp_ratio`. Models are made on the meta device only. Raises ValueError where no width fits.
    """
    best: tuple[float, int, float] | None = None
    for width in range(step, 4096, step):
        least, one, two = (_count(make, width, ratio) for ratio in (_RATIOS[0], 1.0, 2.0))
        if least > parameters * (1 + TOLERANCE):
            break
        ratio = 1.0 + (parameters - one) / (two - one)
        if not _RATIOS[0] <= ratio <= _RATIOS[1]:
            continue
        ratio = round(ratio * width) / width
        distance = abs(math.log(ratio / mlp_ratio))
        if abs(_count(make, width, ratio) - parameters) <= TOLERANCE * parameters and (
            best is None or distance < best[0]
        ):
            best = (distance, width, ratio)
    if best is None:
        raise ValueError(
            f"no width in steps of {step} gives {parameters} ± 3 % parameters: ask for more, or fewer stages"
        )
    return best[1:]


def _build(recipe: _Recipe, width: int, ratio: float) -> nn.Module:
    make, options = recipe(width, ratio)
    return make(**options)


def _count(make: Callable[[int, float], nn.Module], width: int, ratio: float) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in make(width, ratio).parameters())
