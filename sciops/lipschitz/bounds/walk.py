"""From a module to its rule: the only place where a rule is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from sciops.lipschitz.as_written import changed, changed_inside, exactly, is_compiled, kind_of
from sciops.lipschitz.bounds.parts import Declared, Part, Setting, UnboundedError, no_bound, number, one, refuse
from sciops.lipschitz.norms.fourier import fourier_norm, is_neuralop_conv

_REMEDY = (
    "what is run is not what the class says; remove it, or make it the forward of a class of its own, whose rule "
    "sciops.lipschitz.register declares"
)


def looked_through(model: nn.Module) -> nn.Module:
    """The model inside DataParallel, DistributedDataParallel and torch.compile.

    Raises UnboundedError for one that is not as its class says.
    """
    while True:
        if is_compiled(model):
            inner = model._orig_mod
        elif exactly(model, nn.DataParallel, nn.parallel.DistributedDataParallel):
            inner = model.module
        else:
            return model
        _check(changed(model))
        model = inner


def look_up(module: Any, rules: Mapping[type, Declared]) -> Declared:
    """The rule of the module's class; raises UnboundedError where there is none."""
    kind = kind_of(module, lambda kind: _rule_of(kind, rules) is not None)
    if kind is None:
        base = next((k for k in type(module).__mro__ if _rule_of(k, rules) is not None), None)
        more = "" if base is None else f": its own code comes before that of {base.__name__}"
        refuse(f"no rule for {type(module).__name__}{more}; sciops.lipschitz.register declares one")
    declared = _rule_of(kind, rules)
    if kind.forward is not declared.forward:
        refuse(f"no rule for {type(module).__name__}: {kind.__name__}.forward was replaced")
    return declared


def _rule_of(kind: type, rules: Mapping[type, Declared]) -> Declared | None:
    """The rule that `register` has for this very class, or else the class's own method."""
    own = vars(kind).get("lipschitz_rule")
    if kind in rules or own is None:
        return rules.get(kind)
    return Declared(own, "other", vars(kind).get("lipschitz_quadrature", False), kind.forward)


def measure(module: nn.Module, setting: Setting) -> tuple[float | Tensor, str]:
    """(bound, reason) of a module that is no model, in the setting's norm.

    Raises UnboundedError where there is none.
    """
    declared = look_up(module, setting.rules)
    if declared.role == "model":
        refuse(f"no rule for {type(module).__name__} within another layer, which calls it without its grid")
    _check(changed_inside(module))
    convert = setting.weighted and not declared.quadrature
    value, reason = _read(module, declared.rule(module, replace(setting, weighted=False) if convert else setting))
    return (value * setting.ends if convert else value), reason


def walk(model: nn.Module, setting: Setting) -> Part:
    """The bound of a model on the setting's grid, in the setting's norm."""
    name = type(model).__name__
    try:
        model = looked_through(model)
        if is_neuralop_conv(model):
            _check(changed_inside(model))
            bracket = fourier_norm(model, setting.grid, weighted=setting.weighted)
            return one(name, lambda: (bracket.upper, "mode by mode"))
        declared = look_up(model, setting.rules)
        if declared.role == "model":
            _check(changed(model))
            return declared.rule(model, setting)
    except UnboundedError as error:
        return no_bound(name, str(error))
    if declared.role == "layer":
        from sciops.lipschitz.bounds.sequence import of_sequence

        return of_sequence(nn.Sequential(model), setting)
    return one(name, lambda: measure(model, setting))


def itself_unchanged(module: nn.Module) -> None:
    """Raises UnboundedError where the module, its parts aside, is not as its class says."""
    _check(changed(module))


def unchanged(module: nn.Module) -> None:
    """Raises UnboundedError where something in the module is not as its class says."""
    _check(changed_inside(module))


def _check(reason: str | None) -> None:
    if reason is not None:
        refuse(f"{reason}: {_REMEDY}")


def _read(module: nn.Module, result: Any) -> tuple[float | Tensor, str]:
    value, reason = result if isinstance(result, tuple) else (result, "declared by register")
    if not isinstance(value, (int, float, Tensor)) or float(number(value).detach()) < 0:
        raise ValueError(
            f"the rule for {type(module).__name__} returned {value!r}: expected a number of at least 0, or (number, "
            "reason); raise UnboundedError where there is none"
        )
    return value, reason
