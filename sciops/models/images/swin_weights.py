"""Fine-tuning from Swin: its weights, from a safetensors file, in a `Classifier` with window or multipole attention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from sciops.files.budget import Budget, opening_within
from sciops.mixers import MultipoleAttention, WindowAttention
from sciops.models.images.classifier import Classifier
from sciops.models.images.swin_names import canonical, place, query_and_value, read_swin

_EXTRAS = ("position.weight", "mixer.down", "mixer.up", "mixer.kernels", "mixer.level_weights", "scale1", "scale2")


@dataclass(frozen=True)
class SwinReport:
    """What `load_swin_weights` did."""

    used: tuple[str, ...]
    """tensors of the file that are in the model now"""
    unused: tuple[tuple[str, str], ...]
    """tensors of the file that are not, with the reason"""
    fresh: tuple[str, ...]
    """parameters of the model that did not come from the file"""
    differences: tuple[str, ...]
    """options of the model without weights that make it another function than the file's"""

    def __str__(self) -> str:
        lines = [f"{len(self.used)} tensors used, {len(self.unused)} not, {len(self.fresh)} parameters not in the file"]
        lines += [f"  not used: {name} ({reason})" for name, reason in self.unused]
        lines += [f"  not in the file: {name}" for name in self.fresh]
        lines += [f"  differs: {difference}" for difference in self.differences]
        return "\n".join(lines)


def swin_options(
    path: str | Path,
    *,
    window: int | Sequence[int] | None = None,
    relative_window: int | None = None,
    mixer: Literal["window", "multipole"] = "window",
    pyramid: Literal["paper", "smooth"] = "paper",
    budget: Budget | None = None,
) -> dict[str, Any]:
    """Options with which `Classifier` computes the function of the Swin or Swin V2 whose weights the file holds.

    path : safetensors file as transformers, timm or Microsoft lay it out
    window : cells per axis, or one number per stage. Swin's tables tell it; Swin V2's files from transformers do not.
        transformers makes windows of V2 no larger than a stage is at the config's image_size
    relative_window : of V2, transformers' pretrained_window_sizes where those are not 0
    mixer : "multipole" puts the pyramid of MANO on top, which `load_swin_weights` starts at zero
    pyramid : form of that pyramid; "smooth" has attention on all levels here, so that Swin's is that of the finest
    budget : of opening the file, as in `sciops.load_model`

    The function is the same at sizes where windows and patches fit the image. Elsewhere Swin lets the cells that fill
    up the last windows take part as keys; here they are masked.

    Raises ValueError in one line where the file is no Swin, or does not tell the window.

    >>> model = Classifier(**swin_options("model.safetensors", mixer="multipole"))
    >>> print(load_swin_weights(model, "model.safetensors"))
    """
    with opening_within(budget):
        tensors = read_swin(path)
    roles, _ = canonical(tensors)
    of = {role: tensors[name] for role, name in roles.items()}
    if "embed.project.weight" not in of or "block.0.0.out.weight" not in of:
        raise ValueError(f"{path}: no patch embedding and blocks of a Swin among its {len(tensors)} tensors")
    depths = _depths(of)
    width, channels, patch, _ = of["embed.project.weight"].shape
    version2 = "block.0.0.log_scale" in of
    table = "block.0.0.table" in of
    windows, heads, options = [], [], []
    for i in range(len(depths)):
        if version2:
            heads.append(of[f"block.{i}.0.log_scale"].numel())
            windows.append(_window_of_v2(path, tensors, window, i, len(depths)))
        elif table:
            rows, count = of[f"block.{i}.0.table"].shape
            heads.append(count)
            windows.append((math.isqrt(rows) + 1) // 2)
        else:
            raise ValueError(f"{path}: block {i}.0 has neither a table nor a function of the relative position")
        bias = f"block.{i}.0.q.bias" in of or f"block.{i}.0.qkv.bias" in of
        one = dict(window=windows[-1], qkv_bias=bias, relative="continuous" if version2 else "table", cosine=version2)
        if mixer == "multipole" and pyramid == "smooth":
            one |= {"pyramid": "smooth", "attention_from": 0}
        options.append(one | ({"relative_window": relative_window} if relative_window else {}))
    return dict(
        in_channels=channels,
        out_channels=len(of["head.weight"]) if "head.weight" in of else 1000,
        patch=patch,
        widths=tuple(len(of[f"block.{i}.0.out.weight"]) for i in range(len(depths))),
        depths=depths,
        mixer=mixer,
        mixer_options=options,
        heads=tuple(heads),
        shift=True,
        position="none",
        order="post" if version2 else "pre",
        mlp_ratio=len(of["block.0.0.fc1.weight"]) / width,
    )


def load_swin_weights(
    model: Classifier,
    path: str | Path,
    *,
    extras: Literal["neutral", "keep"] = "neutral",
    strict: bool = True,
    budget: Budget | None = None,
) -> SwinReport:
    """Copies the weights of a Swin or Swin V2 into the model and reports what was and was not used.

    model : a `Classifier` with window or multipole attention; `swin_options` gives the options of the same function
    extras : "neutral" lets what Swin does not have contribute nothing at the start: the pyramid's upsampling, its
        kernels, level weights and the position are 0 and its downsampling the mean, so that the coarse levels see
        averaged cells; they learn from the first step, the downsampling from the second. "keep" leaves them as they are
    strict : whether a block, norm or merging without a counterpart of the same shape is an error. False leaves it as it
        is, and the report names it
    budget : of opening the file, as in `sciops.load_model`

    The head is left as it is where the classes differ. Nothing is changed when an error is raised.

    Raises ValueError in one line that names the first mismatch, TypeError for another model.
    """
    if not isinstance(model, Classifier):
        raise TypeError(f"{type(model).__name__}: Swin's weights go into a Classifier, see swin_options")
    if extras not in ("neutral", "keep"):
        raise ValueError(f"extras={extras!r}: expected 'neutral' or 'keep'")
    with opening_within(budget):
        tensors = read_swin(path)
    roles, others = canonical(tensors)
    if not any(role.startswith("block.") for role in roles):
        raise ValueError(f"{path}: no blocks of a Swin among its {len(tensors)} tensors")
    parameters = dict(model.named_parameters())
    stages: Any = model.stages
    multipole = [any(isinstance(block.mixer, MultipoleAttention) for block in s.blocks) for s in stages]
    values: dict[str, dict[int | None, Tensor]] = {}
    sources: dict[str, list[str]] = {}
    unused, problems = dict(others), []
    for role, name in roles.items():
        stage = int(role.split(".")[1]) if role.startswith("block.") else 0
        target, part = place(role, stage < len(multipole) and multipole[stage])
        value = tensors[name]
        if role.endswith(".k.bias"):
            unused[name] = "the softmax does not see a bias of the keys"
            continue
        if role.endswith(".qkv.bias"):
            value = query_and_value(value)
        values.setdefault(target, {})[part] = value
        sources.setdefault(target, []).append(name)
    ready = {}
    for target, parts in values.items():
        joined = parts[None] if None in parts else _joined(target, parts)
        own = parameters.get(target)
        if own is None:
            reason = f"the model has no {target}"
        elif joined is None:
            reason = f"the other parts of {target} are not in the file"
        elif joined.shape != own.shape:
            reason = f"{tuple(joined.shape)}, the model's {target} is {tuple(own.shape)}"
        else:
            ready[target] = joined
            continue
        unused.update(dict.fromkeys(sources[target], reason))
        if not target.startswith("head."):
            problems.append(f"{sources[target][0]}: {reason}")
    fresh = [name for name in parameters if name not in ready]
    problems += [
        f"the file has no counterpart of the model's {name}"
        for name in fresh
        if name not in values and not name.endswith(_EXTRAS) and not name.startswith("head.")
    ]
    if problems and strict:
        more = f" ({len(problems)} such)" if len(problems) > 1 else ""
        raise ValueError(f"{path}: {problems[0]}{more}; build the model with swin_options(path), or pass strict=False")
    if extras == "neutral":
        _check_neutral(model)
    with torch.no_grad():
        for target, value in ready.items():
            parameters[target].copy_(value)
        if extras == "neutral":
            _make_neutral(model)
    used = tuple(name for target in ready for name in sources[target])
    version2 = any(role.endswith(".log_scale") for role in roles)
    return SwinReport(used, tuple(unused.items()), tuple(fresh), _differences(model, version2))


def _depths(of: Mapping[str, Tensor]) -> tuple[int, ...]:
    blocks = {tuple(int(n) for n in role.split(".")[1:3]) for role in of if role.startswith("block.")}
    stages = 1 + max(i for i, _ in blocks)
    return tuple(sum(1 for i, _ in blocks if i == stage) for stage in range(stages))


def _window_of_v2(
    path: str | Path, tensors: Mapping[str, Tensor], window: int | Sequence[int] | None, stage: int, stages: int
) -> int:
    if isinstance(window, int):
        return window
    if window is not None:
        if len(window) != stages:
            raise ValueError(f"window={tuple(window)}: expected one number, or one for each of {stages} stages")
        return int(window[stage])
    for name, tensor in tensors.items():
        if f"layers.{stage}.blocks.0." in name and name.endswith("relative_position_index"):
            return math.isqrt(tensor.shape[0]) if tensor.ndim == 2 else math.isqrt(math.isqrt(tensor.numel()))
        if f"layers.{stage}.blocks.0." in name and name.endswith("relative_coords_table"):
            return (tensor.shape[1] + 1) // 2
    raise ValueError(f"{path}: a Swin V2 file that does not tell its windows; pass window=, its config's window_size")


def _joined(target: str, parts: Mapping[int | None, Tensor]) -> Tensor | None:
    """Thirds of qkv one below the other, or the two rows of qv_bias."""
    count = 2 if target.endswith("qv_bias") else 3
    if set(parts) != set(range(count)) or len({p.shape for p in parts.values()}) > 1:
        return None
    rows = [parts[i] for i in range(count)]
    return torch.stack(rows) if count == 2 else torch.cat(rows)


def _check_neutral(model: Classifier) -> None:
    for name, part in model.named_modules():
        if isinstance(part, MultipoleAttention) and part.attention_from != 0:
            first = "none" if part.attention_from is None else part.attention_from
            raise ValueError(
                f"{name}: attention_from={first!r}: Swin's attention is on the finest level; build the model with "
                "attention_from=0 (swin_options does), or pass extras='keep'"
            )
        if isinstance(part, MultipoleAttention) and part.sampler != "conv" and part.aggregate != "learned_per_level":
            raise ValueError(
                f"{name}: sampler={part.sampler!r} with aggregate={part.aggregate!r} cannot start at zero: use "
                "sampler='conv' or aggregate='learned_per_level', or pass extras='keep'"
            )


def _make_neutral(model: Any) -> None:
    for stage in model.stages:
        if stage.position is not None:
            stage.position.weight.zero_()
        for block in stage.blocks:
            for scale in (block.scale1, block.scale2):
                if scale is not None:
                    scale.fill_(1.0)
            mixer = block.mixer
            if not isinstance(mixer, MultipoleAttention):
                continue
            if mixer.kernels is not None:
                mixer.kernels.zero_()
            if mixer.sampler != "conv":
                mixer.level_weights.zero_()
                continue
            mixer.up.zero_()
            mean = torch.eye(mixer.channels, dtype=mixer.down.dtype, device=mixer.down.device)
            if mixer.pyramid == "smooth":  # its samplers take the mean themselves
                mixer.down.copy_(mean)
                continue
            mean = mean / mixer.rate**mixer.axes
            mixer.down.copy_(mean.reshape(*mean.shape, *(1,) * mixer.axes).expand_as(mixer.down))


def _differences(model: Any, version2: bool) -> tuple[str, ...]:
    options, found = model.config["options"], []
    order = "post" if version2 else "pre"
    if options["order"] != order:
        found.append(f"order={options['order']!r}, the file's is {order!r}")
    for i, stage in enumerate(model.stages):
        for j, block in enumerate(stage.blocks):
            attention = getattr(block.mixer, "attention", block.mixer)
            if not isinstance(attention, WindowAttention):
                continue
            expected = attention.window // 2 if j % 2 else 0
            if attention.shift != expected:
                found.append(f"stage {i}, block {j}: shift={attention.shift}, Swin's is {expected}")
            if getattr(block.mixer, "attention_from", 0) != 0:
                found.append(
                    f"stage {i}, block {j}: attention from level {block.mixer.attention_from}, Swin's is from 0"
                )
            if isinstance(attention.norm, torch.nn.LayerNorm):
                found.append(f"stage {i}, block {j}: a second norm in the mixer")
    return tuple(found)
