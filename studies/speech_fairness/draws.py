"""Draws of who is recorded in noise, from speakers whose errors in both levels are known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation.fairness import (
    Hypothesis,
    Observations,
    assess,
    group_rates,
    observations_digest,
    poisson_regression,
    report,
)
from studies.kit.cells import kept
from studies.speech_fairness.voices import KINDS, LEVELS, Population, short

if TYPE_CHECKING:
    from studies.speech_fairness import Config

NOISY = 0.4  # share of speakers in much noise, where a label goes along with it
SITE = (0.15, 0.75)  # share of site B among speakers in little and in much noise: the shares of the planted population
EXPOSED = (0.25, 0.85)  # share in much noise among other speakers and among those of the exposed accent
VOICE_FACTORS = ("accent", "voice", "rate", "pitch")
# name → (factor, what it is conditioned on)
QUESTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "site alone": ("site", ()),
    "site, given the rest": ("site", ("noise", *VOICE_FACTORS)),
    "batch alone": ("batch", ()),
    "batch, given the rest": ("batch", ("noise", *VOICE_FACTORS)),
    "noise, given the rest": ("noise", ("site", *VOICE_FACTORS)),
}
RESAMPLES = 200  # of the permutations in a draw


def observed(population: Population, noisy: np.ndarray, labels: Mapping[str, np.ndarray]) -> Observations:
    """The utterances of every speaker in the level that the speaker has; noisy : (speakers,) booleans."""
    count, sentences = population.errors.shape[:2]
    chosen = population.errors[np.arange(count), :, noisy.astype(int)]  # (speakers, sentences, kinds)
    row = np.arange(count).repeat(sentences)
    factors = {**population.factors, **labels, "noise": np.array(LEVELS, dtype=object)[noisy.astype(int)]}
    return Observations(
        chosen.sum(-1).ravel(),
        np.tile(population.words, count),
        population.speakers[row],
        {name: values[row] for name, values in factors.items()},
        parts={kind: chosen[..., k].ravel() for k, kind in enumerate(KINDS)},
    )


def crossed(population: Population) -> Observations:
    """Every speaker in both levels; noise is a covariate, 0 or 1, since it changes within a speaker."""
    count, sentences, levels, _ = population.errors.shape
    row = np.arange(count).repeat(sentences * levels)
    errors = population.errors.transpose(0, 2, 1, 3).reshape(-1, len(KINDS))
    return Observations(
        errors.sum(-1),
        np.tile(population.words, count * levels),
        population.speakers[row],
        {name: values[row] for name, values in population.factors.items()},
        {"noise": np.tile(np.arange(levels).repeat(sentences), count)},
        {kind: errors[:, k] for k, kind in enumerate(KINDS)},
    )


def along_with_noise(population: Population, rng: np.random.Generator) -> Observations:
    """Noise by chance, a site that goes along with it, a batch that goes along with nothing; both without effect."""
    count = len(population.speakers)
    noisy = rng.random(count) < NOISY
    site = np.where(rng.random(count) < np.where(noisy, SITE[1], SITE[0]), "B", "A").astype(object)
    batch = np.where(rng.random(count) < 0.5, "2", "1").astype(object)
    return observed(population, noisy, {"site": site, "batch": batch})


def exposed_accent(population: Population, accent: str, rng: np.random.Generator) -> Observations:
    """Noise that falls mostly on the speakers of one accent."""
    of_accent = population.factors["accent"] == accent
    noisy = rng.random(len(of_accent)) < np.where(of_accent, EXPOSED[1], EXPOSED[0])
    return observed(population, noisy, {})


def analysed_draws(population: Population, config: Config, folder: Path) -> dict[str, Any]:
    """All that the study says of the recogniser; writes fairness.html of the first draw."""
    exposed = short(config.exposed)
    both = crossed(population)
    accents = sorted({*population.factors["accent"].tolist()})
    if len({*both.errors.tolist()}) < 2 or any(rate.pooled == 0 for rate in group_rates(both, "accent")):
        raise ValueError("an accent has no error at all: no rate ratio is finite; pass more --sentences or more noise")
    made_by = {"data": observations_digest(both), "exposed": exposed, "draws": config.draws, "seed": config.seed}
    made_by |= {"alpha": config.alpha, "margin": config.margin}
    counted = kept(folder / "cells", "draws", made_by, lambda: _over_draws(population, config, exposed, accents))
    first = along_with_noise(population, np.random.default_rng([config.seed, 4, 0]))
    page = _page(first, config, folder / "fairness.html")
    return {
        "speakers": len(population.speakers),
        "utterances": int(np.prod(population.errors.shape[:3])),
        "levels": {
            level: float(population.errors[:, :, k].sum() / (population.words.sum() * len(population.speakers)))
            for k, level in enumerate(LEVELS)
        },
        "known": _ratios(both),
        "rates": [
            {
                "accent": rate.group,
                "speakers": rate.clusters,
                "corpus": rate.pooled,
                "by_speaker": rate.macro,
                "by_utterance": rate.row_mean,
                **rate.parts,
            }
            for rate in group_rates(both, "accent")
        ],
        "exposed": exposed,
        "accents": accents,
        "draws": {key: counted[key] for key in ("counts", "of", "ratios", "nearer", "worst")},
        "page": page,
    }


def asked(name: str, config: Config, **options: Any) -> Hypothesis:
    """The hypothesis of one of `QUESTIONS`."""
    factor, conditioning = QUESTIONS[name]
    fixed: dict[str, Any] = {"margin": config.margin, "alpha": config.alpha, "declared_before_results": True}
    reference = "quiet" if factor == "noise" else None
    return Hypothesis("word error rate", factor, reference, conditioning=conditioning, **(fixed | options))


def _ratios(both: Observations) -> dict[str, list[float]]:
    """column → rate ratio and the ends of its 95 % interval, from every speaker in both levels."""
    found = poisson_regression(both, VOICE_FACTORS, covariates=("noise",), references={"accent": _american(both)})
    half = 1.959964 * found.standard_errors
    return {
        name: np.exp([value, value - error, value + error]).tolist()
        for name, value, error in zip(found.names[1:], found.coefficients[1:], half[1:])
    }


def _american(table: Observations) -> str:
    levels = table.levels("accent")
    return "en-US" if "en-US" in levels else levels[0]


def _over_draws(population: Population, config: Config, exposed: str, accents: list[str]) -> dict[str, Any]:
    counts = {name: {} for name in QUESTIONS}
    of = dict.fromkeys(QUESTIONS, 0)
    reference = crossed(population)
    known = _of_accents(reference, ("accent",), accents, covariates=("noise",))
    ratios: dict[str, list[np.ndarray]] = {"alone": [], "given noise": []}
    for draw in range(config.draws):
        table = along_with_noise(population, np.random.default_rng([config.seed, 4, draw]))
        for name in QUESTIONS:
            verdict = assess(table, asked(name, config, draws=RESAMPLES, seed=draw)).findings[0].verdict
            of[name] += 1
            counts[name][verdict] = counts[name].get(verdict, 0) + 1
        table = exposed_accent(population, exposed, np.random.default_rng([config.seed, 5, draw]))
        if any(rate.pooled == 0 for rate in group_rates(table, "accent")):
            continue  # no finite ratio
        ratios["alone"].append(_of_accents(table, ("accent",), accents))
        ratios["given noise"].append(_of_accents(table, ("accent", "noise"), accents))
    alone, given = (np.array(ratios[name]) for name in ("alone", "given noise"))
    off = {name: np.abs(values - known).mean(1) for name, values in (("alone", alone), ("given noise", given))}
    place = accents.index(exposed)
    return {
        "counts": counts,
        "of": of,
        "ratios": {
            name: {"mean": np.exp(values.mean(0)).tolist(), "deviation": values.std(0, ddof=1).tolist()}
            for name, values in (("alone", alone), ("given noise", given))
        }
        | {"known": {"mean": np.exp(known).tolist(), "deviation": [0.0] * len(accents)}},
        "nearer": [int((off["given noise"] < off["alone"]).sum()), len(alone)],
        # among how many draws the exposed accent is in the worse half
        "worst": {
            name: [int((values.argsort(1).argsort(1)[:, place] >= len(accents) / 2).sum()), len(values)]
            for name, values in (("alone", alone), ("given noise", given), ("known", known[None]))
        },
    }


def _of_accents(
    table: Observations, factors: tuple[str, ...], accents: list[str], covariates: tuple[str, ...] = ()
) -> np.ndarray:
    """(accents,) ln of the rate against the geometric mean of all accents."""
    found = poisson_regression(table, factors, covariates=covariates, covariance="naive")
    beta = np.array([0.0, *found.coefficients[found.design.columns_of("accent")]])  # the first level is the reference
    order = [table.levels("accent").index(accent) for accent in accents]
    return (beta - beta.mean())[order]


def _page(table: Observations, config: Config, path: Path) -> dict[str, Any]:
    """The page of the first draw: what one would write of one data set."""
    options = {"draws": 2000, "seed": config.seed}
    found = [assess(table, asked(name, config, **options)) for name in QUESTIONS if not name.startswith("batch")]
    report(table, found, path, cells=("accent", "noise"), title="Word error rate of pocketsphinx on synthetic voices")
    return {
        "file": path.name,
        "findings": [
            {
                "question": name,
                "effect": one.findings[0].effect,
                "low": one.findings[0].low,
                "high": one.findings[0].high,
                "p": one.findings[0].p,
                "verdict": one.findings[0].verdict,
                "digest": one.hypothesis.digest(),
            }
            for name, one in zip((name for name in QUESTIONS if not name.startswith("batch")), found)
        ],
    }
