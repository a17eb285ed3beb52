"""What the study of precision and recall says: verdicts, tables, the answer, from results alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import Spread, sample_floor, spread
from studies.kit.tables import print_table
from studies.kit.verdicts import seed_verdict, shown
from studies.precision_recall import fields, text
from studies.precision_recall.figures import draw

if TYPE_CHECKING:
    from studies.precision_recall import Config

__all__ = ["answer", "claims", "draw", "print_report"]

NEAR = ("precision", "recall", "density", "coverage")
CURVES = ("precision", "recall", "area")
_MEANS = {"less": "second", "more": "first", "alike": "equivalent"}  # winners of `seed_verdict` on 1 − score


def three(config: Config) -> tuple[str, str, str]:
    """The lowest temperature, the one next to 1 and the highest, as keys of the records."""
    ordered = sorted(config.temperatures)
    return str(ordered[0]), str(min(ordered, key=lambda t: abs(t - 1))), str(ordered[-1])


def claims(results: Mapping[str, Any], config: Config) -> list[dict[str, Any]]:
    """[{"claim", "expected", "first", "second" (means), "verdict" (text), "seen"}], over seeds."""
    rows: list[dict[str, Any]] = []

    def add(claim: str, expected: str, first: Sequence[float], second: Sequence[float]) -> None:
        verdict = seed_verdict([1 - v for v in first], [1 - v for v in second], smallest=config.smallest)
        means = {"first": float(np.mean(first)), "second": float(np.mean(second))}
        seen = verdict is not None and verdict.winner == _MEANS[expected]
        rows.append({"claim": claim, "expected": expected, **means, "verdict": shown(verdict), "seen": seen})

    low, one, high = three(config)
    for part, what, get in _by_temperature(results):
        name = f"{part}, {what}"
        add(
            f"{name}: precision at temperature {low} against {one}",
            "more",
            get(low, "precision"),
            get(one, "precision"),
        )
        add(f"{name}: recall at temperature {low} against {one}", "less", get(low, "recall"), get(one, "recall"))
        add(
            f"{name}: precision at temperature {high} against {one}",
            "less",
            get(high, "precision"),
            get(one, "precision"),
        )
        add(f"{name}: recall at temperature {high} against {one}", "more", get(high, "recall"), get(one, "recall"))
    if results.get("fields"):

        def of(arm: str, features: str, score: str) -> list[float]:
            return [r["arms"][arm][features][score] for r in results["fields"]]

        for arm, features, score, expected in (
            ("two families", "fields", "precision", "alike"),
            ("two families", "fields", "recall", "less"),
            ("repeats", "fields", "precision", "alike"),
            ("repeats", "fields", "recall", "less"),
            ("noise", "fields", "precision", "less"),
            ("noise", "spectra", "precision", "less"),
            ("smoothed", "fields", "precision", "less"),
            ("smoothed", "spectra", "precision", "less"),
            ("coarse input", "fields", "recall", "less"),
            ("brief", "fields", "precision", "less"),
            ("exchanged", "fields", "precision", "alike"),
            ("exchanged", "pairs", "precision", "less"),
        ):
            claim = f"fields, as {features}: {score} of {arm!r} against the FNO"
            add(claim, expected, of(arm, features, score), of("FNO", features, score))
    return rows


def _by_temperature(results: Mapping[str, Any]) -> list[tuple[str, str, Callable[[str, str], list[float]]]]:
    """(part, what, get(temperature, score) → by seed)."""
    found: list[tuple[str, str, Callable[[str, str], list[float]]]] = []
    if results.get("chain"):
        rows = results["chain"]
        found.append(("chain", "exact", lambda t, name: [r["temperatures"][t][name] for r in rows]))
        found.append(("chain", "samples", lambda t, name: [r["temperatures"][t]["sampled"][name] for r in rows]))
    for features in text.FEATURES if results.get("text") else ():
        found.append(("text", features, _of_text(results["text"], features)))
    return found


def _of_text(rows: Sequence[Mapping[str, Any]], features: str) -> Callable[[str, str], list[float]]:
    return lambda t, name: [r["temperatures"][t][features][name] for r in rows]


def monotone(get: Callable[[str, str], list[float]], score: str, config: Config) -> list[float]:
    """Spearman's correlation of a score with the temperature, seed by seed; nan for fewer than 3 temperatures."""
    from scipy.stats import spearmanr

    temperatures = sorted(config.temperatures)
    table = np.array([get(str(t), score) for t in temperatures])
    if len(temperatures) < 3:
        return [float("nan")] * table.shape[1]
    return [float(spearmanr(temperatures, column).statistic) if np.ptp(column) else 0.0 for column in table.T]


def answer(results: Mapping[str, Any]) -> str:
    """The first sentences of the page."""
    low, one, _ = results["temperatures"]
    said = []
    if results.get("text"):
        get = _of_text(results["text"], "last state")
        mean = {(t, s): float(np.mean(get(t, s))) for t in (low, one) for s in ("precision", "recall")}
        said.append(
            f"From temperature {one} to {low} the precision of the text goes from {mean[one, 'precision']:.2f} to "
            f"{mean[low, 'precision']:.2f} and its recall from {mean[one, 'recall']:.2f} to {mean[low, 'recall']:.2f}."
        )
    if results.get("fields"):
        arms = {}
        for arm in ("FNO", "two families", "noise"):
            scores = [[r["arms"][arm]["fields"][s] for r in results["fields"]] for s in ("precision", "recall")]
            arms[arm] = " and ".join(f"{np.mean(values):.2f}" for values in scores)
        said.append(
            f"Precision and recall of fields: {arms['FNO']} for the FNO, {arms['two families']} where two of four "
            f"families are left out, {arms['noise']} with noise."
        )
    seen = sum(row["seen"] for row in results["claims"])
    return " ".join([*said, f"{seen} of {len(results['claims'])} claims have a verdict for them."])


def print_report(results: Mapping[str, Any], config: Config) -> None:
    """Prints the tables: scores beside their ceilings, verdicts, ablations."""
    n, floor = config.samples, sample_floor(config.smallest)
    few = "" if n >= floor else ", more than there are"
    print(f"\n{n} samples of each cloud; ±{config.smallest:g} needs {floor} at least{few}")
    print("cells: mean ± deviation over seeds | split-half ceiling | samples that the measured error needs")
    if results.get("chain"):
        _print_chain(results["chain"], config)
    if results.get("text"):
        _print_text(results["text"], config)
    if results.get("fields"):
        _print_fields(results["fields"])
    for part, what, get in _by_temperature(results):
        found = {score: monotone(get, score, config) for score in ("precision", "recall")}
        said = "; ".join(f"{score} {min(v):+.2f} … {max(v):+.2f}" for score, v in found.items())
        print(f"rank correlation with the temperature, {part}, {what}: {said}")
    seen = ("", lambda row: "seen" if row["seen"] else "not seen")
    columns = "=claim; expected; first:.3f; second:.3f; verdict"
    title = (
        f"claims about scores, by the verdict over {len(config.seeds)} seeds on 1 − score, beyond ±{config.smallest:g}"
    )
    print_table(results["claims"], columns, seen, title=title)


def _print_chain(rows: Sequence[Mapping[str, Any]], config: Config) -> None:
    table: dict[str, Any] = {}
    for t in map(str, sorted(config.temperatures)):
        own = [r["temperatures"][t] for r in rows]
        exact = {name: spread(one[name] for one in own) for name in ("possible", *CURVES)}
        sampled = {name: spread(one["sampled"][name] for one in own) for name in CURVES}
        table[t] = {
            "exact": exact,
            "sampled": {k: _beside(v, [r["ceiling"][k] for r in rows]) for k, v in sampled.items()},
        }
    columns = "temperature=name; possible=exact.possible:.3f; " + "; ".join(f"{c}=exact.{c}:.3f" for c in CURVES)
    sampled = "; ".join(f"{c} of samples=sampled.{c}" for c in CURVES)
    title = "chain: exact share of possible strings, F(1/8) as precision, F(8) as recall, area of the divergence curve"
    print_table(table, columns, sampled, title=title)


def _print_text(rows: Sequence[Mapping[str, Any]], config: Config) -> None:
    bits = spread(r["bits_per_byte"] for r in rows)
    for features in text.FEATURES:
        cells = {t: [r["temperatures"][t][features] for r in rows] for t in map(str, sorted(config.temperatures))}
        title = f"text ({rows[0]['corpus']}, {bits:.2f} bits a byte), by temperature; features: {features}"
        print_table(_scored(cells), *_COLUMNS, title=title)
    _print_ablation({"temperature 1": [r["temperatures"].get("1.0", {}).get("ablation") for r in rows]})


def _print_fields(rows: Sequence[Mapping[str, Any]]) -> None:
    arms = list(rows[0]["arms"])
    for features in fields.FEATURES:
        cells = {arm: [r["arms"][arm][features] for r in rows] for arm in arms}
        table = _scored(cells)
        for arm in arms:
            table[arm]["error"] = spread(r["arms"][arm]["error"] for r in rows)
        title = f"fields of Burgers' equation, features: {features}; error: relative L2"
        print_table(table, "=name; error:.3f", *_COLUMNS[1:], title=title)
    _print_ablation({arm: [r["arms"][arm]["ablation"] for r in rows] for arm in ("FNO", "repeats")})


_COLUMNS = ("=name", *NEAR, *(f"{c} of curves={c}, curves" for c in CURVES))


def _scored(cells: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """name → {score: text}, each beside its ceiling."""
    table = {}
    for name, own in cells.items():
        row: dict[str, Any] = {}
        for s in (*NEAR, *(f"{s}, curves" for s in CURVES)):
            kind, _, curves = s.partition(", ")
            scores = [one["curves"] if curves else one for one in own]
            ceilings = [one["ceiling"][kind] for one in scores]
            row[s] = _beside(spread(one[kind] for one in scores), ceilings, [one["needed"][kind] for one in scores])
        table[name] = row
    return table


def _beside(found: Spread, ceilings: Sequence[Mapping[str, Any]], needed: Sequence[int] = ()) -> str:
    """ "0.812 ± 0.013 | 0.832 | 385": a score beside the mean of its ceilings and of the samples that it needs."""
    text = f"{found:.3f} | {np.mean([one['mean'] for one in ceilings]):.3f}"
    return f"{text} | {np.mean(needed):.0f}" if len(needed) else text


def _print_ablation(cases: Mapping[str, Sequence[Mapping[str, Any] | None]]) -> None:
    table: dict[str, Any] = {}
    for name, ablations in cases.items():
        own = [one for one in ablations if one]
        for kind, word in (("k", "k ="), ("n", "samples")):
            for value in own[0][kind] if own else ():
                found = [one[kind][value] for one in own]
                row = {s: _beside(spread(o[s] for o in found), [o["ceiling"][s] for o in found]) for s in NEAR}
                table[f"{name}, {word} {value}"] = row
        if own:
            table[f"{name}, open balls"] = {s: f"{spread(o['open'][s] for o in own):.3f}" for s in NEAR}
    if table:
        print_table(table, "=name", *NEAR, title="ablation")
