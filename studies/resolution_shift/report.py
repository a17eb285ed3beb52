"""What the resolution-shift study says: its answer, its tables and the captions of its figures, from results alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import Spread
from sciops.reports import Figure, Section, Table
from studies.kit.answers import listed
from studies.resolution_shift.arms import ARMS, Arm, weights_of
from studies.resolution_shift.case import UPSAMPLINGS
from studies.resolution_shift.figures import AGAINST, plain_arms
from studies.resolution_shift.findings import answer_of, found

if TYPE_CHECKING:
    from studies.resolution_shift import ResolutionShiftConfig

_BASELINES = ("low + sine", "low + cubic")  # what the answer compares with: the first that there is


def contents(config: ResolutionShiftConfig, results: dict[str, Any], figures: Path) -> tuple[str, str, list[Section]]:
    """(title, answer, sections) of the report; of the figures those that are in the folder `figures`."""
    lookup = {(r["arm"], r["train"], r["test"], r["way"]): r for r in results["errors"]}
    title, answer = _answer(config, results, lookup)
    answer += answer_of(results)
    sections = [Section("How it was measured", _method(config, results))]
    for train in config.train_grids:
        sections.append(_same_grid(results, lookup, train))
        for test in config.test_grids:
            if test > train:
                sections.append(_shift(results, lookup, train, test))
    sections += found(config, results)
    sections.append(Section("Training", [_training_table(config, results)]))
    shown = {name: Figure(figures / name, caption) for name, caption in _captions(config).items()}
    shown = {name: figure for name, figure in shown.items() if figure.source.exists()}
    leading = ("errors.png", "verdicts.png", "predictions.png", "layers.png")
    first = [figure for name, figure in shown.items() if name in leading]
    last = [figure for figure in shown.values() if figure not in first]
    around = [Section("Errors and verdicts", first), *sections, Section("Where the errors are", last)]
    return title, answer, [section for section in around if section.parts]


def _answer(config: ResolutionShiftConfig, results: dict, lookup: dict) -> tuple[str, str]:
    """The answer on the first training grid and the finest test grid: a short title, and a sentence with numbers."""
    train, test = config.train_grids[0], max(config.test_grids)
    there = [v for v in results["verdicts"] if (v["train"], v["test"]) == (train, test)]
    against = next((way for way in _BASELINES if any(v["against"] == way for v in there)), None)
    if against is None:
        rows = {arm: lookup.get((arm, train, train, "direct")) for arm in plain_arms(results, train)}
        errors = {arm: row["relative_l2"]["mean"] for arm, row in rows.items() if row}
        best = min(errors, key=lambda arm: errors[arm])
        answer = f"{best} has the least error on its own {train} points per axis, {100 * errors[best]:.2f} %."
        return f"Trained and tested on {train} points per axis", f"{answer} No finer grid was tested."
    arms = ARMS[config.recipe]
    named: dict[str, list[str]] = {"second": [], "first": [], "": []}  # by the winner, "" for none
    said: dict[str, list[str]] = {"second": [], "first": [], "": []}
    judged = [v for v in there if v["against"] == against and not v["arm"].endswith(" (sym)")]
    # a latent arm runs on the training grid in both ways
    for v in [v for v in judged if not arms[v["arm"]].latent] or judged:
        direct, low = (lookup[v["arm"], train, test, way]["relative_l2"]["mean"] for way in ("direct", against))
        winner = v["winner"] if v["winner"] in said else ""
        why = "" if winner else f", {v['winner']}"
        named[winner].append(v["arm"])
        said[winner].append(f"{v['arm']} ({100 * direct:.1f} % direct, {100 * low:.1f} % upsampled{why})")
    short = {
        "second": f"evaluate {listed(named['second'])} on {train} and upsample",
        "first": f"evaluate {listed(named['first'])} on {test} directly",
        "": f"no verdict for {listed(named[''])}",
    }
    whole = {
        "second": f"Evaluate on {train} points and upsample: {listed(said['second'])}.",
        "first": f"Evaluate on {test} points directly: {listed(said['first'])}.",
        "": f"No verdict: {listed(said[''])}.",
    }
    title = f"Trained on {train} points, wanted on {test}: {'; '.join(short[key] for key in short if said[key])}"
    answer = " ".join(whole[key] for key in whole if said[key])
    how = f"Relative L2 errors on {test} points; upsampled by {against.removeprefix('low + ')}."
    return title, f"{answer} {how}"


def _method(config: ResolutionShiftConfig, results: dict) -> list[str]:
    seeds = f"{config.seeds} seed{'s' * (config.seeds != 1)}"
    size = f"{results['test_samples']} test fields, {seeds}, {_budget(config)} of training a model"
    arms = ARMS[config.recipe]
    shared = {a: weights_of(config.recipe, a) for a in config.arms if weights_of(config.recipe, a) != a}
    two = [arm for arm in config.arms if ARMS[config.recipe][arm].second_grid]
    small = "The models are small and trained briefly: the errors are not what the methods can reach. "
    return [
        f"Data: `{config.data.name}`; coefficient: {results['coefficient']}; {size}. Relative L2 error against the "
        "solution stored on the test grid, mean over test fields, ± standard deviation over seeds, in percent. "
        + (small if config.recipe == "small" else "")
        + _selection(results),
        "*low + X*: run on the training grid, carried up by X. *low-passed input*: run on the test grid with the "
        "coarse coefficient, so that only the network's grid changes. *floor*: the true solution on the training grid, "
        "carried up. *native*: the equation solved on the coefficient of that grid, no network.",
        *(f"{arm} has the weights of {other}, {_how(arms[arm])}." for arm, other in shared.items()),
        *(f"{arm} also trains on a finer grid and takes twice as many steps as the others." for arm in two),
    ]


def _how(arm: Arm) -> str:
    """What is done with weights that another arm shares."""
    if arm.latent:
        return "applied on its training grid"
    if arm.dealiased > 1:
        return f"applied with nonlinearities on {arm.dealiased} times the points"
    return "applied with Fourier modes of the period of its training grid" if arm.same_period else "applied as they are"


def _captions(config: ResolutionShiftConfig) -> dict[str, str]:
    train, test = config.train_grids[0], max(config.test_grids)
    return {
        "errors.png": "Relative L2 error by test grid; bars are standard deviations over seeds. Solid: evaluated on "
        "the test grid. Dotted: evaluated on the training grid and upsampled by sines.",
        "verdicts.png": "Difference of the paired errors with its 95 % interval over seeds and test fields. Coloured: "
        "a verdict; grey: none. An arrow marks a row beyond the axis, with its mean.",
        "predictions.png": "Tasks whose outcome was named before running: error of direct inference less that of low + "
        "sine, with its 95 % interval over seeds and test fields. In brackets: what was expected.",
        "layers.png": f"Left: share of the energy in modes of at least {config.band} waves per extent after every "
        "stage, on the training grid (solid) and the next finer one (dotted). Right: the part of the output's energy "
        "in these modes that is lost when a stage passes on the lower modes alone; below the line, later stages make "
        "most of it. Geometric means over test fields; bands: least and largest seed.",
        "spectra.png": f"Mean spectra of solutions and of errors on {test} points. What lies right of the dotted line "
        f"the grid with {train} points cannot hold.",
        "layer_spectra.png": "Where the energy lies after every stage of a network, on its own grid and on the finer "
        "one. Light right of the dotted line: structure that the training grid cannot hold.",
        "fields.png": "The first test field and its errors, all on one scale; larger errors saturate.",
    }


def _same_grid(results: dict, lookup: dict, train: int) -> Section:
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
    return Section(f"Trained and tested on {train} points per axis", [_table(rows)])


def _shift(results: dict, lookup: dict, train: int, test: int) -> Section:
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
    parts: list[Any] = [_table(rows)]
    verdicts = [v for v in results["verdicts"] if (v["train"], v["test"]) == (train, test)]
    reference = "sine" if any(v["against"] == "low + sine" for v in verdicts) else ways[0]
    rows = [["model", "direct against", "difference (points) [95 %]", "direct better in", "verdict", "mismatch (%)"]]
    for v in verdicts:
        if v["against"] not in (f"low + {reference}", *AGAINST[1:], "direct, undilated"):
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
        note = (
            "Paired over test fields and seeds; negative: direct is better. Mismatch: "
            "‖R F(a_S) − F(a_s)‖/‖F(a_s)‖ with the fine / the low-passed coefficient."
        )
        parts.append(_table(rows, note=note))
    return Section(f"Trained on {train}, wanted on {test}", parts)


def _training_table(config: ResolutionShiftConfig, results: dict) -> Table:
    rows = [["model", "trained on", "seed", "best epoch", "validation (%)", "training s"]]
    for r in results["training"]:
        if weights_of(config.recipe, r["arm"]) != r["arm"] and weights_of(config.recipe, r["arm"]) in config.arms:
            continue
        validation = "" if r.get("validation") is None else f"{100 * r['validation']:.2f}"
        rows.append([r["arm"], r["train"], r["seed"], r["best_epoch"], validation, f"{r['seconds']:.0f}"])
    return _table(rows)


def _selection(results: dict) -> str:
    if any(r.get("validation") is not None for r in results["training"]):
        return "Models: the epoch with the least validation error; test fields choose nothing."
    return "Models: trained on all training fields, last epoch; nothing is chosen in this run (see `--hold-out`)."


def _budget(config: ResolutionShiftConfig) -> str:
    if config.rates or config.choices is not None:
        return "the chosen number of epochs"
    if config.seconds is None:
        return f"{config.epochs} epochs"
    return f"{config.seconds:g} s on {config.train_grids[0]} points (in proportion to the number of points on others)"


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


def _table(rows: list[list[Any]], note: str = "") -> Table:
    first, *rest = (tuple(str(cell) for cell in row) for row in rows)
    return Table(first, tuple(rest), note=note)
