"""The rule of a module, and the bound that it gives for a layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from sciops.lipschitz.as_written import changed, changed_inside, exactly, is_compiled, kind_of
from sciops.lipschitz.bounds.parts import Declared, Setting, number, refuse


def looked_through(model: Any) -> nn.Module:
    """The model inside DataParallel, DistributedDataParallel and torch.compile.

    Raises UnboundedError where a wrapper does not run what its class says.
    """
    compiled = is_compiled(model)
    if not compiled and not exactly(model, nn.DataParallel, nn.parallel.DistributedDataParallel):
        return model
    unchanged(model, inside=False)
    return looked_through(model._orig_mod if compiled else model.module)


def look_up(module: Any, rules: Mapping[type, Declared]) -> Declared:
    """The rule of the module's class; raises UnboundedError where there is none."""
    kind: Any = kind_of(module, lambda kind: _rule_of(kind, rules) is not None)
    declared = None if kind is None else _rule_of(kind, rules)
    if declared is None:
        base = next((k for k in type(module).__mro__ if _rule_of(k, rules) is not None), None)
        more = "" if base is None else f": its own code comes before that of {base.__name__}"
        refuse(f"no rule for {type(module).__name__}{more}; sciops.lipschitz.register declares one")
    if kind.forward is not declared.forward:
        refuse(f"no rule for {type(module).__name__}: {kind.__name__}.forward was replaced")
    return declared


def _rule_of(kind: Any, rules: Mapping[type, Declared]) -> Declared | None:
    """The rule that `register` has for this very class, or else the class's own method."""
    own = vars(kind).get("lipschitz_rule")
    if kind in rules or own is None:
        return rules.get(kind)
    about = {name: vars(kind).get(f"lipschitz_{name}") for name in ("role", "quadrature", "rule_with_skip")}
    role: Any = about["role"] or "other"
    return Declared(own, role, bool(about["quadrature"]), kind.forward, about["rule_with_skip"])


def measure(module: nn.Module, setting: Setting) -> tuple[float | Tensor, str]:
    """(bound, reason) of a layer, mixer or activation, in the setting's norm.

    Raises UnboundedError where it has none, and for a model, which is called with a grid.
    """
    declared = look_up(module, setting.rules)
    if declared.role == "model":
        refuse(f"no rule for {type(module).__name__} within another layer, which calls it without its grid")
    unchanged(module)
    convert = setting.weighted and not declared.quadrature
    value, reason = _read(module, declared.rule(module, replace(setting, weighted=False) if convert else setting))
    return (value * setting.ends if convert else value), reason


def unchanged(module: nn.Module, *, inside: bool = True) -> None:
    """Raises UnboundedError where the module, or with `inside` a part of it, does not run what its class says."""
    reason = changed_inside(module) if inside else changed(module)
    if reason is not None:
        refuse(
            f"{reason}: what is run is not what the class says; remove it, or make it the forward of a class of its "
            "own, whose rule sciops.lipschitz.register declares"
        )


def _read(module: nn.Module, result: Any) -> tuple[float | Tensor, str]:
    value, reason = result if isinstance(result, tuple) else (result, "declared by register")
    if not isinstance(value, (int, float, Tensor)) or float(number(value).detach()) < 0:
        raise ValueError(
            f"the rule for {type(module).__name__} returned {value!r}: expected a number of at least 0, or (number, "
            "reason); raise UnboundedError where there is none"
        )
    return value, reason
