"""The contract check finds what is broken, passes what is not, and prints the table of grid dependence."""

import pytest
import torch
from torch import nn

from sciops import Grid, build_model, check_operator
from sciops.datasets.fields.normalizers import Normalizer
from sciops.models import Normalized

PERIODIC = Grid((32, 32), centering="periodic")
SMALL = dict(width=8, depth=2, modes=(4, 4))


@pytest.mark.parametrize(
    "name, grid, options",
    [
        ("fno", Grid((16, 16), centering="periodic"), dict(SMALL, local=True)),
        ("fno", Grid((11, 12)), dict(SMALL, basis="sine", weights="diagonal", layer_scale=0.0)),
        ("fno", Grid((12, 12), centering="cell"), dict(SMALL, basis="sine-cosine", mlp="plain", norm="layer")),
        ("fno", Grid((16,)), dict(SMALL, modes=(4,), block="classic")),
        ("neuralop:FNO", Grid((16, 16)), dict(SMALL)),
    ],
)
def test_sound_models_pass(name, grid, options):
    torch.manual_seed(0)
    table = check_operator(
        build_model(name, grid=grid, **options) if name == "fno" else build_model(name, **options), grid
    )
    assert table.passed, str(table)
    assert table["save and load"].passed and table["odd sizes"].passed
    if name == "fno":
        assert table["gradients in float64"].passed


def test_wrapped_models_are_checked_as_they_are():
    torch.manual_seed(0)
    statistics = Normalizer.fit(torch.randn(4, 1, 8, 8) + 2)
    table = check_operator(Normalized(build_model("fno", **SMALL), statistics, statistics), Grid((12, 12)))
    assert table.passed and table.model == "normalized"


def test_the_table_of_grid_dependence():
    """A smooth periodic input on 32 and 64 points: only what is not band-limited depends on the grid."""
    found = {}
    for label, options in {
        "no coordinates": dict(coordinates="none"),
        "periodic coordinates": dict(coordinates="periodic"),
        "grid coordinates": dict(coordinates="linear"),
    }.items():
        torch.manual_seed(0)
        model = build_model("fno", **SMALL, block="classic", **options)
        found[label] = check_operator(model, PERIODIC)["resolution consistency"].value
    assert found["no coordinates"] < 1e-6 and found["periodic coordinates"] < 1e-6
    assert found["grid coordinates"] > 1e-4
    nodes = {}
    for norm in ("none", "instance"):
        torch.manual_seed(0)
        # pointwise but for the norm, whose plain averages give the walls of a node grid too much weight
        model = build_model("fno", width=8, depth=0, modes=(4, 4), coordinates="none", block="classic")
        model.norm = model.norm if norm == "none" else _instance(8)
        nodes[norm] = check_operator(model, Grid((17, 17)))["resolution consistency"].value
    assert nodes["none"] < 1e-6 and nodes["instance"] > 1e-4


def _instance(channels: int) -> nn.Module:
    from sciops.models.spine.norms import InstanceNorm

    return InstanceNorm(channels)


class Broken(nn.Module):
    """Computes something, with one fault chosen by name."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.conv = nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular")
        self.spare = nn.Parameter(torch.ones(3)) if fault == "parameters used" else None

    def forward(self, x):
        if self.fault == "odd sizes":
            x = nn.functional.avg_pool2d(x, 2).repeat_interleave(2, -1).repeat_interleave(2, -2)
        y = self.conv(x)
        if self.fault == "batch independence":
            y = y - y.mean()
        if self.fault == "gradients in float64":
            y = y + 0.1 * y.detach().square()
        return y


@pytest.mark.parametrize(
    "fault", ["odd sizes", "batch independence", "gradients in float64", "parameters used", "none"]
)
def test_each_fault_is_found_and_nothing_else(fault):
    torch.manual_seed(0)
    table = check_operator(Broken(fault), Grid((8, 8), centering="periodic"), in_channels=1)
    assert [row.name for row in table.rows if row.passed is False] == ([] if fault == "none" else [fault])
    assert table["save and load"].passed is None
    assert all(row.name in str(table) for row in table.rows) and ("FAILS" in str(table)) == (fault != "none")


def test_the_model_is_left_as_it_was():
    torch.manual_seed(0)
    model = build_model("fno", **SMALL)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    check_operator(model, Grid((12, 12)))
    assert model.training and all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    with pytest.raises(ValueError, match="pass in_channels="):
        check_operator(nn.Conv2d(1, 1, 1), Grid((8, 8)))
