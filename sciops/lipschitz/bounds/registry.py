"""The table of rules by class of module, and `register`, which adds to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from sciops.lipschitz.bounds import models, torch_layers
from sciops.lipschitz.bounds.parts import Declared, Rule
from sciops.lipschitz.bounds.pointwise import ELEMENTWISE


def _elementwise(slope: Callable[[Any], Any]) -> Rule:
    return lambda layer, setting: (slope(layer), "largest slope")


RULES: dict[type[nn.Module], Declared] = {
    **{k: Declared(_elementwise(slope), "layer", True, k.forward) for k, slope in ELEMENTWISE.items()},
    **{k: Declared(rule, "layer", False, k.forward) for k, rule in torch_layers.RULES.items()},
    **{k: Declared(rule, "model", True, k.forward) for k, rule in models.RULES.items()},
}
"""Rules by the class of a module. `register` adds to them; mixers bring theirs as a method, ``lipschitz_rule``."""


def register(kind: type[nn.Module], rule: Rule | None = None, *, quadrature: bool = False) -> Any:
    """Declares the Lipschitz bound of modules of a class, so that `lipschitz_bound` can include them.

    The rule is not checked: it must hold for whatever ``kind.forward`` computes. It is used wherever such a module is
    called: as a model, within `nn.Sequential`, as a mixer or an activation of the spine, in wrappers.

    Parameters
    ----------
    kind : type
        Class of the module. The rule also holds for subclasses that define a constructor alone. It replaces the rule
        that the class had; ``del sciops.lipschitz.RULES[kind]`` removes it.
    rule : callable, optional
        ``rule(module, setting)`` returns L, or (L, reason), with ‖f(x) − f(y)‖ ≤ L ‖x − y‖ for all x and y: a number of
        at least 0, or a tensor with a gradient. It raises `UnboundedError` with the reason where there is none.
        Without a rule the function is a decorator.
    quadrature : bool
        The rule uses ``setting.weighted`` and then returns the bound in the quadrature norm of ``setting.grid``. By
        default a rule returns the bound in the norm that gives every point the same weight, and `lipschitz_bound`
        multiplies by the change of norm.

    Returns
    -------
    callable
        The rule.

    Raises
    ------
    TypeError
        For anything but a class of modules and a function.

    Notes
    -----
    A class may declare its rule itself, as a method ``lipschitz_rule(self, setting)``, as mixers and 1-Lipschitz layers
    do. The class attribute ``lipschitz_quadrature = True`` stands for `quadrature`; ``lipschitz_role = "layer"`` means
    that the rule needs the shape of the input. A rule registered for the class comes first.

    `Setting` says where the module works: ``grid``; ``shape`` of one input with a batch of 1, within `nn.Sequential`;
    ``radius`` of the ball that tokens are assumed to stay in, or None. ``setting.of(part)`` is the bound of a part of
    the module that is called on the module's own input or on one of its shape; it has none where a layer writes to that
    input, unless ``reused=False`` says that nothing else uses it. ``setting.sigma(matrix)`` is a largest singular value
    from above, in float64; ``convolution``, ``spectral``, ``attention``, ``slope`` and ``norm`` bound other parts, and
    ``expect`` and ``refuse`` end the bound. A module with a hook, or with a method that was replaced, has no
    bound whatever its rule.

    Examples
    --------
    >>> class Residual(torch.nn.Sequential):
    ...     def forward(self, x):
    ...         return x + super().forward(x)
    >>> @sciops.lipschitz.register(Residual)
    ... def rule(module, setting):
    ...     return 1 + setting.of(torch.nn.Sequential(*module))
    """
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise TypeError(f"register({kind!r}): expected a class of torch modules")
    if rule is None:
        return lambda rule: register(kind, rule, quadrature=quadrature)
    if not callable(rule):
        raise TypeError(f"register({kind.__name__}, {rule!r}): expected a function of the module and the setting")
    RULES[kind] = Declared(rule, "other", quadrature, kind.forward)
    return rule
