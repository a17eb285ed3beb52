"""The device that a name stands for."""

from __future__ import annotations

import torch


def device_called(name: str) -> torch.device:
    """The device of that name, "auto" for the first CUDA device or, where there is none, the CPU.

    Raises ValueError for a name that torch does not know, and for a CUDA device that is not there.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    try:
        device = torch.device(("cuda" if count else "cpu") if name == "auto" else name)
    except RuntimeError:
        raise ValueError(f"device={name!r}: expected 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps'") from None
    if device.type == "cuda" and not count:
        raise ValueError(f"device={name!r}: there is no CUDA device here; pass device='auto' or 'cpu'")
    if device.type == "cuda" and device.index is not None and device.index >= count:
        raise ValueError(f"device={name!r}: expected a number below {count}, the CUDA devices there are")
    return device
