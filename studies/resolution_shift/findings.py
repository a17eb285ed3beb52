"""Sections of the report beyond errors: chosen rates, causes of the loss, layers, bands and named predictions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.reports import Section, Table
from studies.resolution_shift.layers import STATEMENTS

if TYPE_CHECKING:
    from studies.resolution_shift import ResolutionShiftConfig

MODES_TEXT = "cosine modes with |k|∞ ≥ {band} waves per extent"


def found(config: ResolutionShiftConfig, results: dict[str, Any]) -> list[Section]:
    """The sections for what a run has measured, in the order of the page."""
    parts = [
        ("predictions", _predictions),
        ("causes", _causes),
        ("layers", _layers),
        ("layers", _bands),
        ("choices", _choices),
    ]
    return [make(config, results) for key, make in parts if results.get(key)]


def points(verdict: dict[str, Any]) -> str:
    """A difference of errors with its interval, in percentage points."""
    return "{:+.2f} [{:+.2f}, {:+.2f}]".format(*(100 * verdict[key] for key in ("difference", "low", "high")))


def ratio(verdict: dict[str, Any]) -> str:
    """The ratio behind a difference of logarithms, with its interval."""
    return "{:.3g} [{:.3g}, {:.3g}]".format(
        *(math.exp(min(verdict[key], 700)) for key in ("difference", "low", "high"))
    )


def _predictions(config: ResolutionShiftConfig, results: dict[str, Any]) -> Section:
    rows = results["predictions"]
    table = [
        (
            row["task"],
            row["arm"],
            row["expected"],
            *(f"{100 * row[key]['mean']:.2f}" for key in ("same_grid", "direct", "low", "floor")),
            points(row["verdict"]),
            {True: "held", False: "failed"}.get(row["held"], row["verdict"]["winner"]),
        )
        for row in rows
    ]
    header = ("task", "model", "expected", "on 22", "direct", "low + sine", "floor", "direct − low + sine [95 %]", "")
    why = {row["task"]: f"*{row['task']}*, expected {row['expected']}: {row['why']}." for row in rows}
    return Section(
        "Tasks whose outcome was named before running, 22 → 43 points",
        [*why.values(), Table(header, tuple(table), note="Relative L2 in percent.")],
    )


def _causes(config: ResolutionShiftConfig, results: dict[str, Any]) -> Section:
    rows = [
        (
            f"{row['train']} → {row['test']}",
            row["arm"],
            row["base"],
            f"{100 * row['loss']:+.2f}",
            f"{100 * row['base_loss']:+.2f}",
            points(row),
            {"first": f"{row['arm']} loses less", "second": f"{row['arm']} loses more"}.get(
                row["winner"], row["winner"]
            ),
        )
        for row in results["causes"]
    ]
    text = (
        "The loss is the error of direct inference less that of low + sine, in points. *+period*: the same weights, "
        "Fourier modes with the period of the training grid. *+dealiased*: the same weights, nonlinearities on twice "
        "the points. *+latent*: the same weights on the training grid."
    )
    header = ("points", "model", "beside", "its loss", "loss beside", "difference [95 %]", "verdict")
    return Section("What direct inference loses by", [text, Table(header, tuple(rows))])


def _layers(config: ResolutionShiftConfig, results: dict[str, Any]) -> Section:
    layers = results["layers"]
    train, test = layers["grids"]
    arms = list(dict.fromkeys(row["arm"] for row in layers["shares"]))
    stages = list(dict.fromkeys(row["stage"] for row in layers["shares"]))
    share = {(row["arm"], row["stage"], row["grid"]): row["mean"] for row in layers["shares"]}
    lost = {(row["arm"], row["stage"], row["grid"]): row["mean"] for row in layers["lost"]}
    table = [
        (
            arm,
            stage,
            *(_percent(share.get((arm, stage, n))) for n in (train, test)),
            *(_percent(lost.get((arm, stage, n))) for n in (train, test)),
        )
        for arm in arms
        for stage in stages
        if (arm, stage, train) in share
    ]
    header = ("model", "stage", f"share on {train}", f"on {test}", f"lost on {train}", f"on {test}")
    claims = [
        (
            row["arm"],
            row["statement"],
            ratio(row),
            {"first": "holds", "second": "does not hold"}.get(row["winner"], row["winner"]),
        )
        for row in layers["claims"]
    ]
    text = (
        f"Share: energy about the mean in {MODES_TEXT.format(band=layers['band'])}, of all channels after a stage; of "
        "the output in sines. Lost: the part of the output's energy in these modes that changes when the stage passes "
        "on the others alone. "
        f"Percent; geometric means over {layers['samples']} test fields and the seeds."
    )
    said = "Ratios below 1 speak for a statement. " + " ".join(
        f"*{name}*: {what}."
        for name, what in STATEMENTS.items()
        if any(r["statement"] == name for r in layers["claims"])
    )
    verdicts = Table(("model", "statement", "ratio [95 %]", "verdict"), tuple(claims), note=said)
    return Section("Where a network makes its high wavenumbers", [text, Table(header, tuple(table)), verdicts])


def _bands(config: ResolutionShiftConfig, results: dict[str, Any]) -> Section:
    layers = results["layers"]
    train, test = layers["grids"]
    rows = [
        (
            row["arm"],
            f"{row['lower']:g} to {row['upper']:g}" if row["upper"] < 1e9 else f"from {row['lower']:g}",
            *(f"{1e6 * row[key]:.3g}" for key in ("direct_error", "low_error")),
            "{:+.3g} [{:+.3g}, {:+.3g}]".format(*(1e6 * row[key] for key in ("difference", "low", "high"))),
            {"first": "direct", "second": "low + sine"}.get(row["winner"], row["winner"]),
        )
        for row in layers["bands"]
    ]
    text = (
        f"Squared error by band over ‖u‖², in millionths, on {test} points; sine modes, waves per extent. {train} "
        f"points hold {(train - 1) / 2:g}."
    )
    header = ("model", "band", "direct", "low + sine", "difference [95 %]", "smaller")
    return Section("Where direct inference gains and loses", [text, Table(header, tuple(rows))])


def _choices(config: ResolutionShiftConfig, results: dict[str, Any]) -> Section:
    rows = [
        (
            row["arm"],
            f"{row['learning_rate']:g}",
            f"{row['weight_decay']:g}",
            row["epochs"],
            f"{100 * row['validation']:.2f}" + " ←" * row["chosen"],
            f"{row['seconds']:.0f}",
        )
        for row in results["choices"]
    ]
    text = (
        f"The same candidates for every model, on {config.train_grids[0]} points, with one seed that is not judged: "
        "all rates and decays for the fewest epochs, then the best for more. Least validation error decides (←)."
    )
    header = ("model", "peak rate", "weight decay", "epochs", "validation (%)", "training s")
    return Section("Chosen rates", [text, Table(header, tuple(tuple(map(str, row)) for row in rows))])


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.3g}"


def answer_of(results: dict[str, Any]) -> str:
    """A sentence on the named predictions, where the run has them."""
    rows: Iterable[dict[str, Any]] = results.get("predictions") or ()
    held = [row["held"] for row in rows]
    if not held:
        return ""
    open_ = sum(one is None for one in held)
    return f" Of {len(held)} outcomes named before running {int(np.sum([bool(one) for one in held]))} held" + (
        f", {open_} without a verdict." if open_ else "."
    )
