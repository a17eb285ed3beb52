"""What the study of random and systematic errors says: verdicts over seeds, tables, the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import FEWEST, spread
from sciops.evaluation.fairness import seed_split
from sciops.evaluation.multiplicity import adjusted_p
from sciops.evaluation.probes import error_type, remedy
from studies.embedding_errors.cells import CONTROLLED, GROUP, GROUPS, LINKED, TUNED
from studies.kit.accents import ACCENTS, REFERENCE
from studies.kit.answers import sentence
from studies.kit.fields.rough import NETWORKS
from studies.kit.tables import print_table
from studies.kit.verdicts import seed_verdict, shown

if TYPE_CHECKING:
    from studies.embedding_errors import Config

PARTS = ("irreducible", "systematic", "centred", "whitened")
_COLUMNS = "; ".join(f"{name}:.3f" for name in ("gap", *PARTS))
_SEEN = ("", lambda row: "seen" if row["seen"] else "the reverse" if row["against"] else "not seen")


def typed(parts: Sequence[Mapping[str, Any]], smallest: float) -> str:
    """The verdict of a gap over seeds: each part by the calibrated rule, above `smallest`."""

    def above(values: Sequence[float], least: float) -> bool:
        verdict = seed_verdict([0.0] * len(values), values, smallest=least)
        return verdict is not None and verdict.winner == "first"

    if len(parts) < FEWEST:
        return "too few seeds"
    found = {name: above([one[name] for one in parts], smallest) for name in ("irreducible", "systematic")}
    steps = []
    for name in ("centred", "whitened"):
        taken = [one["systematic"] - one[name] for one in parts]
        remains = above([one[name] for one in parts], smallest)
        steps.append("no" if remains else "yes" if above(taken, 0.0) else "unknown")
    return error_type(found["irreducible"], found["systematic"], remedy(*steps))


def exact_split(trainings: Sequence[Mapping[str, np.ndarray]], config: Config) -> dict[str, Any]:
    """Bias and variance over trainings of the squared relative errors of both groups, and of their gap.

    The split is exact for every field; intervals are those of other fields, for these trainings.
    """
    prediction = np.stack([one["prediction"] for one in trainings]).astype(np.float64)
    target, group = trainings[0]["target"].astype(np.float64), trainings[0]["group"]
    found = seed_split(prediction, target)
    squared = ((prediction - target) ** 2).sum(axis=(2, 3)).mean(axis=0) / (target**2).sum(axis=(1, 2))
    parts = {"bias": found.bias, "variance": found.variance, "squared error": found.single()}
    rng = np.random.default_rng(0)
    rows = {g: np.flatnonzero(group == g) for g in ("smooth", "rough")}
    result: dict[str, Any] = {
        "seeds": len(trainings),
        "identity": float(np.abs(found.single() - squared).max() / squared.max()),
        "groups": {g: {name: float(values[of].mean()) for name, values in parts.items()} for g, of in rows.items()},
    }
    draws = {g: rng.choice(of, (config.draws, len(of))) for g, of in rows.items()}
    for name, values in parts.items():
        gap = values[draws["rough"]].mean(axis=1) - values[draws["smooth"]].mean(axis=1)
        value = float(values[rows["rough"]].mean() - values[rows["smooth"]].mean())
        result.setdefault("gap", {})[name] = [value, *np.quantile(gap, [0.025, 0.975]).tolist()]
    return result


def last_of(layers: Mapping[str, Any]) -> Any:
    """The record of the last layer."""
    return [*layers.values()][-1]


def claims(results: Mapping[str, Any], config: Config) -> list[dict[str, Any]]:
    """[{"part", "claim", "value", "verdict", "p", "seen", "against"}]: the paper's claims by the calibrated rule.

    p is that of a t test over seeds, adjusted by Holm over all rows; `seen` and `against` need a verdict and p < 0.05,
    but that something does not change is seen where the verdict is "equivalent".
    """
    rows: list[dict[str, Any]] = []

    def add(part: str, claim: str, values: Sequence[float], smallest: float, same: bool = False) -> None:
        """The claim is that values are above 0, or with `same` that they are 0 within `smallest`."""
        verdict = seed_verdict([0.0] * len(values), values, smallest=smallest)
        winner = verdict.winner if verdict is not None else ""
        found = {
            "value": f"{'+' if np.mean(values) >= 0 else ''}{spread(values):.3f}",
            "verdict": shown(verdict),
            "winner": winner,
            "same": same,
        }
        rows.append({"part": part, "claim": claim, "p": _p_value(values), **found})

    small = config.smallest
    speech = results.get("speech") or ()
    for arm in ("log-mel", "pre-trained", "fine-tuned") if speech else ():
        last = [last_of(r["arms"][arm]) for r in speech]
        gain = [one["gains"][GROUP] for one in last]
        rest = [np.mean([v for g, v in one["gains"].items() if g != GROUP]) for one in last]
        add("speech", f"{arm}: a probe of {GROUP} alone has fewer errors in it", gain, small)
        add("speech", f"{arm}: it gains more by that than the other accents", np.subtract(gain, rest), 0.0)
        if arm != "log-mel":  # the same in every seed
            wide = [one["geometry"][GROUP]["within"] / one["geometry"][REFERENCE]["within"] - 1 for one in last]
            add("speech", f"{arm}: its phonemes scatter more within speakers than those of {REFERENCE}", wide, 0.0)
        for rule, name in (("balanced", "pooled"), ("reference", REFERENCE)):
            parts = [one["splits"][GROUP][rule] for one in last]
            more = [one["irreducible"] - one["systematic"] for one in parts]
            add("speech", f"{arm}: random above systematic error, against the {name} probe", more, 0.0)
    for arm in LINKED if speech else ():
        rho = [r["links"][arm]["correlations"]["given accent and number"][0] for r in speech]
        add("speech", f"{arm}: speakers that scatter more have more errors", rho, 0.0)
    for arm in [name for name in TUNED if name != "fine-tuned"] if speech else ():
        pair = [[last_of(r["arms"][name]) for r in speech] for name in ("fine-tuned", arm)]
        gains, scatters = (
            [[pick(one) for one in side] for side in pair]
            for pick in (lambda one: one["gains"][GROUP], lambda one: one["geometry"][GROUP]["within"])
        )
        add("speech", f"{arm}: the gain of {GROUP} stays", np.subtract(gains[1], gains[0]), small, same=True)
        change = np.log(np.divide(scatters[1], scatters[0]))
        add("speech", f"{arm}: the scatter stays, within 5 %", change, 0.05, same=True)
    fields = results.get("fields") or ()
    for network in NETWORKS if fields else ():
        last = [last_of(r[network]["arms"]["trained"])["content"] for r in fields]
        add(
            "fields",
            f"{network}: a probe of rough fields alone has fewer errors in them",
            [one["gains"]["rough"] for one in last],
            small,
        )
        wide = [one["geometry"]["rough"]["within"] / one["geometry"]["smooth"]["within"] - 1 for one in last]
        add("fields", f"{network}: classes of rough fields scatter more", wide, 0.0)
        more = [one["splits"]["rough"]["reference"] for one in last]
        add(
            "fields",
            f"{network}: random above systematic error",
            [one["irreducible"] - one["systematic"] for one in more],
            0.0,
        )
        add("fields", f"{network}: fields far from their class have more errors", [one["link"][0] for one in last], 0.0)
    for row, p in zip(rows, adjusted_p([row["p"] for row in rows])):
        row["p"] = p
        clear = p < 0.05 and row["winner"] in ("first", "second")
        row["seen"] = row["winner"] == "equivalent" if row["same"] else clear and row["winner"] == "first"
        row["against"] = clear if row["same"] else clear and row["winner"] == "second"
    return rows


def _p_value(values: Sequence[float]) -> float:
    """Two-sided p of a t test of mean 0; 1 where one seed, or no difference at all, tells nothing."""
    from scipy.stats import ttest_1samp

    values = np.asarray(values, dtype=float)
    if len(values) < 2 or not values.any():
        return 1.0
    return float(ttest_1samp(values, 0.0).pvalue) if np.ptp(values) > 0 else 0.0


def answer(results: Mapping[str, Any]) -> str:
    """The first sentence of the page."""
    parts = []
    if results.get("plants"):
        rows = [row for r in results["plants"] for row in r["plants"].values()]
        right = sum(row["verdict"] == row["required"] for row in rows)
        parts.append(f"{right} of {len(rows)} planted gaps are typed as they were planted")
    if results.get("speech"):
        rows = [row for r in results["speech"] for arm in CONTROLLED for row in r["crossing"][arm]]
        right = sum(row["verdict"] == row["required"] for row in rows)
        parts.append(f"{right} of {len(rows)} of those planted on speech features are")
    smallest = results.get("smallest", 0.0)
    for row in _found(results, smallest):
        gap, irreducible, systematic = (float(row[name].mean) for name in ("gap", "irreducible", "systematic"))
        parts.append(
            f"the gap of {row['group']} in the {row['model']} ({gap:+.3f}) is {irreducible:+.3f} random and "
            f"{systematic:+.3f} systematic: {row['verdict']}"
        )
    rows = results.get("claims") or ()
    if rows:
        seen, against = (sum(row[kind] for row in rows) for kind in ("seen", "against"))
        parts.append(f"of {len(rows)} claims verdicts support {seen} and contradict {against}")
    return sentence(*parts)


def _found(results: Mapping[str, Any], smallest: float) -> list[dict[str, Any]]:
    """The gaps that the answer names: of the last layer of the pre-trained encoder, and of the surrogates."""
    chosen = []
    if results.get("speech"):
        splits = [last_of(r["arms"]["pre-trained"])["splits"][GROUP]["reference"] for r in results["speech"]]
        chosen.append((GROUP, "pre-trained encoder", splits))
    for network in NETWORKS if results.get("fields") else ():
        splits = [
            last_of(r[network]["arms"]["trained"])["content"]["splits"]["rough"]["reference"] for r in results["fields"]
        ]
        chosen.append(("rough fields", network, splits))
    return [{"group": g, "model": m, **_spreads(s), "verdict": typed(s, smallest)} for g, m, s in chosen]


def _spreads(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: spread(one[name] for one in parts) for name in ("gap", *PARTS)}


def _counted(values: Iterable[str]) -> str:
    return ", ".join(f"{value} {count}" for value, count in Counter(values).most_common())


def print_report(results: Mapping[str, Any], config: Config) -> None:
    """Prints the tables: plants, then speech, then fields, then the claims."""
    if results.get("plants"):
        _print_plants(results, config)
    if results.get("speech"):
        _print_speech(results["speech"], config)
    if results.get("fields"):
        _print_fields(results, config)
    if results["claims"]:
        title = (
            f"claims of arXiv:2604.22631 by the verdict over {len(config.seeds)} seeds; value: what should be above 0,"
        )
        title += " or stay 0"
        print_table(results["claims"], "=claim; part; value; verdict; p (Holm)=p:.2g", _SEEN, title=title)


def _print_plants(results: Mapping[str, Any], config: Config) -> None:
    own = [r["plants"] for r in results["plants"]]
    rows = []
    for name, first in own[0].items():
        each = [one[name] for one in own]
        row: dict[str, Any] = {"plant": name, "required": first["required"]}
        row["right"] = f"{sum(one['verdict'] == one['required'] for one in each)} of {len(each)}"
        row["over seeds"] = typed(each, 0.0)
        for key in first["theory"]:
            measured = spread(one["measured"][key] for one in each)
            row[key] = f"{first['theory'][key]:.3f}: {measured:.3f}"
        row["b2"] = f"{first['b2 in theory']:.2f}: {spread(one['b2'] for one in each):.2f}"
        row["tau"] = f"{first['tau in theory']:.2f}: {spread(one['tau'] for one in each):.2f}"
        rows.append(row | {part: spread(one[part] for one in each) for part in PARTS})
    title = "plants: verdict required and found (probe of A), errors train → test, b² and τ as theory: measured"
    columns = "=plant; required; right; over seeds; A → B; B → B; pooled → B; b²=b2; τ=tau"
    print_table(rows, columns, title=title)
    title = "plants: parts of the gap against the probe of A, and what centring and whitening leave of the second"
    print_table(rows, "=plant; " + "; ".join(f"{part}:.3f" for part in PARTS), title=title)
    worst = max(one["identity"] for r in own for one in r.values())
    print(f"\ngap − irreducible − systematic: at most {worst:.1g}")
    rows = []
    for name, first in results["plants"][0]["unbiased"].items():
        each = [r["unbiased"][name] for r in results["plants"]]
        z = sum(one["z"] for one in each) / len(each) ** 0.5
        rows.append({"estimate": name, "truth": first["truth"], "mean": np.mean([one["mean"] for one in each]), "z": z})
    draws = config.plant_draws * len(results["plants"])
    print_table(rows, "=estimate; truth:.3f; mean:.3f; z:.2f", title=f"plants: estimates over {draws} draws")
    title = f"random groups, two-sided level 0.05: share of {config.random_draws} in which a part above 0 is found"
    print_table(results["random"], "clusters in a group=clusters; random:.3f; systematic:.3f", title=title)
    rows = []
    for name in results["plants"][0]["adversarial"]:
        each = [r["adversarial"][name] for r in results["plants"]]
        row = {"plant": name, **{key: spread(one[key] for one in each) for key in each[0]}}
        rows.append(row | {"gain": spread(one["A → B"] - one["B → B"] for one in each)})
    title = "plants: errors of fresh probes after adversarial training of a linear encoder (group: ½ is chance)"
    print_table(rows, "=plant; A → A:.3f; A → B:.3f; B → B:.3f; gain:.3f; group:.3f", title=title)


def _print_speech(own: Sequence[Mapping[str, Any]], config: Config) -> None:
    rows = []
    for arm, first in own[0]["crossing"].items():
        for i, cell in enumerate(first):
            each = [r["crossing"][arm][i] for r in own]
            about = {
                "features": arm,
                "systematic": _yes(cell["systematic planted"]),
                "random": _yes(cell["random planted"]),
            }
            right = sum(one["verdict"] == one["required"] for one in each)
            row = about | {"required": cell["required"], "over": typed(each, config.smallest)}
            row |= {"right": f"{right} of {len(each)}"} | {
                f"{part} part": value for part, value in _spreads(each).items()
            }
            rows.append(row)
    title = "speech: shifts and noise planted in half of the recordings (in the audio: another accent, more noise)"
    parts = "; ".join(f"{part}={part} part:.3f" for part in PARTS)
    columns = f"=features; shift=systematic; noise=random; expected=required; over seeds=over; seeds so=right; {parts}"
    print_table(rows, columns, title=title)
    rows = []
    for arm, first in own[0]["held out"].items():
        for name in first:
            each = [r["held out"][arm][name] for r in own]
            alone = sum(one["verdict"] == "none" for one in each)
            row = {"features": arm, "held": name, "own": spread(one["own"] for one in each), **_spreads(each)}
            rows.append(row | {"over": typed(each, config.smallest), "none": f"{alone} of {len(each)}"})
    title = "speech: random halves of the sentences as groups, all parts 0 in truth, by what is held out from training"
    columns = (
        "=features; held out=held; error of its own probe=own:.3f; irreducible:.3f; systematic:.3f; over seeds=over"
    )
    print_table(rows, f"{columns}; seeds with none=none", title=title)
    rows = []
    for arm in own[0]["arms"]:
        last = [last_of(r["arms"][arm]) for r in own]
        for i, name in enumerate(last[0]["trained"]):
            row = {"arm": arm, "trained": "all accents" if name == "balanced" else name}
            row |= {g: spread(one["errors"][i][j] for one in last) for j, g in enumerate(last[0]["groups"])}
            rows.append(row)
        rows.append({"arm": arm, "trained": "gain"} | {g: spread(one["gains"][g] for one in last) for g in ACCENTS})
    columns = "=arm; trained on=trained; " + "; ".join(f"{g}:.3f" for g in ACCENTS)
    title = f"speech, last layer: errors by tested accent (± over {len(own)} seeds), and gain of a probe of its own"
    print_table(rows, columns, title=title)
    rows = []
    for arm, layers in own[0]["arms"].items():
        for layer in layers:
            for group in GROUPS if layer == [*layers][-1] else (GROUP,):
                for rule in ("reference", "balanced"):
                    each = [r["arms"][arm][layer]["splits"][group][rule] for r in own]
                    named = {
                        "name": f"{arm}, {layer}",
                        "group": group,
                        "rule": REFERENCE if rule == "reference" else "all",
                    }
                    rows.append(named | _spreads(each) | {"verdict": typed(each, config.smallest)})
    title = (
        f"speech: parts of the gap to {REFERENCE}, against a probe of {REFERENCE} or of all accents; typed over seeds"
    )
    print_table(rows, f"=name; group; probe=rule; {_COLUMNS}; verdict", title=title)
    rows = []
    for arm in own[0]["arms"]:
        last = [last_of(r["arms"][arm]) for r in own]
        for group in ACCENTS:
            row: dict[str, Any] = {"arm": arm, "group": group, "purity": spread(one["purity"][group] for one in last)}
            for key in last[0]["geometry"][group]:
                values = [one["geometry"][group][key] for one in last]
                row[key] = None if None in values else spread(values)
            row["accent"] = spread(one["accent"] for one in last) if group == REFERENCE else None
            rows.append(row)
    title = (
        "speech, last layer: scatter in units of the covariance within phonemes and accents, shift over the spread of "
    )
    title += "phonemes"
    columns = "=arm; group; within speakers=within:.3f; between speakers=between:.3f; d'=separation:.2f; b²=shift:.3f; "
    columns += "b² common=common:.3f; τ > ½=crossed:.3f; neighbours alike=purity:.3f; "
    columns += "error of a probe of the accent=accent:.3f"
    print_table(rows, columns, title=title)
    rows = []
    for arm, first in own[0]["links"].items():
        for name in first["correlations"]:
            each = [r["links"][arm]["correlations"][name] for r in own]
            above = sum(low > 0 for _, low, _ in each)
            row = {"arm": arm, "given": name, "rho": spread(one[0] for one in each), "above": f"{above} of {len(each)}"}
            rows.append(row)
    title = "speech: rank correlation of scatter and error over speakers (phonemes); seeds whose interval lies above 0"
    print_table(rows, "=arm; given; correlation=rho:.2f; interval above 0=above", title=title)
    rows = []
    for arm, first in own[0]["controls"].items():
        for name in first:
            each = [r["controls"][arm][name] for r in own]
            keys = ("gain", "samples", *(part for part in PARTS if part in each[0]))
            rows.append({"arm": arm, "control": name} | {key: spread(one[key] for one in each) for key in keys})
    title = f"speech, last layer: gain of {GROUP} and parts of its gap (probe of {REFERENCE}) under other choices"
    parts = "; ".join(f"{part}:.3f" for part in PARTS)
    print_table(rows, f"=arm; control; gain:.3f; training segments=samples:.0f; {parts}", title=title)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _print_fields(results: Mapping[str, Any], config: Config) -> None:
    own = results["fields"]
    rows, shapes = [], []
    for network in NETWORKS:
        for arm, layers in own[0][network]["arms"].items():
            if arm == "input" and network != [*NETWORKS][0]:
                continue
            for layer, tasks in layers.items():
                for task in tasks:
                    each = [r[network]["arms"][arm][layer][task] for r in own]
                    name = "input" if arm == "input" else f"{network}, {arm}, {layer}"
                    splits = [one["splits"]["rough"]["reference"] for one in each]
                    about = {"name": name, "task": {"content": "lean", "identity": "contrast"}[task]}
                    row = about | _spreads(splits) | {"verdict": typed(splits, config.smallest)}
                    row["gain"] = spread(one["gains"]["rough"] for one in each) if "gains" in each[0] else None
                    rows.append(row)
                    rough = [one["geometry"]["rough"] for one in each]
                    smooth = [one["geometry"]["smooth"] for one in each]
                    shape = about | {"scatter": spread(r["within"] / s["within"] for r, s in zip(rough, smooth))}
                    shape |= {key: spread(one[key] for one in rough) for key in ("shift", "common", "separation")}
                    shape["reference"] = spread(one["separation"] for one in smooth)
                    shape["rho"] = spread(one["link"][0] for one in each) if "link" in each[0] else None
                    shapes.append(shape)
    title = (
        "fields: parts of the gap rough − smooth against a probe of smooth fields; gain of rough ones; typed over seeds"
    )
    print_table(rows, f"=name; class=task; {_COLUMNS}; gain:.3f; verdict", title=title)
    title = "fields: scatter of rough classes over that of smooth ones, shift, d', correlation of distance and error"
    columns = "=name; class=task; scatter:.2f; b²=shift:.3f; b² common=common:.3f; d' rough=separation:.2f; "
    print_table(shapes, columns + "d' smooth=reference:.2f; correlation=rho:.2f", title=title)
    rows = []
    for network, found in (results.get("split") or {}).items():
        for name, (value, low, high) in found["gap"].items():
            row = {"network": network, "part": name, "gap": f"{value:+.2e} [{low:+.2e}, {high:+.2e}]"}
            rows.append(row | {g: found["groups"][g][name] for g in ("smooth", "rough")})
    if rows:
        worst = max(found["identity"] for found in results["split"].values())
        title = f"fields: squared relative error of the surrogates, split exactly over {len(config.seeds)} trainings"
        title += f" (to {worst:.0e}); gap rough − smooth with its interval over fields"
        print_table(rows, "=network; part; smooth:.2e; rough:.2e; gap", title=title)
