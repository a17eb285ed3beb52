"""Image classifiers of transformers, ViT and Swin V2, made from their configuration: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from sciops._compiling import functional
from sciops.models.apply import check_tensor, of_no_samples
from sciops.models.spine.blocks import hidden_width
from sciops.models.spine.operator import description

ARCHITECTURES = ("ViT", "SwinV2")
# of their configurations; no other entry is passed on, since some name code that transformers would fetch and run
OPTIONS = (
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "layer_norm_eps",
    "qkv_bias",
)


class HuggingFaceClassifier(nn.Module):
    """`ViTForImageClassification` or `Swinv2ForImageClassification` of transformers behind the door of `Classifier`.

    architecture : "ViT" or "SwinV2"
    in_channels, out_channels : of the image; classes
    image_size : pixels per axis, one number or (height, width). ViT has one learned position per patch of an image of
        this size; SwinV2's windows are never larger than its stages are at this size
    patch : pixels per axis of a patch
    width : channels, of the first stage for SwinV2, whose stage i has width·2ⁱ
    depth (ViT), depths (SwinV2) : blocks; blocks of every stage
    heads : or, for SwinV2, one number per stage
    mlp_ratio : hidden width of an MLP over its width
    window, drop_path (SwinV2) : cells per axis of a window; probability of skipping a branch in the last block
    options : hidden_act, hidden_dropout_prob, attention_probs_dropout_prob, initializer_range, layer_norm_eps and
        qkv_bias of their `ViTConfig` or `Swinv2Config`

    forward(x) : (batch, in_channels, H, W) → (batch, out_channels), any H and W. Images are continued by zeros below
    and to the right to whole patches. At another size than `image_size` ViT's positions are interpolated, which works
    for square `image_size`s; SwinV2 has no positions but the offsets in its windows.

    Raises ImportError without transformers, ValueError and TypeError for options that do not fit.
    """

    def __init__(
        self,
        architecture: str,
        in_channels: int,
        out_channels: int,
        *,
        image_size: int | Sequence[int] = 224,
        patch: int = 4,
        width: int = 48,
        depth: int | None = None,
        depths: Sequence[int] | None = None,
        heads: int | Sequence[int] = 4,
        mlp_ratio: float = 4.0,
        window: int | None = None,
        drop_path: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if architecture not in ARCHITECTURES:
            raise ValueError(f"transformers:{architecture}: expected one of {', '.join(ARCHITECTURES)}")
        transformers = _import()
        size = (int(image_size),) * 2 if isinstance(image_size, int) else tuple(int(n) for n in image_size)
        if len(size) != 2 or min(size) < 1 or patch < 1:
            raise ValueError(f"image_size={image_size!r}, patch={patch}: expected positive numbers of pixels")
        self.in_channels, self.out_channels, self.patch = in_channels, out_channels, patch
        self.image_size = tuple(-(-n // patch) * patch for n in size)
        hidden = hidden_width(mlp_ratio, width)
        own = dict(depth=depth) if architecture == "ViT" else dict(depths=depths, window=window, drop_path=drop_path)
        foreign = (
            dict(depths=depths, window=window, drop_path=drop_path) if architecture == "ViT" else dict(depth=depth)
        )
        given = [name for name, value in foreign.items() if value is not None]
        for name in (*given, *(name for name in options if name not in OPTIONS)):
            known = ", ".join(sorted((*own, *OPTIONS, "heads", "image_size", "mlp_ratio", "patch", "width")))
            raise TypeError(f"transformers:{architecture}: unknown option {name!r}; it takes {known}")
        shared = dict(
            image_size=self.image_size, patch_size=patch, num_channels=in_channels, num_labels=out_channels, **options
        )
        if architecture == "ViT":
            config = transformers.ViTConfig(
                hidden_size=width,
                num_hidden_layers=4 if depth is None else depth,
                num_attention_heads=heads,
                intermediate_size=hidden,
                **shared,
            )
            if width % heads:
                raise ValueError(f"heads={heads} do not divide width={width}: pass heads with width % heads == 0")
            self.model = transformers.ViTForImageClassification(config)
        else:
            depths = (2, 2) if depths is None else tuple(depths)
            heads = (heads,) * len(depths) if isinstance(heads, int) else tuple(heads)
            _check_stages(width, depths, heads, self.image_size, patch)
            config = transformers.Swinv2Config(
                embed_dim=width,
                depths=list(depths),
                num_heads=list(heads),
                window_size=7 if window is None else window,
                mlp_ratio=float(mlp_ratio),
                drop_path_rate=0.0 if drop_path is None else drop_path,
                **shared,
            )
            self.model = transformers.Swinv2ForImageClassification(config)
        self.architecture = architecture
        self.config = description(
            f"transformers:{architecture}",
            in_channels=in_channels,
            out_channels=out_channels,
            image_size=size,
            patch=patch,
            width=width,
            heads=heads,
            mlp_ratio=mlp_ratio,
            **{name: value for name, value in own.items() if value is not None},
            **options,
        )

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
