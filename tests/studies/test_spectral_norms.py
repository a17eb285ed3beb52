"""The study of spectral norms leaves its numbers, and ends with an error at a broken bracket."""

import json
from dataclasses import replace

import pytest
import torch

from sciops.lipschitz import Bracket
from studies import spectral_norms as study
from studies.spectral_norms import cases, speed

CONFIG = study.Config(
    cases=60,
    problems=("dense 12", "convolution 2 6"),
    choices=("dense 8", "easy dense 12", "Fourier 2 5"),
    seeds=1,
    rounds=1,
    shares=40,
    ladder=(2, 5),
    ladder_channels=2,
    channels=(2,),
    kernels=(3,),
    sizes=(6,),
    kinds=("Gaussian",),
    layer_rounds=1,
    network_seeds=2,
    width=16,
    depth=2,
    epochs=1,
)


@pytest.fixture
def config(tmp_path):
    return replace(CONFIG, output=tmp_path)


def test_a_small_run(config, tmp_path, capsys):
    results = study.run(config)
    assert json.loads((tmp_path / "results.json").read_text())["ladder"] == results["ladder"]
    assert {row["kind"] for row in results["cases"]} == set(cases.KINDS)
    assert sum(row["cases"] for row in results["cases"]) >= 60
    assert all(row["violations"] == 0 for row in results["cases"])
    gram = [row for row in results["speed"] if row["method"] == "Gram iteration" and row["problem"] == "dense 12"]
    errors = [row["error"] for row in gram]
    assert (
        errors[:4] == sorted(errors[:4], reverse=True) and errors[-1] < 1e-3 and not any(row["under"] for row in gram)
    )
    assert all(row["above"] == pytest.approx(row["theory"], abs=1e-9) for row in results["orthogonal"])
    assert results["ladder"][0]["bridge from the torus n"] is None  # two points cannot hold a 3×3 symbol
    for name in ("error_against_time.png", "zero_padding.png", "published_bounds.png", "certified_accuracy.png"):
        assert (tmp_path / "figures" / name).stat().st_size > 10_000
    assert "delattre2023" in (tmp_path / "citations.bib").read_text()
    out = capsys.readouterr().out
    assert "Fourier layer" in out and "automatic over best" in out
    assert "Singla & Feizi 2021" in out and "zero padding, 1 layers" in out


def test_a_bracket_that_misses_is_counted_and_ends_the_run(config, monkeypatch):
    honest = cases.dense_norm

    def eager(matrix, **how):
        bracket = honest(matrix, **how)
        return Bracket(bracket.lower, bracket.upper * (1 - 1e-4))

    monkeypatch.setattr(cases, "dense_norm", eager)
    rows = {row["kind"]: row["violations"] for row in cases.check_cases(60, 0)}
    assert rows["dense, rank 1"] and not rows["convolution, zeros"]
    for name in ("_draw_speed", "_draw_ladder", "draw_comparison", "draw_networks", "_print", "answer"):
        monkeypatch.setattr(study, name, lambda *_: None)
    with pytest.raises(RuntimeError, match=r"outside the bracket: \d+ of dense"):
        study.run(replace(config, problems=(), choices=(), ladder=(5,), sizes=(), images=()))


def test_plain_float32_and_power_iteration_fall_below_where_brackets_do_not():
    rows = {(row["dtype"], row["method"]): row["under"] for row in speed.shares_below(300)}
    assert all(under == 0 for (_, method), under in rows.items() if "racket" in method)
    assert rows["float32", "Gram iteration, plain, 12 steps"] > 0.1
    assert rows["float32", "svdvals, plain"] > 0.1


def test_problems_are_what_they_say():
    orthogonal = speed.problem("orthogonal 6", 0)[0]
    assert torch.allclose(orthogonal.mT @ orthogonal, torch.eye(6, dtype=torch.float64), atol=1e-12)
    symbols = speed.problem("convolution 2 4", 0)
    assert symbols.shape == (12, 2, 2) and not symbols[0].imag.any()  # frequency 0 of a real kernel
    assert speed.power(orthogonal[None], 3) == pytest.approx(1.0)


def test_refusals(config):
    with pytest.raises(ValueError, match="--cases 0 --seeds 1 --rounds 1: expected at least 1"):
        study.run(replace(config, cases=0))
