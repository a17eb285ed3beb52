"""Layer spectra: every layer is found, in its own layout, and reports the spectrum of what it really puts out."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sciops.grids import Grid
from sciops.models import build_model
from sciops.spectral import energy_above, layer_spectra, power_spectrum

GRID = Grid((12, 10), centering="periodic")


def batch(grid=GRID, channels=2, dtype=torch.float64):
    return torch.randn(3, channels, *grid.shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


class Mixed(nn.Module):
    """Channel-first convolutions, a channel-last pointwise part, a functional activation, and layers off the grid."""

    def __init__(self, width=5, inplace=False):
        super().__init__()
        self.lift = nn.Sequential(nn.Conv2d(2, width, 1), nn.ReLU(inplace=inplace))
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)
        self.pool = nn.AvgPool2d(2)
        self.drop = nn.Dropout(0.5)
        self.project = nn.Conv2d(width, 1, 3, padding=1, padding_mode="circular")

    def forward(self, x):
        x = self.lift(x)
        y = self.linear(self.norm(x.movedim(1, -1)))
        y = F.gelu(y) + torch.tanh(y)
        y = F.gelu(y)
        self.pool(x) * torch.sin(
            torch.linspace(0, 1, x.shape[-1] // 2, dtype=x.dtype)
        )  # a table, not a field: not a layer
        return self.project(self.drop(y.movedim(-1, 1)))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Mixed().double()


def spectrum_of(field):
    return power_spectrum(field, GRID).mean().energy.numpy()


def test_each_layer_reports_its_own_output(model):
    x = batch()
    model.train()
    spectra = layer_spectra(model, x, GRID)
    assert model.training and model.drop.training and not model.lift._forward_hooks
    assert list(spectra.layer.values) == [
        "input", "lift.0", "lift", "norm", "linear", "gelu", "tanh", "gelu#2", "project", "output",
    ]  # fmt: skip
    assert list(spectra.kind.values[[0, 2, 5]]) == ["input", "Sequential", "gelu"]
    assert spectra.skipped == "pool: shape (3, 5, 6, 5) is not a field on the grid (12, 10)"
    with torch.no_grad():
        lift = model.lift(x)
        linear = model.linear(model.norm(lift.movedim(1, -1)))
        gated = F.gelu(F.gelu(linear) + torch.tanh(linear))
    expected = {
        "input": x,
        "lift": lift,
        "linear": linear.movedim(-1, 1),
        "tanh": torch.tanh(linear).movedim(-1, 1),
        "gelu#2": gated.movedim(-1, 1),
        "output": model.eval()(x).detach(),
    }
    for label, field in expected.items():
        np.testing.assert_allclose(spectra.sel(layer=label), spectrum_of(field), rtol=1e-10, err_msg=label)
    np.testing.assert_allclose(spectra.sum("wavenumber").sel(layer="lift"), lift.square().mean(), rtol=1e-12)


def test_in_place_activations_do_not_reach_the_layer_before():
    torch.manual_seed(0)
    model = Mixed(inplace=True).double()
    spectra = layer_spectra(model, batch(), GRID)
    np.testing.assert_allclose(spectra.sel(layer="lift.0"), spectrum_of(model.lift[0](batch()).detach()), rtol=1e-10)


def test_patterns_pick_layers_and_unknown_ones_are_refused(model):
    spectra = layer_spectra(model, batch(), GRID, layers=["lift.*", "gelu*"])
    assert list(spectra.layer.values) == ["lift.0", "lift.1.relu", "lift.1", "gelu", "gelu#2"]
    with pytest.raises(ValueError, match="no such layer; this model has input, lift.0"):
        layer_spectra(model, batch(), GRID, layers=["encoder.*"])


def test_a_failing_model_leaves_no_hooks_behind(model):
    model.train()
    with pytest.raises(RuntimeError):
        layer_spectra(model, batch(channels=3), GRID)
    assert model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_as_many_channels_as_points_along_an_axis():
    """(batch, 8, 8, 8) fits both layouts; the kind of module and the layer before decide."""
    torch.manual_seed(0)
    grid = Grid((8, 8), centering="periodic")
    model = Mixed(width=8).double()
    x = batch(grid)
    spectra = layer_spectra(model, x, grid)
    with torch.no_grad():
        lift = model.lift(x)
        linear = model.linear(model.norm(lift.movedim(1, -1)))
    for label, field in {"lift": lift, "linear": linear.movedim(-1, 1), "gelu": F.gelu(linear).movedim(-1, 1)}.items():
        np.testing.assert_allclose(
            spectra.sel(layer=label), power_spectrum(field, grid).mean().energy, rtol=1e-10, err_msg=label
        )
    forced = layer_spectra(model, x, grid, channels="first", layers=["linear"])
    np.testing.assert_allclose(forced[0], power_spectrum(linear, grid).mean().energy, rtol=1e-10)


def test_points_as_one_axis():
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.mix = nn.Linear(2, 7), nn.Conv1d(7, 1, 1)

        def forward(self, x):
            y = self.embed(x.flatten(2).mT)
            return self.mix(y.mT).unflatten(2, x.shape[2:])

    torch.manual_seed(0)
    model, x = Tokens().double(), batch()
    spectra = layer_spectra(model, x, GRID)
    embedded = model.embed(x.movedim(1, -1)).movedim(-1, 1).detach()
    np.testing.assert_allclose(spectra.sel(layer="embed"), spectrum_of(embedded), rtol=1e-10)
    np.testing.assert_allclose(spectra.sel(layer="mix"), spectra.sel(layer="output"), rtol=1e-12)


@pytest.mark.parametrize("block", ["residual", "classic"])
def test_the_spine_shows_lift_mixers_activations_and_head(block):
    torch.manual_seed(0)
    grid = Grid((12, 10), centering="periodic")
    model = build_model(
        "fno", in_channels=2, out_channels=1, width=6, depth=2, modes=(3, 3), block=block, grid=grid, local=True
    ).double()
    spectra = layer_spectra(model, batch(grid).numpy(), grid, modes=3)
    labels = list(spectra.layer.values)
    for label in [
        "input",
        "lift",
        "blocks.0.mixer",
        "blocks.0.local",
        "blocks.0.gelu",
        "blocks.1",
        "project",
        "output",
    ]:
        if block == "residual" or label != "blocks.0.gelu":
            assert label in labels, label
    order = [labels.index(label) for label in ("lift", "blocks.0.mixer", "blocks.1.mixer", "project", "output")]
    assert order == sorted(order)
    # a Fourier mixer passes rows −3 … 2 and columns 0 … 2: nothing above 3, and on row −3 alone what reaches 3
    mixed = spectra.sel(layer="blocks.0.mixer")
    assert float(mixed[5:].sum()) < 1e-25 * float(mixed.sum())
    with torch.no_grad():
        output = model(batch(grid), grid)
    np.testing.assert_allclose(spectra.sel(layer="output"), spectrum_of(output), rtol=1e-10)
    above = spectra.energy_above.sel(layer="output")
    energy = power_spectrum(output, grid, norm="max").mean()
    np.testing.assert_allclose(above, energy_above(energy, None, 3), rtol=1e-10)


def test_models_of_neuraloperator_call_their_activations_as_functions():
    torch.manual_seed(0)
    grid = Grid((16, 16), centering="periodic")
    model = build_model("neuralop:FNO", in_channels=1, out_channels=1, n_modes=(6, 6), hidden_channels=16, n_layers=2)
    x = batch(grid, channels=1, dtype=torch.float32)
    spectra = layer_spectra(model, x, grid, layers=["*.convs.?", "*.gelu*", "*lifting", "*projection"], modes=4)
    labels = list(spectra.layer.values)
    assert [label.split(".")[-2] for label in labels if "convs" in label] == ["convs", "convs"]
    assert any("fno_blocks.gelu" in label for label in labels)
    mixed = spectra.isel(layer=["convs" in label for label in labels])
    # 16 channels on 16 × 16 points fit both layouts: read channel-last, the mixer would not look band-limited
    assert float(mixed.energy_above.max()) < 1e-10 and float(mixed.sum()) > 0
    assert float(spectra.energy_above.sel(layer=[label for label in labels if label.endswith("lifting")]).min()) > 0.1


def test_walls_and_averages_over_the_batch():
    grid = Grid((9, 9))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Tanh()).double()
    x = batch(grid, channels=1)
    spectra = layer_spectra(model, x, grid, extension="even", norm="max")
    expected = power_spectrum(model(x).detach(), grid, extension="even", norm="max").energy.mean((0, 1))
    np.testing.assert_allclose(spectra.sel(layer="output"), expected, rtol=1e-12)
    assert spectra.attrs["extension"] == "even" and Grid.from_dict(json.loads(spectra.grid)) == grid


def test_netcdf_round_trip(model, tmp_path):
    import xarray

    spectra = layer_spectra(model, batch(), GRID, modes=3)
    spectra.to_netcdf(tmp_path / "spectra.nc", engine="h5netcdf")
    with xarray.open_dataarray(tmp_path / "spectra.nc", engine="h5netcdf") as again:
        xarray.testing.assert_identical(again.load(), spectra)


def test_wrong_grid_and_single_precision_models():
    model = nn.Conv2d(1, 1, 1)
    with pytest.raises(ValueError, match="expected its last axes"):
        layer_spectra(model, torch.zeros(1, 1, 8, 8), GRID)
    numpy_input = np.random.default_rng(0).standard_normal((2, 1, 12, 10))
    spectra = layer_spectra(model, numpy_input, GRID)
    np.testing.assert_allclose(spectra.sel(layer="input"), spectrum_of(torch.from_numpy(numpy_input)), rtol=1e-4)
