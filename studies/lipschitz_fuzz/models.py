"""Random small models of this project: mixers, the spine, wrappers, classifiers, neuraloperator's models."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from sciops.datasets.fields.normalizers import Normalizer
from sciops.grids import Grid
from sciops.lipschitz import RescaledLinear, RescaledResidual, RescaledSpectral
from sciops.mixers import MIXERS, Convolution, SpectralMixer
from sciops.models.registry import build_model
from sciops.models.spine.operator import Operator
from sciops.models.wrappers.latent import Latent
from sciops.models.wrappers.normalized import Normalized
from sciops.models.wrappers.stepper import Stepper
from sciops.models.wrappers.symmetry import SymmetryAveraged
from sciops.symmetry import Symmetry
from studies.lipschitz_fuzz.changes import replaced
from studies.lipschitz_fuzz.layers import activation
from studies.lipschitz_fuzz.truth import Case

_FREE = ("spectral", "convolution", "mean_pool")
_SEQUENCES = (
    "recurrence",
    "linear_attention",
    "state_space",
    "resolvent",
    "block_resolvent",
    "polynomial",
    "sparse_attention",
)
_IN_A_BALL = ("attention", "window", "multipole", "slices", "self_attention")


def louder(model: nn.Module, factor: float) -> nn.Module:
    """The model with all its parameters times a factor."""
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(factor)
    return model


def _options(draw: random.Random, mixer: str, axes: int, channels: int) -> dict[str, Any]:
    heads = draw.choice((1, channels))
    if mixer == "spectral":
        basis = draw.choice(("fourier", "fourier", "sine", "cosine", "sine-cosine"))
        return dict(modes=(2,) * axes, basis=basis, weights=draw.choice(("dense", "diagonal")))
    if mixer == "convolution":
        return dict(padding=draw.choice(("zeros", "replicate")), axes=axes)
    if mixer == "attention":
        return dict(heads=heads, norm=False)
    if mixer == "window":
        return dict(heads=heads, norm=False, window=draw.choice((2, 3)), stride=draw.choice((None, 1)))
    if mixer == "multipole":
        aggregate = draw.choice(("sum", "vcycle_damped", "learned_per_level"))
        more = dict(sampler=draw.choice(("conv", "average")), aggregate=aggregate)
        return dict(heads=heads, norm=False, window=draw.choice((2, 3)), axes=axes) | more
    if mixer == "slices":
        return dict(heads=heads, slices=3, local=axes == 2 and draw.random() < 0.5, weighted=draw.random() < 0.5)
    if mixer == "mean_pool":
        return dict(causal=axes == 1 and draw.random() < 0.5)
    if mixer == "self_attention":
        return dict(heads=heads, positions="none")
    return {}


def mixer(draw: random.Random) -> Case:
    """A mixer alone, within a sequence, or one without a bound."""
    name = draw.choice((*MIXERS, "spectral", "spectral", "convolution", "mean_pool", "none", "window"))
    grid = _grid(draw, 1 if name in ("self_attention", *_SEQUENCES) else None)
    axes, channels = len(grid.shape), 4 if name in _SEQUENCES else draw.choice((2, 3))
    options = dict(grid=grid, shape=(1, *grid.shape, channels), last=True, ball=name in _IN_A_BALL)
    within = draw.random() < 0.3
    given = _options(draw, name, axes, channels) | (dict(weighted=False) if name == "slices" and within else {})
    made = louder(MIXERS[name](channels, **given), draw.uniform(0.5, 3))
    if within:
        made = nn.Sequential(nn.Linear(channels, channels), made, nn.GELU(), nn.Linear(channels, 2))
    elif draw.random() < 0.2:
        line = RescaledSpectral(channels, (2,) * axes)
        made = nn.Sequential(line, RescaledResidual(channels), RescaledLinear(channels, channels))
        options |= dict(ball=False)
    return Case(made.double(), **options)


def _grid(draw: random.Random, axes: int | None = None) -> Grid:
    axes = axes or draw.choice((1, 1, 2))
    sizes = tuple(draw.randint(5, 8) if axes == 1 else draw.randint(4, 5) for _ in range(axes))
    return Grid(sizes, centering=draw.choice(("periodic", "node", "cell")))


def operator(
    draw: random.Random, grid: Grid, inputs: int, outputs: int, *, mixers: Sequence[str], **given: Any
) -> Operator:
    """A spine with one of these mixers and plain maps."""
    axes, width = len(grid.shape), draw.randint(2, 4)
    block, name = draw.choice(("classic", "residual")), draw.choice(mixers)
    options = dict(width=width, depth=draw.randint(1, 2), block=block, norm="none", ndim=axes)
    options |= dict(coordinates=draw.choice(("none", "linear", "periodic", "wall")), wall=draw.choice(("none", "zero")))
    options |= dict(local=draw.random() < 0.3, local_padding=draw.choice(("zeros", "replicate")))
    options |= dict(dealias=draw.choice((1, 1, 2)))
    if block == "residual":
        options |= dict(mlp="plain", mixer_activation=draw.random() < 0.5, layer_scale=draw.choice((None, 0.7)))
    if draw.random() < 0.3:
        options |= dict(reference_spacing=float(2.2 * grid.spacing[0]))
    mixing = _options(draw, name, axes, width)
    model = Operator(inputs, outputs, mixer=name, mixer_options=mixing, **(options | given)).double()
    for part in model.modules():
        if isinstance(part, tuple(MIXERS[n] for n in _IN_A_BALL)):
            louder(part, draw.uniform(0.1, 1.0))
        elif isinstance(part, (SpectralMixer, Convolution)):
            louder(part, draw.uniform(1, 20))
    return model


def spine(draw: random.Random) -> Case:
    """Every option of the spine, and what may come between."""
    grid, inputs = _grid(draw), draw.choice((1, 2))
    given = dict(norm=draw.choice(("rms", "layer", "instance"))) if draw.random() < 0.15 else {}
    model = operator(draw, grid, inputs, draw.choice((1, 2)), mixers=(*_FREE, "spectral"), **given)
    options = dict(grid=grid, shape=(1, inputs, *grid.shape), vacuous=bool(given))
    way = draw.random()
    if way < 0.05:
        model.blocks[0].register_forward_hook(lambda module, x, y: 10 * y)
    elif way < 0.1:
        model.lift[1] = activation(draw, (1, model.lift[0].out_features))
    elif way < 0.15:
        options |= dict(inside=lambda: replaced(nn.Linear, "forward"))
    elif way < 0.2:
        model.blocks[0] = model.blocks[-1]
    return Case(model.double(), **options)


def in_a_ball(draw: random.Random) -> Case:
    """Attention and gated maps, for tokens that stay in a ball."""
    grid = _grid(draw)
    given = dict(depth=1) | (dict(mlp="gated", block="residual") if draw.random() < 0.3 else {})
    model = operator(draw, grid, 1, 1, mixers=(*_IN_A_BALL[:4], *(("spectral",) if "mlp" in given else ())), **given)
    return Case(model, grid, (1, 1, *grid.shape), ball=True)


def wrapped(draw: random.Random) -> Case:
    """Normalisers, latent grids, averages over symmetries, and steps, around one another."""
    grid = _grid(draw)
    generator = torch.Generator().manual_seed(draw.randrange(2**31))

    def normalizer() -> Normalizer:
        spread = 3 ** torch.randn(1, 1, 1, generator=generator, dtype=torch.float64)
        return Normalizer.fit(spread * torch.randn(40, 1, 4, generator=generator, dtype=torch.float64))

    inner = grid
    latent = draw.random() < 0.3
    if latent:
        inner = Grid(tuple(draw.randint(4, 7) for _ in grid.shape), centering=grid.centering)
    history = draw.choice((1, 1, 2))
    if draw.random() < 0.3:  # layers that write to their input, among others
        kind = (nn.Conv1d, nn.Conv2d)[len(grid.shape) - 1]
        before = draw.choice((nn.Identity(), nn.AlphaDropout(0.3), nn.ChannelShuffle(1), nn.Tanh(), nn.Dropout(0.2)))
        leaky = nn.LeakyReLU(draw.uniform(-4, 4), inplace=draw.random() < 0.6)
        model: nn.Module = nn.Sequential(before, leaky, kind(history, 1, 3, padding=1)).double().eval()
        latent = False
    else:
        model = operator(draw, inner, history, 1, mixers=_FREE)
    if latent:
        methods = ("linear", "cubic", "nearest", "fourier")
        model = Latent(model, inner, input_method=draw.choice(methods), output_method=draw.choice(methods))
    if history == 1 and draw.random() < 0.4:
        model = Normalized(model, normalizer(), normalizer() if draw.random() < 0.7 else None)
    if history == 1 and len(grid.shape) == 2 and draw.random() < 0.3:
        model = SymmetryAveraged(model, "allowed", symmetry=Symmetry.of_scalars())
    if draw.random() < 0.7 or history > 1:
        residual = draw.random() < 0.5
        model = Stepper(model, channels=1, history=history, steps=draw.randint(1, 3), residual=residual)
    return Case(model.double(), grid, (1, history, *grid.shape))


def classifier(draw: random.Random) -> Case:
    sizes = (draw.randint(3, 7), draw.randint(3, 7))
    name = draw.choice(("spectral", "spectral", "spectral", "window", "attention", "multipole"))
    norm = draw.choice(("none", "none", "none", "layer"))
    layout = dict(patch=2, widths=(4, 4), depths=(1, 1), heads=2, window=3, norm=norm)
    layout |= dict(order=draw.choice(("pre", "post")), layer_scale=draw.choice((None, 0.5)))
    layout |= dict(mixer_options={"modes": (2, 2)} if name == "spectral" else {})
    model = build_model("classifier", in_channels=1, out_channels=3, mixer=name, **layout).double()
    model = louder(model, draw.choice((1.0, 0.5))).train(draw.random() < 0.1)
    grid = Grid(sizes, centering="cell")
    return Case(model, grid, (1, 1, *sizes), ball=name != "spectral", vacuous=norm == "layer")


def neuralop(draw: random.Random) -> Case:
    grid = Grid((draw.randint(5, 6), draw.randint(5, 6)), centering=draw.choice(("periodic", "node", "cell")))
    name = draw.choice(("FNO", "FNO", "TFNO", "UNO"))
    options: dict[str, Any] = dict(width=3, depth=1, modes=(3, 3))
    if name == "UNO":
        options |= dict(depth=3, lifting_channels=4, projection_channels=4)
    else:
        options |= draw.choice(
            (
                {},
                {"fno_skip": "identity", "channel_mlp_skip": "linear"},
                {"fno_skip": None, "channel_mlp_skip": None},
                {"use_channel_mlp": False, "positional_embedding": None},
                {"preactivation": True, "stabilizer": "tanh"},
                {"norm": "batch_norm"},
                {"norm": "instance_norm"},
                {"separable": True} if name == "FNO" else {"rank": 0.5},
                {"domain_padding": 0.3},
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build_model(f"neuralop:{name}", **options).eval()
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_var.uniform_(0.1, 2.0)
    return Case(model, grid, (1, 1, *grid.shape), dtype=torch.float32)
