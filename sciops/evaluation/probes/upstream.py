"""Any model as an upstream of s3prl: a call that returns ``hidden_states``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sciops.evaluation.probes.taps import tap_names
from sciops.models.apply import evaluating
from sciops.models.taps import caught


def upstream(model: nn.Module, inputs: Any, *, layers: Sequence[str] | None = None) -> dict[str, Any]:
    """What an upstream of s3prl returns: the features before the first layer, then the output of every layer.

    Parameters
    ----------
    model : torch module, such as `sciops.models.SpeechEncoder`; run in evaluation mode. Gradients are kept unless the
        call is within ``torch.no_grad()``, as in s3prl, so that a model can be fine-tuned through them.
    inputs : list of (samples,) recordings, which are padded and passed as ``model(audio, lengths)``; or a tensor,
        passed as ``model(inputs)``
    layers : see `tap_names`; the first of them is the one whose input comes first

    Returns
    -------
    dict
        ``hidden_states``: list of 1 + L tensors; ``hidden_state_0`` … ``hidden_state_L``: the same by name;
        ``last_hidden_state``: the last of them.

    Raises
    ------
    ValueError
        There are no recordings, one is not (samples,), or a layer does not run exactly once on tensors.

    References
    ----------
    SUPERB, arXiv:2105.01051, whose tasks learn a weighted sum of ``hidden_states``.
    """
    names = tap_names(model, layers)
    given: tuple[Any, ...] = (inputs,)
    if isinstance(inputs, list | tuple):
        recordings = [torch.as_tensor(one) for one in inputs]
        if not recordings:
            raise ValueError("inputs: there are no recordings; expected at least one")
        for i, one in enumerate(recordings):
            if one.ndim != 1 or not len(one):
                raise ValueError(f"recording {i} has shape {tuple(one.shape)}: expected (samples,), one channel")
        lengths = torch.tensor([len(one) for one in recordings], device=recordings[0].device)
        given = (nn.utils.rnn.pad_sequence(recordings, batch_first=True), lengths)
    with evaluating(model), caught(model, names[:1], "input") as before, caught(model, names) as after:
        model(*given)
    found = [*before[names[0]], *(value for name in names for value in after[name])]
    odd = next((name for name in names if len(after[name]) != 1), None)
    if odd is not None or not all(isinstance(value, Tensor) for value in found):
        times = "returns no tensor" if odd is None else f"ran {len(after[odd])} times"
        raise ValueError(f"layer {odd or names[0]!r} {times}: expected once, on tensors; leave it out of layers")
    by_name = {f"hidden_state_{i}": value for i, value in enumerate(found)}
    return {"hidden_states": found, "last_hidden_state": found[-1], **by_name}
