"""The parts of the resolution-shift study that look for causes, each against what must hold exactly."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sciops.files.digest import sealed
from sciops.grids import Grid
from sciops.mixers import SpectralMixer
from sciops.models import build_model
from sciops.runs import write_json
from studies import resolution_shift
from studies.resolution_shift import choosing, layers, predictions, reaction
from studies.resolution_shift.applied import Dealiased, SamePeriod, ZeroWall, continued

COARSE, FINE = Grid((12, 12)), Grid((23, 23))


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixer = SpectralMixer(1, (3, 3)).double()

    def forward(self, x, grid=None):
        return self.mixer(x.movedim(1, -1), grid).movedim(-1, 1)


def _periodic(grid):
    """A field of period 12/11 per axis, odd about the point that one more node would end the period at."""
    x, y = (torch.from_numpy(one - 11.5 / 11) * 2 * np.pi * 11 / 12 for one in grid.coordinates())
    return (0.3 + torch.sin(x)[:, None] * torch.sin(2 * y) + torch.sin(2 * y))[None, None]


def test_modes_of_the_same_period_give_the_same_function_on_both_grids():
    """A Fourier layer is then one linear map of band-limited fields; plainly it is another one on every grid."""
    model = Mixing()
    kept = SamePeriod(model, COARSE)
    coarse = model(_periodic(COARSE))
    assert torch.equal(kept(_periodic(COARSE), COARSE), coarse)
    shared = kept(_periodic(FINE), FINE)[..., ::2, ::2]
    torch.testing.assert_close(shared, coarse, rtol=0, atol=1e-13)
    assert (model(_periodic(FINE))[..., ::2, ::2] - coarse).abs().max() > 1e-2 * coarse.abs().max()
    assert "forward" not in vars(model.mixer)
    with pytest.raises(ValueError, match="not nested"):
        kept(torch.zeros(1, 1, 20, 20, dtype=torch.float64), Grid((20, 20)))


def test_fields_are_continued_on_the_line_from_last_to_first():
    x = torch.arange(6.0).reshape(1, 3, 2)
    assert continued(x, (3, 0), first_axis=1)[0, :, 0].tolist() == [0, 2, 4, 3, 2, 1]


def test_known_walls_and_dealiased_blocks():
    model = build_model("fno", in_channels=1, out_channels=1, width=4, depth=1, modes=(3, 3), grid=COARSE)
    a = torch.randn(2, 1, 12, 12)
    y = ZeroWall(model)(a, COARSE)
    assert (
        torch.equal(y[..., 1:-1, 1:-1], model(a)[..., 1:-1, 1:-1]) and not y[..., 0].any() and not y[..., -1, :].any()
    )
    before = model(a)
    assert (Dealiased(model, 2)(a, COARSE) - before).norm() > 1e-6 * before.norm()
    with pytest.raises(ValueError, match="blocks"):
        Dealiased(nn.Conv2d(1, 1, 1), 2)


class Staged(nn.Module):
    """lift: x; one block: x; output: x + c·x², which doubles wavenumbers."""

    def __init__(self, c):
        super().__init__()
        self.lift = nn.Linear(1, 1, bias=False).double()
        self.blocks = nn.ModuleList([nn.Linear(1, 1, bias=False).double()])
        self.c = c
        for layer in (self.lift, self.blocks[0]):
            nn.init.ones_(layer.weight)

    def forward(self, x):
        h = self.blocks[0](self.lift(x.movedim(1, -1))).movedim(-1, 1)
        return h + self.c * h**2


def test_shares_and_losses_of_waves_that_are_known():
    """Waves 4 and a times 6 with band 6: the share is a²/(1 + a²); the square of sine 4 makes what is high of low."""
    grid = Grid((41, 41))
    x = torch.from_numpy(grid.coordinates()[0])
    across = torch.sin(np.pi * x)
    for wave, other, kind in ((torch.cos, torch.ones_like(x), "cosine"), (torch.sin, across, "sine")):
        low, high = (wave(2 * np.pi * k * x)[:, None].mul(other)[None, None] for k in (4, 6))
        torch.testing.assert_close(layers.low_passed(low + high, grid, 6, kind=kind), low, rtol=0, atol=1e-12)
        found = layers.shares(Staged(0.0), low + 0.5 * high, grid, 6)
        assert list(found) == ["lift", "block 1", "output"]
        stages = ("lift", "block 1") if kind == "cosine" else ("output",)
        assert all(found[stage] == pytest.approx([0.2]) for stage in stages)
    low, high = (torch.cos(2 * np.pi * k * x)[:, None].expand(41, 41)[None, None] for k in (4, 6))
    whole, part = (
        ((layers.low_passed(u, grid, 41, kind="sine") - layers.low_passed(u, grid, 6, kind="sine")) ** 2).sum()
        for u in (low + high, high)
    )
    handed_on = layers.made_later(Staged(0.0), low + high, grid, 6)
    assert handed_on == {stage: pytest.approx([float(part / whole)]) for stage in ("lift", "block 1")}
    made = layers.made_later(Staged(1.0), low, grid, 6)
    assert made["lift"][0] < 1e-20 and made["block 1"][0] < 1e-20


def test_neuraloperators_model_has_stages_and_its_layers_keep_their_period():
    pytest.importorskip("neuralop")
    torch.manual_seed(0)
    model = build_model("neuralop:FNO", in_channels=1, out_channels=1, width=4, depth=2, modes=(3, 3))
    a = torch.randn(2, 1, 12, 12)
    kept = SamePeriod(model, COARSE)
    assert torch.equal(kept(a, COARSE), model(a))
    parts = model.model.positional_embedding, model.model.fno_blocks.convs[0]
    coarse, fine = (_periodic(grid).float() for grid in (COARSE, FINE))
    for part, channels in zip(parts, (1, 4)):
        alone = SamePeriod(nn.Sequential(part), COARSE)
        shared = alone(fine.expand(-1, channels, -1, -1), FINE)[..., ::2, ::2]
        torch.testing.assert_close(shared, part(coarse.expand(-1, channels, -1, -1)), rtol=0, atol=1e-5)
    assert list(layers.shares(model, a, COARSE, 3)) == ["lift", "block 1", "block 2", "output"]
    lost = layers.made_later(model, a, COARSE, 3)
    assert list(lost) == ["lift", "block 1", "block 2"] and all((v > 0).all() for v in lost.values())


def test_the_reaction_equation_is_solved():
    grid = Grid((17, 17))
    x, y = (torch.from_numpy(one) for one in grid.coordinates())
    u = (2 * torch.sin(np.pi * x)[:, None] * torch.sin(2 * np.pi * y))[None]
    f = 0.1**2 * 5 * np.pi**2 * u + u + u**3
    assert (reaction.solve(f, grid, length=0.1) - u).abs().max() < 1e-8
    drawn = reaction.sources(Grid((41, 41)), 8, 64, seed=0)
    interior = Grid((41, 41)).weights()
    assert np.sqrt((drawn**2 * interior).sum((1, 2)).mean()) == pytest.approx(reaction.DEVIATION, rel=0.1)


def test_the_least_validation_error_chooses(tmp_path):
    config = replace(
        resolution_shift.PRESETS["medium"], arms=("fno", "fno+period"), rates=(1.0, 2.0), decays=(0.1,), lengths=(3, 6)
    )
    asked = []

    def train(pairs):
        folders = []
        for name, choice in pairs:
            asked.append((name, choice))
            folder = tmp_path / f"{len(asked)}"
            folder.mkdir()
            error = {1.0: 0.3, 2.0: 0.2}[choice.learning_rate] - 0.01 * choice.epochs
            write_json(folder / "results.json", sealed({"validation": error, "seconds": 1.0}))
            folders.append(folder)
        return folders

    chosen, rows = choosing.choose(config, train)
    assert chosen == {"fno": choosing.Choice(2.0, 0.1, 6)} and sum(row["chosen"] for row in rows) == 1
    assert [choice.epochs for _, choice in asked] == [3, 3, 6] and asked[-1][1].learning_rate == 2.0
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"choices": rows}))
    assert choosing.choose(replace(config, choices=path), None)[0] == chosen
    with pytest.raises(ValueError, match="no choice for sine-cosine"):
        choosing.choose(replace(config, choices=path, arms=("sine-cosine",)), None)


def test_a_prediction_holds_fails_or_stays_open():
    name = "Darcy, two phases"
    about = {"arm": "fno", "train": 22, "test": 43}
    ways = {"direct": 22, "low + sine": 43}
    errors = [about | {"way": way, "relative_l2": {"mean": 0.1}} for way in ways]
    errors += [about | {"test": 22, "way": "direct", "relative_l2": {"mean": 0.1}}]
    errors += [about | {"arm": "reference", "way": "truth + sine", "relative_l2": {"mean": 0.1}}]
    for winner, held in (("second", True), ("first", False), ("undecided", None)):
        verdict = about | {"against": "low + sine", "winner": winner}
        (row,) = predictions.judged(name, {"errors": errors, "verdicts": [verdict]})
        assert row["held"] is held and row["expected"] == "low + sine"
