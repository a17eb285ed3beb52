"""What the study of fairness says: shares of claims with their Monte-Carlo error, tables, the answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from studies.kit.answers import met, sentence
from studies.kit.tables import print_table
from studies.speech_fairness.draws import QUESTIONS

if TYPE_CHECKING:
    from studies.speech_fairness import Config

ANALYSES = {
    "naive": "utterances as independent, both factors",
    "joint": "clusters are speakers, both factors",
    "marginal": "clusters are speakers, ethnicity alone",
    "ethnicity: supported": "the verdict, ethnicity given nativeness",
}


def share(count: int, of: int) -> dict[str, float]:
    """A share of replications, its Monte-Carlo standard error √(p(1 − p)/n) and its exact 95 % interval."""
    from scipy.stats import binomtest

    if of == 0:
        return {"share": math.nan, "error": math.nan, "low": math.nan, "high": math.nan, "of": 0}
    p = count / of
    ends = binomtest(count, of).proportion_ci(0.95, method="exact")
    error = math.sqrt(p * (1 - p) / of)
    return {"share": p, "error": error, "low": float(ends.low), "high": float(ends.high), "of": of}


def claims(results: Mapping[str, Any], config: Config) -> list[dict[str, Any]]:
    """[{"claim", "expected", share and interval, "seen"}].

    "above" is seen where the whole interval is above the bound. "at most" is seen where the interval is not wholly
    above: the bound is then not contradicted, to the Monte-Carlo error.
    """
    rows: list[dict[str, Any]] = []

    def add(claim: str, kind: str, bound: float, count: int, of: int) -> None:
        found = share(count, of)
        seen = None if of == 0 else found["low"] > bound if kind == "above" else found["low"] <= bound
        rows.append({"claim": claim, "expected": f"{kind} {bound:g}", **found, "seen": seen})

    planted = [row for row in results.get("planted", []) if row["effect"] == config.effects[-1]]
    for row in planted:
        where = f"planted, {row['speakers']} speakers"
        counts, of = row["counts"], row["of"]
        if row is planted[-1]:
            add(f"{where}: naive errors blame ethnicity", "above", 0.2, counts["naive"], of["naive"])
            add(f"{where}: ethnicity alone is blamed", "above", 0.9, counts["marginal"], of["marginal"])
            add(f"{where}: joint, over speakers", "at most", config.alpha, counts["joint"], of["joint"])
            key = "native: supported"
            add(f"{where}: being non-native is found", "above", 0.9, counts[key], of[key])
        key = "ethnicity: supported"
        add(f"{where}: false verdicts on ethnicity", "at most", config.alpha, counts[key], of[key])
    if "recogniser" in results:
        draws = results["recogniser"]["draws"]
        for name, kind, bound in (
            ("site alone", "above", 0.2),
            ("site, given the rest", "at most", config.alpha),
            ("batch alone", "at most", config.alpha),
            ("batch, given the rest", "at most", config.alpha),
            ("noise, given the rest", "above", 0.9),
        ):
            add(
                f"recogniser: {name}, supported",
                kind,
                bound,
                draws["counts"][name].get("supported", 0),
                draws["of"][name],
            )
        add("recogniser: accents given noise are nearer to the known ratios", "above", 0.9, *draws["nearer"])
    return rows


def answer(results: Mapping[str, Any]) -> str:
    """How often each analysis blames the factor that does nothing."""
    parts = []
    rows = [row for row in results.get("planted", []) if "naive" in row["counts"]]
    if rows:
        last = max(rows, key=lambda row: row["speakers"])
        of = {name: share(last["counts"][name], last["of"][name])["share"] for name in ANALYSES}
        parts.append(
            f"a factor without effect is blamed in {of['marginal']:.1%} of planted populations where it stands alone, "
            f"in {of['naive']:.1%} with naive errors, in {of['joint']:.1%} jointly over {last['speakers']} speakers"
        )
    if "recogniser" in results:
        draws = results["recogniser"]["draws"]
        found = {
            name: share(draws["counts"][name].get("supported", 0), draws["of"][name])["share"] for name in QUESTIONS
        }
        parts.append(
            f"with a real recogniser a label that goes along with noise is blamed in {found['site alone']:.1%} of "
            f"draws alone and in {found['site, given the rest']:.1%} jointly, noise is found in "
            f"{found['noise, given the rest']:.1%}"
        )
    elif results.get("left_out"):
        parts.append(f"the recogniser was left out: {results['left_out']}")
    parts.append(met(results.get("claims", []), "claims", "seen"))
    return sentence(*parts)


def print_report(results: Mapping[str, Any], config: Config) -> None:
    """The tables."""
    if "planted" in results:
        _print_planted(results["planted"], config)
    if "recogniser" in results:
        _print_recogniser(results["recogniser"])
    elif results.get("left_out"):
        print(f"\nThe recogniser is left out: {results['left_out']}.")
    print_table(
        results["claims"],
        "claim; expected",
        ("share ± Monte-Carlo error", lambda row: _shown(row)),
        ("95 % interval", lambda row: f"[{row['low']:.3f}, {row['high']:.3f}]"),
        ("seen", lambda row: {True: "yes", False: "no", None: "–"}[row["seen"]]),
        title="Claims; 'at most' is seen where the interval does not lie above the bound",
    )


def _shown(found: Mapping[str, Any]) -> str:
    return f"{found['share']:.3f} ± {found['error']:.3f}"


def _print_planted(rows: list[dict[str, Any]], config: Config) -> None:
    whole = [row for row in rows if row["effect"] == config.effects[-1]]
    print_table(
        [{"name": name, "text": text} for name, text in ANALYSES.items()],
        ("analysis", lambda row: row["text"]),
        *(
            (
                f"{one['speakers']} speakers",
                lambda row, one=one: _shown(share(one["counts"][row["name"]], one["of"][row["name"]])),
            )
            for one in whole
        ),
        title="Planted: share of populations in which ethnicity, which does nothing, is claimed to matter (level "
        f"{config.alpha:g}; ± Monte-Carlo error)",
    )
    print_table(
        [(factor, row) for factor in ("ethnicity", "native") for row in whole],
        ("verdict on", lambda one: one[0]),
        ("speakers", lambda one: str(one[1]["speakers"])),
        *(
            (
                verdict,
                lambda one, verdict=verdict: _shown(
                    share(one[1]["counts"].get(f"{one[0]}: {verdict}", 0), one[1]["of"][f"{one[0]}: {verdict}"])
                ),
            )
            for verdict in ("supported", "refuted", "inconclusive")
        ),
        title=f"Planted: verdicts with the margin {config.margin:g}; ethnicity has the ratio 1, non-native "
        f"{math.exp(config.effects[-1]):.3g}",
    )
    print_table(
        [row for row in rows],
        ("true ratio", lambda row: f"{math.exp(row['effect']):.3g}"),
        ("speakers", lambda row: str(row["speakers"])),
        ("found", lambda row: _shown(share(row["counts"]["native: supported"], row["of"]["native: supported"]))),
        title="Planted: power, the share of populations in which being non-native is found",
    )


def _print_recogniser(found: Mapping[str, Any]) -> None:
    levels = ", ".join(f"{name} {value:.1%}" for name, value in found["levels"].items())
    print(
        f"\nRecogniser: {found['speakers']} synthetic speakers, {found['utterances']} decodings; word error rate "
        f"{levels}"
    )
    print_table(
        found["rates"],
        "accent; speakers; corpus:.3f; mean of speakers=by_speaker:.3f; mean of utterances=by_utterance:.3f",
        "substitutions:.3f; deletions:.3f; insertions:.3f",
        title="Word error rates by accent, every speaker in both levels of noise",
    )
    print_table(
        [(name, *values) for name, values in found["known"].items()],
        ("factor", lambda row: row[0]),
        ("rate ratio", lambda row: f"{row[1]:.2f}"),
        ("95 % interval", lambda row: f"[{row[2]:.2f}, {row[3]:.2f}]"),
        title="Rate ratios with every speaker in both levels: what is known of these voices",
    )
    draws = found["draws"]
    print_table(
        list(QUESTIONS),
        ("question", lambda name: name),
        *(
            (
                verdict,
                lambda name, verdict=verdict: _shown(share(draws["counts"][name].get(verdict, 0), draws["of"][name])),
            )
            for verdict in ("supported", "refuted", "inconclusive")
        ),
        title="Shares of draws by verdict; site and batch do nothing, site goes along with noise",
    )
    ratios = draws["ratios"]
    print_table(
        list(enumerate(found["accents"])),
        ("accent", lambda one: one[1] + (" (mostly in noise)" if one[1] == found["exposed"] else "")),
        *(
            (name, lambda one, name=name: f"{ratios[name]['mean'][one[0]]:.2f}")
            for name in ("known", "alone", "given noise")
        ),
        title="Rate of an accent against the geometric mean of all, mean over draws",
    )
    nearer, of = draws["nearer"]
    print(f"\nGiven noise, the ratios are nearer to the known ones than alone in {nearer} of {of} draws.")
    for name in ("alone", "given noise"):
        count, of = draws["worst"][name]
        print(f"{found['exposed']} is in the worse half of the accents in {count} of {of} draws, {name}.")
    print_table(
        found["page"]["findings"],
        "question; effect:.2f; low:.2f; high:.2f; p:.2g; verdict",
        ("SHA-256", lambda row: row["digest"][:12]),
        title=f"The first draw, as in {found['page']['file']}",
    )
