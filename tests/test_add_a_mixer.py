"""The page "Add your own mixer in 40 lines": exactly its code, in a folder that holds nothing else."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch

import studies.mixer_zoo as zoo
from sciops import Grid, build_model, load_model, save_model
from sciops.command import command
from sciops.lipschitz import lipschitz_bound
from sciops.mixers import MIXERS

PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "add-a-mixer.md").read_text(encoding="utf-8")
CELLS = re.findall(r"```\{code-cell\}\n(.*?)```", PAGE, re.DOTALL)
LINES = re.findall(r"^python -m studies.mixer_zoo (.*)$", PAGE, re.MULTILINE)
SMALL = "--field-points 16 9 --field-samples 8 --field-size 8 1 --field-steps 2 2 --workers 1"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with the page's file; the mixer and its module are forgotten afterwards."""
    heading, _, code = CELLS[0].partition("\n")
    assert heading == "%%writefile heat_mixer.py" and len(code.splitlines()) <= 45
    (tmp_path / "heat_mixer.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    MIXERS.pop("heat", None)
    sys.modules.pop("heat_mixer", None)


def test_the_cells_train_it_and_print_spectra_and_a_bound(folder, capsys):
    names = {}
    exec("\n".join(CELLS[1:]), names)
    said = capsys.readouterr().out
    first, last = (float(e) for e in re.search(r"relative error ([\d.]+) → ([\d.]+)", said).groups())
    assert last < 0.5 * first
    assert "blocks.1.mixer" in said and "heat enlarges no mode" in said
    model, grid = names["model"].double(), names["grid"]
    bound = lipschitz_bound(model, grid).value
    for scale in (0.1, 1.0, 10.0):
        x = scale * torch.randn(1, 1, *grid.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        jacobian = torch.autograd.functional.jacobian(lambda x: model(x, grid), x).reshape(grid.size, grid.size)
        assert torch.linalg.matrix_norm(jacobian, 2) <= bound
    again = load_model(save_model(model, folder / "model"))
    assert torch.equal(again(x, grid), model.eval()(x, grid))


def test_its_row_in_the_zoo(folder):
    (arguments,) = LINES
    command(zoo.run, zoo.PRESETS, shlex.split(f"{arguments} {SMALL} --output zoo"))
    rows = json.loads((folder / "zoo" / "results.json").read_text())["rows"]
    assert [row["arm"] for row in rows] == ["attention", "heat_mixer:HeatMixer"]
    assert all(0 < row["scores"]["burgers"]["mean"] < float("inf") for row in rows)


def test_it_is_the_heat_equation_on_any_grid(folder):
    import heat_mixer

    mixer = heat_mixer.HeatMixer(2, time=1e-2).double()
    with torch.no_grad():
        mixer.out.weight.copy_(torch.eye(2))
        mixer.out.bias.zero_()
    for grid in (Grid((12,), centering="periodic"), Grid((8, 9), centering="periodic")):
        waves = [torch.tensor(2 * torch.pi * k * x).cos() for k, x in zip((2, 3), grid.meshgrid())]
        x = torch.stack([wave.expand(grid.shape) for wave in (waves[0], waves[-1])], dim=-1)[None]
        k = torch.tensor([2.0, 2.0 if grid.ndim == 1 else 3.0], dtype=torch.float64)
        torch.testing.assert_close(mixer(x, grid), x * torch.exp(-((2 * torch.pi * k) ** 2) * 1e-2))
    assert build_model("operator", mixer="heat").grid_for(torch.zeros(1, 1, 4, 4)).centering == "periodic"
