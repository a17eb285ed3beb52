"""Models by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from sciops.datasets.fields.normalizers import Normalizer
from sciops.models.distributions import (
    DISTRIBUTIONS,
    DropoutModel,
    Ensemble,
    FlowModel,
    QuantileModel,
    Quantized,
)
from sciops.models.images import Classifier, HuggingFaceClassifier
from sciops.models.operators import NeuralopModel, fno, hybrid, linear_pyramid, mano, smooth_mano
from sciops.models.orthogonal import OrthogonalNet
from sciops.models.sequences import EncoderDecoder, LanguageModel, Recurrent, SpeechEncoder, SpeechRecognizer
from sciops.models.sequences.encoder_decoder import EncoderDecoderOptions
from sciops.models.sequences.language import LanguageOptions
from sciops.models.solvers import Corrector, EffectiveCoefficient, corrector, effective_coefficient
from sciops.models.spine import Operator
from sciops.models.wrappers import Latent, Normalized, Stepper, SymmetryAveraged
from sciops.options import read_options


def _of_tokens(name: str, kind: type, make: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """The constructor of a model of tokens, which have no channels, with the parameters of the others."""

    def build(*, in_channels: int = 1, out_channels: int = 1, **options: Any) -> nn.Module:
        if (in_channels, out_channels) != (1, 1):
            raise ValueError(
                f"{make.__name__} takes tokens, not in_channels={in_channels} and out_channels={out_channels}: pass "
                "symbols, the number of different tokens"
            )
        return make(**vars(read_options(kind, name, options)))

    return build


MODELS: dict[str, Callable[..., nn.Module]] = {
    "operator": Operator,
    "fno": fno,
    "mano": mano,
    "smooth_mano": smooth_mano,
    "linear_pyramid": linear_pyramid,
    "hybrid": hybrid,
    "corrector": lambda **options: corrector(build_model, **options),
    "effective_coefficient": lambda **options: effective_coefficient(build_model, **options),
    "recurrent": Recurrent,
    "classifier": Classifier,
    "language": _of_tokens("language", LanguageOptions, LanguageModel),
    "encoder_decoder": _of_tokens("encoder_decoder", EncoderDecoderOptions, EncoderDecoder),
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
    """Builds a model by name.

    All models take (batch, in_channels, *grid) and have a `config`, {"name", "options"}, from which `load_model` builds
    them again. Operators also take a grid and return (batch, out_channels, *grid). "classifier" and "transformers:…"
    take images and return logits (batch, out_channels). "language" takes tokens (batch, n), has `symbols` instead of
    channels, and returns logits (batch, n, symbols); "encoder_decoder" takes two sequences of tokens.

    Parameters
    ----------
    name : str
        A name in `MODELS`; "neuralop:X" for the class X of neuraloperator; or a kind of distribution in
        `DISTRIBUTIONS`, a colon and the name of the network inside, as "quantized:fno".
    in_channels, out_channels : int
        Number of channels in and out.
    **options
        Of the function or class in `MODELS`, such as `FNOOptions` for "fno".

    Raises
    ------
    ValueError
        For an unknown name and for a value that an option cannot have.
    TypeError
        For an unknown option, naming the known ones.

    Examples
    --------
    >>> model = build_model("fno", in_channels=1, out_channels=1, width=32, depth=4, modes=(12, 12))
    """
    return _maker(name)(in_channels=in_channels, out_channels=out_channels, **options)


def check_name(name: str) -> None:
    """Raises ValueError for a name that `build_model` does not know."""
    _maker(name)


def _maker(name: str) -> Callable[..., nn.Module]:
    make = MODELS.get(name)
    kind, _, inside = name.partition(":")
    if make is None and kind == "neuralop":
        make = partial(NeuralopModel, inside)
    if make is None and kind in DISTRIBUTIONS and kind != name:
        make = partial(DISTRIBUTIONS[kind], build_model, inside)
    if make is None:
        raise ValueError(
            f"model {name!r}: expected one of {', '.join(MODELS)}, or neuralop: and a class of neuraloperator, or "
            f"{', '.join(DISTRIBUTIONS)} with a colon and a model, as quantized:fno"
        )
    return make


def network_in(name: str) -> str:
    """The name of the network inside a model of a distribution, "fno" of "quantized:fno"; any other name itself."""
    kind, _, inside = name.partition(":")
    return inside if kind in DISTRIBUTIONS else name


def model_from_config(config: Mapping[str, Any]) -> nn.Module:
    """The model that a config describes, with its wrappers and fresh weights.

    Raises ValueError or TypeError for a config that describes no model.
    """
    try:
        name, options = config["name"], dict(config["options"])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"model description {config!r}: expected {{'name': …, 'options': {{…}}}}") from None
    if name == Ensemble.name:
        return Ensemble([model_from_config(one) for one in options.pop("models", ())], **options)
    wrap = _WRAPPERS.get(name)
    if wrap is None:
        return build_model(name, **options)
    return wrap(model_from_config(options.pop("model", None)), options)


def _normalized(model: nn.Module, options: dict[str, Any]) -> nn.Module:
    sides = {side: None if channels is None else Normalizer(channels) for side, channels in options.items()}
    return Normalized(model, **sides)


def _distribution(kind: type[nn.Module], model: nn.Module, options: dict[str, Any]) -> nn.Module:
    return kind(model, **options)


_WRAPPERS: dict[str, Callable[[nn.Module, dict[str, Any]], nn.Module]] = {
    "normalized": _normalized,
    "latent": lambda model, options: Latent(model, **options),
    "symmetry_averaged": lambda model, options: SymmetryAveraged(model, **options),
    "stepper": lambda model, options: Stepper(model, **options),
    "corrector": lambda model, options: Corrector(model, **options),
    "effective_coefficient": lambda model, options: EffectiveCoefficient(model, **options),
    **{kind.name: partial(_distribution, kind) for kind in (Quantized, QuantileModel, DropoutModel, FlowModel)},
}
