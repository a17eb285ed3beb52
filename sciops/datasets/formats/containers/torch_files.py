"""What a torch.save file of dictionaries, lists and tuples holds, as named arrays.

Names in nested dictionaries are joined by a slash. A list whose items are alike (dictionaries of the same names, or
tensors) counts as one array for each name, with the items along its first axis; items of different shapes are no
array, which is said. Other lists and tuples have a name for each item, by its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciops.files.budget import Spending

_SAID = 3
_DEEPEST = 16
ALONE = "(the tensor)"
LIST = "(the list)"
DIFFERENT = "samples of different shapes or types"


@dataclass(frozen=True)
class TorchArray:
    """One tensor, or tensors of one shape and type that lie along a first axis.

    records : whether each is of a dictionary of its own
    """

    tensors: tuple[Any, ...]
    stacked: bool
    records: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        own = tuple(self.tensors[0].shape)
        return (len(self.tensors), *own) if self.stacked else own

    @property
    def kind(self) -> str:
        """torch's name of its type."""
        return str(self.tensors[0].dtype).removeprefix("torch.")

    @property
    def dtype(self) -> np.dtype:
        """numpy's type of the values: that of torch, or single precision where numpy has none like it."""
        return _plain(self.tensors[0][..., :0] if self.tensors[0].ndim else self.tensors[0]).dtype

    def values(self) -> np.ndarray:
        """The numbers: a tensor as it lies in memory or on the disk, a list put together in memory."""
        return np.stack([_plain(one) for one in self.tensors]) if self.stacked else _plain(self.tensors[0])


def torch_contents(data: Any, spent: Spending) -> tuple[dict[str, TorchArray], dict[str, str]]:
    """(name → array, name → why it is not an array) of what `torch.load` has returned.

    Each item counts as an object, as often as it is met: lists can hold one list many times.
    """
    import torch

    arrays: dict[str, TorchArray] = {}
    others: dict[str, str] = {}

    def walk(item: Any, name: str, depth: int) -> None:
        spent.take(objects=1, bytes=len(name), what="its table of contents")
        if depth > _DEEPEST:
            others[name] = f"nested more than {_DEEPEST} deep"
        elif isinstance(item, torch.Tensor):
            _add(arrays, others, name or ALONE, (item,), False)
        elif isinstance(item, dict):
            for key, one in item.items():
                walk(one, f"{name}/{key}" if name else str(key), depth + 1)
        elif isinstance(item, (list, tuple)) and item:
            if all(isinstance(one, torch.Tensor) for one in item) and _alike(item):
                _add(arrays, others, name or LIST, tuple(item), True)
            elif all(isinstance(one, dict) for one in item):
                _add_records(arrays, others, name, item, spent)
            elif isinstance(item, list) and _same_kind(item):
                others[name or LIST] = _differing(item)
            else:
                for i, one in enumerate(item):
                    walk(one, f"{name}/{i}" if name else str(i), depth + 1)

    walk(data, "", 0)
    return arrays, others


def _add_records(
    arrays: dict[str, TorchArray], others: dict[str, str], name: str, items: Sequence[dict], spent: Spending
) -> None:
    """Dictionaries, one a sample, as an array for each of their names."""
    parts = [torch_contents(one, spent) for one in items]
    for key in dict.fromkeys(key for found, _ in parts for key in found):
        spent.take(what="its table of contents")
        full, missing = f"{name}/{key}" if name else key, sum(key not in found for found, _ in parts)
        if missing:
            others[full] = f"missing in {missing} of the {len(items)} dictionaries of a list"
            continue
        ones = [found[key] for found, _ in parts]
        if any(one.stacked for one in ones):
            others[full] = "a list in each dictionary of a list (save one tensor with the samples along its first axis)"
        elif _alike([one.tensors[0] for one in ones]):
            _add(arrays, others, full, tuple(one.tensors[0] for one in ones), True, records=True)
        else:
            others[full] = _differing([one.tensors[0] for one in ones])
    for key, why in dict.fromkeys(pair for _, found in parts for pair in found.items()):
        others.setdefault(f"{name}/{key}" if name else key, why)


def _add(
    arrays: dict[str, TorchArray],
    others: dict[str, str],
    name: str,
    tensors: tuple[Any, ...],
    stacked: bool,
    *,
    records: bool = False,
) -> None:
    import torch

    if tensors[0].is_nested:
        others[name] = "a nested tensor (save a list of tensors)"
    elif tensors[0].is_meta:
        others[name] = "a tensor of the meta device, which has no numbers (save it from a device)"
    elif tensors[0].layout != torch.strided:
        others[name] = "a sparse tensor (save it with to_dense())"
    elif tensors[0].is_quantized:
        others[name] = "a quantized tensor (save it with dequantize())"
    else:
        arrays[name] = TorchArray(tensors, stacked, records)


def _alike(tensors: Sequence[Any]) -> bool:
    first = tensors[0]
    if any(one.is_nested for one in tensors):  # which have no shape
        return False
    return all((one.shape, one.dtype, one.layout) == (first.shape, first.dtype, first.layout) for one in tensors)


def _same_kind(items: Sequence[Any]) -> bool:
    """Whether these are tensors of one type with equally many axes: samples, rather than an input and an output."""
    import torch

    return (
        all(isinstance(one, torch.Tensor) and not one.is_nested for one in items)
        and len({(one.ndim, one.dtype) for one in items}) == 1
    )


def _differing(tensors: Sequence[Any]) -> str:
    shapes = list(dict.fromkeys(f"{str(one.dtype).removeprefix('torch.')}{list(one.shape)}" for one in tensors))
    shown = ", ".join(shapes[:_SAID]) + (", …" if len(shapes) > _SAID else "")
    return f"{len(tensors)} {DIFFERENT}, {shown} (fields are on one grid for all samples: interpolate them onto one)"


def _plain(tensor: Any) -> np.ndarray:
    """A tensor as an array; numpy has no bfloat16 and no complex numbers of half precision."""
    import torch

    wider = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
    wider |= {getattr(torch, name): torch.float32 for name in dir(torch) if name.startswith("float8_")}
    tensor = tensor.detach()
    tensor = tensor.to(wider[tensor.dtype]) if tensor.dtype in wider else tensor
    return tensor.resolve_conj().resolve_neg().numpy()
