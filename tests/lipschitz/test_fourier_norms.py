"""Norms of spectral layers against dense Jacobians in the quadrature norms of their grids."""

import warnings

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.lipschitz.norms.fourier import fourier_norm
from sciops.mixers import SpectralMixer
from sciops.models.neuralop_spectral import computes

SIZES = [((8,), (4,)), ((7,), (4,)), ((8, 8), (4, 5)), ((7, 8), (3, 5)), ((8, 7), (3, 4)), ((5, 6, 4), (2, 2, 3))]


def dense(layer, channels, shape, *more):
    """The matrix of a linear map of (batch, *shape, channels), float64; more : further arguments of the layer."""
    count = int(np.prod(shape)) * channels
    eye = torch.eye(count, dtype=torch.float64).reshape(count, *shape, channels)
    with torch.no_grad():
        return layer(eye, *more).reshape(count, -1).T.numpy()


def bracket_of(*arguments, **options):
    with torch.no_grad():
        return fourier_norm(*arguments, **options).floats()


def weighted_norm(matrix, weights, out_weights):
    """‖V^½ J W^−½‖₂, channels last."""
    w = np.repeat(weights.ravel(), matrix.shape[1] // weights.size)
    v = np.repeat(out_weights.ravel(), matrix.shape[0] // out_weights.size)
    return np.linalg.norm(np.sqrt(v)[:, None] * matrix / np.sqrt(w), 2)


@pytest.mark.parametrize("options", [{}, {"weights": "diagonal"}, {"out_channels": 2}, {"compat_shift": True}])
@pytest.mark.parametrize(("shape", "modes"), SIZES)
def test_fourier_layers_are_exact_on_grids_without_ends(shape, modes, options):
    torch.manual_seed(sum(shape))
    mixer = SpectralMixer(3, modes, **options).double()
    for centering in ("periodic", "cell"):
        grid = Grid(shape, centering=centering)
        true = weighted_norm(dense(mixer, 3, shape, grid), grid.weights(), grid.weights())
        bracket = bracket_of(mixer, grid)
        assert bracket.lower <= true * (1 + 1e-13) and true <= bracket.upper * (1 + 1e-13)
        assert bracket.upper == pytest.approx(true, rel=1e-12) and bracket.lower == pytest.approx(true, rel=1e-12)


def test_only_what_real_fields_see_counts():
    """Rows without a partner enter by one half, and column 0 by its Hermitian part: max ‖R_k‖ is above the norm."""
    mixer = SpectralMixer(1, (2, 1)).double()
    with torch.no_grad():
        mixer.parts[0].weight.zero_()
        mixer.parts[0].weight[3, 0, 0, 0] = 1.0  # row −2, whose partner 2 is not kept
    assert bracket_of(mixer, Grid((8, 8), centering="periodic")).upper == pytest.approx(0.5, rel=1e-12)
    with torch.no_grad():
        mixer.parts[0].weight.zero_()
        mixer.parts[0].weight[1, 0, 0, 0], mixer.parts[0].weight[2, 0, 0, 0] = 1.0, -1.0  # rows 1 and −1 cancel
    assert bracket_of(mixer, Grid((8, 8), centering="periodic")).upper == 0.0


def test_clipped_modes():
    mixer = SpectralMixer(2, (6, 6), clip_modes=True).double()
    for shape in ((7, 6), (6, 9)):
        grid = Grid(shape, centering="periodic")
        true = weighted_norm(dense(mixer, 2, shape, grid), grid.weights(), grid.weights())
        assert bracket_of(mixer, grid).upper == pytest.approx(true, rel=1e-12)
    with pytest.raises(ValueError, match="do not fit"):
        fourier_norm(SpectralMixer(2, (6, 6)), Grid((8, 8)))


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
@pytest.mark.parametrize("basis", ["fourier", "sine", "cosine", "sine-cosine"])
def test_the_bracket_holds_on_every_grid_and_basis(basis, centering, weighted):
    torch.manual_seed(3)
    for shape, modes in (((8, 7), (3, 3)), ((6,), (3,))):
        grid = Grid(shape, centering=centering)
        mixer = SpectralMixer(3, modes, basis=basis).double()
        w = grid.weights() if weighted else np.full(shape, 1.0)
        true = weighted_norm(dense(mixer, 3, shape, grid), w, w)
        bracket = bracket_of(mixer, grid, weighted=weighted)
        assert bracket.lower <= true * (1 + 1e-13) and true <= bracket.upper * (1 + 1e-13)
        if basis != "fourier" and centering == "node" and weighted:
            assert bracket.upper == pytest.approx(bracket.lower, rel=1e-12)  # orthogonal in the trapezoid rule
        plain = bracket_of(mixer, grid, weighted=False)
        most = np.sqrt(grid.weights().max() / grid.weights().min())
        assert true <= plain.upper * most * (1 + 1e-12)


def test_ends_matter_less_on_finer_nodes():
    mixer = SpectralMixer(2, (2,)).double()
    gaps = [bracket_of(mixer, Grid((n,))).gap for n in (16, 64, 256)]
    assert gaps[0] < 1 and gaps[2] < gaps[1] / 3 < gaps[0] / 9


def test_sine_layers_between_walls_that_the_points_do_not_reach():
    grid = Grid((7,), (0.0, 0.9), "node", (0.0, 1.0))
    mixer = SpectralMixer(2, (3,), basis="sine").double()
    true = weighted_norm(dense(mixer, 2, grid.shape, grid), grid.weights(), grid.weights())
    bracket = bracket_of(mixer, grid)
    assert bracket.lower <= true * (1 + 1e-13) and true <= bracket.upper * (1 + 1e-13)


@pytest.mark.parametrize("basis", ["fourier", "sine"])
def test_the_norm_does_not_depend_on_the_resolution(basis):
    mixer = SpectralMixer(4, (3, 4), basis=basis).double()
    centering = "periodic" if basis == "fourier" else "node"
    norms = [bracket_of(mixer, Grid((n, m), centering=centering)).upper for n, m in ((8, 8), (16, 17), (25, 64))]
    assert norms == pytest.approx([norms[0]] * 3, rel=1e-12)


def _evaluated(weight, x, modes, sizes):
    """The definition, in numpy: y(s) = Re Σ c_k R_k X(k) exp(ik·s), c = 1 in columns 0 and n/2, 2 elsewhere."""
    (n0, n1), (m0, m1), (kx, ky) = x.shape[1:3], sizes, modes
    spectrum = np.fft.fft2(x, axes=(1, 2), norm="forward")
    s0, s1 = 2 * np.pi * np.arange(m0) / m0, 2 * np.pi * np.arange(m1) / m1
    y = np.zeros((len(x), m0, m1, weight.shape[-1]))
    for i, f in enumerate([*range(kx), *range(-1, -kx - 1, -1)]):
        for l in range(ky):
            if 2 * l > m1 or not -(m0 // 2) <= f < m0 - m0 // 2:
                continue
            r = weight[i, l, :, 0] + 1j * weight[i, l, :, 1]
            wave = np.exp(1j * (f * s0[:, None] + l * s1[None]))
            z = spectrum[:, f % n0, l % n1] @ r
            y += (1 if l == 0 or 2 * l == m1 else 2) * (z[:, None, None] * wave[..., None]).real
    return y


@pytest.mark.parametrize(
    ("source", "target"), [((8, 8), (16, 16)), ((8, 8), (11, 13)), ((9, 7), (6, 5)), ((8, 8), (4, 4))]
)
def test_between_two_resolutions(source, target):
    torch.manual_seed(0)
    mixer = SpectralMixer(2, (4, 5 if source[1] == 8 else 4)).double()
    weight = mixer.parts[0].weight.detach().numpy()
    grid, out = Grid(source, centering="periodic"), Grid(target, centering="periodic")
    matrix = dense(lambda x: torch.from_numpy(_evaluated(weight, x.numpy(), mixer.modes, target)), 2, source)
    true = weighted_norm(matrix, grid.weights(), out.weights())
    bracket = bracket_of(mixer, grid, out)
    assert bracket.upper == pytest.approx(true, rel=1e-12) and bracket.lower == pytest.approx(true, rel=1e-12)
    same = dense(lambda x: torch.from_numpy(_evaluated(weight, x.numpy(), mixer.modes, source)), 2, source)
    assert np.allclose(same, dense(mixer, 2, source), atol=1e-13)  # the definition is the layer's


def test_eight_points_to_sixteen_in_two_normalisations():
    """Per unit of area the constant stays; in Euclidean norms it doubles, as every point counts for a quarter."""
    mixer = SpectralMixer(2, (3, 4)).double()
    coarse, fine = Grid((8, 8), centering="periodic"), Grid((16, 16), centering="periodic")
    alone, across = (bracket_of(mixer, coarse, out).upper for out in (coarse, fine))
    assert across == pytest.approx(alone, rel=1e-12)
    weight = mixer.parts[0].weight.detach().numpy()
    matrix = dense(lambda x: torch.from_numpy(_evaluated(weight, x.numpy(), (3, 4), (16, 16))), 2, (8, 8))
    assert np.linalg.norm(matrix, 2) == pytest.approx(2 * across, rel=1e-12)


@pytest.fixture(scope="module")
def conv_class():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from neuralop.layers.spectral_convolution import SpectralConv
    return SpectralConv


OPTIONS = [
    {},
    {"factorization": "tucker", "rank": 0.7},
    {"factorization": "cp", "rank": 0.7, "implementation": "factorized"},
    {"separable": True},
    {"fft_norm": "ortho"},
    {"resolution_scaling_factor": 2},
    {"resolution_scaling_factor": 0.5, "fft_norm": "backward"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())) or "dense")
@pytest.mark.parametrize("shape", [(8, 8), (7, 9), (9, 8)])
def test_neuralop_layers(conv_class, shape, options):
    """It computes in complex64 whatever it gets, so that the dense matrix is known to six digits."""
    from sciops.models.neuralop import _spectral_classes

    torch.manual_seed(1)
    conv = conv_class(2, 2, (6, 6), bias=False, **options)
    factor = options.get("resolution_scaling_factor", 1)
    out_shape = tuple(round(n * factor) for n in shape)
    grid, out = Grid(shape, centering="periodic"), Grid(out_shape, centering="periodic")
    for kind in (conv_class, _spectral_classes()[1]):
        conv.__class__ = kind
        if computes(conv, shape, out_shape) is None:  # versions that mend the shift and not the sizes
            with pytest.raises(ValueError, match="not a known map: no rule"):
                bracket_of(conv, grid, out)
            continue
        matrix = dense(lambda x: conv(x.movedim(-1, 1).float()).movedim(1, -1).double(), 2, shape)
        true = weighted_norm(matrix, grid.weights(), out.weights())
        bracket = bracket_of(conv, grid, out)
        assert bracket.upper == pytest.approx(true, rel=3e-6) and bracket.lower == pytest.approx(true, rel=3e-6)


def test_a_neuralop_layer_is_the_mixer_made_from_it(conv_class):
    conv = conv_class(3, 2, (6, 5), bias=False)
    for shape in ((8, 8), (9, 11)):
        grid = Grid(shape, centering="periodic")
        rolled = computes(conv, shape, shape) == "rolled"
        mixer = SpectralMixer.from_neuralop(conv, compat_shift=rolled).double()
        assert bracket_of(conv, grid).upper == pytest.approx(bracket_of(mixer, grid).upper, rel=1e-12)


def test_the_periodic_solve_has_norm_one():
    """(−Δ + 1)⁻¹ multiplies mode k by 1/(1 + 4π²|k|²)."""
    mixer = SpectralMixer(1, (4, 5)).double()
    f0, f1 = torch.tensor([0, 1, 2, 3, -1, -2, -3, -4]), torch.arange(5)
    with torch.no_grad():
        mixer.parts[0].weight.zero_()
        mixer.parts[0].weight[:, :, 0, 0, 0] = 1 / (1 + 4 * torch.pi**2 * (f0[:, None] ** 2 + f1[None] ** 2)).double()
    for n in (8, 16, 33):
        assert bracket_of(mixer, Grid((n, n), centering="periodic")).upper == pytest.approx(1, abs=1e-12)


def test_the_gradient_is_that_of_the_norm():
    torch.manual_seed(0)
    mixer = SpectralMixer(2, (2, 3)).double()
    grid = Grid((6, 6), centering="periodic")
    weight = mixer.parts[0].weight

    def norm(w):
        return torch.func.functional_call(_Norm(mixer, grid), {"mixer.parts.0.weight": w}, ())

    assert torch.autograd.gradcheck(norm, weight.detach().requires_grad_())


class _Norm(torch.nn.Module):
    def __init__(self, mixer, grid):
        super().__init__()
        self.mixer, self.grid = mixer, grid

    def forward(self):
        return fourier_norm(self.mixer, self.grid).upper


def test_errors_are_told():
    with pytest.raises(ValueError, match="expected a SpectralMixer"):
        fourier_norm(torch.nn.Linear(2, 2), Grid((8, 8)))
