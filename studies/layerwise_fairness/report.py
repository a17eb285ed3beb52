"""What the layerwise study says: verdicts over seeds, tables, figures, the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import spread
from sciops.evaluation.multiplicity import adjusted_p
from sciops.evaluation.probes import SCALES
from sciops.plotting import PALETTE
from studies.kit.figures import band, panels
from studies.kit.tables import print_table
from studies.kit.verdicts import seed_verdict, shown

if TYPE_CHECKING:
    from studies.layerwise_fairness import Config

_SEEN = ("", lambda row: "seen" if row["seen"] else "the reverse" if row["against"] else "not seen")
TRENDS = ("difference", "ratio", "log odds")
_CAPTION = (
    "Errors of probes by layer (bands: least to greatest over seeds), and the gap between the groups in log odds; "
    "above 0 the group that was rare in training is served worse."
)


def claims(results: Mapping[str, Any], config: Config) -> list[dict[str, Any]]:
    """[{"part", "claim", "value", "verdict", "p", "seen", "against"}]: the paper's claims by the calibrated rule.

    p is that of a t test over seeds, adjusted by Holm over all rows; `seen` and `against` need a verdict and p < 0.05.
    The ratio is left out where a seed's reference makes no error in some layer.
    """
    rows: list[dict[str, Any]] = []

    def add(part: str, claim: str, less: Sequence[float], more: Sequence[float], smallest: float) -> None:
        """The claim is that `less` is below `more`."""
        rows.append({"part": part, "claim": claim, **_compared(less, more, smallest)})

    for part, arm, tuned in _models(results):
        own = results[part]
        for task in ("identity", "content"):
            curves = [r["arms"][arm][task] for r in own]
            gap = [c["bias"]["difference"][0] for c in curves]
            zero = [0.0] * len(gap)
            name = f"{arm}, {task}"
            add(part, f"{name}: worse for the rarer group from the first layer on", zero, gap, config.smallest)
            for scale in _scales(curves):
                rho = [_number(c["trend"][scale]) for c in curves]
                if task == "identity":
                    add(part, f"{name}: bias ({scale}) least where the error is least", zero, rho, 0.0)
                else:
                    add(part, f"{name}: bias ({scale}) largest where the error is least", rho, zero, 0.0)
        if tuned:
            after = [r["arms"]["fine-tuned"]["content"] for r in own]
            for scale in _scales(after):
                rho = [_number(c["trend"][scale]) for c in after]
                add(part, f"fine-tuned, content: bias ({scale}) largest where the error is least", rho, zero, 0.0)
            last = {a: [r["arms"][a]["content"]["bias"]["difference"][-1] for r in own] for a in tuned}
            add(part, "fine-tuning makes the gap of the last layer smaller", last[tuned[1]], last[tuned[0]], 0.0)
            add(part, "adversarial training makes it smaller still", last[tuned[2]], last[tuned[1]], 0.0)
            fresh = {a: [list(r["arms"][a]["accent"].values())[-1] for r in own] for a in tuned}
            add(part, "adversarial training hides the accent from a fresh probe", fresh[tuned[1]], fresh[tuned[2]], 0.0)
    return _adjusted(rows)


def hidden_shift(results: Mapping[str, Any], config: Config) -> list[dict[str, Any]]:
    """Rows as in `claims`: the content gap of a probe of the reference alone against that of a pooled, balanced probe.

    A pooled probe divides the cost of a group's shift among all groups, and their difference no longer shows it.
    """
    rows = []
    for arm in results["speech"][0]["arms"] if results.get("speech") else ():
        of = [r["arms"][arm] for r in results["speech"]]
        pooled, alone = (
            [one[task]["bias"]["difference"][-1] for one in of] for task in ("content", "content, reference probe")
        )
        row = {"arm": arm, "pooled": spread(pooled), "alone": spread(alone)}
        rows.append(row | _compared(pooled, alone, config.smallest))
    return _adjusted(rows)


def _compared(less: Sequence[float], more: Sequence[float], smallest: float) -> dict[str, Any]:
    """What `more` is above `less` by, over seeds: value, verdict, its winner, p of a t test."""
    verdict = seed_verdict(less, more, smallest=smallest)
    gaps = np.subtract(more, less)
    found = spread(gaps)
    value = f"{'+' if found.mean >= 0 else ''}{found:.3f}"
    winner = verdict.winner if verdict is not None else ""
    return {"value": value, "verdict": shown(verdict), "winner": winner, "p": _p_value(gaps)}


def _p_value(gaps: np.ndarray) -> float:
    """Two-sided p of a t test of mean 0; 1 where one seed, or no difference at all, tells nothing."""
    from scipy.stats import ttest_1samp

    if len(gaps) < 2 or not gaps.any():
        return 1.0
    return float(ttest_1samp(gaps, 0.0).pvalue) if np.ptp(gaps) > 0 else 0.0


def _adjusted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with p by Holm, and whether the verdict outlives it."""
    for row, p in zip(rows, adjusted_p([row["p"] for row in rows])):
        row["p"] = p
        row["seen"], row["against"] = (p < 0.05 and row["winner"] == winner for winner in ("first", "second"))
    return rows


def _scales(curves: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The scales whose trend is defined: no ratio where the reference makes no error in some layer."""
    return tuple(s for s in TRENDS if all(None not in c["bias"][s] for c in curves))


def _number(value: float | None) -> float:
    """A trend, 0 where one of the curves is constant."""
    return 0.0 if value is None else float(value)


def _models(results: Mapping[str, Any]) -> list[tuple[str, str, tuple[str, ...]]]:
    """(part, arm, arms of fine-tuning)."""
    found: list[tuple[str, str, tuple[str, ...]]] = []
    if results.get("speech"):
        found.append(("speech", "pre-trained", ("pre-trained", "fine-tuned", "adversarial")))
    if results.get("fields"):
        found += [("fields", arm, ()) for arm in results["fields"][0]["arms"] if arm.endswith("trained")]
    return found


def answer(results: Mapping[str, Any]) -> str:
    """The first sentence of the page."""
    rows = results["claims"]
    seen, against = (sum(row[kind] for row in rows) for kind in ("seen", "against"))
    said = f"Of {len(rows)} claims about bias by depth, verdicts support {seen} and contradict {against}"
    hidden = results.get("hidden shift")
    if not hidden:
        return f"{said}."
    count = sum(row["seen"] for row in hidden)
    return f"{said}; a pooled probe hides a shift that a probe of the reference shows in {count} of {len(hidden)} arms."


def print_report(results: Mapping[str, Any], config: Config) -> None:
    """Prints the tables: errors and gaps by layer, onset, controls, verdicts."""
    for part in ("speech", "fields"):
        own = results.get(part)
        if not own:
            continue
        for task in ("identity", "content", "content, reference probe"):
            rows = {}
            for arm in own[0]["arms"]:
                if task not in own[0]["arms"][arm]:
                    continue
                curves = [r["arms"][arm][task] for r in own]
                for i, layer in enumerate(curves[0]["layers"]):
                    cells = {g: spread(c["groups"][g][i] for c in curves) for g in curves[0]["groups"]}
                    of = {s: [c["bias"][s][i] for c in curves] for s in SCALES}
                    gaps = {s: None if None in values else spread(values) for s, values in of.items()}
                    rows[f"{arm}, {layer}"] = {**cells, **gaps}
            if rows:
                groups = list(own[0]["arms"][next(iter(own[0]["arms"]))][task]["groups"])
                columns = "; ".join(f"{name}:.3f" for name in (*groups, *SCALES))
                title = f"{part}, {task}: error of each group, and bias on four scales (± over {len(own)} seeds)"
                if any(row["ratio"] is None for row in rows.values()):
                    title += "; no ratio where a seed's reference makes no error"
                print_table(rows, "=name", columns, title=title)
        _print_onsets(part, own)
        _print_controls(part, own)
    if results.get("speech"):
        rows = {}
        for arm in results["speech"][0]["arms"]:
            of = [list(r["arms"][arm]["accent"].values()) for r in results["speech"]]
            heads = [r["training"].get(arm, {}).get("own head") for r in results["speech"]]
            own_head = spread(1 - v for v in heads) if None not in heads else None
            rows[arm] = {"first": spread(v[0] for v in of), "last": spread(v[-1] for v in of), "own": own_head}
        columns = "=name; first layer=first:.3f; last layer=last:.3f; its own head in training=own:.3f"
        print_table(rows, columns, title="speech: error of a fresh probe of the accent (2/3: nothing is known)")
        title = "speech, content, last layer: gap en-029 − en-US of a probe trained on all accents alike, and on en-US"
        columns = "=arm; all accents=pooled:.3f; en-US=alone:.3f; more=value; verdict; p (Holm)=p:.2g"
        print_table(results["hidden shift"], columns, _SEEN, title=title)
    title = f"claims of arXiv:2604.18249 by the verdict over {len(config.seeds)} seeds; value: what should be above 0"
    print_table(results["claims"], "=claim; part; value; verdict; p (Holm)=p:.2g", _SEEN, title=title)


def _print_onsets(part: str, own: Sequence[Mapping[str, Any]]) -> None:
    rows = []
    for arm in own[0]["arms"]:
        for task, first in own[0]["arms"][arm].items():
            if task in ("accent", "controls"):
                continue
            curves = [r["arms"][arm][task] for r in own]
            counts = Counter(c["onset"] or "none" for c in curves)
            onset = ", ".join(f"{layer} {count}" for layer, count in counts.most_common())
            row: dict[str, Any] = {"curve": f"{arm}, {task}", "onset": onset}
            if len(first["layers"]) > 1:
                row |= {
                    scale: f"{np.mean([_number(c['trend'][scale]) for c in curves]):+.2f}" for scale in _scales(curves)
                }
                row["warned"] = f"{sum(bool(c['warning']) for c in curves)} of {len(curves)}"
            rows.append(row)
    columns = "curve; onset; difference; ratio; log odds; warned"
    title = (
        f"{part}: first layer with a gap (seeds), mean rank correlation of bias with error, seeds whose scales disagree"
    )
    print_table(rows, columns, title=title)


def _print_controls(part: str, own: Sequence[Mapping[str, Any]]) -> None:
    rows = {}
    for arm, one in own[0]["arms"].items():
        for i, layer in enumerate(one.get("controls", {}).get("shuffled", ())):
            each = [r["arms"][arm] for r in own]
            linear = spread(np.mean([v[i] for v in e["content"]["groups"].values()]) for e in each)
            kinds = {k: spread(e["controls"][k][layer] for e in each) for k in ("shuffled", "hidden layer")}
            rows[f"{arm}, {layer}"] = {"linear": linear, **kinds}
    columns = "=name; linear:.3f; hidden layer:.3f; shuffled labels=shuffled:.3f"
    print_table(rows, columns, title=f"{part}, content: errors of other probes")


def draw(results: Mapping[str, Any], config: Config, folder: Path) -> None:
    """layers.png: error by layer of both groups, and the gap in log odds, of every trained model."""
    models = [(part, arm, task) for part, arm, _ in _models(results) for task in ("identity", "content")]
    with panels(folder / "layers.png", 2 * len(models), 4, width=3.3, height=2.7, caption=_CAPTION) as axes:
        for (part, arm, task), error, gap in zip(models, axes[::2], axes[1::2]):
            curves = [r["arms"][arm][task] for r in results[part]]
            layers = curves[0]["layers"]
            places = np.arange(len(layers))
            pair = ("en-US", "en-029") if part == "speech" else ("smooth", "rough")
            for name, colour, marker in zip(pair, PALETTE, "os"):
                style = {"color": colour, "marker": marker}
                band(error, places, [c["groups"][name] for c in curves], label=name, style=style)
            band(
                gap,
                places,
                [c["bias"]["log odds"] for c in curves],
                label="log odds",
                style={"color": PALETTE[2], "marker": "^"},
            )
            gap.axhline(0.0, color="0.5", linewidth=0.8, linestyle=":")
            error.set(ylabel="error of the probe", title=f"{arm}: {task}")
            gap.set(ylabel="gap (log odds)", title=f"{arm}: {task}, gap")
            error.legend()
            for axis in (error, gap):
                axis.set_xticks(places, [name.replace("block ", "") for name in layers])
                axis.set_xlabel("block")
