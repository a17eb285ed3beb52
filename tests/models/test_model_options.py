"""Every option of a model has the value that was asked for, or is refused by name."""

from __future__ import annotations

import pytest
import torch

from sciops.grids import Grid
from sciops.lipschitz import RescaledResidual
from sciops.mixers import SpectralMixer, WindowAttention
from sciops.models import build_model
from sciops.models.orthogonal.layers import OrthogonalConvolution

SMALL = dict(width=8, depth=1)


@pytest.mark.parametrize(
    "name, options, named",
    [
        ("operator", dict(SMALL, mlp_ratio=0.0), r"mlp_ratio=0.0 times width=8 .* at least 0.125"),
        ("operator", dict(SMALL, mlp_ratio=0.01), "mlp_ratio=0.01"),
        ("operator", dict(SMALL, mlp_ratio=-1.0), "mlp_ratio=-1.0"),
        ("operator", dict(SMALL, norm=""), "norm=''"),
        ("operator", dict(SMALL, ndim=0), "ndim=0"),
        ("operator", dict(SMALL, ndim=2, mixer="window", mixer_options=dict(axes=1)), "axes=1"),
        ("fno", dict(SMALL, modes=(4,), grid=Grid((16, 16))), r"modes=\(4,\) of a model on 2 axes"),
        ("fno", dict(SMALL, modes=(4, 4), ndim=1), r"modes=\(4, 4\) of a model on 1 axes"),
        ("fno", dict(SMALL, modes=0), "modes="),
        ("mano", dict(SMALL, mlp_ratio=0.0), "mlp_ratio=0.0"),
        ("classifier", dict(widths=(8,), depths=(1,), mlp_ratio=0.0), "mlp_ratio=0.0"),
        ("classifier", dict(widths=(8,), depths=(1,), mixer_options=()), "mixer_options"),
        ("classifier", dict(widths=(8,), depths=(1,), mixer="spectral", mixer_options=dict(modes=(2,))), "modes="),
        ("classifier", dict(widths=(8,), depths=(1,), norm=""), "norm=''"),
        ("recurrent", dict(width=8, mlp_ratio=0.01), "mlp_ratio=0.01"),
        ("language", dict(symbols=5, **SMALL, mlp_ratio=0.0), "mlp_ratio=0.0"),
        ("language", dict(symbols=5, **SMALL, norm=""), "norm=''"),
        ("encoder_decoder", dict(symbols=5, width=8, heads=2, mlp_ratio=0.0), "mlp_ratio=0.0"),
        ("encoder_decoder", dict(symbols=5, width=8, heads=2, head_width=0), "head_width=0"),
        ("orthogonal", dict(kind="spectral", width=8, modes=4), "modes=4"),
        ("operator", dict(SMALL, local="yes"), "operator: local='yes': expected True or False"),
        ("fno", dict(SMALL, modes="8"), "fno: modes='8': expected a whole number of at least 1 or a sequence of which"),
        ("mano", dict(SMALL, grid=(8, 8)), r"mano: grid=\(8, 8\): expected a Grid or a dict or None"),
        ("corrector", dict(SMALL, refine=1.5), "corrector: refine=1.5: expected a whole number of at least 1"),
        ("speech", dict(out_channels=3, hidden="12"), "hidden='12': expected a sequence of which each"),
        ("speech_encoder", dict(in_channels=2), "speech_encoder: in_channels=2: expected 1"),
        ("recurrent", dict(width=True), "width=True: expected a whole number"),
    ],
)
def test_refused_by_name(name, options, named):
    with pytest.raises(ValueError, match=named):
        build_model(name, **options)


def test_layers_refuse_a_size_of_zero():
    for make, named in [
        (lambda: SpectralMixer(4, (2,), out_channels=0), "out_channels=0"),
        (lambda: OrthogonalConvolution(4, 0), "out_channels=0"),
        (lambda: RescaledResidual(4, hidden=0), "hidden=0"),
        (lambda: WindowAttention(4, relative="continuous", relative_window=0), "relative_window=0"),
    ]:
        with pytest.raises(ValueError, match=named):
            make()


@pytest.mark.parametrize("shape", [(9,), (9, 8), (5, 6, 7)])
def test_one_number_of_modes_is_that_of_every_axis(shape):
    """With the axes of the grid or of ndim; without either a model is on two."""
    every = tuple(2 for _ in shape)
    for where in dict(grid=Grid(shape)), dict(ndim=len(shape)):
        torch.manual_seed(0)
        model = build_model("fno", modes=2, **SMALL, **where)
        torch.manual_seed(0)
        spelled = build_model("fno", modes=every, **SMALL, **where)
        assert model.config == spelled.config and tuple(model.config["options"]["modes"]) == every
        x = torch.randn(1, 1, *shape)
        assert torch.equal(model(x), spelled(x))
    every = build_model("fno", **SMALL, ndim=len(shape)).config["options"]["modes"]
    assert tuple(every) == (12,) * len(shape)
    assert build_model("fno", modes=2, **SMALL).ndim == 2
    assert build_model("hybrid", modes=2, **SMALL, grid=Grid(shape)).ndim == len(shape)


@pytest.mark.parametrize(
    "name",
    ["operator", "fno", "mano", "classifier", "recurrent", "language", "encoder_decoder", "orthogonal"],
)
def test_unknown_options_are_named_with_the_known_ones(name):
    with pytest.raises(TypeError, match=f"{name}: unknown option 'wdith'; it takes .*; did you mean 'widths?'"):
        build_model(name, wdith=3)


def test_options_without_a_default_are_asked_for():
    with pytest.raises(TypeError, match="language: pass symbols, a whole number of at least 1"):
        build_model("language")


def test_files_hold_lists_and_whole_numbers_for_switches():
    """As JSON has no tuples, and configs from before options had types may hold 1 for True."""
    torch.manual_seed(0)
    spelled = build_model("fno", **SMALL, modes=(4, 3), local=True, mlp_ratio=2.0)
    torch.manual_seed(0)
    model = build_model("fno", **SMALL, modes=[4, 3], local=1, mlp_ratio=2)
    assert model.config == spelled.config
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), spelled.parameters()))
