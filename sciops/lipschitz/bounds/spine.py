"""Bounds of the spine and of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sciops.lipschitz.as_written import changed, exactly, kind_of
from sciops.lipschitz.bounds.lookup import measure, unchanged
from sciops.lipschitz.bounds.mixing import of_finer_grid, of_local, of_mixer_with_skip
from sciops.lipschitz.bounds.parts import Part, Setting, chain, expect, no_bound, one, refuse, shown
from sciops.lipschitz.bounds.pointwise import GELU, of_gate, of_layers, of_norm, of_norm_alone
from sciops.models.spine.blocks import ClassicBlock, ResidualBlock
from sciops.models.spine.operator import Operator


def of_operator(model: Operator, setting: Setting) -> Part:
    """The parts of the spine; of the lift only the field's own channels, since coordinates do not vary with it."""
    grid = model.grid_for(torch.empty(1, model.in_channels, *setting.grid.shape, device="meta"), setting.grid)
    dilation = model.dilation(grid)
    parts = [one("lift", lambda: of_layers(model.lift, setting, model.in_channels))]
    parts += of_blocks("block", model.blocks, setting, dilation)
    parts += of_last_norm(model.norm, setting)
    parts.append(one("project", lambda: of_layers(model.project, setting)))
    if model.wall == "zero":
        parts.append(one("wall", lambda: (1.0, "zeros on the wall")))
    return chain(parts)


def of_last_norm(norm: nn.Module, setting: Setting) -> list[Part]:
    """The part of the norm after the blocks; none for an identity."""

    def rule() -> tuple[Tensor | float, str]:
        unchanged(norm)
        return of_norm_alone(norm, setting)

    return [] if exactly(norm, nn.Identity) and not changed(norm) else [one("norm", rule)]


def of_blocks(name: str, blocks: Any, setting: Setting, dilation: Sequence[int]) -> list[Part]:
    """The parts of a list of blocks, each by the rule of its class."""
    if not exactly(blocks, nn.ModuleList) or changed(blocks):
        return [no_bound(name, "no rule: the list of blocks was changed")]
    return [_of_block(f"{name} {i}", block, setting, dilation) for i, block in enumerate(blocks)]


def _of_block(name: str, block: nn.Module, setting: Setting, dilation: Sequence[int]) -> Part:
    def rule() -> tuple[Tensor, str]:
        unchanged(block)
        kind = kind_of(block, _BLOCKS.__contains__)
        if kind is None:
            refuse(f"no rule for a block {type(block).__name__}")
        return _BLOCKS[kind](block, setting, dilation)

    return one(name, rule)


def _classic(block: Any, setting: Setting, dilation: Sequence[int]) -> tuple[Tensor, str]:
    """σ ∘ norm ∘ (W + K + local)."""
    expect(block.skip, nn.Linear, place="skip")
    value, reason = of_mixer_with_skip(block.mixer, block.skip.weight, setting)
    if block.local is not None:
        value, reason = value + of_local(block.local, setting, dilation), reason + " + local kernel"
    slope, _ = of_norm(block.norm, setting)
    value = value * slope
    if not block.last:
        value, reason = value * (GELU * of_finer_grid(block.dealias, block.periodic, setting)[0]), f"GELU · ({reason})"
    return value, reason


def _residual(block: Any, setting: Setting, dilation: Sequence[int]) -> tuple[Tensor, str]:
    """(1 + mixing)(1 + mlp)."""
    if block.training and block.drop_path:
        refuse("stochastic depth in training: call model.eval()")
    for place in ("mlp_in", "mlp_out", "mlp_gate", "after_mixer"):
        if getattr(block, place) is not None:
            expect(getattr(block, place), nn.Linear, place=place)
    mixed, reason = _mixing(block, setting, dilation)
    fed = _feeding(block, setting)
    return mixed * (1 + fed), f"{shown(mixed)} of mixing ({reason}) · (1 + {shown(fed)} of the mlp)"


def _mixing(block: Any, setting: Setting, dilation: Sequence[int]) -> tuple[Tensor, str]:
    slope, ball = of_norm(block.norm1, setting)
    value: Any
    if exactly(block.norm1, nn.Identity) and block.after_mixer is None and block.scale1 is None:
        identity = torch.eye(block.mlp_in.in_features, dtype=setting.dtype, device=block.mlp_in.weight.device)
        value, reason = of_mixer_with_skip(block.mixer, identity, setting)
        if block.local is not None:
            value = value + of_local(block.local, setting, dilation)
        return value, reason.replace("W", "1")
    value, reason = measure(block.mixer, setting if block.post else setting.in_ball(ball))
    if block.local is not None:
        value, reason = value + of_local(block.local, setting, dilation), reason + " + local kernel"
    if block.after_mixer is not None:
        gain = GELU * of_finer_grid(block.dealias, block.periodic, setting)[0]
        value = value * gain * setting.sigma(_scaled(block.after_mixer.weight, block, block.scale1))
    value = value * slope
    if block.scale1 is not None and (block.post or block.after_mixer is None):
        value = value * setting.cast(block.scale1).abs().max()
    return 1 + value, f"1 + {reason}"


def _feeding(block: Any, setting: Setting) -> Tensor:
    slope, ball = of_norm(block.norm2, setting)
    ball = None if block.post else ball
    gain, spread = of_finer_grid(block.dealias, block.periodic, setting)
    if block.mlp_gate is None:
        hidden = GELU * setting.sigma(block.mlp_in.weight)
    else:
        hidden = of_gate(block.mlp_in, block.mlp_gate, setting, setting.radius if ball is None else ball, spread)
    value = setting.sigma(_scaled(block.mlp_out.weight, block, block.scale2)) * hidden * (gain * slope)
    return value * setting.cast(block.scale2).abs().max() if block.scale2 is not None and block.post else value


def _scaled(weight: Tensor, block: Any, scale: Tensor | None) -> Tensor:
    """diag(γ) W, where no norm comes between them."""
    return weight if scale is None or block.post else scale[:, None] * weight


_BLOCKS: dict[type, Callable[[Any, Setting, Sequence[int]], tuple[Tensor, str]]] = {
    ClassicBlock: _classic,
    ResidualBlock: _residual,
}
