"""Texts as feature vectors: hidden states of a frozen language model."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.arrays.scale import widened
from sciops.models.apply import evaluating, unwrapped
from sciops.models.taps import caught


def text_features(
    model: nn.Module,
    tokens: Any,
    *,
    mask: Any = None,
    layer: str = "stack",
    pool: Literal["last", "mean"] = "last",
    batch_size: int = 64,
) -> Tensor:
    """Hidden states of a frozen language model at the last token of each text, or their mean over its tokens.

    Never take the model that is judged: its own features flatter its own samples.

    Parameters
    ----------
    model : nn.Module
        Any module on tokens (batch, n), such as `sciops.models.LanguageModel`; run in evaluation mode, without a graph.
    tokens : array (samples, n)
        Whole numbers, numpy or torch; moved to the model's device.
    mask : array (samples, n), optional
        True where there is a token; default everywhere. Padding may stand at either end where the model allows it: the
        last token is the last one that is True. It is passed to models whose forward takes `mask` or
        `attention_mask`.
    layer : str
        Path of the module whose output (batch, n, channels) is taken: "stack", what `LanguageModel` multiplies with its
        embedding; "stack.blocks.0"; of other models, such as "transformer.h.11". Of a tuple its first entry.
    pool : {"last", "mean"}
        Which tokens.
    batch_size : int
        Texts of a forward pass.

    Returns
    -------
    Tensor (samples, channels)
        On the device of the model, half precision in float32.

    Raises
    ------
    ValueError
        Tokens, mask or layer do not fit, or a text has no token.
    """
    words = torch.as_tensor(tokens)
    if words.ndim != 2 or not words.numel() or words.is_floating_point() or words.is_complex():
        raise ValueError(f"tokens of {words.dtype} and shape {tuple(words.shape)}: expected whole numbers (samples, n)")
    if pool not in ("last", "mean"):
        raise ValueError(f"pool={pool!r}: expected 'last' or 'mean'")
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size!r}: expected at least 1")
    modules = dict(model.named_modules())
    if layer not in modules or not layer:
        known = ", ".join(name for name in modules if 0 < len(name.split(".")) <= 2 and name)
        raise ValueError(f"layer={layer!r}: this model has {known}")
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    present = torch.ones_like(words, dtype=torch.bool) if mask is None else torch.as_tensor(mask).to(torch.bool)
    if present.shape != words.shape:
        raise ValueError(f"mask has shape {tuple(present.shape)}, tokens {tuple(words.shape)}: expected the same")
    empty = (~present.any(1)).nonzero().flatten()
    if len(empty):
        raise ValueError(f"{len(empty)} of {len(words)} texts have no token, the first is text {int(empty[0])}")
    takes = inspect.signature(unwrapped(model).forward).parameters
    name = next((name for name in ("mask", "attention_mask") if name in takes and mask is not None), None)
    parts = []
    with evaluating(model), torch.no_grad(), caught(model, [layer]) as found:
        states = found[layer]
        for part, held in zip(words.long().split(batch_size), present.split(batch_size)):
            part, held = part.to(device), held.to(device)
            states.clear()
            model(part, **({} if name is None else {name: held}))
            parts.append(_pooled(states, held, layer, pool))
    return torch.cat(parts)


def _pooled(states: list[Any], held: Tensor, layer: str, pool: str) -> Tensor:
    if len(states) != 1 or not isinstance(states[0], Tensor) or states[0].shape[:-1] != held.shape:
        got = [tuple(getattr(state, "shape", ())) for state in states]
        raise ValueError(
            f"layer={layer!r} gave {got}: expected one output ({held.shape[0]}, {held.shape[1]}, channels)"
        )
    h = widened(states[0])
    if pool == "last":
        n = held.shape[1]
        last = (held * torch.arange(1, n + 1, device=held.device)).argmax(1)
        return h[torch.arange(len(h), device=h.device), last]
    h = torch.where(held[..., None], h, 0.0)  # states at padding are undefined
    return h.sum(1) / held.sum(1, keepdim=True)
