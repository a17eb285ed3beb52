"""What the study of speech found: rows by mixer, differences by seed, tables, figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import paired_verdict, spread
from sciops.models.sequences.log_mel import LogMel
from sciops.plotting import PALETTE, figure, series
from studies.kit.answers import extent, listed, sentence
from studies.kit.figures import band, panels, ticks
from studies.kit.tables import grouped, print_table
from studies.speech_pretraining.costs import exponents
from studies.speech_pretraining.data import Speech
from studies.speech_pretraining.distant.report import answer as distant_answer

if TYPE_CHECKING:
    from studies.speech_pretraining import Config

KINDS = {"phonemes": "PER", "letters": "CER"}
MARKERS = "sDo^"


def summary(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each mixer: masked accuracy and chance, error rates of each arm as mean and deviation over seeds."""
    rows = []
    for mixer in {**results["pretraining"], **results["tuning"]}:
        pretrainings = results["pretraining"].get(mixer, [])
        made = pretrainings or next(iter(results["tuning"][mixer].values()))
        row: dict[str, Any] = {"mixer": mixer, "parameters": made[0]["parameters"]}
        if pretrainings:
            after = [run["after"] for run in pretrainings]
            row |= {name: float(np.mean([one[name] for one in after])) for name in ("accuracy", "commonest", "uniform")}
            row["pretraining rate"] = pretrainings[0]["rate"]
            row["accuracy_deviation"] = spread(one["accuracy"] for one in after).deviation
        for arm, runs in results["tuning"].get(mixer, {}).items():
            for kind in (*KINDS, *(f"{k}_beam" for k in KINDS)):
                values = [run["test"][kind] for run in runs if kind in run["test"]]
                if values:
                    found = spread(values)
                    row[f"{arm} {kind}"], row[f"{arm} {kind} deviation"] = found.mean, found.deviation
            row[f"{arm} rate"] = runs[0]["rate"]
        rows.append(row)
    return rows


def gains(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Error of each other arm − error of the pre-trained one, paired by seed and speaker: mean, interval, and a
    verdict.

    verdict : "lower" or "higher" error with pre-training, or what `paired_verdict` says instead
    """
    rows = []
    for mixer, arms in results["tuning"].items():
        for arm in arms:
            if arm == "pretrained" or "pretrained" not in arms:
                continue
            for kind in _kinds(arms[arm]):
                judged = _judged(arms[arm], arms["pretrained"], kind, "lower", "higher")
                rows.append({"mixer": mixer, "against": arm, "kind": kind, **judged})
    return rows


# What is compared: error of the first − error of the second. First PoM with its peers, as published and at the weights
# of attention; then what in PoM does the work; then whether the task asks for a mixer at all.
PAIRS = (
    ("mean_pool", "polynomial"),
    ("self_attention", "polynomial"),
    ("none", "polynomial"),
    ("mean_pool", "polynomial_4d"),
    ("self_attention", "polynomial_4d"),
    ("none", "polynomial_4d"),
    ("polynomial", "polynomial_4d"),
    ("polynomial_v2", "polynomial_4d"),
    ("degree_1", "polynomial_4d"),
    ("degree_3", "polynomial_4d"),
    ("no_gate", "polynomial_4d"),
    ("none", "mean_pool"),
    ("none", "self_attention"),
    ("self_attention", "mean_pool"),
    ("no_convolution", "none"),
)


def between(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Error of one encoder − that of another with the same arm, paired by seed and speaker: `PAIRS`, and any other
    encoder against polynomial."""
    tuning = results["tuning"]
    named = {name for pair in PAIRS for name in pair}
    pairs = [*PAIRS, *((mixer, "polynomial") for mixer in tuning if mixer not in named)]
    rows = []
    for first, second in pairs:
        for arm in tuning.get(first, {}):
            for kind in _kinds(tuning[first][arm]) if arm in tuning.get(second, {}) else ():
                both = tuning[first][arm], tuning[second][arm]
                judged = _judged(*both, kind, f"{second} better", f"{first} better")
                rows.append({"first": first, "second": second, "arm": arm, "kind": kind, **judged})
    return rows


def _short(results: Mapping[str, Any]) -> dict[str, str]:
    """What the errors are called: PER and CER, or the share of tokens with a wrong phoneme."""
    if results["data"]["targets"] == "tokens":
        return {"phonemes": "wrong phonemes"}
    return KINDS


def _kinds(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    return [kind for kind in KINDS if kind in runs[0]["test"]]


def _judged(
    runs: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], kind: str, above: str, below: str
) -> dict[str, Any]:
    """Errors of `runs` − errors of `others`, mean over test speakers, and which word the verdict over seeds and
    speakers is: `above` zero, or `below`."""
    a, b = (np.array([run["speakers"][kind] for run in part]) for part in (runs, others))
    found = paired_verdict(a, b)
    return {
        "by_seed": (a - b).mean(1).tolist(),
        "mean": found.difference,
        "low": found.low,
        "high": found.high,
        "seeds": found.seeds,
        "speakers": found.samples,
        "verdict": {"first": below, "second": above}.get(found.winner, found.winner),
    }


def answer(results: Mapping[str, Any]) -> str:
    """Where the polynomial mixer stands on tasks that need distant tokens, and by the error of phonemes among
    pre-trained encoders, and what pre-training changes."""
    first = distant_answer(results["distant"]) if "distant" in results else ""
    if "summary" not in results:
        return first
    about = results["data"]
    corpus = "tones, not speech" if about["family"] == "tones" else about["family"]
    errors = [
        f"{row['mixer']} {100 * row['pretrained phonemes']:.1f}%"
        for row in sorted(results["summary"], key=lambda row: row.get("pretrained phonemes", math.inf))
        if "pretrained phonemes" in row
    ]
    name = "tokens with a wrong phoneme" if about["targets"] == "tokens" else "errors of phonemes"
    what = f"{name} after pre-training ({corpus}, recordings of {about['seconds']['test']:.1f} s)"
    places = [
        f"{row['first']} − {row['second']} {_interval(row)} ({row['arm']}: {row['verdict']})"
        for row in results["between"]
        if row["kind"] == "phonemes" and row["arm"] in ("scratch", "pretrained")
        if row["second"].startswith("polynomial") and row["first"] in ("mean_pool", "self_attention", "none")
    ]
    gained = [row for row in results["gains"] if row["kind"] == "phonemes" and row["against"] == "scratch"]
    lower = sum(row["verdict"] == "lower" for row in gained)
    points = extent((100 * row["mean"] for row in gained), ".1f")
    then = sentence(
        f"{what}: {listed(errors)}" if errors else "",
        f"points of {listed(places)}" if places else "",
        f"errors without pre-training − with it: {points} points ({lower} of {len(gained)} verdicts for pre-training)"
        if gained
        else "",
    )
    return " ".join(filter(None, (first, then)))


def print_report(results: Mapping[str, Any], config: Config) -> None:
    about = results["data"]
    if about["family"] == "tones":
        print(
            "no synthesiser of speech: the corpus is a language of tones, which shows the method and nothing of speech"
        )
    print(
        f"{about['family']}, text {about['text']}: {about['speakers']} speakers, {about['phonemes']} phonemes; "
        + ", ".join(f"{n} {name}" for name, n in about["recordings"].items())
        + f"; {about['minutes']['unlabelled']:.1f} min to pre-train, {about['minutes']['labelled']:.1f} labelled, "
        f"{about['left_out']} left out as too short for CTC"
    )
    print(
        f"{len(config.seeds)} seed(s); BEST-RQ {config.pretrain_steps} steps of {config.batch}, spans of {config.span} "
        f"frames begun with probability {config.probability}, {config.codes} codes; {config.targets} {config.steps} "
        f"steps of {config.labelled_batch}; recordings of {_length(about)}, channels {config.channel:g}; test: new "
        "sentences by new speakers"
    )

    def error(arm: str, kind: str) -> Callable[[Mapping[str, Any]], str | None]:
        runs = lambda row: results["tuning"][row["mixer"]][arm]  # noqa: E731
        return lambda row: _percent(run["test"][kind] for run in runs(row)) if f"{arm} {kind}" in row else None

    masked = lambda row: _percent(run["after"]["accuracy"] for run in results["pretraining"][row["mixer"]])  # noqa: E731
    arms, names = list(next(iter(results["tuning"].values()))), _short(results)
    rates = lambda row: ", ".join(  # noqa: E731
        [f"{row['pretraining rate']:g}" if "pretraining rate" in row else "–"]
        + [f"{row[f'{arm} rate']:g}" for arm in arms if f"{arm} rate" in row]
    )
    print_table(
        results["summary"],
        "=mixer; parameters",
        ("masked acc. %", lambda row: masked(row) if "accuracy" in row else None),
        *((f"{short} {arm} %", error(arm, kind)) for kind, short in names.items() for arm in arms),
        ("rates", rates),
        title="",
    )
    commonest, uniform = (100 * results["summary"][0][name] for name in ("commonest", "uniform"))
    print(f"the commonest code is {commonest:.1f} % of the masked, {uniform:.2f} % by chance")
    kind = ("", lambda row: names[row["kind"]])
    title = "error without pre-training − with it, points, paired: mean [95 % over seeds and speakers]"
    print_table(
        results["gains"], "=mixer", kind, ("", lambda row: f"against {row['against']}"), ("", _points), title=title
    )
    if results["between"]:
        title = "error of the first − that of the second, points: mean [95 % over seeds and speakers] verdict"
        pairs = grouped(results["between"], "first", "second")
        columns = [
            (f"{short} {arm}", _of_pair(arm, kind))
            for kind, short in names.items()
            for arm in arms
            if kind == "phonemes" or arm == "pretrained"
        ]
        print_table(
            pairs.values(), ("", lambda rows: f"{rows[0]['first']} − {rows[0]['second']}"), *columns, title=title
        )
    lengths = config.test_seconds if "pretrained" in arms else ()
    if lengths:
        title = f"phoneme errors, pre-trained, by length of the test recordings, %; learned at {_length(about)}"
        own = [mixer for mixer, arms in results["tuning"].items() if "pretrained" in arms]
        columns = [(f"{about['length_seconds'][f'{s:g}']:.1f} s", _at_length(results, f"{s:g}")) for s in lengths]
        print_table([{"mixer": mixer} for mixer in own], "=mixer", *columns, title=title)
    if results["costs"]:
        print(f"\na step of pre-training, {config.threads} thread(s): recordings × s, ms, MB")
        for mixer in config.mixers:
            own = [row for row in results["costs"] if row["mixer"] == mixer]
            cells = (
                f"{row['batch']}×{row['length']:g} s: {1e3 * row['seconds']:.0f} ms"
                + ("" if row["bytes"] is None else f", {row['bytes'] / 2**20:.0f} MB")
                for row in own
            )
            slopes = exponents(results["costs"], mixer)
            text = "".join(f"; {k} ~ length^{p:.2f}" for k, p in slopes.items())
            print(f"  {mixer:<15}" + ", ".join(cells) + text)
        for row in results["crossings"]:
            less = ", ".join(f"{word} {_from(row[key])}" for key, word in (("seconds", "time"), ("bytes", "memory")))
            print(f"  {row['mixer']} takes less than self_attention: {less}")
    print("\npublished, LibriSpeech 960 h / 100 h, 95 M parameters (arXiv:2603.00683), word errors on test-clean:")
    print(
        "  polynomial 8.31 %, self_attention with RoPE 8.06 %, mean pooling (SummaryMixing) 9.79 %: other data and size"
    )


def _percent(values: Iterable[float]) -> str:
    return f"{spread(values).times(100):.1f}"


def _length(about: Mapping[str, Any]) -> str:
    return f"{about['seconds']['train']:.1f} s"


def _of_pair(arm: str, kind: str) -> Callable[[Sequence[Mapping[str, Any]]], str | None]:
    def said(rows: Sequence[Mapping[str, Any]]) -> str | None:
        row = next((row for row in rows if row["arm"] == arm and row["kind"] == kind), None)
        return row and f"{_interval(row)} {row['verdict']}"

    return said


def _at_length(results: Mapping[str, Any], seconds: str) -> Callable[[Mapping[str, Any]], str]:
    runs = lambda row: results["tuning"][row["mixer"]]["pretrained"]  # noqa: E731
    return lambda row: _percent(run["lengths"][seconds]["phonemes"] for run in runs(row))


def _from(length: float) -> str:
    if math.isnan(length):
        return "not measured"
    return "nowhere" if math.isinf(length) else f"from {length:.2g} s" if length else "at every length"


def _interval(row: Mapping[str, Any]) -> str:
    return f"{100 * row['mean']:+.1f} [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"


def _points(row: Mapping[str, Any]) -> str:
    seeds = ", ".join(f"{100 * gap:+.1f}" for gap in row["by_seed"])
    return f"{_interval(row)} ({seeds}): {row['verdict']}"


def draw(results: Mapping[str, Any], data: Speech, folder: Path) -> None:
    """errors.png by mixer and arm, masked.png over the steps, spectrogram.png with the phonemes of one recording."""
    _draw_errors(results, folder / "errors.png")
    if results["data"]["length_seconds"] and any("pretrained" in arms for arms in results["tuning"].values()):
        _draw_lengths(results, folder / "lengths.png")
    if results["costs"]:
        _draw_costs(results["costs"], folder / "costs.png")
    caption = "Share of masked codes that are found over the steps of pre-training, mean and range of the seeds."
    with panels(folder / "masked.png", 1, 1, width=4.6, height=3.0, caption=caption) as (axis,):
        for (mixer, runs), style in zip(results["pretraining"].items(), series()):
            curves = np.array([run["curve"] for run in runs])
            width = max(1, curves.shape[1] // 40)
            whole = curves[:, : curves.shape[1] // width * width].reshape(len(curves), -1, width).mean(-1)
            at = (np.arange(whole.shape[1]) + 0.5) * width
            band(axis, at, 100 * whole, label=mixer, style=style | {"marker": None})
        commonest = 100 * results["summary"][0]["commonest"]
        axis.axhline(commonest, color="0.4", linewidth=0.9)
        axis.annotate("commonest code", (0.99, commonest), xycoords=("axes fraction", "data"),
                      xytext=(0, 3), textcoords="offset points", ha="right", fontsize=7.5, color="0.3")  # fmt: skip
        axis.set(xlabel="step of pre-training", ylabel="codes of masked tokens found (%)", ylim=(0, None))
        axis.legend(loc="upper left")
    _draw_spectrogram(data, folder / "spectrogram.png")


def _draw_errors(results: Mapping[str, Any], path: Path) -> None:
    tuning, names = results["tuning"], _short(results)
    every = list(tuning)
    arms = list(dict.fromkeys(arm for own in tuning.values() for arm in own))
    kinds = [kind for kind in KINDS if kind in names]
    caption = "Errors on new sentences by new speakers by encoder and arm; large: means, small: seeds."
    height = 1.0 + 0.34 * len(every)
    with figure(path, 1, len(kinds), width=6.0 / len(kinds) + 0.6, height=height, caption=caption) as (fig, axes):
        for axis, kind in zip(axes[0], kinds):
            for j, arm in enumerate(arms):
                shift = (j - (len(arms) - 1) / 2) * 0.22
                for i, mixer in enumerate(every):
                    found = [100 * run["test"][kind] for run in tuning[mixer].get(arm, [])]
                    axis.plot(found, [i + shift] * len(found), "o", color=PALETTE[j], markersize=2.5, alpha=0.6)
                    if found:
                        axis.plot(np.mean(found), i + shift, MARKERS[j], color=PALETTE[j], markersize=6)
                axis.plot([], [], MARKERS[j], color=PALETTE[j], markersize=6, label=arm)
            axis.set_yticks(range(len(every)), every)
            axis.invert_yaxis()
            axis.set_xlabel(f"{names[kind]} (%)")
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(arms))


def _draw_lengths(results: Mapping[str, Any], path: Path) -> None:
    about = results["data"]
    lengths = [*sorted(about["length_seconds"].items(), key=lambda pair: pair[1])]
    caption = (
        "Errors of the pre-trained, fine-tuned encoders on the test joined to other lengths; mean and range of seeds."
    )
    with panels(path, 1, 1, width=5.0, height=3.2, caption=caption) as (axis,):
        tuned = [(mixer, arms["pretrained"]) for mixer, arms in results["tuning"].items() if "pretrained" in arms]
        for (mixer, runs), style in zip(tuned, series()):
            values = [[100 * run["lengths"][key]["phonemes"] for key, _ in lengths] for run in runs]
            band(axis, [seconds for _, seconds in lengths], values, label=mixer, style=style, alpha=0.1)
        axis.axvline(about["seconds"]["train"], color="0.5", linewidth=0.9, linestyle=":")
        axis.set(xlabel="mean length of the test recordings (s); dotted: in training", xscale="log")
        axis.set_ylabel(f"{_short(results)['phonemes']} (%)")
        ticks(axis.xaxis, [1, 2, 5, 10, 20, 50])
        axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1))


def _draw_costs(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    caption = (
        "A step of pre-training on equal seconds of sound by the length of its recordings: processor time, memory."
    )
    with panels(path, 2, 2, width=3.4, height=3.0, caption=caption) as axes:
        for axis, (key, unit, label) in zip(
            axes, (("seconds", 1e3, "time of a step (ms)"), ("bytes", 2**-20, "peak memory (MB)"))
        ):
            for (mixer, own), style in zip(grouped(rows, "mixer").items(), series()):
                points = [(row["length"], unit * row[key]) for row in own if row[key] is not None]
                if points:
                    axis.plot(*zip(*points), label=mixer, **style)
            axis.set(xlabel="length of a recording (s)", ylabel=label, xscale="log", ylim=(0, None))
            ticks(axis.xaxis, [1, 2, 5, 10, 20, 60])
        axes[0].legend(loc="upper left", fontsize=7)


def _draw_spectrogram(data: Speech, path: Path) -> None:
    import torch

    one = min((data.corpus[i] for i in range(min(40, len(data.corpus)))), key=lambda u: abs(len(u.phonemes) - 18))
    mel = LogMel(sample_rate=one.sample_rate)
    frames = mel(torch.from_numpy(one.audio)[None])[0][0].numpy()
    seconds = len(one.audio) / one.sample_rate
    caption = "One recording as the encoders see it, log energies of mel bins, with its phonemes."
    with figure(path, 1, 1, width=6.4, height=2.8, caption=caption) as (fig, axes):
        axis = axes[0, 0]
        image = axis.imshow(frames.T, origin="lower", aspect="auto", extent=(0, seconds, 0.5, frames.shape[1] + 0.5))
        starts = np.append(one.starts, len(one.audio)) / one.sample_rate
        top = frames.shape[1] + 2
        for i, (name, start, end) in enumerate(zip(one.phonemes, starts, starts[1:])):
            axis.axvline(start, color="white", linewidth=0.5, alpha=0.7)
            if end > start:
                axis.text((start + end) / 2, top + 5 * (i % 2), name, ha="center", va="bottom", fontsize=7.5)
        axis.grid(visible=False)
        axis.set(xlabel="time (s)", ylabel="mel bin")
        axis.set_title(f"“{one.text}”, {one.speaker}", pad=22)
        fig.colorbar(image, ax=axis, label="log energy")
