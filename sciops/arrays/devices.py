"""The device that a name stands for."""

from __future__ import annotations

import torch


def device_named(name: str) -> torch.device:
    """The device of that name, "auto" for the first CUDA device or, where there is none, the CPU.

    Raises ValueError for a name that torch does not know.
    """
    try:
        return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
    except RuntimeError:
        raise ValueError(f"device={name!r}: expected 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps'") from None


def device_called(name: str) -> torch.device:
    """`device_named`, where it is there. Raises ValueError for a CUDA device that is not."""
    device = device_named(name)
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise ValueError(f"device={name!r}: there is no CUDA device here; pass device='auto' or 'cpu'")
        if device.index is not None and device.index >= count:
            raise ValueError(f"device={name!r}: expected a number below {count}, the CUDA devices there are")
    return device
