"""Image classifiers of transformers, ViT and Swin V2, made from their configuration: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from numbers import Integral
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from sciops.arrays.compiling import functional
from sciops.models.apply import check_tensor, of_no_samples
from sciops.models.spine import description, hidden_width
from sciops.models.summary import model_text
from sciops.options import Count, part_of, read_options


@dataclass(frozen=True, kw_only=True)
class ImageTransformerOptions:
    """Options of ViT and Swin V2. No other entry of their configurations is passed on: some name code to download.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of channels of the image, and of classes.
    image_size : int or sequence of int
        Pixels per axis, one number or (height, width). ViT has one learned position per patch of an image of this size;
        SwinV2's windows are never larger than its stages at this size.
    patch : int
        Pixels per axis of a patch.
    width : int
        Number of channels, of the first stage for SwinV2, whose stage i has width·2ⁱ.
    mlp_ratio : float
        Hidden width of an MLP over its width.
    hidden_act, hidden_dropout_prob, attention_probs_dropout_prob, initializer_range, layer_norm_eps, qkv_bias
        Of `ViTConfig` and `Swinv2Config`; None is their own default.
    """

    in_channels: Count = 1
    out_channels: Count = 1
    image_size: Count | Sequence[Count] = 224
    patch: Count = 4
    width: Count = 48
    heads: Count | Sequence[Count] = 4
    mlp_ratio: float = 4.0
    hidden_act: str | None = None
    hidden_dropout_prob: float | None = None
    attention_probs_dropout_prob: float | None = None
    initializer_range: float | None = None
    layer_norm_eps: float | None = None
    qkv_bias: bool | None = None


@dataclass(frozen=True, kw_only=True)
class ViTOptions(ImageTransformerOptions):
    """Options of "transformers:ViT": `depth` blocks with `heads` heads."""

    heads: Count = 4
    depth: Count = 4


@dataclass(frozen=True, kw_only=True)
class SwinV2Options(ImageTransformerOptions):
    """Options of "transformers:SwinV2".

    Parameters
    ----------
    depths, heads : sequence of int
        Blocks and heads of every stage; one number of heads holds for all.
    window : int
        Cells per axis of a window.
    drop_path : float
        Probability of skipping a branch in the last block.
    """

    depths: Sequence[Count] = (2, 2)
    window: Count = 7
    drop_path: float = 0.0


OPTIONS: dict[str, type[ImageTransformerOptions]] = {"ViT": ViTOptions, "SwinV2": SwinV2Options}
_OWN = ("in_channels", "out_channels", "image_size", "patch", "width", "heads", "mlp_ratio")


class HuggingFaceClassifier(nn.Module):
    """`ViTForImageClassification` or `Swinv2ForImageClassification` of transformers with the interface of `Classifier`.

    ``forward(x)`` maps (batch, in_channels, H, W), any H and W, to (batch, out_channels). Images are padded with zeros
    below and to the right to whole patches. At another size than `image_size` ViT's positions are interpolated, which
    works for square `image_size`s; SwinV2 has only offsets within its windows.

    Parameters
    ----------
    architecture : str
        "ViT" or "SwinV2".
    in_channels, out_channels : int
        Number of channels of the image, and of classes.
    **options
        The fields of `ViTOptions` or `SwinV2Options`.

    Raises
    ------
    ImportError
        Without transformers.
    TypeError
        For an unknown option.
    ValueError
        For sizes that do not fit together.
    """

    __repr__ = model_text

    def __init__(self, architecture: str, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__()
        name = f"transformers:{architecture}"
        if architecture not in OPTIONS:
            raise ValueError(f"{name}: expected one of {', '.join(OPTIONS)}")
        transformers = _import()
        given = dict(options, in_channels=in_channels, out_channels=out_channels)
        o: Any = read_options(OPTIONS[architecture], name, given)
        size = (o.image_size,) * 2 if isinstance(o.image_size, Integral) else o.image_size
        if len(size) != 2:
            raise ValueError(f"image_size={o.image_size!r}: expected one or two positive numbers of pixels")
        self.in_channels, self.out_channels, self.patch = in_channels, out_channels, o.patch
        self.image_size = tuple(-(-n // o.patch) * o.patch for n in size)
        heads: Any = o.heads
        hidden = hidden_width(o.mlp_ratio, o.width)
        theirs = {k: v for k, v in part_of(o, ImageTransformerOptions).items() if k not in _OWN and v is not None}
        theirs |= dict(
            image_size=self.image_size, patch_size=o.patch, num_channels=in_channels, num_labels=out_channels
        )
        if architecture == "ViT":
            config = transformers.ViTConfig(
                hidden_size=o.width,
                num_hidden_layers=o.depth,
                num_attention_heads=heads,
                intermediate_size=hidden,
                **theirs,
            )
            if o.width % heads:
                raise ValueError(f"heads={heads} do not divide width={o.width}: pass heads with width % heads == 0")
            self.model = transformers.ViTForImageClassification(config)
        else:
            heads = (heads,) * len(o.depths) if isinstance(heads, Integral) else heads
            _check_stages(o.width, o.depths, heads, self.image_size, o.patch)
            config = transformers.Swinv2Config(
                embed_dim=o.width,
                depths=list(o.depths),
                num_heads=list(heads),
                window_size=o.window,
                mlp_ratio=float(o.mlp_ratio),
                drop_path_rate=o.drop_path,
                **theirs,
            )
            self.model = transformers.Swinv2ForImageClassification(config)
        self.architecture = architecture
        described = vars(replace(o, image_size=size, heads=heads))
        self.config = description(name, {k: v for k, v in described.items() if k in _OWN or options.get(k) is not None})

    def forward(self, x: Tensor) -> Tensor:
        check_tensor(x)
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (batch, {self.in_channels}, height, width)")
        if not x.shape[0]:
            return of_no_samples(self, x)
        height, width = (-(-n // self.patch) * self.patch for n in x.shape[2:])
        x = F.pad(x, (0, width - x.shape[3], 0, height - x.shape[2]))
        if self.architecture == "SwinV2":
            self._match_offsets()
            return self._logits(x)
        other = (height, width) != self.image_size
        if other and self.image_size[0] != self.image_size[1]:
            raise ValueError(
                f"x is {height}×{width} after padding, image_size={self.image_size}: transformers interpolates the "
                "positions of square images only; resize x, or build the model with a square image_size"
            )
        return self._logits(x, interpolate_pos_encoding=other)

    def _logits(self, x: Tensor, **options: Any) -> Tensor:
        # fused attention has no forward-mode derivative
        with sdpa_kernel(SDPBackend.MATH) if functional() else nullcontext():
            return self.model(pixel_values=x, **options).logits

    def _match_offsets(self) -> None:
        """Gives the offsets in windows, which no file holds, the dtype of the weights that were loaded."""
        for module in self.model.modules():
            table = getattr(module, "relative_coords_table", None)
            if table is not None:
                module.relative_coords_table = table.to(next(module.continuous_position_bias_mlp.parameters()))


def _check_stages(width: int, depths: Sequence[int], heads: Sequence[int], size: tuple[int, ...], patch: int) -> None:
    if len(heads) != len(depths):
        raise ValueError(f"heads={tuple(heads)}: expected one number, or one for each of depths={tuple(depths)}")
    for i, h in enumerate(heads):
        if width * 2**i % h:
            raise ValueError(f"heads={h} do not divide the width {width * 2**i} of stage {i}")
    if min(size) // patch // 2 ** (len(depths) - 1) < 1:
        raise ValueError(
            f"image_size={size}, patch={patch} leave no cell for the last of {len(depths)} stages: at least "
            f"{patch * 2 ** (len(depths) - 1)} pixels per axis are needed; pass a smaller patch or fewer stages"
        )


@cache
def _import() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ImportError(f"transformers is not installed ({error}); pip install 'sciops[vision]'") from None
    return transformers
