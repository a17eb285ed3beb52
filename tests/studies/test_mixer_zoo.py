"""The zoo in small: cells say what training said, parameters are equal, caches are as large as they must be."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import studies.mixer_zoo as study
from sciops import Grid
from sciops.mixers import MIXERS, SequenceMixer
from studies.kit.mixers.arms import ARMS, NO_MIXER, chosen_arms, matched_ratio, parameters_of
from studies.kit.mixers.fields import FieldNet
from studies.kit.sequence_training import TokenModel
from studies.mixer_zoo.cells import LOCAL, _equal
from studies.mixer_zoo.cost import _stack, _tokens, decoder
from studies.mixer_zoo.report import notes, summary

TINY = study.Config(
    arms=(NO_MIXER, "attention"),
    field_points=(32, 9),
    field_samples=16,
    field_size=(8, 1),
    field_steps=(3, 3),
    symbol_size=(16, 1),
    symbol_steps=(40, 2, 2),
    symbol_lengths=(4, 16, 12),
    symbol_batch=16,
    text_size=(16, 1),
    text_steps=2,
    text_context=16,
    corpus="python",
    vocabulary=300,
    costs=False,
    workers=1,
)


def test_every_sequence_mixer_has_an_arm():
    used = {name for arm in ARMS.values() for name in ([arm.mixer] if isinstance(arm.mixer, str) else arm.mixer)}
    sequential = {name for name, kind in MIXERS.items() if issubclass(kind, SequenceMixer)}
    assert used == sequential - {"sparse_attention"}  # the table's stacks are causal, and that one has no causal form
    with pytest.raises(ValueError, match="--arms rnn: expected some of 'no mixer'"):
        chosen_arms(["rnn"])


@pytest.mark.parametrize("preset", study.PRESETS)
def test_parameters_are_within_a_tenth_of_attention_s(preset):
    width, depth = study.PRESETS[preset].symbol_size

    def make(arm, ratio):
        options = dict(mixer=arm.mixer, mixer_options=arm.tokens, mlp_ratio=ratio, local=LOCAL)
        return TokenModel(32, width=width, depth=depth, **options)

    for name, arm in ARMS.items():
        ratio, counts = _equal(make, arm, {"width": width, "depth": depth})
        assert abs(parameters_of(make(arm, ratio)) / counts["reference_parameters"] - 1) < 0.1, name
    for grid, coordinates in ((Grid((16,), 1.0, "periodic"), "periodic"), (Grid((5, 5)), "wall")):
        width, depth = study.PRESETS[preset].field_size
        task = SimpleNamespace(grid=grid, coordinates=coordinates, kernel=3)

        def network(arm, ratio, task=task, width=width, depth=depth):
            return FieldNet(task, arm.mixer, arm.fields, mlp_ratio=ratio, width=width, depth=depth)

        for name, arm in ARMS.items():
            ratio, counts = _equal(network, arm, {"width": width, "depth": depth})
            assert abs(parameters_of(network(arm, ratio)) / counts["reference_parameters"] - 1) < 0.1, name
    width, depth = study.PRESETS[preset].symbol_size
    of_attention = partial(make, ARMS["attention"])
    assert matched_ratio(of_attention, 10, width=width, depth=depth) == 0.25


def test_a_run_says_what_its_cells_say_and_reads_them_back(tmp_path, capsys, monkeypatch):
    pytest.importorskip("tokenizers")
    config = replace(TINY, output=tmp_path)
    results = study.run(config)
    stored = json.loads((tmp_path / "results.json").read_text())
    cells = [json.loads(p.read_text())["record"] for p in (tmp_path / "cells").iterdir()]
    cells = {(c["task"], c["arm"]): c for c in cells}
    assert len(cells) == 12
    said = capsys.readouterr().out
    for row in stored["rows"]:
        for task, score in row["scores"].items():
            assert score["mean"] == cells[task, row["arm"]]["score"]
            assert 0.9 < score["parameters"] < 1.1
        assert f"{row['scores']['burgers']['mean']:.3f}" in said
    alone, attention = (row["scores"]["burgers"]["mean"] for row in stored["rows"])
    assert results["rows"][1]["below_no_mixer"] == pytest.approx(alone / attention)
    assert stored["rows"][1]["scores"]["copy"]["mean"] > stored["rows"][0]["scores"]["copy"]["mean"]
    assert (tmp_path / "figures" / "mixer_zoo.png").stat().st_size > 0
    for part in ("_field_cell", "_symbol_cell", "_text_cell"):
        monkeypatch.setattr(f"studies.mixer_zoo.cells.{part}", None)
    assert study.run(config)["cells"] == results["cells"]


def test_another_text_of_the_same_name_and_another_arm_of_the_same_name_are_other_cells(tmp_path, monkeypatch):
    pytest.importorskip("tokenizers")
    text = tmp_path / "text.txt"
    config = replace(TINY, arms=(NO_MIXER,), tasks=("text",), corpus=str(text), output=tmp_path / "run")
    words = "the cat sat on the mat and the dog sat on a log".split()

    def cells(order):
        text.write_text(" ".join(words[i] for i in np.random.default_rng(order).integers(0, len(words), 3000)))
        study.run(config)
        return {p.name for p in (config.output / "cells").iterdir()}

    first = cells(0)
    assert len(first) == 1 and cells(0) == first and len(cells(1)) == 2
    monkeypatch.setitem(ARMS, "attention", replace(ARMS["attention"], tokens={"heads": 2}))  # sets everyone's width
    assert len(cells(1)) == 3


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_decodes(name):
    decode, kept = decoder(name, 16, 2, 9, tokens=2)
    decode()
    said = decode()  # goes on: a call that began anew would copy the states
    x = _tokens(1, 11, 16)
    with torch.no_grad():
        whole = _stack(name, 16, 2).eval()(torch.cat([x, x[:, 9:]], dim=1))
    torch.testing.assert_close(said, whole[:, -1], rtol=1e-4, atol=1e-5)
    assert kept >= 0


def test_caches_are_as_large_as_the_mixers_say():
    for name, expected in ((NO_MIXER, lambda n: 0), ("attention", lambda n: 2 * n), ("mean", None)):
        sizes = [decoder(name, 16, 1, n, tokens=1)[1] for n in (32, 128)]
        if expected:
            assert sizes == [expected(32), expected(128)]
        else:
            assert sizes[0] == sizes[1], "it does not grow"


def record(arm, seed, score, task="burgers"):
    more = dict(parameters=100, reference_parameters=100, seconds=2.0, steps=4, loss=0.1, mean_error=0.9)
    return dict(task=task, arm=arm, seed=seed, score=score, input_error=1.2, **more)


def test_the_target_is_held_against_the_blocks_alone():
    cells = [record(NO_MIXER, s, 0.5 + s / 10) for s in (0, 1)] + [record("attention", s, 0.05) for s in (0, 1)]
    cells += [record("mean", s, 0.3) for s in (0, 1)]
    rows = summary(cells, [], [NO_MIXER, "attention", "mean"])
    np.testing.assert_allclose([row["scores"]["burgers"]["mean"] for row in rows], [0.55, 0.05, 0.3])
    assert rows[0]["scores"]["burgers"]["spread"] == pytest.approx(np.std([0.5, 0.6], ddof=1))
    assert rows[0]["below_no_mixer"] is None and rows[1]["below_no_mixer"] == pytest.approx(11)
    (first, *_) = notes({"rows": rows, "cells": cells})
    assert "Met by attention." in first


def test_a_score_that_is_none_and_unknown_tasks_are_named(tmp_path, monkeypatch):
    config = replace(TINY, output=tmp_path, tasks=("copy",), arms=("attention",))
    monkeypatch.setattr(study, "cell", lambda task, arm, seed, *_: record(arm, seed, float("nan"), task))
    with pytest.raises(RuntimeError, match="no score: attention on copy"):
        study.run(config)
    with pytest.raises(ValueError, match="--tasks chess: expected some of burgers, darcy, copy"):
        study.run(replace(config, tasks=("chess",)))
    for nothing in (dict(tasks=()), dict(seeds=0)):
        with pytest.raises(ValueError, match="expected at least one of each"):
            study.run(replace(config, **nothing))
