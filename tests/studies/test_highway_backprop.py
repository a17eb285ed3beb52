"""The study of Highway-BP leaves its numbers, holds them against its targets, and stops where gradients are unequal."""

import json

import pytest

from studies import highway_backprop as study
from studies.highway_backprop import recurrent

TINY = study.Config(
    models=("fno",),
    blocks=2,
    iterations=(0, 2),
    seeds=(0, 1),
    points=12,
    train=16,
    test=6,
    epochs=2,
    looks=2,
    depths=(1, 2),
    lengths=(8, 256),
    hidden=4,
    sequences=2,
    rounds=2,
)


def test_a_small_run_leaves_its_numbers(tmp_path, capsys):
    results = study.run(study.Config(**{**vars(TINY), "output": tmp_path}))
    assert json.loads((tmp_path / "results.json").read_text())["stacks"] == results["stacks"]
    rows = {row["arm"]: row for row in results["stacks"]}
    assert list(rows) == ["backprop", "k = 0", "k = 2", "k = 1, γ*"]
    assert rows["backprop"]["relative"] == 1 and "cosine" not in rows["backprop"]
    assert rows["k = 0"]["cosine"][0] < rows["k = 2"]["cosine"][0] < 1 - 1e-9  # four layers: exact from k = 3 on
    depths = {(row["layers"], row["scaled"], row["k"]): row["cosine"] for row in results["depths"]}
    assert depths[2, False, 2] == pytest.approx(1, abs=1e-6) and depths[4, False, 0] < 1 - 1e-4
    cosines = {(row["steps"], row["how"]): row["cosine"] for row in results["recurrent"]}
    assert cosines[8, recurrent.LOOP] == pytest.approx(1, abs=1e-6)
    assert cosines[8, "k = 0"] < cosines[8, "k = 1"] < cosines[8, "k = 2"] < 1 - 1e-12
    assert any("k = 2 / backprop" in row["what"] for row in results["targets"])
    for name in ("error", "cosine", "time"):
        assert (tmp_path / "figures" / f"highway_{name}.png").stat().st_size > 10_000
    assert "fagnou2025accelerated" in (tmp_path / "citations.bib").read_text()
    assert "cosine start, middle, end" in capsys.readouterr().out


def test_a_missed_target_is_shown_as_missed():
    stacks = [{"model": "fno", "arm": "k = 2", "relative": 1.2}, {"model": "mano", "arm": "k = 2", "relative": 1.01}]
    times = {recurrent.LOOP: 3.0, "k = 0": 1.0, "k = 1": 2.0, "k = 2": 4.0}
    rows = study.targets(
        {"stacks": stacks, "recurrent": [{"steps": 256, "how": how, "backward": t} for how, t in times.items()]}, TINY
    )
    assert [row["met"] for row in rows] == [False, True, True, True, False]


def test_gradients_that_differ_are_not_timed(monkeypatch):
    assert recurrent.check_equal(4) < 1e-12
    real = recurrent.highway_rnn
    monkeypatch.setattr(recurrent, "highway_rnn", lambda rnn, x, iterations: real(rnn, x, iterations=iterations // 4))
    with pytest.raises(RuntimeError, match="k = 23: differs from its reference"):
        recurrent.check_equal(4)


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="--models unet: expected some of fno, mano"):
        study.run(study.Config(models=("unet",), output=tmp_path))
