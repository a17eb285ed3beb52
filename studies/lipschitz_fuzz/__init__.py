"""Does a Lipschitz bound ever lie below the truth? Random compositions against Jacobians and difference quotients.

    python -m studies.lipschitz_fuzz
    python -m studies.lipschitz_fuzz --preset full --output runs/lipschitz_fuzz

Compositions of every kind are drawn: torch's layers with all their options, shared, nested, hooked, reweighted, patched
and in training; a user's own classes without a rule and with one; the mixers, the spine, wrappers, classifiers and
neuraloperator's models. Each is asked for `sciops.lipschitz.lipschitz_bound`, which gives a number or says why there is
none. A number is held against the largest singular value of the dense Jacobian at random points, and against
‖f(x) − f(y)‖/‖x − y‖ of pairs, in float64 and in the norms of the bound; both lie below the truth. A bound below them
is a finding, as is a call that raises: the study then ends with an error, after the results are written.

The search itself is tested with layers whose declared rule is too small by a known factor, which it has to find.
"""

from __future__ import annotations

import random
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from sciops.lipschitz import Bound, lipschitz_bound
from sciops.plotting import PALETTE, figure
from studies.kit.answers import sentence
from studies.kit.cells import kept
from studies.kit.study import finished, opened
from studies.kit.tables import print_table
from studies.kit.timing import threads
from studies.lipschitz_fuzz import changes, models, own
from studies.lipschitz_fuzz.truth import Case, inputs, largest_token, stretches

KINDS: dict[str, changes.Build] = {
    "linear maps": changes.plain("linear", "linear", "activation"),
    "convolutions": changes.plain("convolution", "convolution", "convolution", "activation", "padding"),
    "pooling, padding, shapes": changes.plain(
        "convolution", "pooling", "pooling", "padding", "rearrangement", "activation"
    ),
    "norms": changes.plain("convolution", "norm", "norm", "convolution", "activation"),
    "repeated and shared": changes.repeated,
    "containers": changes.contained,
    "weights made or changed": changes.reweighted,
    "hooks": changes.hooked,
    "replaced methods": changes.patched,
    "training mode": changes.training,
    "classes of a user": own.own_code,
    "classes with a rule": own.registered,
    "mixers": models.mixer,
    "the spine": models.spine,
    "the spine in a ball": models.in_a_ball,
    "wrappers": models.wrapped,
    "classifiers": models.classifier,
    "neuraloperator": models.neuralop,
}
"""How a composition is drawn, by its kind."""

CAUSES = {
    "hook": "hooks",
    "replaced": "replaced methods",
    "_compiled_call_impl": "replaced methods",
    "its own code": "code of its own",
    " of type ": "tensors of another class",
    "changes from call to call": "weights that change",
    "in training": "training mode",
    "in place": "writes to an input in use",
    "jump": "activations that jump",
    "a product of": "products of inputs",
    "slope grows": "slopes without limit",
    "by a softmax": "softmax weights",
    "no useful bound": "norms",
    "statistics of the training": "norms",
    "no finite bound": "norms",
    "does not run": "layers that do not run",
    "when it was built": "options changed in part",
    "only a mean over everything": "layers without a rule",
    "no rule": "layers without a rule",
}
"""What a refusal is counted as, by words of its reason; the first that is found."""


@dataclass(frozen=True)
class Config:
    models: int = 2000  # compositions, spread evenly over the kinds
    kinds: tuple[str, ...] = ()  # of `KINDS`; default all
    points: int = 3  # random inputs of each, of several sizes
    planted: tuple[float, ...] = (1.1, 2.0, 10.0)  # factors by which planted rules are too small
    plants: int = 100  # compositions of each factor
    seed: int = 0  # composition i of a kind is drawn from (seed, kind, i)
    output: Path = Path("runs/lipschitz_fuzz")
    """folder for results.json, the figure, and the cells from which a stopped run resumes"""


PRESETS = {"quick": Config(), "full": Config(models=20_000, plants=1000)}

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}
"""By how much rounding may lift a measured stretch above a bound."""

FOUND = 0.5
"""Least share of the planted rules of the largest factor that has to be found."""

_CELL = 25
_WIDEST = 1e6  # of the ratios in the figure


def run(config: Config) -> dict[str, Any]:
    """Draws, bounds, measures; writes results.json and figures/lipschitz_fuzz.png, prints, returns the results.

    Raises RuntimeError, after writing, for a bound below the truth, a call that raised, or planted rules not found;
    ValueError for an option that does not serve.
    """
    unknown = [kind for kind in config.kinds if kind not in KINDS]
    if unknown or config.models < 1 or config.points < 1 or config.plants < 1 or min(config.planted, default=2) <= 1:
        raise ValueError(
            f"--kinds {' '.join(config.kinds)} --models {config.models} --points {config.points} --plants "
            f"{config.plants} --planted {config.planted}: expected some of {', '.join(KINDS)}, at least 1 of each, and "
            "factors above 1"
        )
    folder = opened(config, seeds=[config.seed])
    kinds = config.kinds or tuple(KINDS)
    each = -(-config.models // len(kinds))
    wanted = [(kind, KINDS[kind], each) for kind in kinds]
    wanted += [(_planted(factor), own.planted(factor), config.plants) for factor in config.planted]
    cases: dict[str, list[dict[str, Any]]] = {}
    with threads(1), tqdm(total=sum(n for *_, n in wanted), unit="model", disable=None) as bar:
        for kind, build, count in wanted:
            cases[kind] = []
            for first in range(0, count, _CELL):
                numbers = range(first, min(first + _CELL, count))
                made_by = {"kind": kind, "numbers": [numbers.start, numbers.stop], "seed": config.seed}
                made_by |= {"points": config.points, "torch": torch.__version__}
                cell = kept(
                    folder.path / "cells",
                    f"{kind} {first}",
                    made_by,
                    lambda: {"cases": [attempt(kind, build, i, config) for i in numbers]},  # noqa: B023
                )
                cases[kind] += cell["cases"]
                bar.update(len(numbers))
    planted = []
    for factor in config.planted:
        outcomes = Counter(one["outcome"] for one in cases[_planted(factor)])
        count = {"compositions": sum(outcomes.values()), "refused": outcomes["refused"], "found": outcomes["below"]}
        planted.append({"factor": factor, **count})
    results = {
        "models": sum(len(cases[kind]) for kind in kinds),
        "kinds": [{"kind": kind, **summary(cases[kind])} for kind in kinds],
        "planted": planted,
        "findings": [
            {"kind": kind, "number": i, **one}
            for kind in kinds
            for i, one in enumerate(cases[kind])
            if one["outcome"] in ("below", "raised")
        ],
    }
    measured = {kind: ratios(cases[kind]) for kind in kinds}
    draw = lambda results, path: _draw(results, measured, path)  # noqa: E731
    return finished(folder, results, draw, _print, answer=answer, picture="lipschitz_fuzz.png", wrong=_wrong(results))


def answer(results: dict[str, Any]) -> str:
    """How many models got a bound, how many bounds lie below the truth, and how many wrong rules were found."""
    count = {name: sum(row[name] for row in results["kinds"]) for name in ("bounded", "refused", "below")}
    said = [f"of {results['models']} drawn models {count['bounded']} got a bound and {count['refused']} were refused"]
    said.append(
        f"{count['below'] or 'none'} of the bounds {'lie' if count['below'] > 1 else 'lies'} below a stretch found"
    )
    for row in results["planted"]:
        asked = row["compositions"] - row["refused"]
        said.append(f"{row['found']} of {asked} rules planted {row['factor']:g} times too small were found")
    return sentence(*said)


def drawn(kind: str, build: changes.Build, i: int, seed: int) -> Case:
    """Composition i of a kind; always the same for the same numbers."""
    number = zlib.crc32(f"{seed} {kind} {i}".encode())
    torch.manual_seed(number)
    return build(random.Random(number))


def attempt(kind: str, build: changes.Build, i: int, config: Config) -> dict[str, Any]:
    """What came of composition i: bounded, refused, below, or raised, with the numbers and the reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, on kernels and pruning; of ours, on grids that do not line up
        case = drawn(kind, build, i, config.seed)
        generator = torch.Generator().manual_seed(i)
        points = inputs(case, config.points, generator)
        try:
            with case.inside():
                said, measured = _bound_and_stretches(case, points, generator)
        except Exception as error:
            return {"outcome": "raised", "reason": f"{type(error).__name__}: {error}", "model": _written(case)}
    if said.value is None:
        reason = next(block.reason for block in said.blocks if block.value is None)
        return {"outcome": "refused", "reason": reason}
    numbers = {"bound": said.value, "jacobian": measured[0], "quotient": measured[1]}
    if max(measured) > said.value * (1 + TOLERANCE[case.dtype]):
        return {"outcome": "below", **numbers, "reason": str(said), "model": _written(case)}
    return {"outcome": "bounded", **numbers}


def _bound_and_stretches(
    case: Case, points: Sequence[torch.Tensor], generator: torch.Generator
) -> tuple[Bound, tuple[float, float]]:
    """The bound comes first, before the model has run; of attention again, in the ball that the tokens lay in."""
    said = lipschitz_bound(case.model, case.grid, radius=1.0 if case.ball else None, vacuous=case.vacuous)
    if said.value is None:
        return said, (0.0, 0.0)
    with largest_token(case.model) if case.ball else nullcontext() as largest:
        measured = stretches(case, points, said.norm.startswith("quadrature"), generator)
    if case.ball:
        radius = largest[0] * (1 + 1e-9) or 1.0
        said = lipschitz_bound(case.model, case.grid, radius=radius, vacuous=case.vacuous)
    return said, measured


def summary(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Outcomes, reasons of refusals, and quantiles of bound / stretch, of the compositions of one kind."""
    outcomes = Counter(one["outcome"] for one in cases)
    causes = Counter(cause(one["reason"]) for one in cases if one["outcome"] == "refused")
    found = ratios(cases)
    quantiles = np.quantile(found, [0.0, 0.1, 0.5, 0.9]).tolist() if found else [float("nan")] * 4
    return {
        "compositions": len(cases),
        **{outcome: outcomes[outcome] for outcome in ("bounded", "refused", "below", "raised")},
        **dict(zip(("least", "low", "median", "high"), quantiles)),
        "causes": dict(causes.most_common()),
    }


def ratios(cases: Iterable[dict[str, Any]]) -> list[float]:
    """bound / largest measured stretch, of those that stretch at all."""
    both = [(one["bound"], max(float(one["jacobian"]), float(one["quotient"]))) for one in cases if "bound" in one]
    return [bound / stretch for bound, stretch in both if stretch > 0]


def cause(reason: str) -> str:
    """What a refusal is counted as."""
    return next((name for words, name in CAUSES.items() if words in reason), re.sub(r"[(=].*|:.*", "", reason))


def _planted(factor: float) -> str:
    return f"planted, {factor:g} times too small"


def _written(case: Case) -> str:
    return f"{case.model} on {case.grid}, inputs of shape {case.shape}"


def _wrong(results: dict[str, Any]) -> str:
    """Why the study fails, or nothing."""
    off = [f"{one['outcome']}: {one['kind']} {one['number']}" for one in results["findings"]]
    if off:
        more = f" and {len(off) - 5} more" if len(off) > 5 else ""
        return f"{'; '.join(off[:5])}{more}; results.json has the models"
    sharpest = max(results["planted"], key=lambda row: row["factor"], default=None)
    if sharpest and sharpest["found"] < FOUND * (sharpest["compositions"] - sharpest["refused"]):
        rules = f"{sharpest['compositions']} rules that are {sharpest['factor']:g} times too small"
        return f"of {rules} only {sharpest['found']} were found: the search is blind"
    return ""


def _print(results: dict[str, Any]) -> None:
    total = {name: sum(row[name] for row in results["kinds"]) for name in ("bounded", "refused", "below", "raised")}
    print_table(
        [*results["kinds"], {"kind": "all", "compositions": results["models"], "causes": {}, **total}],
        "=kind; drawn=compositions; bounded; refused; below; raised",
        "least:.3g; 10 %=low:.3g; median:.3g; 90 %=high:.3g",
        ("refused for", lambda row: ", ".join(f"{name} {n}" for name, n in list(row["causes"].items())[:2])),
        title="drawn models, and the bound over the largest stretch found",
    )
    for row in results["planted"]:
        asked = row["compositions"] - row["refused"]
        print(f"planted rules, {row['factor']:g} times too small: {row['found']} of {asked} found")
    for one in results["findings"][:10]:
        print(f"  {one['outcome']}: {one['kind']} {one['number']}: {one['reason']}\n{one['model']}")


def _draw(results: dict[str, Any], measured: dict[str, list[float]], path: Path) -> None:
    rows = results["kinds"]
    places = np.arange(len(rows))
    layout: dict[str, Any] = {"sharey": True, "gridspec_kw": {"width_ratios": [1, 1.5]}}
    caption = "What became of the drawn models by kind, and the bound over the largest stretch that was found."
    with figure(path, 1, 2, width=4.0, height=1.2 + 0.24 * len(rows), caption=caption, **layout) as (_, axes):
        shares, spread = axes[0]
        left = np.zeros(len(rows))
        colours = {"bounded": PALETTE[5], "refused": PALETTE[4], "below": PALETTE[6], "raised": PALETTE[3]}
        for outcome, colour in colours.items():
            share = np.array([100 * row[outcome] / row["compositions"] for row in rows])
            if outcome in ("bounded", "refused") or share.any():
                shares.barh(places, share, left=left, color=colour, label=outcome)
            left += share
        shares.set(xlabel="compositions (%)", xlim=(0, 100), ylim=(len(rows) - 0.4, -0.6))
        shares.set_yticks(places, [row["kind"] for row in rows])
        shares.grid(axis="y", visible=False)
        shares.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        for place, row in zip(places, rows):
            if found := measured[row["kind"]]:
                names = ("all", "10 to 90 %", "median") if place == 0 else (None,) * 3
                low, middle, high = np.quantile(found, [0.1, 0.5, 0.9])
                spread.plot([min(found), max(found)], [place] * 2, color="0.55", linewidth=1.0, label=names[0])
                thick = {"color": PALETTE[0], "linewidth": 4.0, "solid_capstyle": "butt", "label": names[1]}
                spread.plot([low, high], [place] * 2, **thick)
                spread.plot(min(middle, _WIDEST), place, "o", color="black", label=names[2])
        spread.axvline(1.0, color=PALETTE[1], linestyle="--", label="the stretch itself", zorder=0)
        spread.set(xscale="log", xlim=(0.5, _WIDEST), xlabel="bound / largest measured stretch (cut at 10⁶)")
        spread.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
