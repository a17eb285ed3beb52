"""The tensors of a Swin file under one set of names, whatever library wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from sciops.files.tensor_files import DamagedTensors, opened_tensors

_ROOTS = re.compile(r"^(module\.|model\.|swin\.|swinv2\.|encoder\.(?=layers\.))+")
_BUFFERS = re.compile(r"(relative_position_index|relative_coords_table|attn_mask)$")

# transformers (files, then module names since 5), timm and Microsoft
_IN_BLOCK = {
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
    "norm1": "norm1",
    "norm2": "norm2",
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.q_proj": "q",
    "attention.k_proj": "k",
    "attention.v_proj": "v",
    "attn.qkv": "qkv",
    "attention.output.dense": "out",
    "attention.o_proj": "out",
    "attn.proj": "out",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "mlp.fc1": "fc1",
    "mlp.fc2": "fc2",
    "attention.self.continuous_position_bias_mlp.0": "hidden",
    "attention.self.continuous_position_bias_mlp.2": "to_heads",
    "attn.cpb_mlp.0": "hidden",
    "attn.cpb_mlp.2": "to_heads",
}
_WHOLE = {
    "attention.self.relative_position_bias_table": "table",
    "attention.relative_position_bias.relative_position_bias_table": "table",
    "attn.relative_position_bias_table": "table",
    "attention.self.logit_scale": "log_scale",
    "attn.logit_scale": "log_scale",
    "attn.q_bias": "q.bias",
    "attn.v_bias": "v.bias",
}
_OUTSIDE = {
    "embeddings.patch_embeddings.projection": "embed.project",
    "embeddings.norm": "embed.norm",
    "patch_embed.proj": "embed.project",
    "patch_embed.norm": "embed.norm",
    "layernorm": "norm",
    "norm": "norm",
    "classifier": "head",
    "head.fc": "head",
    "head": "head",
}


def read_swin(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; raises FileNotFoundError or ValueError in one line."""
    try:
        with opened_tensors(path) as file:
            return {name: file.get_tensor(name).clone() for name in file.keys()}
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist: expected a safetensors file with Swin weights") from None
    except DamagedTensors as error:
        raise ValueError(f"{path} is {error}; save the weights with safetensors.torch.save_file") from None


def canonical(tensors: Mapping[str, Tensor]) -> tuple[dict[str, str], dict[str, str]]:
    """Name in the file by role, and the reason by name for what has none.

    Roles: embed.project.*, embed.norm.*, block.i.j.{norm1, norm2, q, k, v, qkv, out, fc1, fc2, hidden, to_heads}.*,
    block.i.j.{table, log_scale}, merge.i.{norm, reduce}.* of the way into stage i, norm.*, head.*
    """
    # Microsoft and transformers merge at the end of a stage, timm since 0.9 at the start of the next
    at_end = any(_ROOTS.sub("", name).startswith("layers.0.downsample.") for name in tensors)
    roles, others = {}, {}
    for name in tensors:
        role = _role(_ROOTS.sub("", name), at_end)
        if role is not None:
            roles[role] = name
        else:
            others[name] = "follows from the sizes" if _BUFFERS.search(name) else "no part of this architecture"
    return roles, others


def _role(name: str, at_end: bool) -> str | None:
    block = re.match(r"layers\.(\d+)\.blocks\.(\d+)\.(.+)$", name)
    if block:
        i, j, rest = block.groups()
        if rest in _WHOLE:
            return f"block.{i}.{j}.{_WHOLE[rest]}"
        part, _, kind = rest.rpartition(".")
        return f"block.{i}.{j}.{_IN_BLOCK[part]}.{kind}" if part in _IN_BLOCK else None
    merge = re.match(r"layers\.(\d+)\.downsample\.(norm|reduction)\.(weight|bias)$", name)
    if merge:
        i, part, kind = merge.groups()
        return f"merge.{int(i) + at_end}.{'reduce' if part == 'reduction' else part}.{kind}"
    part, _, kind = name.rpartition(".")
    return f"{_OUTSIDE[part]}.{kind}" if part in _OUTSIDE else None


def place(role: str, multipole: bool) -> tuple[str, int | None]:
    """The parameter of `Classifier` that a role belongs to, and which third of qkv, or row of qv_bias, it is."""
    first, *rest = role.split(".")
    if first == "embed":
        return ".".join(["stages.0.enter", *rest]), None
    if first == "merge":
        return ".".join([f"stages.{rest[0]}.enter", *rest[1:]]), None
    if first != "block":
        return role, None
    i, j, part, *kind = rest
    base = f"stages.{i}.blocks.{j}"
    mixer = base + (".mixer.attention" if multipole else ".mixer")
    if part in ("q", "k", "v", "qkv"):
        third = {"q": 0, "k": 1, "v": 2, "qkv": None}[part]
        if kind == ["bias"]:
            return f"{mixer}.qv_bias", {0: 0, 2: 1, None: None}.get(third)
        return f"{mixer}.qkv.weight", third
    own = {"out": "out", "table": "relative.table", "log_scale": "log_scale"}
    own |= {"hidden": "relative.hidden", "to_heads": "relative.to_heads"}
    if part in own:
        return ".".join([mixer, own[part], *kind]), None
    return ".".join([base, {"fc1": "mlp_in", "fc2": "mlp_out"}.get(part, part), *kind]), None


def query_and_value(bias: Tensor) -> Tensor:
    """(3·channels) → (2, channels), without the keys' part."""
    return torch.stack([bias.chunk(3)[0], bias.chunk(3)[2]])
