"""Mixers by name: the registry, `register` for mixers of one's own, and the options that models give to them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from numbers import Integral
from typing import Any

from torch import nn

from sciops.mixers.convolution import Convolution
from sciops.mixers.gradient_products import GradientProducts
from sciops.mixers.pooling import MeanPool, NoMixer
from sciops.mixers.recurrence import StructuredRecurrence
from sciops.mixers.resolvent import BlockResolventAttention, ResolventAttention
from sciops.mixers.sequence import LinearAttention, PolynomialMixer, SelfAttention, SparseAttention, StateSpaceMixer
from sciops.mixers.slices import SliceAttention
from sciops.mixers.spectral import SpectralMixer
from sciops.mixers.traits import Traits
from sciops.mixers.windows import FullAttention, MultipoleAttention, WindowAttention
from sciops.options import check_options, options_of

MIXERS: dict[str, type[nn.Module]] = {
    "spectral": SpectralMixer,
    "multipole": MultipoleAttention,
    "window": WindowAttention,
    "attention": FullAttention,
    "slices": SliceAttention,
    "convolution": Convolution,
    "gradient_products": GradientProducts,
    "self_attention": SelfAttention,
    "sparse_attention": SparseAttention,
    "recurrence": StructuredRecurrence,
    "linear_attention": LinearAttention,
    "mean_pool": MeanPool,
    "none": NoMixer,
    "resolvent": ResolventAttention,
    "block_resolvent": BlockResolventAttention,
    "polynomial": PolynomialMixer,
    "state_space": StateSpaceMixer,
}


def register(name: str, kind: type[nn.Module] | None = None) -> Any:
    """Adds a mixer to `MIXERS`, so that models, studies and the command line take it by name.

    Parameters
    ----------
    name : str
        A name that is not taken.
    kind : type, optional
        A class of torch modules with ``kind(channels, **options)``, every option with a default, and
        ``forward(x, grid=None)`` from (batch, *grid, channels) to the same shape. Without it the function is a
        decorator.

    Returns
    -------
    type
        The class.

    Raises
    ------
    ValueError
        For a name that another class has.
    TypeError
        For anything but such a class.

    Notes
    -----
    What the rest of the project has to know, the class declares itself, all of it optional:

    * options: the parameters of its constructor. A model gives one called ``axes`` its number of axes, and one called
      ``modes`` a number for each of them
    * ``traits``, see `Traits`: default coordinates, periodicity
    * ``lipschitz_rule(self, setting)``: a bound on its Lipschitz constant, see `sciops.lipschitz.register`
    * ``linear_matrices(self, shape)``: the `Matrices` of a linear mixer, which `sciops.models.orthogonalize_` takes
    * a subclass of `SequenceMixer` with the option ``causal`` works in models of sequences too

    A saved model names its mixers: register them before `load_model`. ``del MIXERS[name]`` takes a mixer back.

    Examples
    --------
    >>> @sciops.mixers.register("double")
    ... class Double(torch.nn.Module):
    ...     def __init__(self, channels):
    ...         super().__init__()
    ...     def forward(self, x, grid=None):
    ...         return 2 * x
    """
    if kind is None:
        return lambda kind: register(name, kind)
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise TypeError(f"register({name!r}, {kind!r}): expected a class of torch modules")
    taken = MIXERS.get(name)
    if taken is not None and _place(taken) != _place(kind):  # a module or notebook cell that is run again
        raise ValueError(f"mixer name {name!r} is taken by {taken.__name__}: choose another")
    options = options_of(kind)
    missing = [o for o, default in options.items() if o != "channels" and default is inspect.Parameter.empty]
    if "channels" not in options or missing:
        expected = f"a default for {missing[0]!r}" if missing else "'channels' as its first parameter"
        raise TypeError(f"register({name!r}, {kind.__name__}): expected {expected}")
    MIXERS[name] = kind
    return kind


def _place(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def imported_mixer(name: str) -> str:
    """The registered name of a mixer given as ``module:Class``, whose module is imported; other names as they are.

    For command lines: it runs the module's code, so never pass a name that was read from a file. Raises ValueError for
    a module that cannot be imported, or that registers no such class.
    """
    module, colon, kind = name.partition(":")
    if not colon:
        return name
    try:
        wanted = getattr(import_module(module), kind, None)
    except ImportError as error:
        raise ValueError(f"mixer {name!r}: {error}") from None
    found = next((known for known, one in MIXERS.items() if one is wanted), None)
    if found is None:
        raise ValueError(f"mixer {name!r}: {module} registers no class {kind!r} with sciops.mixers.register")
    return found


def mixer_names(mixer: str | Sequence[str]) -> tuple[str, ...]:
    """The names of one mixer, or of several that alternate block by block; raises ValueError for an unknown one."""
    names = (mixer,) if isinstance(mixer, str) else tuple(mixer)
    for name in names:
        if name not in MIXERS:
            raise ValueError(f"mixer={name!r}: expected one of {tuple(MIXERS)}")
    return names


def options_by_mixer(names: Sequence[str], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The given options of every mixer by name, where one mixer may have them without its name.

    Raises ValueError for several mixers whose options are not one dict per mixer.
    """
    by_name = {name: options for name in names}
    by_mixer = options and set(options) <= set(names)
    if by_mixer and all(isinstance(one, Mapping) for one in options.values()):  # slices is an option of slices too
        by_name = {name: options.get(name, {}) for name in names}
    elif len(by_name) > 1 and options:
        raise ValueError(f"mixer_options has the keys {list(options)}; expected one dict per mixer in {list(names)}")
    return {name: {k: tuple(v) if isinstance(v, list) else v for k, v in o.items()} for name, o in by_name.items()}


def default_options(name: str) -> dict[str, Any]:
    """{option: default} of a mixer: the parameters of its constructor besides the numbers of channels."""
    return options_of(MIXERS[name], "channels", "out_channels")


def resolved_options(name: str, given: Mapping[str, Any], ndim: int) -> dict[str, Any]:
    """All options of a mixer on `ndim` axes, so that a saved model does not change when a default does.

    One number of `modes` is that of every axis. Raises TypeError for an unknown option, naming the known ones, and
    ValueError for modes and axes that are not those of the model.
    """
    options = default_options(name)
    check_options(f"mixer {name!r}", given, options)
    if "axes" in options:
        options["axes"] = 1 if given.get("flatten") else ndim
        if given.get("axes", options["axes"]) != options["axes"]:
            raise ValueError(f"axes={given['axes']!r} of mixer {name!r}: the model has {ndim}; leave axes out")
    if "modes" in options:
        modes = given["modes"] if "modes" in given else options["modes"][0]
        each = (modes,) * ndim if isinstance(modes, Integral) else tuple(modes)
        if len(each) != ndim:
            raise ValueError(f"modes={modes!r} of a model on {ndim} axes: expected one number, or one for each axis")
        given = {**given, "modes": each}
    return {**options, **given}


def traits_of(name: str, options: Mapping[str, Any]) -> Traits:
    """The `Traits` that a mixer declares with these options."""
    declared = getattr(MIXERS[name], "traits", Traits())
    return declared(**options) if callable(declared) else declared
