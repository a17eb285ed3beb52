"""Tables, report and figures of the resolution-shift study, from its results alone."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import Spread
from sciops.plotting import draw_field, draw_intervals, draw_spectra, figure, series
from studies.resolution_shift.case import UPSAMPLINGS, Case

if TYPE_CHECKING:
    from studies.resolution_shift import ResolutionShiftConfig


def write_report(config: ResolutionShiftConfig, results: dict[str, Any], path: Path) -> None:
    """report.md: one table a pair of grids, the references beside the models, then the verdicts in words."""
    from sciops.files.json_files import write_atomically

    lines = [
        "# Resolution shift",
        "",
        f"Data: `{config.data.name}`; coefficient: {results['coefficient']}; {results['test_samples']} test fields, "
        f"{config.seeds} seeds, {_budget(config)} of training a model. Relative L2 error against the solution "
        "stored on the test grid, mean over test fields, ± standard deviation over seeds, in percent.",
        "",
        "*low + X*: run on the training grid, carried up by X. *low-passed input*: run on the test grid with the "
        "coarse coefficient, so that only the network's grid changes. *floor*: the true solution on the training grid, "
        "carried up. *native*: the equation solved on the coefficient of that grid, no network.",
        "",
        _selection(results),
        "",
    ]
    lookup = {(r["arm"], r["train"], r["test"], r["way"]): r for r in results["errors"]}
    for train in config.train_grids:
        lines += _same_grid_table(results, lookup, train)
        for test in config.test_grids:
            if test > train:
                lines += _shift_table(results, lookup, train, test)
    lines += _training_table(results)
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def _same_grid_table(results: dict, lookup: dict, train: int) -> list[str]:
    rows = [["model", "relative L2 (%)", "relative MSE", "parameters", "training s"]]
    native = lookup.get(("reference", train, train, "native"))
    if native:
        rows.append(["*native solve, no network*", _percent(native), _squared(native), "", ""])
    for arm in _arms(results, train):
        row = lookup.get((arm, train, train, "direct"))
        runs = [r for r in results["training"] if r["arm"] == arm.removesuffix(" (sym)") and r["train"] == train]
        seconds = np.mean([r["seconds"] for r in runs])
        if row:
            rows.append([arm, _percent(row), _squared(row), f"{runs[0]['parameters']:,}", f"{seconds:.0f}"])
    return [f"## Trained and tested on {train} points per axis", "", *_table(rows), ""]


def _shift_table(results: dict, lookup: dict, train: int, test: int) -> list[str]:
    ways = [w for w in UPSAMPLINGS if ("reference", train, test, f"truth + {w}") in lookup]
    oracle = any((arm, test, test, "direct") in lookup for arm in _arms(results, test))
    header = ["model", "direct", "low-passed input", *(f"low + {w}" for w in ways)]
    local = any((arm, train, test, "direct, undilated") in lookup for arm in _arms(results, train))
    if local:
        header.insert(2, "direct, undilated")
    rows = [header]
    for label, prefix in (("*floor: truth*", "truth"), ("*native solve*", "native")):
        cells = [_percent(lookup.get(("reference", train, test, f"{prefix} + {w}"))) for w in ways]
        if any(cells):
            direct = _percent(lookup.get(("reference", test, test, "native"))) if prefix == "native" else ""
            rows.append([label, direct, *([""] if local else []), "", *cells])
    for arm in _arms(results, train):
        rows.append([arm, *(_percent(lookup.get((arm, train, test, w))) for w in header[1:])])
    if oracle:
        trained_there = [""] * (len(rows) - len(_arms(results, train)) - 1)
        trained_there += [_percent(lookup.get((arm, test, test, "direct"))) for arm in _arms(results, train)]
        rows = [[*row, cell] for row, cell in zip(rows, [f"trained on {test}", *trained_there])]
    lines = [f"## Trained on {train}, wanted on {test}", "", *_table(rows), ""]
    verdicts = [v for v in results["verdicts"] if (v["train"], v["test"]) == (train, test)]
    reference = "sine" if any(v["against"] == "low + sine" for v in verdicts) else ways[0]
    rows = [["model", "direct against", "difference (points) [95 %]", "direct better in", "verdict", "mismatch (%)"]]
    for v in verdicts:
        if v["against"] not in (f"low + {reference}", "low + cubic", "low + fourier naive", "direct, undilated"):
            continue
        winner = {"first": "direct", "second": v["against"]}.get(v["winner"], v["winner"])
        spread = f"{100 * v['difference']:+.2f} [{100 * v['low']:+.2f}, {100 * v['high']:+.2f}]"
        key = ("arm", "train", "test")
        mismatch = {r["input"]: r for r in results["equivariance"] if all(r[k] == v[k] for k in key)}
        seen = " / ".join(
            f"{100 * mismatch[i]['mean']:.2f}" for i in ("fine input", "low-passed input") if i in mismatch
        )
        rows.append([v["arm"], v["against"], spread, f"{100 * v['win_rate']:.0f} %", winner, seen])
    if len(rows) > 1:
        lines += [
            "Paired over test fields and seeds; negative: direct is better. Mismatch: "
            "‖R F(a_S) − F(a_s)‖/‖F(a_s)‖ with the fine / the low-passed coefficient.",
            "",
            *_table(rows),
            "",
        ]
    return lines


def _training_table(results: dict) -> list[str]:
    rows = [["model", "trained on", "seed", "best epoch", "validation (%)", "training s"]]
    for r in results["training"]:
        validation = "" if r.get("validation") is None else f"{100 * r['validation']:.2f}"
        rows.append([r["arm"], r["train"], r["seed"], r["best_epoch"], validation, f"{r['seconds']:.0f}"])
    return ["## Training", "", *_table(rows), ""]


def draw(
    config: ResolutionShiftConfig,
    case: Case,
    jobs: list[Any],
    results: dict[str, Any],
    samples: dict[str, np.ndarray],
    folder: Path,
) -> None:
    """The study's figures: errors by grid, verdicts, spectra of fields and errors, layer spectra, one test field."""
    _draw_errors(config, results, folder / "errors.png")
    _draw_verdicts(config, results, folder / "verdicts.png")
    train = config.train_grids[0]
    tests = [n for n in config.test_grids if n > train]
    if tests:
        models = {job.arm: job for job in jobs if job.points == train and job.seed == 0}
        _draw_spectra(config, case, models, train, tests[-1], folder / "spectra.png")
        _draw_layers(config, case, models, train, tests[-1], folder / "layer_spectra.png")
        _draw_fields(config, case, models, train, tests[-1], folder / "fields.png")


def _draw_errors(config: ResolutionShiftConfig, results: dict, path: Path) -> None:
    lookup = {(r["arm"], r["train"], r["test"], r["way"]): r["relative_l2"] for r in results["errors"]}
    with figure(path, 1, len(config.train_grids), width=4.4, height=3.4, sharey=True) as (fig, axes):
        for axis, train in zip(axes[0], config.train_grids):
            tests = [n for n in config.test_grids if n >= train]

            def line(arm: str, way: str, label: str | None, **style: Any) -> None:
                found = [(n, lookup.get((arm, n if way == "native" else train, n, way))) for n in tests]  # noqa: B023
                found = [(n, Spread.read(e).times(100)) for n, e in found if e]
                if found:
                    grids, means, spread = zip(*[(n, e.mean, e.bar) for n, e in found])
                    axis.errorbar(grids, means, yerr=spread, capsize=2, label=label, **style)  # noqa: B023

            for arm, style in zip(_plain_arms(results, train), series()):
                line(arm, "direct", arm, **(style | {"linestyle": "-"}))
                line(arm, "low + sine", None, **(style | {"linestyle": ":", "markerfacecolor": "white"}))
            line("reference", "native", "native solve on the test grid", color="0.3", linestyle="--", marker="x")
            line("reference", "truth + sine", "floor of low + sine", color="0.6", linestyle="-.", marker="_")
            axis.set(xscale="log", yscale="log")
            seen = [
                e["mean"] for (_, s, _, way), e in lookup.items() if s == train and way in ("direct", "truth + sine")
            ]
            if seen:  # on the grid of the labels the native solve is exact: that point lies below the picture
                axis.set_ylim(bottom=50 * min(seen))
            axis.set_xticks(tests, [str(n) for n in tests])
            axis.xaxis.minorticks_off()
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:e}"[0] in "235" else "")
            axis.tick_params(which="minor", labelsize=7)
            axis.set_xlabel("points per axis of the test grid")
            axis.set_title(f"trained on {train}: solid direct, dotted low + sine")
        axes[0][0].set_ylabel("relative L2 error (%)")
        fig.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right center")


def _draw_verdicts(config: ResolutionShiftConfig, results: dict, path: Path) -> None:
    pairs = sorted({(v["train"], v["test"]) for v in results["verdicts"]})
    if not pairs:
        return
    rows_of = defaultdict(list)
    for v in results["verdicts"]:
        if v["against"] in ("low + sine", "low + cubic", "low + fourier naive") and not v["arm"].endswith(" (sym)"):
            label = f"{v['arm']} vs {v['against'].removeprefix('low + ')}"
            row = (label, *(100 * v[k] for k in ("difference", "low", "high")))
            rows_of[v["train"], v["test"]].append((row, v["winner"] in ("first", "second")))
    tallest = max(len(rows) for rows in rows_of.values())
    with figure(path, 1, len(pairs), width=3.9, height=0.9 + 0.2 * tallest, sharey=True) as (_, axes):
        for axis, pair in zip(axes[0], pairs):
            rows, decided = zip(*rows_of[pair])
            unit = "error direct − error low + up (percentage points)"
            draw_intervals(axis, rows, unit=unit, decided=decided)
            axis.set_title(f"{pair[0]} → {pair[1]} points: left of 0, direct is better (grey: no verdict)")


def _draw_spectra(config: ResolutionShiftConfig, case: Case, models: dict, train: int, test: int, path: Path) -> None:
    from sciops.spectral import power_spectrum
    from studies.resolution_shift.evaluation import load_trained, predict

    grid, truth = case.grid(test), case.test(test)[1]

    def spectrum(u: Any) -> tuple[np.ndarray, np.ndarray]:
        wavenumber, energy = power_spectrum(u, grid, taper="hann")
        return np.asarray(wavenumber), np.asarray(energy).reshape(-1, len(wavenumber)).mean(0)

    fields: dict[str, Any] = {"truth": spectrum(truth)}
    errors: dict[str, Any] = {"truth": fields["truth"]}
    styles: dict[str, dict] = {"truth": {"color": "black", "linestyle": "-", "linewidth": 2.0}}
    for (name, job), style in zip(models.items(), series()):
        model, _ = load_trained(config, job)
        direct = predict(model, case, test)
        low = case.upsample(predict(model, case, train), train, test, "sine")
        fields[f"{name}, direct"] = spectrum(direct)
        errors[f"{name}, direct"], errors[f"{name}, low + sine"] = spectrum(direct - truth), spectrum(low - truth)
        styles[f"{name}, direct"] = {"color": style["color"], "linestyle": "-"}
        styles[f"{name}, low + sine"] = {"color": style["color"], "linestyle": ":"}
    with figure(path, 1, 2, width=4.0, height=3.4, sharey=True) as (fig, axes):
        draw_spectra(axes[0][0], fields, styles=styles)
        axes[0][0].set_title(f"solutions on {test} points (Hann taper)")
        draw_spectra(axes[0][1], errors, styles=styles)
        axes[0][1].set_title("errors")
        for axis in axes[0]:
            axis.axvline(train / 2, color="0.5", linewidth=0.8, linestyle=":")
            axis.text(
                train / 2, 0.02, f" half of {train}", transform=axis.get_xaxis_transform(), fontsize=7, color="0.4"
            )
        fig.legend(*axes[0][1].get_legend_handles_labels(), loc="outside right center")


def _draw_layers(config: ResolutionShiftConfig, case: Case, models: dict, train: int, test: int, path: Path) -> None:
    """Spectra after every stage of the spine, and the share of energy above what the training grid resolves."""
    from sciops.spectral import layer_spectra
    from studies.resolution_shift.evaluation import load_trained

    names = [name for name in models if not name.startswith("neuralop")][:3]
    if not names:
        return
    with figure(path, len(names), 2, width=4.4, height=3.0, sharex=True, sharey=True) as (fig, axes):
        for row, name in zip(axes, names):
            model, _ = load_trained(config, models[name])
            for axis, points in zip(row, (train, test)):
                a = case.test(points)[0][:16]
                spectra = layer_spectra(model, a, case.grid(points))
                stages = _stages([str(v) for v in spectra["layer"].values])
                k, energy = np.asarray(spectra["wavenumber"]), np.asarray(spectra)
                shares = {}
                for label, index in stages.items():
                    total = energy[index][k > 0].sum()
                    shares[label] = (k, energy[index] / max(total, 1e-300))
                depths = list(dict.fromkeys(label.removesuffix(" mixer") for label in stages))
                color_of = dict(zip(depths, _depth_colors(len(depths))))
                styles = {
                    label: {
                        "color": color_of[label.removesuffix(" mixer")],
                        "linestyle": "--" if label.endswith(" mixer") else "-",
                    }
                    for label in stages
                }
                draw_spectra(axis, shares, styles=styles, floor=1e-6)
                axis.axvline(train / 2, color="0.5", linewidth=0.8, linestyle=":")
                axis.set_title(f"{name} on {points} points")
                axis.set_ylabel("share of energy about the mean" if axis is row[0] else "")
        fig.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right center")


def _stages(layers: list[str]) -> dict[str, int]:
    """Index of the stages of the spine among recorded layers: lift, each block's mixer and end, head, output."""
    wanted = {}
    for i, layer in enumerate(layers):
        name = layer.removeprefix("model.").removeprefix("model.")
        parts = name.split(".")
        if name in ("lift", "output"):
            wanted[name] = i
        elif parts[0] == "blocks" and (len(parts) == 2 or parts[2:] == ["mixer"]):
            wanted[f"block {parts[1]}" + (" mixer" if len(parts) == 3 else "")] = i
    return wanted


def _depth_colors(count: int) -> list[Any]:
    """`count` colours in order of depth, from a map that reads in grey and with colour deficiencies."""
    from matplotlib import colormaps

    return [colormaps["cividis"](v) for v in np.linspace(0.0, 0.92, max(count, 1))]


def _draw_fields(config: ResolutionShiftConfig, case: Case, models: dict, train: int, test: int, path: Path) -> None:
    from studies.resolution_shift.evaluation import load_trained, predict

    a, truth = (t[0, 0].numpy() for t in case.test(test))
    grid = case.grid(test)
    shown = list(models)[:3]
    with figure(path, 2, 1 + len(shown), width=2.9, height=2.6) as (fig, axes):
        draw_field(fig, axes[0][0], a, grid, title="coefficient a")
        draw_field(fig, axes[1][0], truth, grid, title="solution u")
        for column, name in enumerate(shown, start=1):
            model, _ = load_trained(config, models[name])
            direct = predict(model, case, test)
            low = case.upsample(predict(model, case, train), train, test, "sine")
            errors = {"direct": direct[0, 0].numpy() - truth, f"{train} + sine": low[0, 0].numpy() - truth}
            # one range for the two ways of a model, so that they compare; models differ too much for one range
            largest = max(float(np.abs(e).max()) for e in errors.values())
            for axis, (way, error) in zip(axes[:, column], errors.items()):
                title = f"{name}: error, {way}"
                draw_field(fig, axis, error, grid, title=title, signed=True, vmin=-largest, vmax=largest)


def _selection(results: dict) -> str:
    if any(r.get("validation") is not None for r in results["training"]):
        return "Models: the epoch with the least validation error; test fields choose nothing."
    return "Models: trained on all training fields, last epoch; nothing is chosen in this run (see `--hold-out`)."


def _budget(config: ResolutionShiftConfig) -> str:
    if config.seconds is None:
        return f"{config.epochs} epochs"
    return f"{config.seconds:g} s on {config.train_grids[0]} points (in proportion to the number of points on others)"


def _plain_arms(results: dict, train: int) -> list[str]:
    return [arm for arm in _arms(results, train) if not arm.endswith(" (sym)")]


def _arms(results: dict, train: int) -> list[str]:
    seen = [r["arm"] for r in results["errors"] if r["train"] == train and r["arm"] != "reference"]
    return list(dict.fromkeys(seen))


def _percent(row: dict | None) -> str:
    if row is None:
        return ""
    return _printed(row, Spread.read(row["relative_l2"]).times(100), ".2f")


def _squared(row: dict) -> str:
    return _printed(row, Spread.read(row["relative_mse"]), ".5f")


def _printed(row: dict, found: Spread, digits: str) -> str:
    """The references are solved, not trained: they have no seeds."""
    return format(found.mean if row["arm"] == "reference" else found, digits)


def _table(rows: list[list[Any]]) -> list[str]:
    """Markdown table with columns padded, so that it also reads well on a terminal."""
    cells = [[str(c) for c in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |" for row in cells]
    return [lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]]
