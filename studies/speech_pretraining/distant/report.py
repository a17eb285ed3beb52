"""What was expected on the tasks that need distant tokens, and what was found: verdicts, tables, figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import paired_verdict, spread
from sciops.plotting import PALETTE, series
from studies.kit.answers import listed, sentence
from studies.kit.figures import band, panels
from studies.kit.tables import print_table

if TYPE_CHECKING:
    from studies.speech_pretraining import Config

POM = "polynomial_4d"
MAIN = ("count", "mean_pool", POM)
"""The one comparison that is judged without a correction for many; all others are judged with one as well."""

MARGIN = 0.02
"""Two error rates that differ by less, with the whole interval, are equivalent."""

ABOVE, SAME, UNKNOWN = "above 0", f"within ±{100 * MARGIN:g} points", "open"
EXPECTED: dict[str, dict[tuple[str, str], tuple[str, str]]] = {
    "count": {
        ("mean_pool", POM): (
            ABOVE,
            "word times state is PoM's formula, the mean has it through GELU; 14 against 0 % in a pilot",
        ),
        ("self_attention", POM): (SAME, "attention finds the same words; both ended near 0 % in a pilot"),
        ("none", POM): (ABOVE, "convolutions hear a quarter of a second"),
        ("degree_1", POM): (ABOVE, "8 against 0 % in a pilot, though a count is a mean of features of degree 1"),
        ("no_gate", POM): (ABOVE, "without the gate no word chooses its own part; 11 against 0 % in a pilot"),
        ("polynomial", POM): (UNKNOWN, "a wider state, narrower layers"),
        ("mean_pool", "polynomial"): (ABOVE, "as for the smaller expansion"),
        ("self_attention", "polynomial"): (UNKNOWN, "not tried"),
    },
    "name": {
        ("mean_pool", POM): (
            ABOVE,
            "the mean learnt this later in a pilot, 32 against 1 % at 300 steps",
        ),
        ("self_attention", POM): (SAME, "both near 0 % in a pilot"),
        ("none", POM): (ABOVE, "convolutions do not hear the key"),
        ("degree_1", POM): (UNKNOWN, "not tried"),
        ("no_gate", POM): (UNKNOWN, "one number serves all words; 6 against 1 % in a pilot"),
    },
    "key": {
        ("mean_pool", POM): (
            SAME,
            "a mean is enough; at 400 steps, while after 200 the mean was behind in a pilot, 44 against 4 %",
        ),
        ("self_attention", POM): (SAME, "a mean is enough"),
        ("none", POM): (ABOVE, "convolutions do not hear the key"),
        ("degree_1", POM): (SAME, "no product is needed"),
        ("no_gate", POM): (SAME, "all words need the same; 0 % in a pilot"),
    },
}
"""By task and pair, error of the first − error of the second: what was expected before training, and why."""

QUESTIONS = {
    "count": "how often the word is said",
    "name": "the name by the key's permutation",
    "key": "which key was said first",
}


def summary(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each task, encoder and arm: error of the test by seed, rate, and errors of the words themselves."""
    rows = []
    for task, mixers in results["tasks"].items():
        for mixer, arms in mixers.items():
            for arm, runs in arms.items():
                row = {"task": task, "mixer": mixer, "arm": arm, "by_seed": [run["test"] for run in runs]}
                row |= {name: runs[0][name] for name in ("parameters", "rate")}
                rows.append(row | {"words": float(np.mean([run["words"] for run in runs]))})
    return rows


def between(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Error of one encoder − that of another: those of `EXPECTED` from nothing; the pre-trained ones among themselves;
    and those of twice the steps against PoM."""
    rows = []
    for task, mixers in results["tasks"].items():
        for (first, second), (expected, why) in EXPECTED[task].items():
            if first in mixers and second in mixers:
                both = mixers[first]["scratch"], mixers[second]["scratch"]
                main = (task, first, second) == MAIN
                row = {"task": task, "arm": "scratch", "first": first, "second": second, "main": main}
                rows.append(row | judged(*both, first, second) | {"expected": expected, "why": why})
        for first, arms in mixers.items():
            for arm, other in (("pretrained", "pretrained"), ("longer", "scratch")):
                if arm in arms and first != POM and other in mixers.get(POM, {}):
                    row = {"task": task, "arm": arm, "first": first, "second": POM, "main": False}
                    rows.append(row | judged(arms[arm], mixers[POM][other], first, POM))
    others = [row for row in rows if not row["main"]]
    for row in others:
        mixers = results["tasks"][row["task"]]
        first = mixers[row["first"]][row["arm"]]
        second = mixers[row["second"]]["pretrained" if row["arm"] == "pretrained" else "scratch"]
        strict = judged(first, second, row["first"], row["second"], level=1 - 0.05 / len(others))
        row["corrected"] = {name: strict[name] for name in ("low", "high", "verdict")}
    return rows


def gains(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Error from nothing − error after pre-training."""
    rows = []
    for task, mixers in results["tasks"].items():
        for mixer, arms in mixers.items():
            if "pretrained" in arms:
                found = judged(arms["scratch"], arms["pretrained"], "scratch", "pretrained")
                rows.append({"task": task, "mixer": mixer, **found})
    return rows


def judged(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]], *names: str, level: float = 0.95
) -> dict[str, Any]:
    """Errors of the first − errors of the second over seeds and test speakers: mean, interval, verdict.

    verdict : "NAME better", of two `names`; "equivalent" where the interval holds 0 and lies within ±MARGIN; else what
        `paired_verdict` says
    """
    a, b = (np.array([run["speakers"] for run in runs]) for runs in (first, second))
    found = paired_verdict(a, b, level=level)
    verdict = {"first": f"{names[0]} better", "second": f"{names[1]} better"}.get(found.winner, found.winner)
    inside = max(abs(found.low), abs(found.high)) < MARGIN
    if inside and found.winner not in ("first", "second") and found.seeds >= 5:
        verdict = "equivalent"
    return {
        "mean": found.difference,
        "low": found.low,
        "high": found.high,
        "inside": bool(inside),
        "by_seed": (a - b).mean(1).tolist(),
        "seeds": found.seeds,
        "speakers": found.samples,
        "verdict": verdict,
    }


def met(row: Mapping[str, Any]) -> str | None:
    """Whether an expectation came true: "yes", "no", or "undecided"; None where nothing was expected."""
    expected = row.get("expected", UNKNOWN)
    if expected == UNKNOWN:
        return None
    better = {f"{row['second']} better": "yes", f"{row['first']} better": "no", "equivalent": "no"}
    if expected == ABOVE:
        return better.get(row["verdict"], "undecided")
    if row["inside"]:
        return "yes"
    return "no" if row["low"] > MARGIN or row["high"] < -MARGIN else "undecided"


def answer(results: Mapping[str, Any]) -> str:
    """The main comparison, then PoM beside attention, its parts, and pre-training."""
    of = {(row["task"], row["arm"], row["first"], row["second"]): row for row in results["between"]}
    about = results["data"]
    corpus = "tones, not speech" if about["family"] == "tones" else f"{about['family']} speakers"

    def said(row: Mapping[str, Any]) -> str:
        arm = "" if row["arm"] == "scratch" else f", {row['arm']}"
        return f"{row['first']} − {row['second']}{arm} {interval(row)} ({row['verdict']})"

    parts = []
    for task in results["tasks"]:
        rows = [row for key, row in of.items() if key[0] == task and row["second"] == POM]
        start = f"points of wrong words, {task}" + (
            "" if parts else f" ({corpus}, recordings of {about['seconds']['test']:.1f} s)"
        )
        parts.append(f"{start}: {listed(map(said, rows))}" if rows else "")
    gained = [f"{row['mixer']} {interval(row)}" for row in results["gains"]]
    parts.append(f"errors from nothing − pre-trained: {listed(gained)}" if gained else "")
    return sentence(*parts)


def interval(row: Mapping[str, Any]) -> str:
    return f"{100 * row['mean']:+.1f} [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"


def print_report(results: Mapping[str, Any], config: Config) -> None:
    about, distant = results["data"], config.distant
    if about["family"] == "tones":
        print("no synthesiser of speech: words of tones, which show the method and nothing of speech")
    speakers, recordings = about["speakers"], about["recordings"]
    print(
        f"words joined, {about['family']}: {recordings['unlabelled']} recordings of {speakers['unlabelled']} speakers "
        f"to learn from ({about['minutes']['unlabelled']:.0f} min), {recordings['test']} of {speakers['test']} others "
        f"to test, {about['seconds']['test']:.1f} s each: a key of {len(distant.keys)}, {distant.words} words of "
        f"{len(distant.vocabulary)}"
    )
    steps = ", ".join(f"{task} {n} steps" for task, n in zip(distant.tasks, distant.steps))
    print(
        f"{len(distant.seeds)} seed(s); {steps} of {distant.labelled_batch}; rates {_rates(distant.rates)}, chosen "
        "with the first seed on validation"
    )
    if distant.pretrained:
        own = results["pretraining"]
        found = [f"{mixer} {spread(run['after']['accuracy'] for run in own[mixer]).times(100):.1f}" for mixer in own]
        commonest = 100 * next(iter(own.values()))[0]["after"]["commonest"]
        print(
            f"pre-training: BEST-RQ {distant.pretrain_steps} steps of {distant.batch}, rates "
            f"{_rates(distant.pretrain_rates)}; masked codes found, %: {listed(found)}; the commonest: {commonest:.1f}"
        )
    print_table(
        results["summary"],
        "=task; =mixer; =arm; parameters; rate",
        ("words with a wrong answer %", lambda row: f"{spread(row['by_seed']).times(100):.1f}"),
        ("by seed", lambda row: ", ".join(f"{100 * one:.1f}" for one in row["by_seed"])),
        ("words themselves %", lambda row: f"{100 * row['words']:.1f}"),
        title="",
    )
    for task, share in about["alone"].items():
        print(f"{task}, {QUESTIONS[task]}: {100 * share:.1f} % wrong from the word alone")
    main, *others = sorted(results["between"], key=lambda row: not row["main"]) or [None]
    if main:
        print_table(
            [main, *others],
            "=task",
            (
                "",
                lambda row: (
                    f"{row['first']} − {row['second']}" + ("" if row["arm"] == "scratch" else f", {row['arm']}")
                ),
            ),
            ("points [95 %]", interval),
            "verdict",
            ("corrected", lambda row: _corrected(row)),
            ("expected", lambda row: row.get("expected")),
            ("as expected", met),
            title="error of the first − that of the second over seeds and test speakers"
            + ("; the first row is the main one" if main["main"] else ""),
        )
    if results["gains"]:
        print_table(
            results["gains"],
            "=task; =mixer",
            ("points [95 %]", interval),
            "verdict",
            title="error from nothing − error after pre-training",
        )
    for row in results["between"]:
        if "why" in row:
            print(f"expected, {row['task']}: {row['first']} − {row['second']} {row['expected']}: {row['why']}")


def _rates(rates: Iterable[float]) -> str:
    return " ".join(f"{rate:g}" for rate in rates)


def _corrected(row: Mapping[str, Any]) -> str | None:
    found = row.get("corrected")
    return found and f"[{100 * found['low']:+.1f}, {100 * found['high']:+.1f}] {found['verdict']}"


def draw(results: Mapping[str, Any], folder: Path) -> None:
    """distant.png, errors by task, encoder and arm; distant_curves.png, the loss of the first task over the steps."""
    tasks, about = list(results["tasks"]), results["data"]
    arms = list(dict.fromkeys(row["arm"] for row in results["summary"]))
    most = max(len(mixers) for mixers in results["tasks"].values())
    caption = (
        "Words with a wrong answer in new orders by new speakers; large: means, small: seeds; dotted: the error of the "
        "likeliest answer to each word."
    )
    height = 1.1 + 0.36 * most
    with panels(folder / "distant.png", len(tasks), 3, width=3.2, height=height, caption=caption) as axes:
        for axis, task in zip(axes, tasks):
            mixers = results["tasks"][task]
            for j, arm in enumerate(arms):
                shift = (j - (len(arms) - 1) / 2) * 0.24
                for i, own in enumerate(mixers.values()):
                    found = [100 * run["test"] for run in own.get(arm, [])]
                    axis.plot(found, [i + shift] * len(found), "o", color=PALETTE[j], markersize=2.5, alpha=0.6)
                    if found:
                        axis.plot(np.mean(found), i + shift, "sDo"[j], color=PALETTE[j], markersize=6)
                if task == tasks[0]:
                    axis.plot([], [], "sDo"[j], color=PALETTE[j], markersize=6, label=ARMS[arm])
            alone = {"color": "0.4", "linewidth": 0.9, "linestyle": ":", "label": "what the word alone says"}
            axis.axvline(100 * about["alone"][task], **alone)
            axis.set_yticks(range(len(mixers)), list(mixers))
            axis.invert_yaxis()
            axis.set(xlabel="words with a wrong answer (%)", title=f"{task}: {QUESTIONS[task]}", xlim=(-2, None))
            axis.title.set_fontsize(8)
        axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(arms) + 1)
    caption = f"Cross-entropy of {tasks[0]} over the steps from nothing, mean and range of the seeds."
    with panels(folder / "distant_curves.png", 1, 1, width=5.6, height=3.2, caption=caption) as (axis,):
        for (mixer, own), style in zip(results["tasks"][tasks[0]].items(), series()):
            curves = np.array([run["curve"] for run in own["scratch"]])
            width = max(1, curves.shape[1] // 40)
            whole = curves[:, : curves.shape[1] // width * width].reshape(len(curves), -1, width).mean(-1)
            at = (np.arange(whole.shape[1]) + 0.5) * width
            band(axis, at, whole, label=mixer, style=style | {"marker": None}, alpha=0.1)
        axis.set(xlabel="step", ylabel=f"cross-entropy of {tasks[0]} (nats)", ylim=(0, None))
        axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1))


ARMS = {"scratch": "from nothing", "longer": "from nothing, twice the steps", "pretrained": "pre-trained"}
"""What the arms are called in figures."""
