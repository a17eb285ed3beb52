"""Inputs on which widely used toolkits fail, as reported by their users, and what happens here. One test an input.

Each test says who fails and how; the assertion is the behaviour that was missing.
"""

import json
import tracemalloc
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
import torch

import sciops
from sciops import Grid
from sciops.commands.command_line import command
from sciops.datasets import FieldDataset, Normalizer, load_splits, open_dataset, validate
from sciops.metrics import relative_l2
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field, two_phase
from sciops.spectral import band_errors, power_spectrum


def test_isotropic_spectrum_keeps_every_mode():
    """neuraloperator's spectrum_2d returns 0 for (1, 1), (2, −1), (5, 5), and fails at N = 33."""
    for n in (32, 33):
        grid = Grid((n, n), centering="periodic")
        x, y = grid.meshgrid()
        for kx, ky in ((3, 0), (0, 3), (3, 4), (1, 1), (2, -1), (3, -4), (5, 5), (0, 0)):
            u = np.cos(2 * np.pi * (kx * x + ky * y))
            wavenumber, energy = power_spectrum(u, grid)
            assert energy.sum() == pytest.approx(np.mean(u**2), rel=1e-12)
            assert energy[np.abs(wavenumber - np.hypot(kx, ky)) <= 0.5].sum() == pytest.approx(np.mean(u**2), rel=1e-12)


def test_band_errors_see_all_quadrants():
    """PDEBench's Fourier error sees (3, 2) but not (3, −2)."""
    grid = Grid((32, 32), centering="periodic")
    x, y = grid.meshgrid()
    found = []
    for sign in (1, -1):
        error = np.cos(2 * np.pi * (3 * x + sign * 2 * y))[None, None]
        bands = band_errors(error, np.zeros_like(error), grid, (0, 4, 12)).to_xarray()
        squared = np.asarray(bands["squared_error"]) if "squared_error" in bands else None
        assert squared is not None and squared.sum() == pytest.approx(np.mean(error**2), rel=1e-12)
        found.append(squared)
    np.testing.assert_allclose(found[0], found[1], atol=1e-15)


def test_spectra_of_volumes_need_no_memory_per_bin():
    """The Well's power_spectrum builds a one-hot of points × bins."""
    grid = Grid((64, 64, 64), centering="periodic")
    u = np.random.default_rng(0).standard_normal((2, *grid.shape))
    power_spectrum(u, grid)
    tracemalloc.start()
    power_spectrum(u, grid)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * u.nbytes


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("n", [15, 16])
def test_fourier_resampling_is_exact_below_half_the_points(n, ndim):
    """neuraloperator's resample is linear in 1-D and bicubic in 2-D, and aliases on odd 3-D grids."""
    source, target = Grid((n,) * ndim, centering="periodic"), Grid((2 * n,) * ndim, centering="periodic")
    wave = [np.cos(2 * np.pi * 7 * g.meshgrid()[0]) for g in (source, target)]
    assert np.abs(sciops.resample(wave[0], source, target, "fourier") - wave[1]).max() < 1e-12


def test_boolean_coefficients_can_be_normalised(real_data):
    """`mean()` of neuraloperator's bundled coefficient raises; solving shows its two values are not 12 and 3."""
    with open_dataset(real_data / "darcy_train_16.pt") as dataset:
        assert dataset.attrs["coefficient"] == "indicator"
        a = FieldDataset(dataset, samples=range(50)).x
    assert a.dtype == torch.float32 and set(a.unique().tolist()) == {0.0, 1.0}
    assert torch.isfinite(Normalizer.fit(a).encode(a)).all()


def test_a_wall_beyond_the_last_node_is_known_and_damage_is_reported(real_data):
    """Row 0 of the bundled 16-grid lies on the wall, row 15 does not; field 767 is negative, which f = 1 forbids."""
    with open_dataset(real_data / "darcy_train_16.pt") as dataset:
        grid = sciops.datasets.grid_of(dataset)
        trace = [float(abs(dataset["u"][:, row]).mean()) for row in (0, 15)]
    assert grid.domain[0] == (0.0, 1.0) and grid.extent[0][1] == pytest.approx(390 / 420) and not grid.reaches_walls
    assert trace[0] < 0.02 * trace[1]
    assert any("767" in str(finding) for finding in validate(real_data / "darcy_train_16.pt"))


def test_double_reaches_every_parameter():
    """neuraloperator's complex weights stay complex64 after `.double()`."""
    grid = Grid((7, 6))
    model = sciops.build_model("fno", in_channels=1, out_channels=1, width=4, depth=2, modes=(3, 3), grid=grid).double()
    x = torch.randn(1, 1, 7, 6, dtype=torch.float64, requires_grad=True)
    assert model(x, grid).dtype == torch.float64
    assert torch.autograd.gradcheck(lambda t: model(t, grid), x)


def test_state_dicts_hold_tensors_alone(tmp_path):
    """neuraloperator's state dict holds its constructor's arguments, which `weights_only=True` refuses."""
    grid = Grid((8, 8))
    for name in ("fno", "neuralop:FNO"):
        model = sciops.build_model(name, in_channels=1, out_channels=1, width=8, depth=1, modes=(2, 2))
        folder = tmp_path / name.replace(":", "-")
        sciops.save_model(model, folder)
        assert {p.name for p in folder.iterdir()} == {"config.json", "model.safetensors"}
        json.loads((folder / "config.json").read_text())
        x = torch.randn(1, 1, 8, 8)
        again = sciops.load_model(folder)
        assert torch.equal(
            sciops.models.apply_model(again.eval(), x, grid), sciops.models.apply_model(model.eval(), x, grid)
        )
    ours = sciops.build_model("fno", in_channels=1, out_channels=1, width=8, depth=1, modes=(2, 2))
    torch.save(ours.state_dict(), tmp_path / "ours.pt")
    torch.load(tmp_path / "ours.pt", weights_only=True)


def test_coordinates_break_the_consistency_between_grids_and_the_check_says_so():
    """Sawtooth coordinates are not band-limited: neuraloperator's FNO differs by 7e-4 between 32 and 64 points."""
    coarse, fine = (Grid((n, n), centering="periodic") for n in (32, 64))
    mismatch = {}
    for coordinates in ("none", "linear"):
        torch.manual_seed(0)
        model = sciops.build_model(
            "fno",
            in_channels=1,
            out_channels=1,
            width=8,
            depth=2,
            modes=(8, 8),
            block="classic",
            coordinates=coordinates,
            grid=coarse,
        ).double()
        x, y = fine.meshgrid()
        a = torch.from_numpy(np.sin(2 * np.pi * x) * np.cos(4 * np.pi * y))[None, None]
        with torch.no_grad():
            low = model(sciops.restrict(a, fine, coarse), coarse)
            high = sciops.restrict(model(a, fine), fine, coarse)
        mismatch[coordinates] = relative_l2(high, low).item()
    assert mismatch["none"] < 1e-5 and mismatch["linear"] > 10 * mismatch["none"]


@dataclass(frozen=True)
class _Options:
    """Options of a command."""

    normalize: bool = True
    shape: tuple[int, ...] = (1,)


@pytest.mark.parametrize(
    "words, expected",
    [([], (True, (1,))), (["--no-normalize"], (False, (1,))), (["--shape", "85", "85"], (True, (85, 85)))],
)
def test_flags_are_typed(words, expected):
    """argparse reads `--normalize False` as True and `--shapelist 85,85` as ['8', '5', ',', '8', '5']."""
    options = command(_identity, {"plain": _Options()}, words)
    assert (options.normalize, options.shape) == expected


@pytest.mark.parametrize("words", [["--normalize", "False"], ["--shape", "85,85"]])
def test_flags_that_do_not_fit_their_type_are_refused(words):
    with pytest.raises(SystemExit) as stop:
        command(_identity, {"plain": _Options()}, words)
    assert stop.value.code == 2


def _identity(options):
    return options


def test_the_darcy_scheme_is_consistent():
    """PhysicsNeMo's cross term lacks a factor: its error stays at 0.12 as the grid is refined."""
    errors = []
    finest = Grid((253, 253))
    x, y = finest.meshgrid()
    a = 1.25 + 0.75 * np.sin(2 * np.pi * x) * np.sin(2 * np.pi * y)
    truth = darcy.solve(a, finest).u
    for n in (22, 43, 64):
        grid = Grid((n, n))
        u = darcy.solve(sciops.restrict(a, finest, grid), grid).u
        exact = sciops.restrict(truth, finest, grid)
        errors.append(np.abs(u - exact).max() / np.abs(exact).max() * (n - 1) ** 2)
    assert max(errors) < 1.2 * min(errors), errors  # second order, up to the error of the finest grid


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_small_grids_never_read_outside_their_memory(backend):
    """PhysicsNeMo's Darcy2D(64, nr_multigrids=4) returns 1e24 or NaN; ours is as deep as the grid allows."""
    pytest.importorskip("numba")
    for n in (3, 4, 5, 7, 12, 64):
        a = two_phase(gaussian_random_field(Grid((n, n)), 2, tau=3.0, alpha=2.0, seed=n))
        solution = darcy.solve(a, Grid((n, n)), backend=backend)
        assert (solution.residual <= 1e-8).all() and 0 <= solution.u.min() and solution.u.max() < 1


def test_coefficients_stay_between_their_phases_and_walls_are_zero():
    """Li et al.'s generator splines cell values to nodes: coefficients in [−20, 21], wall values of 1e-4."""
    grid = Grid((64, 64))
    a = two_phase(gaussian_random_field(grid, 2, tau=3.0, alpha=2.0, seed=0))
    u = darcy.solve(a, grid).u
    assert set(np.unique(a)) == {3.0, 12.0}
    assert not u[:, [0, -1]].any() and not u[:, :, [0, -1]].any() and (u[:, 1:-1, 1:-1] > 0).all()


def test_the_content_decides_the_layout_not_the_name(tmp_path, real_data):
    """PDEBench chooses the layout by the file's ending and reads a renamed file as another equation."""
    disguised = tmp_path / "darcy.hdf5"
    disguised.write_bytes((real_data / "darcy_test_16.pt").read_bytes())
    with open_dataset(disguised) as dataset:
        assert dataset.attrs["layout"] == "neuralop" and dataset.sizes["sample"] == 50


def test_splits_travel_with_the_data(tmp_path):
    """PDEBench's two readers of one file test on its first and on its last tenth."""
    from dataclasses import replace

    from data_gen import darcy as generator

    path = generator.run(
        replace(generator.PRESETS["quick"], samples=20, resolutions=(15, 8), threads=1, output=tmp_path / "d.h5")
    )
    seen = []
    for resolution in (15, 8):
        splits = load_splits(path, resolution=resolution)
        seen.append([tuple(part.samples) for part in (splits.train, splits.validation, splits.test)])
    assert seen[0] == seen[1]
    for first, second in product(range(3), repeat=2):
        assert first == second or not set(seen[0][first]) & set(seen[0][second])
