"""The study of fairness: populations are as stated, shares have their error, draws keep what is known."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("statsmodels")

from sciops.datasets.speech.espeak import installed
from sciops.evaluation.fairness import cluster_table, group_rates
from studies import speech_fairness as study
from studies.speech_fairness import draws, planted, report, voices

CONFIG = study.Config(
    replications=20,
    speakers=(24,),
    effects=(0.7,),
    accents=("gmw/en-US", "gmw/en-029"),
    draws=20,
    sentences=4,
    workers=1,
)


def speakers(per_accent: int = 40) -> voices.Population:
    """Speakers of two accents: B has twice the rate of A, noise three times that of quiet."""
    rng = np.random.default_rng(0)
    accent = np.array(["en-US", "en-029"], dtype=object).repeat(per_accent)
    two = {name: rng.choice(list(levels), 2 * per_accent).astype(object) for name, levels in TWO.items()}
    words = np.array([3.0, 5.0, 8.0, 4.0])
    rates = 0.06 * np.where(accent == "en-US", 1, 2)[:, None, None] * np.array([1, 3]) * words[:, None]
    errors = rng.poisson(rates[..., None] / 3 * np.ones(3))
    return voices.Population(np.arange(len(accent)).astype(object), {"accent": accent, **two}, words, errors)


TWO = {"voice": ("male", "female"), "rate": ("slow", "fast"), "pitch": ("low", "high")}


def test_the_planted_population_is_as_stated():
    table = planted.population(np.random.default_rng(1), 4000, 0.7)
    clusters = cluster_table(table)
    non_native = clusters.factors["native"] == "non-native"
    one = clusters.factors["ethnicity"] == "1"
    assert non_native.mean() == pytest.approx(0.4, abs=0.03)
    assert one[non_native].mean() == pytest.approx(0.75, abs=0.03)
    assert one[~non_native].mean() == pytest.approx(0.15, abs=0.03)
    for chosen, expected in ((~non_native, 0.10 * math.exp(0.125)), (non_native, 0.10 * math.exp(0.825))):
        for group in (one, ~one):
            assert clusters.rate[chosen & group].mean() == pytest.approx(expected, rel=0.08)


def test_shares_have_the_error_of_counts():
    found = report.share(5, 100)
    assert found["share"] == 0.05 and found["error"] == pytest.approx(math.sqrt(0.05 * 0.95 / 100))
    assert (found["low"], found["high"]) == pytest.approx((0.0164, 0.1128), abs=1e-4)  # Clopper and Pearson
    assert report.share(0, 40)["low"] == 0 and math.isnan(report.share(0, 0)["share"])


def test_claims_follow_the_intervals():
    def row(joint: int) -> dict:
        counts = {"naive": 60, "joint": joint, "marginal": 198, "native: supported": 199, "ethnicity: supported": joint}
        return {"speakers": 200, "effect": 0.7, "counts": counts, "of": dict.fromkeys(counts, 200)}

    for joint, seen in ((10, True), (18, False)):
        rows = report.claims({"planted": [row(joint)]}, CONFIG)
        assert [one["seen"] for one in rows] == [True, True, seen, True, seen]
    few = {"speakers": 200, "effect": 0.7, "counts": dict.fromkeys(row(0)["counts"], 0)}
    few["of"] = dict.fromkeys(few["counts"], 0)
    assert {one["seen"] for one in report.claims({"planted": [few]}, CONFIG)} == {None}


def test_draws_keep_the_errors_of_every_speaker_and_labels_do_nothing():
    population = speakers()
    both = draws.crossed(population)
    assert both.errors.sum() == population.errors.sum() and len(both) == population.errors[..., 0].size
    noisy = np.arange(80) % 2 == 0
    table = draws.observed(population, noisy, {})
    clusters = cluster_table(table)
    order = np.argsort(population.speakers.astype(str))
    expected = population.errors.sum((1, 3))[np.arange(80), noisy.astype(int)]
    assert clusters.errors.tolist() == expected[order].tolist()
    assert dict(zip(clusters.cluster, clusters.factors["noise"])) == {
        str(i): ("noisy" if noisy[i] else "quiet") for i in range(80)
    }
    shares = {"A": [], "B": []}
    for seed in range(200):
        table = draws.along_with_noise(population, np.random.default_rng(seed))
        for rate in group_rates(table, "site", "noise"):
            site, level = rate.group.split(" × ")
            shares[site].append((level, rate.pooled))
    for level in ("quiet", "noisy"):  # within one level the sites have one rate: that of all speakers in it
        a, b = (np.mean([value for one, value in shares[site] if one == level]) for site in "AB")
        known = population.errors[:, :, voices.LEVELS.index(level)].sum() / (80 * population.words.sum())
        assert a == pytest.approx(known, rel=0.1) and b == pytest.approx(known, rel=0.1)


def test_ratios_given_noise_are_the_known_ones():
    population, accents = speakers(400), ["en-029", "en-US"]
    known = draws._of_accents(draws.crossed(population), ("accent",), accents, covariates=("noise",))
    assert known[0] - known[1] == pytest.approx(math.log(2), abs=0.1) and known.sum() == pytest.approx(0, abs=1e-12)
    table = draws.exposed_accent(population, "en-US", np.random.default_rng(0))
    alone = draws._of_accents(table, ("accent",), accents)
    given = draws._of_accents(table, ("accent", "noise"), accents)
    assert np.abs(given - known).max() < 0.1 < np.abs(alone - known).max()


def test_commands_fit_the_grammar_and_are_dealt_evenly():
    said = voices.commands(40, 0)
    assert len(set(said)) == 40 and said == voices.commands(40, 0) != voices.commands(40, 1)
    vocabulary = {word for words in voices.WORDS.values() for word in words.split()} | {"the", "to", "at"}
    assert {word for text in said for word in text.split()} <= vocabulary
    options = {"seed": 0, "rates": (150, 190), "pitches": (35, 65), "voices": study.VOICES}
    plan = voices.dealt("gmw/en", options)
    assert list(plan) == list(study.VOICES) and plan != voices.dealt("gmw/en-US", options)
    for family in "mf":
        pairs = [pair for voice, pair in plan.items() if voice[0] == family]
        counts = [pairs.count(pair) for pair in set(pairs)]
        assert len(counts) == 4 and max(counts) - min(counts) <= 1


def test_words_are_counted_as_jiwer_does():
    pytest.importorskip("jiwer")
    assert voices.counted("move the box", "") == (0, 3, 0)
    assert voices.counted("move the box", "take the red box") == (1, 0, 1)


def test_a_small_run_of_the_planted_part(tmp_path, capsys):
    config = replace(CONFIG, parts=("planted",), output=tmp_path)
    results = study.run(config)
    said = capsys.readouterr().out
    assert "± Monte-Carlo error" in said and "recogniser" not in results
    (row,) = results["planted"]
    for factor in ("native", "ethnicity"):
        counts = [row["counts"][f"{factor}: {verdict}"] for verdict in planted.VERDICTS]
        assert sum(counts) == row["of"]["naive"] <= 20
    assert json.loads((tmp_path / "results.json").read_text())["planted"] == results["planted"]
    assert "herron2026responsible" in (tmp_path / "citations.bib").read_text()
    assert (tmp_path / "figures" / "planted.png").stat().st_size > 10_000


def test_without_a_synthesiser_the_part_is_left_out_and_that_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(study, "installed", lambda: None)
    results = study.run(replace(CONFIG, parts=("recogniser",), output=tmp_path))
    assert "The recogniser is left out: espeak-ng is not installed" in capsys.readouterr().out
    assert study.answer(results) == (
        "The recogniser was left out: espeak-ng is not installed (apt-get install espeak-ng)."
    )


def test_a_small_run_of_the_recogniser(tmp_path, capsys, monkeypatch):
    """The analysis of speakers whose errors are drawn, in the place of decoded ones."""
    monkeypatch.setattr(study, "_missing", lambda: "")
    monkeypatch.setattr(study, "decoded_cell", lambda *_: {})
    monkeypatch.setattr(study, "population_of", lambda _: speakers())
    results = study.run(replace(CONFIG, parts=("recogniser",), output=tmp_path))
    found = results["recogniser"]
    assert found["known"]["noise"][0] == pytest.approx(3, rel=0.25)
    assert found["draws"]["counts"]["noise, given the rest"].get("supported", 0) >= 15
    assert found["draws"]["nearer"][0] >= 15 and sum(found["draws"]["counts"]["site alone"].values()) == 20
    page = (tmp_path / "fairness.html").read_text()
    for row in found["page"]["findings"]:
        assert row["digest"] in page and f"{row['effect']:.3g}" in page
    assert "mean of utterances" in capsys.readouterr().out


@pytest.mark.skipif(study._missing() != "", reason=study._missing())
def test_the_recogniser_hears_what_espeak_says(tmp_path):
    assert installed()
    options = {"voices": ("m1", "f2"), "sentences": 2, "rates": (150, 190), "pitches": (35, 65)}
    options |= {"snr": (20.0, -10.0), "seed": 0}
    cell = voices.decoded_cell(tmp_path, "gmw/en-US", options)
    errors = np.array(cell["errors"])
    assert errors.shape == (2, 2, 2, 3)
    quiet, noisy = errors.sum((0, 1, 3)) / (2 * sum(cell["words"]))
    assert quiet < 0.5 < noisy
    assert voices.decoded_cell(tmp_path, "gmw/en-US", options) == cell
    assert voices.population_of([cell]).factors["voice"].tolist() == ["male", "female"]


def test_refusals(tmp_path):
    for changes, message in (
        ({"parts": ("flite",)}, "--parts flite: expected some of planted"),
        ({"draws": 3}, "expected at least 20 replications, 20 draws and 12 speakers"),
        ({"speakers": (6,)}, "12 speakers"),
    ):
        with pytest.raises(ValueError, match=message):
            study.run(replace(CONFIG, output=tmp_path, **changes))
