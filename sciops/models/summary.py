"""A model in a few lines, for `repr`: what it maps, its main options, its parts and their parameters."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

_PARTS, _OPTIONS, _WIDTH = 5, 110, 110  # parts that are listed; characters of the options and of a line


def model_text(model: nn.Module) -> str:
    """The `__repr__` of our models: at most eight lines; ``torch.nn.Module.__repr__(model)`` prints every layer.

    >>> print(model_text(nn.Sequential(nn.Linear(3, 4), nn.GELU())))
    Sequential, 16 parameters, float32
      0  Linear, 16 parameters
      1  GELU
    """
    name = type(model).__name__
    config = vars(model).get("config")  # that of a wrapper is made on request, and may fail for a model of others
    config = config if isinstance(config, dict) else {}
    if isinstance(config.get("name"), str) and config["name"].lower() != name.lower():
        name = f"{name} {config['name']!r}"
    first = next(model.parameters(), None)
    about = [name, *_channels(model), _counted(model)]
    if first is not None:
        where = "" if first.device.type == "cpu" else f" on {first.device}"
        about.append(f"{first.dtype}{where}".removeprefix("torch."))
    lines = [", ".join(word for word in about if word)]
    options = _options_text(config.get("options"))
    if options:
        lines.append(f"  {options}")
    children = list(model.named_children())
    width = max((len(child) for child, _ in children[:_PARTS]), default=0)
    for child, module in children[:_PARTS]:
        several = _kind(module)
        lines.append(f"  {child:{width}}  {', '.join(word for word in (several, _counted(module)) if word)}"[:_WIDTH])
    if len(children) > _PARTS:
        lines.append(f"  and {len(children) - _PARTS} more parts")
    return "\n".join(lines)


def _channels(model: nn.Module) -> list[str]:
    sides = [getattr(model, side, None) for side in ("in_channels", "out_channels")]
    return [f"{sides[0]} → {sides[1]} channels"] if all(isinstance(side, int) for side in sides) else []


def _counted(module: nn.Module) -> str:
    count = sum(parameter.numel() for parameter in module.parameters() if not is_lazy(parameter))
    return f"{count:,} parameters" if count else ""


def _kind(module: nn.Module) -> str:
    """The class of a part, "4 × ResidualBlock" of a list."""
    if isinstance(module, nn.ModuleList) and len(module):
        return f"{len(module)} × {type(module[0]).__name__}"
    return type(module).__name__


def _options_text(options: Any) -> str:
    """Numbers and words of a configuration; what is off, None or nested is left out."""
    if not isinstance(options, dict):
        return ""
    shown = []
    for key, value in options.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        plain = 0 < len(values) <= 4 and all(isinstance(one, (int, float, str)) for one in values)
        if plain and value is not False and key not in ("in_channels", "out_channels"):
            shown.append(f"{key} {'×'.join(map(str, values))}")
    text = ", ".join(shown)
    return text if len(text) <= _OPTIONS else text[:_OPTIONS].rsplit(",", 1)[0] + ", …"
