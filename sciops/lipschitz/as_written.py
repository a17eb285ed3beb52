"""Checks whether calling a module runs the code of its class and nothing else, as every rule assumes.

A rule reads the weights and options of a module of a known class. It is valid for the module that runs only where the
class has the known forward, no hook and no method of the instance comes between, and the weights that are read are
those that are used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrize

import sciops.mixers
import sciops.models  # noqa: F401 - so that the classes of our models are among `_WRITTEN`

_HOOKS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward pre-hook",
    "_backward_hooks": "backward hook",
}
# what a subclass may define and still run as its base class does; names that the base class lacks are harmless too
_HARMLESS = frozenset(
    "__module__ __doc__ __qualname__ __init__ __annotations__ __annotate__ __annotate_func__ __annotations_cache__ "
    "__dict__ __weakref__ __firstlineno__ __static_attributes__ __parameters__ __orig_bases__ __abstractmethods__ "
    "_abc_impl __constants__ __repr__ __str__ extra_repr reset_parameters traits _name _version".split()
)
# what calling a module runs, in the order in which torch comes to it
_RUN = ("__call__", "_wrapped_call_impl", "_call_impl", "__getattr__", "forward", "_conv_forward")
_OF_PARAMETRIZE = frozenset({"__getstate__", "__deepcopy__", "__setstate__"})


def _all_of(kind: Any) -> Iterator[type]:
    yield kind
    for subclass in type.__subclasses__(kind):
        yield from _all_of(subclass)


_WRITTEN = {kind: {name: vars(kind).get(name) for name in _RUN} for kind in _all_of(nn.Module)}
"""What the classes of torch and of our models ran when this module was imported."""


def kind_of(module: Any, known: Callable[[type], bool]) -> type | None:
    """The known class whose code runs when the module is called, None where another class changes it.

    That is the module's own class, or a base class where those before it add a constructor, texts and names that the
    base class does not know. The class that `torch.nn.utils.parametrize` puts before a layer's is skipped.
    """
    mro, harmless = type(module).__mro__, _HARMLESS
    if isinstance(module, nn.Module) and parametrize.is_parametrized(module):
        harmless = harmless | _OF_PARAMETRIZE | set(vars(module)["_modules"]["parametrizations"])
    for place, kind in enumerate(mro):
        if known(kind):
            return kind
        if not all(n in harmless or _silent(module, n, v, mro[place + 1 :]) for n, v in vars(kind).items()):
            return None
        harmless = _HARMLESS
    return None


def exactly(module: Any, *kinds: type) -> bool:
    """Whether calling the module runs the code of one of these classes."""
    return kind_of(module, kinds.__contains__) is not None


def changed(module: nn.Module) -> str | None:
    """Why calling this module does not run its class alone, in a few words; None where it does."""
    own = vars(module)
    for name, hook in _HOOKS.items():
        if own.get(name):
            return f"{_named(own[name])} as a {hook}"
        if getattr(torch_module, f"_global{name}"):
            return f"{_named(getattr(torch_module, f'_global{name}'))} as a {hook} of all modules"
    compiled = own.get("_compiled_call_impl")
    if compiled is not None and getattr(compiled, "_torchdynamo_orig_callable", None) != module._call_impl:
        return "another _compiled_call_impl"
    for kind in type(module).__mro__:
        for name in _RUN:
            if _replaced(kind, name):
                return f"{kind.__name__}.{name} replaced"
    shadows = [name for name in own if callable(getattr(type(module), name, None))]
    if is_compiled(module):
        shadows = [name for name in shadows if name != "forward"]  # torch.compile's own
    if shadows:
        return f"{shadows[0]} replaced on the instance"
    for group in (own, own.get("_parameters", {}), own.get("_buffers", {})):
        for name, value in group.items():
            if isinstance(value, Tensor) and type(value) not in (Tensor, nn.Parameter):
                return f"{name} of type {type(value).__name__}"
    if parametrize.is_parametrized(module):
        return _unsteady(module)
    return None


def _replaced(kind: type, name: str) -> bool:
    """Whether the class runs other code than it did at first or, for a class defined later, than its source says.

    The latter for neuraloperator's classes and for those that declare their own rule.
    """
    code = vars(kind).get(name)
    if kind in _WRITTEN:
        return code is not _WRITTEN[kind][name]
    if code is None or not (kind.__module__.partition(".")[0] == "neuralop" or "lipschitz_rule" in vars(kind)):
        return False
    return getattr(getattr(code, "__code__", None), "co_qualname", None) != f"{kind.__qualname__}.{name}"


def is_compiled(module: nn.Module) -> bool:
    """Whether this is what `torch.compile` makes of a module."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    return dynamo is not None and type(module) is dynamo.OptimizedModule


def changed_inside(module: nn.Module) -> str | None:
    """`changed` of the module or of the first part of it where it is not None, with the name of the part."""
    for name, part in module.named_modules():
        reason = changed(part)
        if reason is not None:
            return f"{name}: {reason}" if name else reason
    return None


def _silent(module: Any, name: str, value: Any, bases: tuple[type, ...]) -> bool:
    """Whether what a class defines under this name changes nothing that its bases run."""
    inherited = next((vars(base)[name] for base in bases if name in vars(base)), None)
    if inherited is not None:
        return inherited is value
    own = vars(module)
    known = any(name in own.get(group, ()) for group in ("_parameters", "_buffers", "_modules"))
    return not (name.startswith("__") or name in own or known)


def _named(hooks: Any) -> str:
    hook = next(iter(hooks.values()))
    return getattr(hook, "__name__", type(hook).__name__)


def _unsteady(module: Any) -> str | None:
    """Why a parametrized weight may change between two reads of it; None where it cannot."""
    kept = [(buffer, buffer.clone()) for buffer in module.parametrizations.buffers()]
    with torch.no_grad():
        try:
            for name in module.parametrizations:
                first, second = getattr(module, name), getattr(module, name)
                if not torch.allclose(first, second, rtol=1e-12, atol=0, equal_nan=True):
                    return f"a parametrization of {name} whose value changes from call to call (call model.eval())"
            if not all(torch.equal(buffer, value) for buffer, value in kept):
                return "a parametrization whose buffers change from call to call (call model.eval())"
        finally:
            for buffer, value in kept:
                buffer.copy_(value)
    return None
