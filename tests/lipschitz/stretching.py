"""How far small models stretch, by dense Jacobians, and many small models."""

import numpy as np
import torch
from torch import nn

from sciops import Grid
from sciops.mixers import MIXERS, Convolution, MultipoleAttention, SliceAttention, SpectralMixer, WindowAttention
from sciops.models.apply import apply_model
from sciops.models.spine.blocks import LocalKernel
from sciops.models.spine.operator import Operator


def jacobian(model, x, grid):
    """(outputs, inputs) of one sample, by one backward pass over copies of it."""
    count = apply_model(model, x, grid).numel()
    copies = x.expand(count, *x.shape[1:]).clone().requires_grad_()
    y = apply_model(model, copies, grid).reshape(count, -1)
    return torch.autograd.grad(y.diagonal().sum(), copies)[0].reshape(count, -1), y.shape[1]


def weighted_norm(matrix, grid, out_grid):
    """‖V^½ J W^−½‖₂, channels first."""
    w = np.tile(np.sqrt(grid.weights().ravel()), matrix.shape[1] // grid.size)
    v = np.tile(np.sqrt(out_grid.weights().ravel()), matrix.shape[0] // out_grid.size)
    return float(np.linalg.norm(v[:, None] * matrix.double().numpy() / w, 2))


def stretch(model, grid, x, out_grid=None):
    return weighted_norm(jacobian(model, x, grid)[0], grid, out_grid or grid)


def token_radius(model, x, grid):
    """The largest token that enters a mixer or a gated map of the spine."""
    largest = [0.0]

    def note(_, inputs):
        largest.append(float(inputs[0].detach().norm(dim=-1).max()))

    kinds = (*MIXERS.values(), nn.Linear)
    hooks = [m.register_forward_pre_hook(note) for m in model.modules() if isinstance(m, kinds)]
    with torch.no_grad():
        apply_model(model, x, grid)
    for hook in hooks:
        hook.remove()
    return max(largest) * (1 + 1e-9)


def louder(model, factor):
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(factor)
    return model


def random_case(seed):
    """A small model, the grid and whether its bound is one for a ball."""
    rng = np.random.default_rng(seed)
    pick = lambda *values: values[rng.integers(len(values))]  # noqa: E731
    axes = pick(1, 1, 1, 2)
    shape = tuple(int(rng.integers(5, 9)) if axes == 1 else int(rng.integers(5, 7)) for _ in range(axes))
    centering = pick("periodic", "node", "cell")
    grid = Grid(shape, centering=centering)
    width, depth = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    block = pick("classic", "residual")
    gated = block == "residual" and rng.random() < 0.2
    options = dict(width=width, depth=depth, block=block, norm="none", ndim=axes)
    options |= dict(coordinates=pick("none", "linear", "periodic", "wall"), wall=pick("none", "zero"))
    options |= dict(local=rng.random() < 0.3, local_padding=pick("zeros", "replicate"), dealias=pick(1, 1, 2))
    if block == "residual":
        options |= dict(mlp="gated" if gated else "plain", mixer_activation=rng.random() < 0.5)
        options |= dict(layer_scale=pick(None, 0.7))
    if rng.random() < 0.3:
        options |= dict(reference_spacing=float(2.2 * grid.spacing[0]))
    mixer = pick("spectral", "spectral", "spectral", "convolution", "attention", "window", "multipole", "slices")
    if mixer == "spectral":
        basis = pick("fourier", "fourier", "sine", "cosine", "sine-cosine")
        most = 2 if basis == "fourier" else 3
        given = dict(modes=(most,) * axes, basis=basis, weights=pick("dense", "diagonal"))
    elif mixer == "convolution":
        given = dict(padding=pick("zeros", "replicate"), axes=axes)
    else:
        heads = pick(1, width)
        given = dict(heads=heads)
        if mixer == "slices":
            given |= dict(slices=3, local=axes == 2 and rng.random() < 0.5, weighted=rng.random() < 0.5)
        elif mixer == "attention":
            given |= dict(norm=False)
        else:
            given |= dict(norm=False, window=pick(2, 3))
            given |= dict(stride=pick(None, 1)) if mixer == "window" else {}
        if mixer == "multipole":
            given |= dict(axes=axes, sampler=pick("conv", "average"))
            given |= dict(aggregate=pick("sum", "vcycle_damped", "learned_per_level"))
    torch.manual_seed(seed)
    model = Operator(pick(1, 2), pick(1, 2), mixer=mixer, mixer_options=given, **options).double()
    for one in model.modules():
        if isinstance(one, (WindowAttention, MultipoleAttention, SliceAttention)):
            louder(one, float(rng.uniform(0.5, 2.5)))
        elif isinstance(one, (SpectralMixer, Convolution, LocalKernel)):
            louder(one, float(rng.uniform(1, 20)))
    local = gated or mixer in ("attention", "window", "multipole", "slices")
    return model, grid, local
