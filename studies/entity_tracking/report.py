"""Tables and targets of the study of entity tracking."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciops.evaluation import spread
from studies.kit.answers import extent, listed, met, sentence
from studies.kit.tables import print_table
from studies.kit.timing import print_targets, target
from studies.kit.verdicts import seed_verdict, shown

# smallest effects of interest, set before the run that the page shows
EQUAL = 0.005  # of accuracy, below the dense operator's, that still counts as the same
DIFFERENT = 0.01  # of accuracy or exact match
OF_TEXT = 0.02  # nats a token, 2 % of a perplexity
_UNTIL = 0.01  # gain over the last eighth of a training that says that it was stopped too early


def targets(results: dict[str, Any]) -> list[dict[str, Any]]:
    """What the papers claim beside what was measured, for the parts that ran."""
    rows = []
    if "layers" in results:
        layers = results["layers"]
        worst = min(layers[0]["worst"])
        rows.append(target("one layer of the resolvent: worst accuracy of any hop and seed", worst, least=0.99))
        for row in layers[1:]:
            what = f"{row['name']}: links followed by every seed (accuracy ≥ 0.95), bound {row['bound']}"
            deepest = max(row["judged"])
            rows.append(target(what, min(row["reach"]), least=min(row["bound"], deepest), note=_stopped(row)))
            if deepest > row["bound"]:
                first = row["by_value"][row["value"].index(row["bound"] + 1)]
                rows.append(target(f"{row['name']}: accuracy one link past the bound", first, most=0.95))
    if "blocks" in results:
        for kind in ("near", "far"):
            block_rows = results["blocks"].get(kind, [])
            if not block_rows:
                continue
            dense = block_rows[0]["accuracy"]
            rows += [
                target(f"{row['name']}, {kind} links: accuracy below dense", dense - row["accuracy"], most=EQUAL)
                for row in block_rows[1:]
                if row["form"].endswith("overlap") and row["form"].startswith("level")
            ]
    if "times" in results:
        timed = results["times"]
        for name in _accurate(results):
            for what in ("forward", "both"):
                own = [r for r in timed["rows"] if r["name"] == name and r["pass"] == what and r["saved"]]
                saved = {r["n"]: r["saved"]["median"] for r in own if r["n"] >= timed["fit_from"]}
                if saved:
                    words = f"{name}: least saved of dense, {_PASSES[what]}, n = {min(saved)} … {max(saved)}"
                    rows.append(target(words, min(saved.values()), least=0.29))
        for name, exponents in timed["exponents"].items():
            if name.startswith("level 1"):
                words = f"{name}: exponent of time, {_PASSES['both']}, from n = {timed['fit_from']}"
                rows.append(target(words, exponents.get("both", np.nan), most=1.4))
    if "properties" in results:
        most = min(row["heads"] for row in results["properties"])
        for name in dict.fromkeys(row["name"] for row in results["properties"] if row["heads"] == most):
            of = {row["properties"]: row["accuracy"] for row in results["properties"] if row["name"] == name}
            within, past = [a for p, a in of.items() if p <= most], [a for p, a in of.items() if p > most]
            if within and past:
                rows.append(target(f"{name}: worst accuracy of up to {most} systems", min(within), least=0.95))
                rows.append(target(f"{name}: best accuracy beyond", max(past), most=0.95))
    return rows


def _stopped(row: dict[str, Any]) -> str:
    gain = row["late_gain"]
    return f"still gaining {gain:.3f} over the last eighth of {row['steps']} steps" if gain > _UNTIL else ""


def _accurate(results: dict[str, Any]) -> list[str]:
    """Timed forms with the dense operator's accuracy on chains of near links: level 0, whose numbers are its, and those
    whose structure was as accurate in the part "blocks"."""
    names = ["level 0"]
    for row in results.get("blocks", {}).get("near", [])[1:]:
        if results["blocks"]["near"][0]["accuracy"] - row["accuracy"] <= EQUAL and row["form"] == "level 1, overlap":
            names.append("level 1 with overlap, m = 64")
    return list(dict.fromkeys(names))


_PASSES = {"forward": "forward", "both": "forward and backward"}


def answer(results: dict[str, Any]) -> str:
    """How deep one layer of the resolvent follows links, and attention of several layers beside it."""
    said = []
    if "layers" in results:
        first, *others = results["layers"]
        deepest = max(first["judged"])
        said.append(
            f"one layer of the resolvent follows up to {deepest} links with an accuracy of at least "
            f"{min(first['worst']):.3f}"
        )
        reach = listed(f"{row['name']} {min(row['reach'])} (bound {row['bound']})" for row in others)
        said.append(f"links that others follow with every seed: {reach}" if reach else "")
    if "blocks" in results:
        near = results["blocks"]["near"]
        with_band = [row for row in near if row["form"].endswith(", overlap")]
        for words, own in (
            ("block forms with overlap", [row for row in with_band if row["form"].startswith("level")]),
            ("the same without their reduced system", [row for row in with_band if row["form"].startswith("tiles")]),
        ):
            lost = extent((near[0]["accuracy"] - row["accuracy"] for row in own), ".4f")
            said.append(f"{words} lose {lost} of accuracy on near links")
    if "crossing" in results:
        by_form = {row["form"]: row["accuracy"] for row in results["crossing"]["rows"]}
        said.append(
            f"on links from block to block level 1 has {by_form['level 1']:.3f} with its reduced system and "
            f"{by_form['tiles alone']:.3f} without"
        )
    if "boxes" in results:
        exact = listed(f"{row['name']} {spread(_exact(row)):.3f}" for row in results["boxes"])
        said.append(f"exact match of boxes: {exact}")
    claims = met(results.get("verdicts", []), "claims with a verdict", "seen")
    return sentence(*said, claims, met(results["targets"]))


def verdicts(results: dict[str, Any]) -> list[dict[str, Any]]:
    """What is claimed, and the verdict on the errors of two arms, paired by seed, on the test set they share.

    A difference is first − second, of 1 − accuracy, 1 − exact match, or nats a token; "seen" is whether the verdict is
    the one claimed, None where nothing is claimed.
    """
    rows: list[dict[str, Any]] = []

    def compare(claim: str, first: Any, second: Any, smallest: float, claimed: str | None) -> None:
        found = seed_verdict(first, second, smallest=smallest)
        if found is None:
            return
        seen = None if claimed is None else found.winner == claimed
        values = {"difference": found.difference, "low": found.low, "high": found.high, "winner": found.winner}
        rows.append(
            {"claim": claim, "smallest": smallest, "seeds": found.seeds, **values, "verdict": shown(found, "+.4f")}
            | {"claimed": claimed, "seen": seen}
        )

    for kind in ("near", "far"):
        own = results.get("blocks", {}).get(kind, [])
        for m in sorted({row["m"] for row in own}):
            of = {row["form"]: _errors(row) for row in own if row["m"] == m or row["form"] == "dense"}
            words, near = f"{kind} links, m = {m}", kind == "near"
            same = "equivalent" if near else None
            for level in (1, 2):
                with_band = of[f"level {level}, overlap"]
                compare(f"{words}: level {level} with overlap, dense", with_band, of["dense"], EQUAL, same)
                text = f"{words}: level {level} with overlap, its reduced system on, off"
                compare(text, with_band, of["tiles, overlap"], EQUAL, None)
                text = f"{words}: level {level} without overlap, its reduced system on, off"
                if near:
                    compare(text, of[f"level {level}"], of["tiles alone"], EQUAL, None)
    if "crossing" in results:
        of = {row["form"]: _errors(row) for row in results["crossing"]["rows"]}
        for level in (1, 2):
            on, words = of[f"level {level}"], f"links from block to block: level {level}"
            compare(f"{words}, its reduced system on, off", on, of["tiles alone"], DIFFERENT, "first")
            text = f"{words}, the tile before in place of the reduced system"
            compare(text, on, of["tiles, overlap"], DIFFERENT, "first")
            compare(f"{words}, dense", on, of["dense"], DIFFERENT, "equivalent")
        text = "links from block to block: level 1, resolvents added without mixed paths"
        compare(text, of["level 1"], of["level 1, additive"], DIFFERENT, "first")
    if "boxes" in results:
        wrong = {row["name"]: [1 - e for e in _exact(row)] for row in results["boxes"]}
        for name in (name for name in wrong if name.startswith("resolvent")):
            for other in (other for other in wrong if other.startswith("softmax")):
                compare(f"boxes, exact match: {name}, {other}", wrong[name], wrong[other], DIFFERENT, "first")
    if "language" in results:
        nats = {row["name"]: np.log(row["perplexities"]).tolist() for row in results["language"]["rows"]}
        compare("text: resolvent, attention", nats["resolvent"], nats["attention"], OF_TEXT, "equivalent")
        alone = nats["short convolutions alone"]
        compare("text: attention, short convolutions alone", nats["attention"], alone, OF_TEXT, "first")
    return rows


def _errors(row: dict[str, Any]) -> list[float]:
    return [1 - accuracy for accuracy in row["accuracies"]]


def _exact(row: dict[str, Any]) -> list[float]:
    return [found["rate"] for found in row["exact"]]


def print_all(results: dict[str, Any]) -> None:
    for part, title in (("layers", "accuracy by links to the root"), ("gammas", "accuracy by links, other γ")):
        if part in results:
            print(f"\n{title}")
            _print_hops(results[part])
    if "blocks" in results:
        _print_blocks(results["blocks"])
    if "crossing" in results:
        _print_crossing(results["crossing"])
    if "boxes" in results:
        _print_boxes(results["boxes"])
    if "language" in results:
        _print_language(results["language"])
    if "times" in results:
        _print_times(results["times"])
    for row in results.get("tiles", []):
        solve, powers = (1e3 * row[way] for way in ("solve", "powers"))
        print(f"tiles of {row['m']:>4}: triangular solve {solve:8.2f} ms, product of powers {powers:8.2f} ms")
    if "properties" in results:
        rows = results["properties"]
        systems = sorted({row["properties"] for row in rows})
        found: dict[str, dict[str, Any]] = {row["name"]: {} for row in rows}
        for row in rows:
            found[row["name"]][f"{row['properties']}"] = spread(row["accuracies"])
        columns = (f"{p}:.3f" for p in systems)
        print_table(found, "=name", *columns, title="accuracy by pointer systems in the same tokens")
    if "tasks" in results:
        print("\noverwritten variables: accuracy by links")
        _print_hops(results["tasks"]["overwrite"])
        print("\nboxes: accuracy of words, exact match of boxes by operations that touched them (first seed)")
        for row in results["tasks"]["boxes"]:
            by = row["exact_by_operations"]
            parts = "  ".join(f"{v}: {rate:.2f}" for v, rate in zip(by["value"], by["rate"]))
            exact = np.mean(row["exact"])
            print(f"{row['name']:26} {row['steps']:>6} steps  words {row['accuracy']:.3f}  exact {exact:.3f}   {parts}")
    if results.get("verdicts"):
        print_table(
            results["verdicts"],
            "=claim",
            "first − second [95 %], errors=verdict",
            "smallest; seeds",
            ("claimed", lambda row: row["claimed"] or "–"),
            ("seen", lambda row: {True: "yes", False: "no", None: "–"}[row["seen"]]),
            title="verdicts, of two arms paired by seed, on these test sequences",
        )
    print_targets(results["targets"])
    for row in results["targets"]:
        if not row["met"] and row.get("note"):
            print(f"  {row['what']}: {row['note']}")


def _print_blocks(results: dict[str, Any]) -> None:
    for kind, words in (("near", "parents near"), ("far", "a share of parents far")):
        _print_arms(results[kind], f"block forms, {words}")
        for m, (inside, around) in (results[kind][0]["mass"] or {}).items():
            print(
                f"  dense: {inside:.2f} of the attention lies in blocks of {m}, {around:.2f} in them and those before"
            )
    _print_arms(results["tries"], "without overlap, near links, otherwise")
    for m, bound in results["bound"].items():
        print(f"  blocks of {m}, near links: {_bound(bound)}")


def _bound(bound: dict[str, float]) -> str:
    return (
        f"{bound['inside']:.3f} of the roots lie in the token's block; one common answer a block, the best in "
        f"hindsight, has {bound['crossing']:.3f} of the others right, {bound['all']:.3f} of all"
    )


def _print_crossing(results: dict[str, Any]) -> None:
    _print_arms(results["rows"], "links from block to block, to the first token of each")
    if results["entries"]:
        _print_arms(results["entries"], "to one of several first tokens of each")
    for r, bound in results["bound"].items():
        print(f"  {r} of them: {_bound(bound)}")


def _print_arms(rows: list[dict[str, Any]], title: str, shown: int = 6) -> None:
    """Accuracy of arms, mean and deviation over seeds, and by the links of a chain that leave a block."""
    print_table(
        [row | {"by": dict(zip(map(str, row["crossings"]["value"]), _by_crossings(row)))} for row in rows],
        "=name",
        ("seeds", lambda row: len(row["accuracies"])),
        "steps; rate:.2g",
        ("all ± over seeds", lambda row: f"{spread(row['accuracies']):.4f}"),
        ("other blocks", lambda row: f"{spread(outside(row)):.4f}"),
        *(f"{n} crossings=by.{n}:.3f" for n in rows[0]["crossings"]["value"][:shown]),
        title=f"{title}: accuracy, and by links to other blocks",
    )


def _by_crossings(row: dict[str, Any]) -> list[float]:
    return np.mean(row["crossings"]["by_seed"], axis=0).tolist()


def outside(row: dict[str, Any]) -> list[float]:
    """By seed, the accuracy over tokens whose chain crosses to another block."""
    counts = np.array(row["crossings"]["count"])
    crosses = np.array(row["crossings"]["value"]) > 0
    return [float(np.average(np.array(one)[crosses], weights=counts[crosses])) for one in row["crossings"]["by_seed"]]


def _print_boxes(rows: list[dict[str, Any]]) -> None:
    by = [np.mean([found["links"]["rate"] for found in row["exact"]], axis=0).tolist() for row in rows]
    values = rows[0]["exact"][0]["links"]["value"]
    print_table(
        [row | {"by": dict(zip(map(str, values), rates))} for row, rates in zip(rows, by)],
        "=name",
        ("seeds", lambda row: len(row["exact"])),
        "steps; rate:.2g",
        ("exact ± over seeds", lambda row: f"{spread(_exact(row)):.3f}"),
        ("by seed", lambda row: " ".join(f"{e:.3f}" for e in _exact(row))),
        ("items", lambda row: f"{row['accuracy']:.4f}"),
        *(f"{v}=by.{v}:.2f" for v in values[:9]),
        title="boxes in statements: exact match, and by the most links that an item takes",
    )


def _print_language(results: dict[str, Any]) -> None:
    print_table(
        results["rows"],
        "=name; steps; rate:.2g; parameters:,d",
        ("perplexity ± over seeds", lambda row: f"{spread(row['perplexities']):.2f}"),
        ("bits per byte", lambda row: f"{spread(row['bits_per_byte']):.4f}"),
        title=f"text {results['corpus']}; frequencies alone {results['rows'][0]['unigram_perplexity']:.1f}",
    )


def _print_hops(rows: list[dict[str, Any]], shown: int = 13) -> None:
    hops = sorted({hop for row in rows for hop in row["value"]})[:shown]
    print_table(
        [row | {"by hop": dict(zip(map(str, row["value"]), row["by_value"]))} for row in rows],
        "=name",
        ("seeds", lambda row: len(row["accuracies"])),
        "steps; rate:.0e",
        ("all ± over seeds", lambda row: f"{spread(row['accuracies']):.3f}"),
        ("reach", lambda row: "/".join(map(str, row["reach"]))),
        *(f"{hop}=by hop.{hop}:.2f" for hop in hops),
    )


def _print_times(timed: dict[str, Any]) -> None:
    lengths = sorted({row["n"] for row in timed["rows"]})
    for what, words in _PASSES.items():
        rows = {
            name: {"exponent": found.get(what), "counted": found["counted"]}
            for name, found in timed["exponents"].items()
        }
        for row in timed["rows"]:
            if row["pass"] == what:
                saved = f" ({row['saved']['median']:.0%})" if row["saved"] and row["name"] != "dense" else ""
                rows[row["name"]][f"{row['n']}"] = f"{1e3 * row['seconds']:.1f}{saved}"
        title = f"ms of {words}, {timed['width']} channels, {timed['heads']} heads (saved of dense)"
        print_table(rows, "=name", *map(str, lengths), "exponent:.2f; counted:.2f", title=title)
