"""Tables and figures of the state-feedback study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation import spread
from sciops.plotting import figure, series
from studies.kit.answers import sentence
from studies.kit.figures import band
from studies.kit.tables import grouped, print_table
from studies.kit.verdicts import seed_verdict, shown
from studies.state_feedback.comparisons import EQUAL_TIME, NEAR, share_verdicts, verdicts
from studies.state_feedback.training import ARMS, OURS

_SAID = (
    "the paper (abstract): competitive perplexity at a markedly lower cost; overviews: near BPTT, well above FT-BPTT"
)

EXPECTED = {
    "copy": "both modes better than FT-BPTT and, after 1000 steps, as good as BPTT, linspace learning later than gate; "
    "FT-BPTT and TBPTT at guessing",
    "words": "BPTT better than FT-BPTT by 4 to 6 % of its perplexity; both modes better than FT-BPTT; gate closes 60 "
    "to 90 % of the gap, linspace 40 to 75 %: not as good as BPTT, of gate perhaps undecided; gate better than BPTT in "
    "the same time, linspace undecided",
}
"""What was expected of a task, by the first word of its name, from pilots (seeds from 100 on, validation data), written
before a training that a verdict rests on."""


def answer(results: Mapping[str, Any]) -> str:
    """Which modes beat truncation, and BPTT in the same time, task by task."""
    return sentence(*verdicts(results["summary"]))


def print_report(results: Mapping[str, Any]) -> None:
    """The table of every task, the times of a gradient, and what follows from them."""
    print(f"\n{_SAID}; * not in the paper")
    rows = results["summary"]
    for task in results["tasks"]:
        here = [row for row in rows if row["task"] == task["name"]]
        print(f"\n{task['name']}: {task['about']}; {task['optimiser_steps']} steps, {here[0]['seeds']} seeds")
        print(f"{task['unit']}; without memory {task['trivial']:.4g}")
        equal = any(row["arm"] == EQUAL_TIME for row in here)
        timed = [("− equal time", lambda row: shown(row["against_equal_time"]))] if equal else []
        print_table(
            here,
            ("", lambda row: _name(row["arm"])),
            "test:.4g; ± seeds=spread:.2g",
            "rate:g",
            ("− FT-BPTT", lambda row: shown(row["against_truncation"])),
            ("− BPTT", lambda row: shown(row["against_exact"])),
            *timed,
            ("closed", lambda row: "–" if np.isnan(row["closed"]) else f"{row['closed']:.0%}"),
            ("by seed, interval", lambda row: _share(row["shares"])),
            ("learnt at", lambda row: "–" if np.isnan(row["learnt"]) else f"{row['learnt']:.0f}"),
            "seconds:.2f; speed:.2f",
            ("cosine", lambda row: " ".join(f"{value:.2f}" for value in row["cosine"])),
            ("norm ratio", lambda row: " ".join(f"{value:.2f}" for value in row["norm_ratio"])),
            "diverged",
        )
    _print_rollouts(results["rollout"])
    lengths = list(dict.fromkeys(row["length"] for row in results["gradient_seconds"]))
    times: dict[str, dict[str, float]] = {_name(row["arm"]): {} for row in results["gradient_seconds"]}
    for row in results["gradient_seconds"]:
        times[_name(row["arm"])][f"{row['length']}"] = row["seconds"]
    columns = (f"{n}=1e3*{n}:.2f" for n in lengths)
    if lengths:
        print_table(times, "=name", *columns, title="one forward and backward pass, milliseconds by length")
    told = share_verdicts(rows)
    if told:
        print_table(
            told,
            "task",
            ("", lambda row: f"{row['first']} − {row['second']}"),
            ("share of the gap", lambda row: f"{row['gap']:+.0%} [{row['low']:+.0%}, {row['high']:+.0%}]"),
            "says",
            title="shares of the gap from FT-BPTT to BPTT, closed by the first more than by the second",
        )
    _print_tuning(results["tuning"])
    _print_claims(results)
    print()
    for line in verdicts(rows):
        print(line)


def _print_tuning(rows: list[Mapping[str, Any]]) -> None:
    """Validation error by rate, of the trainings that chose the rate."""
    for task, here in grouped(rows, "task").items():
        print_table(
            here,
            ("", lambda row: _name(row["arm"])),
            *((rate, lambda row, rate=rate: f"{row['validation'][rate]:.4g}") for rate in here[0]["validation"]),
            ("chosen", lambda row: f"{row['rate']:g}{' (edge of the grid)' * row['edge']}"),
            title=f"{task}: validation error by rate, further seeds",
        )


def _print_claims(results: Mapping[str, Any]) -> None:
    """What is said of each mode, with its interval; below, what was expected."""
    if not results["claims"]:
        return
    print_table(
        results["claims"],
        "task",
        ("", lambda row: _name(row["arm"])),
        "claim",
        ("difference", lambda row: f"{row['verdict'].difference:+.3g}"),
        ("interval", lambda row: f"[{row['verdict'].low:+.3g}, {row['verdict'].high:+.3g}]"),
        ("margin", lambda row: f"{row['verdict'].smallest:.3g}"),
        "says",
        title=f"claims; 95 % over seeds; as good: to within {NEAR:.0%} of the mean gap between FT-BPTT and BPTT",
    )
    for task in results["tasks"]:
        if (kind := task["name"].split(",")[0]) in EXPECTED:
            print(f"expected of {task['name']}: {EXPECTED[kind]}")


def _share(shares: Mapping[str, Any] | None) -> str:
    return "–" if shares is None else f"{shares['mean']:.0%} [{shares['low']:.0%}, {shares['high']:.0%}]"


def _print_rollouts(rows: list[Mapping[str, Any]]) -> None:
    if not rows:
        return
    print("\nrollouts of an FNO on Kuramoto–Sivashinsky: relative L2 error of the last frame")
    cut = [row["test"] for row in rows if row["arm"].endswith("(Λ = 0)")]
    looked = lambda mine, key: np.mean([[c[key] for c in row["closeness"]] for row in mine], 0)  # noqa: E731
    tests = lambda mine: [row["test"] for row in mine]  # noqa: E731
    print_table(
        grouped(rows, "arm").values(),
        ("", lambda mine: mine[0]["arm"]),
        ("test ± seeds", lambda mine: f"{spread(tests(mine)):.4f}"),
        ("− Λ = 0", lambda mine: shown(seed_verdict(tests(mine), cut))),
        ("seconds", lambda mine: f"{np.mean([row['seconds'] for row in mine]):.2f}"),
        ("cosine", lambda mine: " ".join(f"{v:.2f}" for v in looked(mine, "cosine"))),
        ("norm ratio", lambda mine: " ".join(f"{v:.2f}" for v in looked(mine, "norm_ratio"))),
    )


def draw(results: Mapping[str, Any], folder: Path) -> None:
    """loss_against_time.png, error_by_arm.png and cosine.png."""
    from matplotlib.ticker import NullFormatter

    tasks, columns = results["tasks"], len(results["tasks"])
    rates = {(row["task"], row["arm"]): row["rate"] for row in results["summary"]}
    runs = [r for r in results["runs"] if r["rate"] == rates[r["task"], r["arm"]] and not r["diverged"]]
    arms = list(dict.fromkeys(row["arm"] for row in results["summary"]))

    caption = "Validation error against the time of training, mean of the seeds, by way of computing the gradient."
    size = {"width": 3.6, "height": 3.4}
    with figure(folder / "loss_against_time.png", 1, columns, caption=caption, **size) as (fig, axes):
        for axis, task in zip(axes.flat, tasks):
            for arm, style, mine in _by_arm(runs, task["name"], arms):
                seconds, values = (
                    np.mean([[h[k] for h in r["history"]] for r in mine], 0) for k in ("seconds", "validation")
                )
                axis.semilogy(seconds, values, label=_name(arm), **style)
            axis.set(title=task["name"], xlabel="training time (s)", ylabel=f"validation\n{task['unit']}")
            _plain_log(axis.yaxis)
        _legend(fig, axes)

    caption = "Test error by way of computing the gradient, mean and standard deviation over seeds."
    size = {"width": 3.6, "height": 2.9, "sharey": True}
    with figure(folder / "error_by_arm.png", 1, columns, caption=caption, **size) as (_, axes):
        for axis, task in zip(axes.flat, tasks):
            for arm, style, mine in _by_arm(runs, task["name"], arms):
                tests, place = [r["test"] for r in mine], arms.index(arm)
                axis.plot(tests, [place] * len(tests), linestyle="none", alpha=0.5, color=style["color"], marker=".")
                axis.plot([np.mean(tests)], [place], linestyle="none", color=style["color"], marker=style["marker"])
            axis.set(xscale="log", title=task["name"], xlabel=f"test {task['unit']}")
            axis.set_ylim(len(arms) - 0.5, -0.5)
            shown_here = [r["test"] for r in runs if r["task"] == task["name"]]
            if max(shown_here) < 10 * min(shown_here):  # over decades the labels between them would overlap
                axis.xaxis.set_major_formatter("{x:.3g}")
                axis.xaxis.set_minor_formatter("{x:.3g}")
                axis.tick_params(axis="x", which="both", labelrotation=45)
            else:
                axis.xaxis.set_minor_formatter(NullFormatter())
        axes.flat[0].set_yticks(range(len(arms)), [_name(arm) for arm in arms])

    caption = "Cosine to the gradient of BPTT and ratio of the norms over a training, mean and range of the seeds."
    size = {"width": 3.6, "height": 2.5, "sharex": "col"}
    with figure(folder / "cosine.png", 2, columns, caption=caption, **size) as (fig, axes):
        for column, task in enumerate(tasks):
            for key, label, axis in zip(("cosine", "norm_ratio"), ("cosine to BPTT", "norm / BPTT's"), axes[:, column]):
                for arm, style, mine in _by_arm(runs, task["name"], [a for a in arms if not a.startswith("BPTT")]):
                    steps = [c["step"] for c in mine[0]["closeness"]]
                    values = np.array([[c[key] for c in r["closeness"]] for r in mine])
                    band(axis, steps, values, label=_name(arm), style=style, alpha=0.12)
                axis.set_ylabel(label)
            low, high = axes[1, column].get_ylim()
            if not high < 3 * low:  # within a factor of 3 a log axis would have one label
                axes[1, column].set_yscale("log")
                _plain_log(axes[1, column].yaxis)
            axes[1, column].set_xlabel("optimiser step")
            axes[0, column].set_title(task["name"])
        _legend(fig, axes)


def _by_arm(
    runs: list[Mapping[str, Any]], task: str, arms: list[str]
) -> Iterator[tuple[str, dict[str, Any], list[Mapping[str, Any]]]]:
    for arm in arms:
        mine = [r for r in runs if r["task"] == task and r["arm"] == arm]
        if mine:
            yield arm, _style(arm), mine


def _style(arm: str) -> dict[str, Any]:
    """The same for an arm in every figure; after eight colours there is grey."""
    names = [*ARMS, EQUAL_TIME]
    styles, grey = dict(zip(names, series())), dict(zip(names[8:], ("0.25", "0.5", "0.7")))
    return styles[arm] | ({"color": grey[arm], "linestyle": "--"} if arm in grey else {})


def _name(arm: str) -> str:
    return f"{arm} *" if arm in OURS else arm


def _plain_log(axis: Any) -> None:
    """A log axis with plain numbers at 1, 2, 3, 5 and 7; with powers of ten where it spans more than two of them."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_view_interval()
    if high < 200 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
        axis.set_major_formatter(StrMethodFormatter("{x:.3g}"))
    axis.set_minor_formatter(NullFormatter())


def _legend(fig: Any, axes: Any) -> None:
    handles, labels = axes.flat[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=5)
