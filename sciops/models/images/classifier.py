"""`Classifier`: images to classes by stages of the spine's blocks, with any mixer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal

from torch import Tensor, nn

from sciops.mixers import MIXERS, default_options, mixer_names, resolved_options, traits_of
from sciops.models.images.stages import PatchEmbedding, PatchMerging, SinCosPosition, Stage
from sciops.models.spine import ResidualBlock, check_input, description, make_norm
from sciops.models.summary import model_text
from sciops.options import Count, CountOrZero, Probability, read_options


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions:
    """Options of `Classifier`.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of channels of the image, and of classes.
    patch : int
        Pixels per axis of a patch.
    widths, depths : sequence of int
        Number of channels and of blocks of every stage.
    mixer : str or sequence of str
        A name in `sciops.mixers.MIXERS`, or one per stage.
    mixer_options : mapping or sequence of mapping, optional
        Options of the mixer, or one dict per stage.
    heads : int or sequence of int
        Number of heads of attention mixers, or one number per stage.
    window : int
        Cells per axis of a window, for mixers that have windows.
    shift : bool, optional
        Shifts the windows of every second block by window // 2: None does so for mixer="window" alone, True for
        "multipole" too, False for none.
    position : str
        "sincos" adds a learned map of sines and cosines of the position in the image to the patches, at any size and
        for any mixer; "none" does not, for mixers that use offsets, such as attention with `relative`.
    norm, order, mlp, mlp_ratio, mixer_activation, layer_scale
        As in `ResidualBlock`. Mixers have no norm of their own.
    drop_path : float
        Probability of skipping a branch in the last block; decreases linearly to 0 in the first.
    recompute : bool
        Attention mixers keep only their input for the backward pass and compute the rest again.
    """

    in_channels: Count = 1
    out_channels: Count = 1
    patch: Count = 4
    widths: Sequence[Count] = (32, 64)
    depths: Sequence[CountOrZero] = (2, 2)
    mixer: str | Sequence[str] = "multipole"
    mixer_options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    heads: Count | Sequence[Count] = 4
    window: Count = 4
    shift: bool | None = None
    position: Literal["sincos", "none"] = "sincos"
    norm: str = "layer"
    order: str = "pre"
    mlp: str = "plain"
    mlp_ratio: float = 2.0
    mixer_activation: bool = False
    layer_scale: float | None = None
    drop_path: Probability = 0.0
    recompute: bool = False


class Classifier(nn.Module):
    """Images to classes by stages of blocks, logits = W·mean(norm(S_L ∘ … ∘ S_1(image))) + b.

    Each stage S works on a grid half as fine as the one before. It maps its patches (the first) or blocks of 2×2 cells
    (the others) linearly to its width; then come its blocks, x + mixer(norm x), x + mlp(norm x), `ResidualBlock`s of
    the spine. With mixer="window", order="pre", position="none" and the other values of `swin_options` this is Swin;
    with mixer="multipole" it is MANO's variant of Swin (arXiv:2507.02748): attention shared by all levels of a pyramid
    with learned samplers of rate 2, without shifts. The source states neither window nor levels for images: here levels
    are added until one window holds all.

    ``forward(x)`` maps (batch, in_channels, H, W), any H and W, to (batch, out_channels). Sizes that do not divide are
    padded with zeros below and to the right; spectral mixers use the modes that fit.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of channels of the image, and of classes.
    **options
        The fields of `ClassifierOptions`.

    Raises
    ------
    ValueError
        For unknown names and sizes that do not fit together.
    TypeError
        For an unknown option, of the classifier or of a mixer.
    """

    __repr__ = model_text

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__()
        given = dict(options, in_channels=in_channels, out_channels=out_channels)
        o = read_options(ClassifierOptions, "classifier", given)
        stages = len(o.widths)
        if not stages or len(o.depths) != stages:
            raise ValueError(f"widths={o.widths}, depths={o.depths}: expected one of each for every stage")
        mixers = _one_per_stage("mixer", o.mixer, str, stages)
        theirs = _one_per_stage("mixer_options", {} if o.mixer_options is None else o.mixer_options, Mapping, stages)
        heads = _one_per_stage("heads", o.heads, Integral, stages)
        shared = dict(heads=heads, window=o.window, recompute=o.recompute)
        by_stage = [_of_stage(name, i, theirs[i], shared, o.shift) for i, name in enumerate(mixer_names(mixers))]

        self.in_channels, self.out_channels = in_channels, out_channels
        block: dict[str, Any] = {k: getattr(o, k) for k in ("norm", "order", "mlp", "mlp_ratio", "mixer_activation")}
        block |= dict(layer_scale=o.layer_scale, local=None, dealias=1, periodic=False)
        done, last, self.stages = 0, max(sum(o.depths) - 1, 1), nn.ModuleList()
        for i, (width, depth) in enumerate(zip(o.widths, o.depths)):
            enter: nn.Module
            if i == 0:
                enter = PatchEmbedding(in_channels, width, o.patch, o.norm)
            else:
                enter = PatchMerging(o.widths[i - 1], width, o.norm, o.order)
            blocks: list[nn.Module] = []
            for layer in range(depth):
                part = MIXERS[mixers[i]](width, **by_stage[i][layer % 2])
                blocks.append(ResidualBlock(width, part, drop_path=o.drop_path * done / last, **block))
                done += 1
            where = SinCosPosition(width) if o.position == "sincos" and i == 0 else None
            least = traits_of(mixers[i], by_stage[i][0]).least_points
            self.stages.append(Stage(enter, where, blocks, least=least))
        self.norm = make_norm(o.norm, o.widths[-1])
        self.head = nn.Linear(o.widths[-1], out_channels)
        resolved = [
            {k: v for k, v in even.items() if k != "shift" or k in own} for (even, _), own in zip(by_stage, theirs)
        ]
        self.config = description("classifier", replace(o, mixer=mixers, mixer_options=resolved, heads=heads))

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
