"""`Classifier`: images to classes by stages of the spine's blocks, with any mixer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from sciops.mixers import MIXERS, default_options, mixer_names, resolved_options, traits_of
from sciops.models.images.arms import classifier_arms, match_parameters
from sciops.models.images.stages import PatchEmbedding, PatchMerging, SinCosPosition, Stage
from sciops.models.spine.blocks import ResidualBlock
from sciops.models.spine.inputs import check_input
from sciops.models.spine.norms import make_norm
from sciops.models.spine.operator import description

__all__ = ["Classifier", "classifier_arms", "match_parameters"]


class Classifier(nn.Module):
    """logits = W·mean(norm(S_L ∘ … ∘ S_1(image))) + b: stages S of blocks, each on a grid half as fine as the last.

    A stage maps its patches (the first) or blocks of 2×2 cells (the others) linearly to its width; then come its
    blocks, x + mixer(norm x), x + mlp(norm x), `ResidualBlock`s of the spine. With mixer="window", order="pre",
    position="none" and what else `swin_options` returns this is Swin; with mixer="multipole" MANO's variant of it
    (arXiv:2507.02748): attention that is shared by all levels of a pyramid with learned samplers of rate 2, without
    shifts. The source states neither window nor levels for images: here levels are added until one window holds all.

    in_channels, out_channels : of the image; classes
    patch : pixels per axis of a patch
    widths, depths : channels and number of blocks of every stage
    mixer : a name in `sciops.mixers.MIXERS`, or one per stage
    mixer_options : keyword options of the mixers, or one dict per stage
    heads : of attention mixers, or one number per stage
    window : of mixers that have one
    shift : moves the windows of every second block by window // 2: None does so for mixer="window" alone, True for
        "multipole" too, False for none
    position : "sincos" adds a learned map of sines and cosines of the position in the image to the patches, at any size
        and for any mixer; "none" does not, for mixers that know offsets, as attention with `relative` does
    norm, order, mlp, mlp_ratio, mixer_activation, layer_scale : of `ResidualBlock`. Mixers have no norm of their own
    drop_path : probability of skipping a branch in the last block; falls linearly to 0 in the first
    recompute : attention mixers keep nothing but their input for the backward pass

    forward(x) : (batch, in_channels, H, W), any H and W → (batch, out_channels). Sizes that do not divide are continued
    by zeros below and to the right; spectral mixers use the modes that fit.

    Raises ValueError for unknown names and sizes that do not fit together, TypeError for unknown mixer options.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        patch: int = 4,
        widths: Sequence[int] = (32, 64),
        depths: Sequence[int] = (2, 2),
        mixer: str | Sequence[str] = "multipole",
        mixer_options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        heads: int | Sequence[int] = 4,
        window: int = 4,
        shift: bool | None = None,
        position: str = "sincos",
        norm: str = "layer",
        order: str = "pre",
        mlp: str = "plain",
        mlp_ratio: float = 2.0,
        mixer_activation: bool = False,
        layer_scale: float | None = None,
        drop_path: float = 0.0,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        counts = dict(in_channels=[in_channels], out_channels=[out_channels], patch=[patch], widths=widths)
        for name, values in counts.items():
            if not values or any(int(v) != v or v < 1 for v in values):
                raise ValueError(f"{name}={values!r}: expected positive whole numbers")
        if len(depths) != len(widths) or any(int(d) != d or d < 0 for d in depths):
            raise ValueError(f"depths={depths!r}: expected a whole number for each of widths={tuple(widths)}")
        if position not in ("sincos", "none"):
            raise ValueError(f"position={position!r}: expected 'sincos' or 'none'")
        if not 0 <= drop_path < 1:
            raise ValueError(f"drop_path={drop_path}: expected a probability in 0 ≤ p < 1")
        stages = len(widths)
        mixers = _one_per_stage("mixer", mixer, str, stages)
        given = _one_per_stage("mixer_options", {} if mixer_options is None else mixer_options, Mapping, stages)
        shared = dict(heads=_one_per_stage("heads", heads, int, stages), window=window, recompute=recompute)
        options = [_of_stage(name, i, given[i], shared, shift) for i, name in enumerate(mixer_names(mixers))]

        self.in_channels, self.out_channels = in_channels, out_channels
        block = dict(norm=norm, order=order, mlp=mlp, mlp_ratio=mlp_ratio, mixer_activation=mixer_activation)
        block |= dict(layer_scale=layer_scale, local=None, dealias=1, periodic=False)
        done, last, self.stages = 0, max(sum(depths) - 1, 1), nn.ModuleList()
        for i, (width, depth) in enumerate(zip(widths, depths)):
            if i == 0:
                enter = PatchEmbedding(in_channels, width, patch, norm)
            else:
                enter = PatchMerging(widths[i - 1], width, norm, order)
            blocks = []
            for layer in range(depth):
                part = MIXERS[mixers[i]](width, **options[i][layer % 2])
                blocks.append(ResidualBlock(width, part, drop_path=drop_path * done / last, **block))
                done += 1
            where = SinCosPosition(width) if position == "sincos" and i == 0 else None
            least = traits_of(mixers[i], options[i][0]).least_points
            self.stages.append(Stage(enter, where, blocks, least=least))
        self.norm = make_norm(norm, widths[-1])
        self.head = nn.Linear(widths[-1], out_channels)
        self.config = description(
            "classifier",
            in_channels=in_channels,
            out_channels=out_channels,
            patch=patch,
            widths=tuple(widths),
            depths=tuple(depths),
            mixer=mixers,
            mixer_options=[
                {k: v for k, v in even.items() if k != "shift" or k in own} for (even, _), own in zip(options, given)
            ],
            heads=shared["heads"],
            window=window,
            shift=shift,
            position=position,
            norm=norm,
            order=order,
            mlp=mlp,
            mlp_ratio=mlp_ratio,
            mixer_activation=mixer_activation,
            layer_scale=layer_scale,
            drop_path=drop_path,
            recompute=recompute,
        )

    def features(self, x: Tensor) -> Tensor:
        """The last stage's cells after the norm: (batch, in_channels, H, W) → (batch, rows, columns, widths[-1])."""
        check_input(self, x)
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (batch, {self.in_channels}, height, width)")
        if not x.is_floating_point():
            raise TypeError(f"x has dtype {x.dtype}; expected floating point: pass x.float() / 255")
        for stage in self.stages:
            x = stage(x)
        return self.norm(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).mean((1, 2)))


def _one_per_stage(name: str, given: Any, kind: type, stages: int) -> tuple[Any, ...]:
    if isinstance(given, kind):
        return (given,) * stages
    values = tuple(given)
    if len(values) != stages or not all(isinstance(v, kind) for v in values):
        raise ValueError(f"{name}={given!r}: expected one for all stages or one for each of {stages}")
    return values


def _of_stage(
    name: str, stage: int, given: Mapping[str, Any], shared: Mapping[str, Any], shift: bool | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All options of a stage's mixer in its blocks 0, 2, … and 1, 3, …"""
    known = default_options(name)
    ours = dict(shared, heads=shared["heads"][stage], norm=False, clip_modes=True)
    theirs = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    options = resolved_options(name, {k: v for k, v in ours.items() if k in known} | theirs, 2)
    moved = traits_of(name, options).shifts if shift is None else shift
    if not moved or "shift" not in known or "shift" in given or options["stride"] not in (None, options["window"]):
        return options, options
    return options, dict(options, shift=options["window"] // 2)
