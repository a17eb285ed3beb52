"""Every model of the registry, its wrappers and every mixer, tiny, with inputs on several grids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sciops import Grid, build_model
from sciops.datasets import Normalizer
from sciops.mixers import MIXERS
from sciops.models import MODELS, Latent, Normalized, Stepper, SymmetryAveraged
from sciops.symmetry import Symmetry

Shapes = tuple[tuple[int, ...], ...]

PLANES: Shapes = ((9, 8), (12, 10), (7, 11))
_NEURALOP = {"vmap(grad)": "writes its spectra in place", "onnx": "of complex numbers"}
LINES: Shapes = ((40,), (72,), (150,), (64,))


@dataclass(frozen=True)
class Subject:
    """make() : the model, float32; inputs(batch, shape) : what it is called with, float64 or tokens.

    shapes : grids or lengths; the first is that of all cells, all of them are met by compiled code
    single : float32 only
    constant : outputs have no derivative by the inputs
    any_batch : exported programs take other numbers of samples than they were exported with
    cells : of the table that are filled; all where empty
    refused : cell → words of the line with which it may be refused; of a peer, versions and grids differ in that
    """

    make: Callable[[], nn.Module]
    inputs: Callable[[int, tuple[int, ...]], tuple[Tensor, ...]]
    shapes: Shapes = PLANES
    single: bool = False
    constant: bool = False
    any_batch: bool = True
    cells: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def output(model: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    """The model's output, the first where it has several."""
    y = model(*inputs)
    return y[0] if isinstance(y, tuple) else y


def built(subject: Subject, seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Module:
    """The model with parameters of this seed, in evaluation mode; none of them is zero."""
    torch.manual_seed(seed)
    model = subject.make().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.02 * torch.randn_like(p))
    return model.double() if dtype == torch.float64 and not subject.single else model.float()


def example(
    subject: Subject, batch: int = 2, number: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, ...]:
    """Inputs on the subject's grid of this number."""
    generator = torch.random.get_rng_state()
    torch.manual_seed(100 * number + batch)
    inputs = subject.inputs(batch, subject.shapes[number % len(subject.shapes)])
    torch.random.set_rng_state(generator)
    dtype = torch.float32 if subject.single else dtype
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)


def subjects() -> dict[str, Subject]:
    """All small ones by name: models of the registry, wrappers, mixers."""
    return {**_models(), **_wrappers(), **_mixers()}


def large_subjects() -> dict[str, Subject]:
    """Models at the sizes they are used at, for the cells whose programs depend on the size."""
    cells = ("export", "onnx", "deepcopy", "state", "bf16")
    found = {
        f"fno {nx}×{ny}": Subject(
            partial(build_model, "fno", width=16, depth=2, modes=(12, 12)), _fields, ((nx, ny),), cells=cells
        )
        for nx, ny in ((85, 85), (255, 256), (513, 512))
    }
    found["mano 64×64"] = Subject(
        partial(build_model, "mano", width=16, depth=2, heads=2, window=2), _fields, ((64, 64),), cells=cells
    )
    for name in ("state_space", "polynomial", "linear_attention"):
        mixer = partial(MIXERS[name], 16, causal=True)
        found[f"mixer {name} 4096"] = Subject(mixer, partial(_last, channels=16), ((4096,),), cells=cells)
    return found


def _fields(batch: int, shape: tuple[int, ...], channels: int = 1) -> tuple[Tensor]:
    return (torch.randn(batch, channels, *shape, dtype=torch.float64),)


def _positive(batch: int, shape: tuple[int, ...]) -> tuple[Tensor]:
    return (_fields(batch, shape)[0].exp(),)


def _last(batch: int, shape: tuple[int, ...], channels: int = 8) -> tuple[Tensor]:
    return (torch.randn(batch, *shape, channels, dtype=torch.float64),)


def _tokens(batch: int, shape: tuple[int, ...], sequences: int = 1) -> tuple[Tensor, ...]:
    return tuple(torch.randint(0, 7, (batch, *shape)) for _ in range(sequences))


def _audio(batch: int, shape: tuple[int, ...]) -> tuple[Tensor]:
    return (torch.randn(batch, *shape, dtype=torch.float64),)


def _models() -> dict[str, Subject]:
    def fields(name: str, inputs: Any = _fields, shapes: Shapes = PLANES, **options: Any) -> Subject:
        return Subject(partial(build_model, name, **options), inputs, shapes)

    small, images = dict(width=8, depth=1), dict(out_channels=3, image_size=8, patch=2, width=8, heads=2)
    encoder_decoder = dict(symbols=7, width=8, encoder_depth=1, decoder_depth=1, heads=2, mixer_options={"state": 4})
    found = {
        "operator": fields("operator", **small, mixer_options={"modes": (3, 3)}, local=True),
        "fno": fields("fno", **small, modes=(3, 3)),
        "mano": fields("mano", **small, heads=2, window=2),
        "smooth_mano": fields("smooth_mano", **small, heads=2, window=2, attention_from=1),
        "linear_pyramid": fields("linear_pyramid", **small, window=2),
        "hybrid": fields("hybrid", width=8, depth=2, modes=(3, 3), window=2, heads=2),
        "corrector": replace(
            fields("corrector", _positive, ((9, 9), (11, 9), (13, 13)), **small, modes=(3, 3), grid=Grid((9, 9))),
            constant=True,
            refused=dict.fromkeys(("export", "onnx"), "pass the solution as a second channel"),
        ),
        "effective_coefficient": replace(
            fields("effective_coefficient", _positive, ((9, 9), (11, 9), (13, 13)), **small),
            refused={
                "jvp": "no forward-mode derivatives",
                **dict.fromkeys(("export", "onnx"), "export the network in front of it"),
            },
        ),
        "recurrent": fields("recurrent", shapes=LINES, width=8, depth=1, skip=False),
        "classifier": fields("classifier", out_channels=3, widths=(8,), depths=(1,), heads=2, patch=2, window=2),
        "language": fields("language", _tokens, LINES, symbols=7, width=8, depth=1, mixer_options={"heads": 2}),
        "encoder_decoder": fields("encoder_decoder", partial(_tokens, sequences=2), LINES, **encoder_decoder),
        "orthogonal": fields("orthogonal", shapes=((6, 5),), shape=(6, 5), width=8, depth=2),
        "speech": fields("speech", _audio, ((2000,), (2600,), (4000,)), out_channels=5, **_SPEECH),
        "transformers:ViT": fields("transformers:ViT", shapes=((8, 8),), depth=1, **images),
        "transformers:SwinV2": fields("transformers:SwinV2", shapes=((8, 8),), depths=(1,), window=2, **images),
    }
    encoder = {name: value for name, value in _SPEECH.items() if name != "width"}
    found["speech_encoder"] = fields("speech_encoder", _audio, ((2000,), (2600,), (4000,)), out_channels=8, **encoder)
    for name in ("neuralop:FNO", "neuralop:TFNO"):
        found[name] = Subject(
            partial(build_model, name, modes=(3, 3), **small), _fields, single=True, any_batch=False, refused=_NEURALOP
        )
    uno = {"hidden_channels": 8, "uno_out_channels": [8, 8, 8], "uno_n_modes": [[3, 3]] * 3, "n_layers": 3}
    uno["uno_scalings"] = [[1.0, 1.0], [0.5, 0.5], [1.0, 1.0]]
    peer = {"single": True, "any_batch": False, "refused": _NEURALOP}
    grids = ((8, 8), (12, 10), (10, 12))
    found["neuralop:UNO"] = Subject(partial(build_model, "neuralop:UNO", **uno), _fields, grids, **peer)
    missing = set(MODELS) - set(found)
    if missing:
        raise ValueError(f"no subject for the models {sorted(missing)}: add them to {__name__}")
    return found


_SPEECH: dict[str, Any] = dict(
    width=8, depth=1, front_channels=2, bins=8, sample_rate=4000, local=3, mixer_options={"expansion": 1}
)


def _wrappers() -> dict[str, Subject]:
    def fno(channels: int = 1) -> nn.Module:
        return build_model("fno", in_channels=channels, out_channels=channels, width=8, depth=1, modes=(3, 3))

    scalars = Symmetry.of_scalars()
    return {
        "Normalized": Subject(lambda: Normalized(fno(), Normalizer(1), Normalizer(1)), _fields),
        "Latent": Subject(lambda: Latent(fno(), Grid((8, 9))), _fields),
        "SymmetryAveraged": Subject(
            lambda: SymmetryAveraged(fno(), "square", symmetry=scalars), _fields, ((9, 9), (8, 8), (11, 11))
        ),
        "Stepper": Subject(lambda: Stepper(fno(), channels=1, steps=2), _fields),
    }


def _mixers() -> dict[str, Subject]:
    planes: dict[str, dict[str, Any]] = {
        "spectral": dict(modes=(3, 3)),
        "spectral diagonal": dict(modes=(3, 3), weights="diagonal"),
        "spectral sine-cosine": dict(modes=(3, 3), basis="sine-cosine"),
        "gradient_products": dict(modes=(3, 3), bank_modes=4, bank_channels=2, products=2, poles=2),
        "multipole": dict(heads=2, window=2),
        "multipole smooth": dict(heads=2, window=2, pyramid="smooth"),
        "window": dict(heads=2, window=4),
        "window overlapping": dict(heads=2, window=4, stride=2),
        "window cosine": dict(heads=2, window=4, cosine=True, relative="continuous", qkv_bias=True, recompute=True),
        "attention": dict(heads=2),
        "slices": dict(heads=2, slices=5),
        "convolution": dict(),
        "mean_pool": dict(),
    }
    lines: dict[str, dict[str, Any]] = {
        "self_attention": dict(heads=2),
        "self_attention causal window": dict(heads=2, causal=True, window=16, positions="rope"),
        "sparse_attention": dict(heads=2, window=8, block=4, positions="rope"),
        "recurrence": dict(heads=2, causal=True),
        "recurrence both ways": dict(heads=2, coefficients="chacal", pattern="dense"),
        "linear_attention": dict(heads=2),
        "linear_attention causal": dict(heads=2, causal=True, decay=0.95),
        "linear_attention identity": dict(heads=2, causal=True, features="identity"),
        "mean_pool causal": dict(causal=True),
        "none": dict(),
        "resolvent": dict(heads=2, causal=True),
        "resolvent both ways": dict(heads=2, bidirectional="dense", gamma="learned"),
        "block_resolvent": dict(heads=2, causal=True, block=8, overlap=True),
        "block_resolvent level 0": dict(heads=2, causal=True, level=0, block=16, positions="alibi"),
        "block_resolvent level 2": dict(heads=2, level=2, block=8),
        "polynomial": dict(),
        "polynomial causal": dict(causal=True, variant="coefficients"),
        "state_space": dict(state=4),
        "state_space causal": dict(state=4, causal=True, hold="first"),
    }
    found = {}
    for cases, shapes in ((planes, PLANES), (lines, LINES)):
        for name, options in cases.items():
            found[f"mixer {name}"] = Subject(partial(MIXERS[name.split()[0]], 8, **options), _last, shapes)
    missing = set(MIXERS) - {name.split()[1] for name in found}
    if missing:
        raise ValueError(f"no subject for the mixers {sorted(missing)}: add them to {__name__}")
    return found
