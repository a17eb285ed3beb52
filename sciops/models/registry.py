"""Models by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from torch import nn

from sciops._options import check_options
from sciops.datasets.fields.normalizers import Normalizer
from sciops.models.images.classifier import Classifier
from sciops.models.images.huggingface import HuggingFaceClassifier
from sciops.models.operators.fno import fno
from sciops.models.operators.hybrid import hybrid
from sciops.models.operators.mano import mano
from sciops.models.operators.neuralop import NeuralopModel
from sciops.models.orthogonal.net import OrthogonalNet
from sciops.models.sequences.encoder_decoder import EncoderDecoder
from sciops.models.sequences.language import LanguageModel
from sciops.models.sequences.recurrent import Recurrent
from sciops.models.sequences.speech import SpeechEncoder, SpeechRecognizer
from sciops.models.solvers.corrector import Corrector, corrector
from sciops.models.solvers.effective_coefficient import EffectiveCoefficient, effective_coefficient
from sciops.models.spine.operator import Operator
from sciops.models.wrappers.latent import Latent
from sciops.models.wrappers.normalized import Normalized
from sciops.models.wrappers.stepper import Stepper
from sciops.models.wrappers.symmetry import SymmetryAveraged


def _of_tokens(make: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """The class of a model that has symbols where others have channels, to be called as these are."""

    @wraps(make)
    def build(*, in_channels: int = 1, out_channels: int = 1, **options: Any) -> nn.Module:
        if (in_channels, out_channels) != (1, 1):
            raise ValueError(
                f"{make.__name__} takes tokens, not in_channels={in_channels} and out_channels={out_channels}: pass "
                "symbols, how many different tokens there are"
            )
        return make(**options)

    return build


MODELS: dict[str, Callable[..., nn.Module]] = {
    "operator": Operator,
    "fno": fno,
    "mano": mano,
    "hybrid": hybrid,
    "corrector": corrector,
    "effective_coefficient": effective_coefficient,
    "recurrent": Recurrent,
    "classifier": Classifier,
    "language": _of_tokens(LanguageModel),
    "encoder_decoder": _of_tokens(EncoderDecoder),
    "orthogonal": OrthogonalNet,
    "speech": SpeechRecognizer,
    "speech_encoder": SpeechEncoder,
    "transformers:ViT": partial(HuggingFaceClassifier, "ViT"),
    "transformers:SwinV2": partial(HuggingFaceClassifier, "SwinV2"),
    "neuralop:FNO": partial(NeuralopModel, "FNO"),
    "neuralop:TFNO": partial(NeuralopModel, "TFNO"),
    "neuralop:UNO": partial(NeuralopModel, "UNO"),
}


def build_model(name: str, *, in_channels: int = 1, out_channels: int = 1, **options: Any) -> nn.Module:
    """The model called `name` in `MODELS`, or neuraloperator's class X for "neuralop:X".

    All take (batch, in_channels, *grid) and carry `.config`, {"name", "options"}, from which `load_model` builds them
    again. Operators take an optional grid too and return (batch, out_channels, *grid); "classifier" and
    "transformers:…" take images and return logits (batch, out_channels); "language" takes tokens (batch, n), `symbols`
    of them instead of channels, and returns logits (batch, n, symbols), "encoder_decoder" two sequences of them. The
    options are those of the function or class in `MODELS`.

    Raises ValueError for an unknown name and TypeError for an unknown option, naming the known ones.

    >>> model = build_model("fno", in_channels=1, out_channels=1, width=32, depth=4, modes=(12, 12))
    """
    make = MODELS.get(name)
    if make is None and name.startswith("neuralop:"):
        make = partial(NeuralopModel, name.removeprefix("neuralop:"))
    if make is None:
        raise ValueError(
            f"model {name!r}: expected one of {', '.join(MODELS)}, or neuralop: and a class of neuraloperator"
        )
    _expect_known(name, make, options)
    return make(in_channels=in_channels, out_channels=out_channels, **options)


def _expect_known(name: str, make: Callable[..., nn.Module], options: Mapping[str, Any]) -> None:
    """Raises TypeError for an option that `make` has no parameter for; those with ``**options`` look themselves."""
    parameters = inspect.signature(make).parameters.values()
    known = {p.name for p in parameters} - {"in_channels", "out_channels"}
    if all(p.kind is not p.VAR_KEYWORD for p in parameters):
        check_options(name, options, known)


def model_from_config(config: Mapping[str, Any]) -> nn.Module:
    """The model, wrappers included, that `config` describes, with fresh weights.

    Raises ValueError or TypeError where the description does not hold together.
    """
    try:
        name, options = config["name"], dict(config["options"])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"model description {config!r}: expected {{'name': …, 'options': {{…}}}}") from None
    wrap = _WRAPPERS.get(name)
    if wrap is None:
        return build_model(name, **options)
    return wrap(model_from_config(options.pop("model", None)), options)


def _normalized(model: nn.Module, options: dict[str, Any]) -> nn.Module:
    sides = {side: None if channels is None else Normalizer(channels) for side, channels in options.items()}
    return Normalized(model, **sides)


_WRAPPERS: dict[str, Callable[[nn.Module, dict[str, Any]], nn.Module]] = {
    "normalized": _normalized,
    "latent": lambda model, options: Latent(model, **options),
    "symmetry_averaged": lambda model, options: SymmetryAveraged(model, **options),
    "stepper": lambda model, options: Stepper(model, **options),
    "corrector": lambda model, options: Corrector(model, **options),
    "effective_coefficient": lambda model, options: EffectiveCoefficient(model, **options),
}
