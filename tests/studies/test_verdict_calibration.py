"""The calibration study draws what it says, counts winners rightly, and fails where the level is not kept."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sciops.evaluation import paired_verdict
from studies import verdict_calibration as study
from studies.verdict_calibration.laws import LAWS, differences, rules, winners

TINY = study.Config(
    trials=100, resamples=50, seeds=(3, 6), samples=8, sample_counts=(5,), effects=(0.0, 1.0), shifts=(0.5, 4.0)
)


def test_the_laws_are_centred_and_of_unit_variance():
    rng = np.random.default_rng(0)
    for name, law in LAWS.items():
        values = law(rng, (100_000,))
        if name != "student, 1.5 degrees":
            assert abs(values.mean()) < 0.02, name
            assert values.std() == pytest.approx(1.0, abs=0.15), name


def test_effects_have_the_sizes_that_were_asked_for():
    (d,) = differences(2000, 4, 6, of_seeds=2.0, of_samples=0.5, residual=0.1, mean=3.0)
    assert d.shape == (2000, 4, 6) and d.mean() == pytest.approx(3.0, abs=0.1)
    assert d.mean(-1).std(1, ddof=1).mean() == pytest.approx(1.84, abs=0.1)  # E s = 0.921 σ for 4 normal values
    assert (d - d.mean(-1, keepdims=True)).std() == pytest.approx(np.sqrt(0.26 * 5 / 6), abs=0.02)


def test_the_study_counts_what_paired_verdict_says():
    rule = rules(10)["verdict"]
    whole = sum(winners(differences(100, 5, 8, of_seeds=1.0, of_samples=0.0), rule))
    (d,) = differences(100, 5, 8, of_seeds=1.0, of_samples=0.0)
    named = [paired_verdict(one, np.zeros_like(one)).winner in ("first", "second") for one in d]
    assert whole == pytest.approx(np.mean(named))


def test_a_small_run_leaves_its_numbers_and_a_level_that_is_not_kept_ends_it(tmp_path, capsys):
    with pytest.raises(RuntimeError, match="false winners above 0.1%"):
        study.run(replace(TINY, output=tmp_path, most=0.001))
    results = json.loads((tmp_path / "results.json").read_text())
    assert study.worst(results["rules"], rule="bootstrap", seeds=3) > 0.15
    power = {(r["seeds"], r["shift"]): r for r in results["power"]}
    assert power[6, 4.0]["right"] > 0.9 > power[6, 0.5]["right"] and power[6, 4.0]["wrong"] == 0.0
    assert study.worst(results["structures"], structure="neighbours", seeds=6) > 0.2
    assert (tmp_path / "figures" / "verdict_calibration.png").stat().st_size > 10_000
    assert "two standard errors" in capsys.readouterr().out


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="--trials 5"):
        study.run(replace(TINY, output=tmp_path, trials=5))
