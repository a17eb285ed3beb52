"""Objects in a few words, for `repr`: shapes instead of numbers, nothing that has to be read or computed at length."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np
from torch import Tensor

_FEW = 1024  # numbers of one axis whose range is shown


def array_text(x: Any) -> str:
    """An array as "(4, 85, 85) float64", with its device unless that is the CPU; one number as itself.

    Of an array of one axis also the range of its numbers, or how often each word is there.

    >>> array_text(np.zeros((4, 85, 85))), array_text(np.array([3, 1])), array_text(np.array(["ok", "ok"]))
    ('(4, 85, 85) float64', '(2,) int64, 1 … 3', "(2,) 'ok'")
    """
    shape = tuple(x.shape)
    if isinstance(x, Tensor):
        where = f" on {x.device}" if x.device.type != "cpu" else ""
        text = f"{shape} {str(x.dtype).removeprefix('torch.')}{where}"
        if x.ndim > 1 or not 0 < x.numel() <= _FEW or x.device.type == "meta" or x.is_complex():
            return text
        values = x.detach().cpu().double().numpy()
    else:
        text, values = f"{shape} {x.dtype}", np.asarray(x)
    if values.ndim == 0:
        return f"{values.item():.4g}" if values.dtype.kind in "iuf" else repr(values.item())
    if values.ndim > 1 or not 0 < values.size <= _FEW:
        return text
    if values.dtype.kind in "iuf":
        return f"{text}, {values.min():.3g} … {values.max():.3g}"
    words = Counter(map(str, values.tolist()))
    counted = (f"{word!r}" if len(words) == 1 else f"{count} × {word!r}" for word, count in words.most_common(4))
    return f"{shape} {', '.join(counted)}{', …' if len(words) > 4 else ''}"


def fields_text(self: Any) -> str:
    """The `__repr__` of a dataclass that holds arrays: a line for each array by its shape, one for all other fields."""
    rows = {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not None}
    arrays = {name: value for name, value in rows.items() if isinstance(value, (Tensor, np.ndarray, dict))}
    others = [
        f"{name} {_value_text(value)}" for name, value in rows.items() if name not in arrays and value is not None
    ]
    width = max(map(len, arrays), default=0)
    lines = [f"  {name:{width}}  {_value_text(value)}" for name, value in arrays.items()]
    return "\n".join([type(self).__name__, *lines, *([f"  {', '.join(others)}"] if others else [])])


def html_table(title: str, rows: Iterable[tuple[str, ...]]) -> str:
    """A title over a table of texts, for `_repr_html_`."""
    cells = ("".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row) for row in rows)
    return f"<b>{html.escape(title)}</b><table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _value_text(value: Any) -> str:
    if isinstance(value, (Tensor, np.ndarray)):
        return array_text(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_value_text(one)}" for name, one in list(value.items())[:4])
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 100 else f"{text[:80]} …"
