"""Verdicts, claims, tables and figures of the study of Highway-BP by depth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import Verdict
from sciops.plotting import figure, series
from studies.highway_depth.over_time import GUESSING
from studies.highway_depth.training import NETWORKS, TEXT
from studies.kit.answers import extent, listed, sentence
from studies.kit.figures import band, ticks
from studies.kit.tables import grouped, print_table
from studies.kit.verdicts import seed_verdict, shown

if TYPE_CHECKING:
    from studies.highway_depth import Config

SMALLEST = math.log(1.05)
"""Smallest effect of interest: 5 % of the error (of the perplexity, for a text)."""
SMALLEST_NATS = 0.05 * GUESSING
"""That of the GRU, whose error may vanish: 5 % of what guessing has, in nats an answer."""
BASE = "backprop"
UNITS = dict.fromkeys(NETWORKS, "relative L2") | dict.fromkeys(TEXT, "perplexity") | {"gru": "nats an answer"}
EXPECTED = {
    "resnet, text": "k = 0 and the fixed-point iteration at k = 4 are worse, since their gradients turn away (cosine "
    "of k = 0 in pilots by backpropagation 0.86 at the end) and the latter knows the last five layers alone; k = 1 "
    "costs 1 to 3 % and is equivalent or undecided; k = 2, 4 and 8 are equivalent, with cosines of 0.97, 0.999 and 1",
    "transformer": "of k = 0 to 4 the result is known from a first run with these seeds; k = 8 is equivalent, as k = 4 "
    "is",
    "gru": "the fixed-point iteration guesses at k = 0 and is worse at k = 4, since it sees as many steps back and the "
    "first symbols are 18; k = 0 is worse, since the gates carry a gradient but do not learn what to keep; k = 2 and "
    "4 are equivalent, and k = 1 may be",
}
"""What was expected of each network before the trainings of the verdicts were run, and why."""
KEYS = ("network", "depth")


def summary(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row an arm: test errors by seed, how they compare with backpropagation's (ln of the ratio; for the GRU the
    difference in nats), with verdicts, and cosines."""
    cases = {(*(r[key] for key in KEYS), r["arm"]): r for r in runs}
    rows = []
    for run in runs:
        case = tuple(run[key] for key in KEYS)
        errors, base = _errors(run), _errors(cases[(*case, BASE)])
        row: dict[str, Any] = {key: run[key] for key in (*KEYS, "arm", "iterations", "gamma", "rate", "parameters")}
        row |= {"errors": errors, "error": float(np.mean(errors)), "unit": UNITS[run["network"]]}
        rates = sorted({one["rate"] for one in run["choice"]})
        row["edge"] = run["rate"] in (rates[0], rates[-1])
        if run["arm"] != BASE:
            judged = lambda other, own=errors, name=run["network"]: _plain(_verdict(own, other, name))  # noqa: E731
            row |= judged(base)
            same = cases.get((*case, f"k = {run['iterations']}"))
            if run["gamma"] and same is not None:
                row["against_same_k"] = judged(_errors(same))
            none = cases.get((*case, "k = 0"))
            if not run["gamma"] and run["iterations"] and none is not None:
                row["against_no_sweep"] = judged(_errors(none))
        for key in ("cosine", "norm_ratio"):
            values = np.array([look[key] for look in run["looks"]])
            if len(values):
                row[key] = [float(np.nanmean(values[i])) for i in (0, len(values) // 2, -1)]
        if run["looks"]:
            first, last = (np.array(run["looks"][i]["cosine"]) for i in (0, -1))
            row["fallen"] = int((last < first).sum())
        rows.append(row)
    return rows


def probed(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Cosines that k sweeps have in networks trained by backpropagation, mean of the seeds, at the start and end."""
    rows = []
    for run in runs:
        for one in run["probes"]:
            if one["k"] <= run["depth"]:
                when = "start" if one["share"] == 0 else "end"
                mean, least = (float(f(one["cosine"])) for f in (np.mean, np.min))
                rows.append(
                    {**{key: run[key] for key in KEYS}, "when": when, "k": one["k"], "cosine": mean, "least": least}
                )
    return rows


def enough(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By network and depth the fewest sweeps whose error is equivalent to backpropagation's within the smallest effect
    of interest, or smaller, and so for every larger k that was run; None where there is none."""
    found = []
    for (network, depth), own in grouped(rows, *KEYS).items():
        arms = sorted(
            (r for r in own if r["gamma"] == 0 and r["iterations"] is not None), key=lambda r: r["iterations"]
        )
        k = None
        for row in reversed(arms):
            if row["winner"] not in ("equivalent", "first"):
                break
            k = row["iterations"]
        if arms:
            found.append({"network": network, "depth": depth, "k": k, "run": [r["iterations"] for r in arms]})
    return found


def claims(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The paper's claims, what was seen of each, and whether every network shows it (None: not decided)."""
    rows = results["summary"]
    found = []
    reached = [
        f"{r['network']}: " + (f"k = {r['k']} of {r['depth']}" if r["k"] is not None else f"no k run at {_layers(r)}")
        for r in results["enough"]
    ]
    found.append(
        _claim(
            "few sweeps have backpropagation's error (within 5 %, in the GRU of guessing)",
            reached,
            all(r["k"] is not None and 2 * r["k"] <= r["depth"] for r in results["enough"]),
        )
    )
    fixed = [r for r in rows if r["gamma"] == 1 and "against_same_k" in r]
    found.append(
        _claim(
            "the highway term does it: at equal k the fixed-point iteration errs more",
            [f"{_case(r)}: {r['against_same_k']['shown']}" for r in fixed],
            all(r["against_same_k"]["winner"] == "second" for r in fixed),
        )
    )
    falling = [r for r in rows if "fallen" in r and r["gamma"] == 0]
    found.append(
        _claim(
            "the cosine falls through training at fixed k",
            [
                f"{_case(r)}: {r['cosine'][0]:.2f} to {r['cosine'][-1]:.2f}, {r['fallen']} of {len(r['errors'])} seeds"
                for r in falling
            ],
            all(r["fallen"] == len(r["errors"]) for r in falling),
        )
    )
    shares = [r for r in rows if r["gamma"] not in (0, 1) and "against_same_k" in r]
    text = [r for r in shares if r["network"] == NETWORKS[2]]
    found.append(
        _claim(
            "a transformer needs γ > 0",
            [f"{_case(r)}: {r['against_same_k']['shown']}" for r in shares],
            any(r["against_same_k"]["winner"] == "first" for r in text),
        )
    )
    return [one for one in found if one["seen"]]


def answer(results: Mapping[str, Any]) -> str:
    """The sweeps that are enough by network, what the highway term is worth, and what a sweep costs."""
    reached = [
        f"{'at no k that was run' if r['k'] is None else 'from k = ' + str(r['k']) + ' on'} of {_layers(r)} "
        f"({r['network']})"
        for r in results["enough"]
    ]
    fixed = [r for r in results["summary"] if r["gamma"] == 1 and "against_same_k" in r and r["network"] != "gru"]
    ratios = extent(
        (math.exp(r["against_same_k"]["difference"]) for r in fixed if r["against_same_k"]["winner"]), ".2f"
    )
    costs = [r for r in results.get("costs", ()) if r["k"] == 2]
    return sentence(
        f"test error is shown to be within 5 % of backpropagation's {listed(reached)}" if reached else "",
        f"without the highway term the error is {ratios} times as large at the same k" if fixed else "",
        f"with k = 2 a step has {extent((r['memory'] for r in costs), '.2f')} times the memory and "
        f"{extent((r['time'] for r in costs), '.2f')} times the time on one processor"
        if costs
        else "",
    )


def print_report(results: Mapping[str, Any], config: Config) -> None:
    for (network, depth), own in grouped(results["summary"], *KEYS).items():
        about = f"{_title((network, depth))}, {own[0]['parameters']:,} parameters: test {own[0]['unit']}"
        print(f"\n{about}, mean of {len(own[0]['errors'])} seeds; first: the arm errs less")
        if network in EXPECTED and len(own) > 1:
            print(f"expected of --preset medium before it was run: {EXPECTED[network]}")
        compared = "error - backprop's" if network == "gru" else "ln(error / backprop's)"
        print_table(
            own,
            "=arm; error:.4f",
            (f"{compared} [95 % over seeds]", lambda row: row.get("shown", "")),
            ("against k = 0", lambda row: row.get("against_no_sweep", {}).get("shown", "")),
            ("against γ = 0 at this k", lambda row: row.get("against_same_k", {}).get("shown", "")),
            ("cosine start, middle, end", lambda row: " ".join(f"{c:.3f}" for c in row.get("cosine", []))),
            ("norm ratio", lambda row: " ".join(f"{c:.2f}" for c in row.get("norm_ratio", []))),
            ("rate", lambda row: f"{row['rate']:g}{'*' if row['edge'] else ''}"),
            title="",
        )
    print("\n* a rate at the end of its grid; verdicts with 5 % as the smallest effect of interest, in the GRU 5 % of")
    print(f"what guessing has ({SMALLEST_NATS:.3f} nats), on these test data")
    by = {(r["network"], r["depth"], r["when"], r["k"]): r["cosine"] for r in results["probes"]}
    cases = list(dict.fromkeys((r["network"], r["depth"]) for r in results["probes"]))
    ks = sorted({r["k"] for r in results["probes"]})

    def both(case: tuple[str, int], k: int) -> str:
        return " ".join(f"{by[(*case, when, k)]:.3f}" for when in ("start", "end") if (*case, when, k) in by)

    print_table(
        cases,
        ("network", lambda case: case[0]),
        ("layers", lambda case: case[1]),
        *((f"k = {k}", lambda case, k=k: both(case, k)) for k in ks),
        title="cosine of k sweeps at the start and the end of a training by backpropagation",
    )
    print_table(
        results["enough"],
        "=network; layers=depth",
        ("fewest sweeps", lambda row: "none" if row["k"] is None else str(row["k"])),
        ("of those run", lambda row: " ".join(map(str, row["run"]))),
        title="fewest sweeps whose error is backpropagation's within the smallest effect, or less",
    )
    if results.get("costs"):
        print_table(
            results["costs"],
            "=network",
            ("k", lambda row: "backprop" if row["k"] is None else str(row["k"])),
            ("MB beyond weights", lambda row: f"{row['bytes'] / 1e6:.0f}"),
            "/ backprop=memory:.2f; states a layer more=states:+.1f; ms of the processor=milliseconds:.0f",
            "/ backprop's time=time:.2f",
            title=f"one step, {config.cost_depth} layers of {config.cost_width} channels, one thread",
        )
    print("\nclaims of the paper")
    for one in results["claims"]:
        print(f"  {one['claim']}: {'seen' if one['met'] else 'not seen everywhere'}")
        for line in one["seen"]:
            print(f"    {line}")


def draw(results: Mapping[str, Any], config: Config, folder: Path) -> None:
    """errors.png, cosines.png and, where costs were measured, costs.png."""
    _draw_errors(results, folder / "errors.png")
    _draw_cosines(results, folder / "cosines.png")
    if results.get("costs"):
        _draw_costs(results["costs"], folder / "costs.png")


def _draw_errors(results: Mapping[str, Any], path: Path) -> None:
    cases = grouped(results["summary"], *KEYS)
    main = [case for case, own in cases.items() if len(own) > 1]
    caption = (
        "Test error over backpropagation's by number of sweeps k, of a GRU the difference in nats an answer: mean of "
        "the seeds and its 95 % interval; grey: within the smallest effect of interest."
    )
    with figure(path, 1, len(main), caption=caption, width=3.3, height=3.0) as (fig, axes):
        labels = dict.fromkeys(label for case in main for label, _ in _by_share(_judged(cases[case])))
        styles = dict(zip(labels, series()))
        for axis, case in zip(axes[0], main):
            own, nats = _judged(cases[case]), case[0] == "gru"
            axis.axhspan(*((-SMALLEST_NATS, SMALLEST_NATS) if nats else (1 / 1.05, 1.05)), color="0.85", linewidth=0)
            axis.axhline(0.0 if nats else 1.0, color="0.4", linewidth=0.8)
            places = sorted({r["iterations"] for r in own})
            for n, (label, rows) in enumerate(_by_share(own)):
                style = styles[label]
                x = [places.index(r["iterations"]) + 0.07 * (n - 1) for r in rows]
                mean, low, high = (np.array([r[key] for r in rows]) for key in ("difference", "low", "high"))
                if not nats:
                    mean, low, high = np.exp([mean, low, high])
                axis.errorbar(x, mean, [mean - low, high - mean], label=label, capsize=2, **style)
            axis.set_xticks(range(len(places)), [str(k) for k in places])
            if nats:
                axis.set_ylabel("difference, nats an answer")
            else:
                axis.set_yscale("log")
                low, high = axis.get_ylim()
                ticks(
                    axis.yaxis,
                    [
                        t
                        for t in (0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.6, 2.0, 3.0, 4.0)
                        if low <= t <= high
                    ],
                )
            axis.set(title=_title(case), xlabel="sweeps k")
        if main[0][0] != "gru":
            axes[0, 0].set_ylabel("test error / backpropagation's")
        shown: dict[str, Any] = {}
        for axis in axes[0]:
            shown |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels())}
        fig.legend([shown[label] for label in labels], labels, loc="outside lower center", ncols=4)


def _judged(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The arms of Highway-BP that a verdict was given on."""
    return [r for r in rows if r["iterations"] is not None and r.get("winner")]


def _by_share(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Arms by γ, with their names, each by k."""
    names = {0: "Highway-BP (γ = 0)", 1: "fixed point (γ = 1)"}
    found: dict[str, list[Any]] = {}
    for row in sorted(rows, key=lambda r: (r["gamma"] != 0, r["gamma"] != 1, str(r["gamma"]), r["iterations"])):
        gamma = row["gamma"]
        label = "γ estimated" if isinstance(gamma, str) else names.get(gamma, f"γ = {gamma:g}")
        found.setdefault(label, []).append(row)
    return list(found.items())


def _draw_cosines(results: Mapping[str, Any], path: Path) -> None:
    runs = [r for r in results["runs"] if r["looks"] and not r["gamma"]]
    cases = grouped(runs, *KEYS)
    deep = [r for r in results["probes"] if r["network"] == NETWORKS[0]] or results["probes"]
    caption = (
        "Cosine between the gradient after k sweeps and the true one: through training, mean and range of the seeds; "
        "last, by number of layers in networks trained by backpropagation, at the end (dashed: at the start)."
    )
    with figure(path, 1, len(cases) + 1, caption=caption, width=2.6, height=2.9, sharey=True) as (fig, axes):
        styles = dict(zip(sorted({r["k"] for r in deep} | {r["iterations"] for r in runs}), series()))
        for axis, (case, own) in zip(axes[0], cases.items()):
            for run in own:
                cosine = np.array([look["cosine"] for look in run["looks"]]).T
                band(
                    axis, [look["share"] for look in run["looks"]], cosine, label=None, style=styles[run["iterations"]]
                )
            axis.set(title=_title(case), xlabel="share of the training")
        axis = axes[0, -1]
        for k, style in styles.items():
            for when in ("start", "end"):
                rows = sorted((r for r in deep if r["k"] == k and r["when"] == when), key=lambda r: r["depth"])
                dashes = {
                    "linestyle": "--" if when == "start" else "-",
                    "markerfacecolor": "none" if when == "start" else style["color"],
                }
                axis.plot([r["depth"] for r in rows], [r["cosine"] for r in rows], **style | dashes)
            axis.plot([], [], label=f"k = {k}", **style)
        axis.set_xscale("log", base=2)
        ticks(axis.xaxis, sorted({r["depth"] for r in deep}))
        axis.set(title=deep[0]["network"], xlabel="layers")
        axes[0, 0].set_ylabel("cosine with the true gradient")
        handles, labels = axis.get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _draw_costs(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    caption = "Peak memory beyond weights and time of one step on one processor, over backpropagation's, by k."
    with figure(path, 1, 2, caption=caption, width=3.2, height=2.8) as (_, axes):
        for axis, key, title in zip(axes[0], ("memory", "time"), ("memory", "time")):
            for (network, own), style in zip(grouped(rows, "network").items(), series()):
                own = [r for r in own if r["k"] is not None]
                axis.plot([r["k"] for r in own], [r[key] for r in own], label=network, **style)
            axis.axhline(1.0, color="0.4", linewidth=0.8)
            axis.set(xlabel="sweeps k", ylabel=f"{title} / backpropagation's")
            axis.set_ylim(bottom=0)
        axes[0, 1].legend()


def _errors(run: Mapping[str, Any]) -> list[float]:
    return [one["test"] for one in sorted(run["members"], key=lambda one: one["seed"])]


def _verdict(errors: Sequence[float], base: Sequence[float], network: str) -> Verdict | None:
    if network == "gru":
        return seed_verdict(errors, base, smallest=SMALLEST_NATS)
    return seed_verdict(errors, base, log=True, smallest=SMALLEST)


def _plain(verdict: Verdict | None) -> dict[str, Any]:
    if verdict is None:
        return {"winner": "", "shown": shown(None)}
    return {
        "difference": verdict.difference,
        "low": verdict.low,
        "high": verdict.high,
        "winner": verdict.winner,
        "shown": shown(verdict, "+.3f"),
    }


def _layers(row: Mapping[str, Any]) -> str:
    return f"{row['depth']} {'steps' if row['network'] == 'gru' else 'layers'}"


def _title(case: tuple[str, int]) -> str:
    name = "GRU" if case[0] == "gru" else case[0]
    return f"{name}, {_layers(dict(zip(KEYS, case)))}"


def _case(row: Mapping[str, Any]) -> str:
    return f"{row['network']}, {_layers(row)}, {row['arm']}"


def _claim(text: str, seen: list[str], met: bool) -> dict[str, Any]:
    return {"claim": text, "seen": seen, "met": met}
