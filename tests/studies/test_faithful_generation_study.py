"""The study of faithful generation: its tasks have the truths that were planted, a small run leaves its numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.runs import plain
from studies import faithful_generation as study
from studies.faithful_generation import fields, slots, text
from studies.faithful_generation.arms import Arm, ablations, candidates

CONFIG = replace(
    study.PRESETS["quick"],
    tasks=("ungrounded", "darcy"),
    seeds=(0, 1),
    text=text.TextSizes(width=8, depth=1, prior_steps=2, first_steps=2, steps=2, batch=4, half=8, held_out=6),
    fields=fields.FieldSizes(
        points=25, width=4, depth=1, first_steps=2, steps=2, batch=4, half=8, held_out=32, tiles=2
    ),
    text_rates=(1e-3,),
    field_rates=(1e-3,),
    noisy_text_rates=(1e-3,),
    noisy_field_rates=(1e-3,),
    decays=(0.0,),
    alphas=(0.5,),
    shown_alphas=(0.0,),
    workers=1,
)


def test_a_small_run_leaves_its_numbers_and_is_read_back(tmp_path, capsys, monkeypatch):
    config = replace(CONFIG, output=tmp_path)
    results = study.run(config)
    said = capsys.readouterr().out
    assert json.loads((tmp_path / "results.json").read_text())["summary"] == plain(results["summary"])
    assert (tmp_path / "figures" / "errors.png").stat().st_size > 10_000
    names = ["fine-tuning", "preference", "α = 0", "random negatives", "without the anchor"]
    assert list(results["summary"]["ungrounded"]["arms"]) == names
    assert "another coefficient" in results["summary"]["darcy"]["arms"]
    for task, one in results["summary"].items():
        assert len(one["arms"]["preference"]["error"]) == 2
        assert one["verdicts"]["preference against fine-tuning"].winner == "too few seeds", task
    assert "too few seeds" in said and "chosen for preference: α 0.5" in said
    assert json.loads((tmp_path / "report.json").read_text())["answer"].startswith("Preference training")
    monkeypatch.setattr(text, "run_text", None)  # nothing is trained again
    monkeypatch.setattr(fields, "run_fields", None)
    assert plain(study.run(config)["summary"]) == plain(results["summary"])


def test_tables_and_references_follow_their_laws():
    rng = np.random.default_rng(0)
    free = slots.tables(4000, from_prior=0.0, ungrounded=0.25, rng=rng)
    wrong = (free.said != free.values).mean(0)
    # a replaced value is the table's own one time in twelve
    np.testing.assert_allclose(wrong, [0, *[0.25 * 11 / 12] * 3], atol=0.02)
    replaced = free.said != free.values
    expected = slots.expected_after(free.said[:, :-1])
    assert (free.said[:, 1:] == expected)[replaced[:, 1:]].all()
    assert sorted(slots.expected_after(np.arange(slots.VALUES))) == list(range(slots.VALUES))
    assert slots.well_formed(free.texts).all() and (free.texts < slots.SYMBOLS).all()
    np.testing.assert_allclose(slots.wrong_slots(free.texts, free.values).mean(), wrong.mean(), rtol=1e-12)
    assert (np.sort(free.prompts[:, :-1], 1) == np.sort(free.texts[:, 1::2], 1)).mean() > 0.7
    ruled = slots.tables(4000, from_prior=0.8, ungrounded=0.0, rng=rng)
    follows = (ruled.values[:, 1:] == slots.expected_after(ruled.values[:, :-1])).mean()
    assert follows == pytest.approx(0.8 + 0.2 / 12, abs=0.02) and (ruled.said == ruled.values).all()
    broken = free.texts.copy()
    broken[:, 1] = broken[:, 3]  # the value of another slot
    assert not slots.well_formed(broken).any() and (slots.wrong_slots(broken, free.values) >= 0.25).all()


class Reader(torch.nn.Module):
    """Says the table of its prompt slot by slot, or, without a table, any value of the slot."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(50.0))

    def prefill(self, tokens, *, mask=None, last=True):
        return self._logits(table := tokens[:, :-1].sort(1).values, 0), (table, 0)

    def step(self, tokens, state):
        table, t = state
        return self._logits(table, t + 1), (table, t + 1)

    def _logits(self, table, t):
        wanted = torch.zeros(len(table), slots.SYMBOLS)
        first = 2 + slots.FILLERS + slots.VALUES * (t // 2)
        if t == slots.LENGTH - 1:
            wanted[:, slots.END] = 1
        elif t % 2 == 0:
            wanted[:, 2 : 2 + slots.FILLERS] = 1
        elif table.shape[1]:
            wanted.scatter_(1, table[:, t // 2, None], 1.0)
        else:
            wanted[:, first : first + slots.VALUES] = 1
        return self.scale * wanted


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.5, 1.0])
def test_negatives_are_wrong_as_often_as_the_prior_is_asked(alpha):
    """A slot is the blind model's with probability α, which is right one time in twelve."""
    data = slots.tables(1500, from_prior=0.0, ungrounded=0.0, rng=np.random.default_rng(1))
    found = text._negatives(Arm("preference", "blind", alpha), Reader(), Reader(), data, seed=0)
    written = np.array(found)
    assert slots.well_formed(written).all()
    p = alpha * (1 - 1 / slots.VALUES)
    assert slots.wrong_slots(written, data.values).mean() == pytest.approx(p, abs=3 * (p * (1 - p) / 6000) ** 0.5)


def test_solutions_are_those_of_the_equation_on_a_line():
    grid = Grid(65)
    flat = fields.solved(np.zeros((1, 65)), grid)
    x = grid.coordinates()[0]
    np.testing.assert_allclose(flat[0], x * (1 - x) / 2, atol=1e-12)
    log_a = np.random.default_rng(0).standard_normal((3, 65))
    u = torch.from_numpy(fields.solved(log_a, grid)).unsqueeze(1)
    residual = fields.flux_residual(u, torch.from_numpy(log_a).unsqueeze(1), grid)
    assert residual.max() < 1e-8
    assert fields.flux_residual(0 * u, torch.from_numpy(log_a).unsqueeze(1), grid).tolist() == pytest.approx([1.0] * 3)


def test_mislabelled_solutions_are_those_of_other_coefficients():
    data = fields._sample(40, 3, Grid(17))
    mixed = fields._mislabelled(data, 0.25, 0)
    changed = (mixed.u != data.u).flatten(1).any(1)
    assert 4 <= int(changed.sum()) <= 16
    where = changed.nonzero().flatten()
    assert torch.equal(mixed.u[where].flatten(1).sum(1).sort().values, data.u[where].flatten(1).sum(1).sort().values)


def test_both_arms_have_as_many_candidates_and_ablations_change_one_thing():
    given = {"decays": (0.0, 0.1), "noisy_rates": (1e-4,), "alphas": (0.25, 0.5), "anchor": 1.0, "beta": 0.1}
    found = candidates(rates=(1e-3,), **given)
    assert [arm.negatives for arm in found] == [None, None, "blind", "blind"]
    with pytest.raises(ValueError, match="4 candidates of fine-tuning .* and 2 of preference"):
        candidates(rates=(1e-3, 1e-2), **given)
    chosen = Arm("preference", "blind", 0.25, 1e-3, 0.0, 1.0)
    for arm in ablations(chosen, (0.0, 0.5), fields=True):
        changed = {key for key, value in vars(arm).items() if value != getattr(chosen, key)} - {"name"}
        assert changed in ({"alpha"}, {"negatives"}, {"negatives", "alpha"}, {"anchor"}), arm


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(ValueError, match="--tasks cubes: expected some of prior"):
        study.run(replace(CONFIG, tasks=("cubes",), output=tmp_path))
    with pytest.raises(ValueError, match="expected at least one seed"):
        study.run(replace(CONFIG, seeds=(), output=tmp_path))
