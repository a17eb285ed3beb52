"""What the cells say: leakage by access, bounds on ε, utility, and the gap between families."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation.privacy import (
    bootstrap_area,
    epsilon_lower_bound,
    gaussian_epsilon,
    membership_scores,
    one_training_epsilon,
    roc,
    shadow_masks,
    target_areas,
)
from sciops.training.private import spent_epsilon
from studies.kit.answers import listed, sentence
from studies.kit.verdicts import seed_verdict
from studies.private_generators.records import DATA, SECOND, drawn_labels, white_noise
from studies.private_generators.runs import ATTACKS, FAMILIES, Spec

if TYPE_CHECKING:
    from studies.private_generators import Config

Cells = Sequence[tuple[Spec, Mapping[str, np.ndarray]]]
ACCESS = ("samples", "network", "all")
CALIBRATION = "relative_online"
"""Of the tables: a score less the mean of (μ_in + μ_out)/2, whose ranks need few shadow models."""
CALIBRATIONS = ("online", "offline", "relative_online", "global")
RATES = np.geomspace(1e-3, 1, 61)
"""False positive rates of the curves."""
WORDS = {"first": "GAN leaks less", "second": "diffusion leaks less", "equivalent": "alike"}
_DRAWS = 60  # of the bootstrap


@dataclass(frozen=True)
class Group:
    """One family in one setting, over pools.

    scores : attack → (pools, C, models, records), as they come from the attack
    member : (pools, models, records)
    areas : attack → (pools, C) mean AUC over target models, calibrated
    moments : (pools, C) error of the two-point function, mean over models; second : (pools,)
    """

    spec: Spec
    scores: dict[str, np.ndarray]
    member: np.ndarray
    areas: dict[str, np.ndarray]
    moments: np.ndarray
    second: np.ndarray
    deviation: float
    kept: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)

    def calibrated(self, attack: str, calibration: str = CALIBRATION, *, at: int = -1) -> np.ndarray:
        """(pools, models, records)."""
        if at != -1:
            return self._calibrated(attack, calibration, at)
        if (attack, calibration) not in self.kept:
            self.kept[attack, calibration] = self._calibrated(attack, calibration, at)
        return self.kept[attack, calibration]

    def _calibrated(self, attack: str, calibration: str, at: int) -> np.ndarray:
        raw = self.scores[attack][:, at].astype(np.float64)
        return np.stack([membership_scores(s, m, attack=calibration) for s, m in zip(raw, self.member)])  # type: ignore[arg-type]

    def attacks(self, access: str) -> list[str]:
        """Attacks that this access allows."""
        own = ATTACKS[self.spec.family]
        return [name for a in ACCESS[: ACCESS.index(access) + 1] for name in own[a]]

    def chosen(self, access: str, pool: int, at: int = -1) -> str:
        """The strongest attack of an access, by the AUC in the other pools."""
        others = np.arange(len(self.member)) != pool
        return max(self.attacks(access), key=lambda name: self.areas[name][others, at].mean())

    def leakage(self, access: str) -> np.ndarray:
        """(pools, C) AUC of the strongest attack, chosen on the other pools."""
        pools, count = self.moments.shape
        return np.array([[self.areas[self.chosen(access, p, c)][p, c] for c in range(count)] for p in range(pools)])


def analysed(cells: Cells, config: Config) -> dict[str, Any]:
    """Everything that is printed and drawn."""
    groups = groups_of(cells)
    settings = [_setting(group.spec, config.delta) for group in groups if group.spec.family == FAMILIES[0]]
    results: dict[str, Any] = {"settings": [one for one in settings if one["setting"] in ("sweep", "many records")]}
    results["references"] = {data: _reference(data, config) for data in config.data}
    results["rows"] = [row for group in groups if _of_sweep(group) for row in _attack_rows(group, config)]
    results["utility"] = [_utility(group) for group in groups if _of_sweep(group)]
    pairs: dict[tuple, list[Group]] = {}
    for group in filter(_of_sweep, groups):
        pairs.setdefault(tuple(_named(group.spec).values()), []).append(group)
    results["gaps"] = [
        gap(pair, access, config, results["references"][pair[0].spec.data]["white"])
        for pair in pairs.values()
        for access in ACCESS
    ]
    results["curves"] = [_curves(group, config) for group in groups if _of_sweep(group)]
    results["calibrations"] = [row for group in groups if _of_sweep(group) for row in _calibrations(group, config)]
    results["null"] = [row for group in groups if group.spec.setting == "sweep" for row in _null(group, config)]
    results["ablation"] = [_ablated(group) for group in groups if not _of_sweep(group)]
    return results


def groups_of(cells: Cells) -> list[Group]:
    """Cells of all pools together, in their order."""
    by_spec: dict[Spec, list[Mapping[str, np.ndarray]]] = {}
    for spec, arrays in cells:
        by_spec.setdefault(replace(spec, pool=0, place=0), []).append(arrays)
    return [_group(spec, own) for spec, own in by_spec.items()]


def _group(spec: Spec, own: Sequence[Mapping[str, np.ndarray]]) -> Group:
    names = [name for access in ATTACKS[spec.family].values() for name in access]
    group = Group(
        spec,
        scores={name: np.stack([arrays[f"score {name}"] for arrays in own]) for name in names},
        member=np.stack([arrays["member"] for arrays in own]),
        areas={},
        moments=np.stack([arrays["moments error"].mean(1) for arrays in own]),
        second=np.array([float(arrays["second"][-1]) for arrays in own]),
        deviation=float(np.mean([arrays["deviation"][-1] for arrays in own])),
    )
    for name in names:
        at = [
            target_areas(group.calibrated(name, at=c), group.member).mean(1) for c in range(-group.moments.shape[1], 0)
        ]
        group.areas[name] = np.stack(at, 1)
    return group


def spent(spec: Spec, delta: float) -> float:
    """ε of a training, by the distribution of its privacy loss; infinite without noise."""
    return spent_epsilon(noise=spec.noise, rate=spec.rate, steps=spec.steps, delta=delta, accountant="pld")


def gaussian_mu(epsilon: float, delta: float) -> float:
    """μ of the Gaussian mechanism that spends this ε at δ."""
    from scipy.optimize import brentq

    return float(brentq(lambda mu: gaussian_epsilon(delta, mu) - epsilon, 1e-3, 2 * math.sqrt(2 * epsilon) + 10))


def _of_sweep(group: Group) -> bool:
    return group.spec.setting in ("sweep", "many records")


def _named(spec: Spec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in ("setting", "data", "noise", "records")}


def _setting(spec: Spec, delta: float) -> dict[str, Any]:
    return {**_named(spec), "rate": spec.rate, "steps": spec.steps, "epsilon": spent(spec, delta)}


def _attack_rows(group: Group, config: Config) -> list[dict[str, Any]]:
    """One row an attack, at the end of training; "above" counts bounds of one training above what was spent."""
    rows, epsilon = [], spent(group.spec, config.delta)
    for access, names in ATTACKS[group.spec.family].items():
        for name in names:
            scores = group.calibrated(name)
            low, high = bootstrap_area(scores, group.member, draws=_DRAWS)
            one = [
                one_training_epsilon(s, m, delta=config.delta)
                for of_pool, coins in zip(scores, group.member)
                for s, m in zip(of_pool, coins)
            ]
            rows.append(
                {
                    **_named(group.spec),
                    "family": group.spec.family,
                    "access": access,
                    "attack": name,
                    "areas": group.areas[name][:, -1].tolist(),
                    "area": float(group.areas[name][:, -1].mean()),
                    "low": low,
                    "high": high,
                    "rate": float(np.mean([roc(s, m).true_positive_at(0.01) for s, m in zip(scores, group.member)])),
                    "pooled epsilon": epsilon_lower_bound(scores, group.member, delta=config.delta),
                    "one training": {"median": float(np.median(one)), "largest": max(one)},
                    "above": int(np.sum(np.array(one) > epsilon)),
                    "trainings": len(one),
                }
            )
    return rows


def _utility(group: Group) -> dict[str, Any]:
    return {
        **_named(group.spec),
        "family": group.spec.family,
        "moments": group.moments[:, -1].tolist(),
        "second": group.second.tolist(),
        "deviation": group.deviation,
        "path": {"moments": group.moments.tolist(), **{a: group.leakage(a).tolist() for a in ACCESS}},
    }


def gap(pair: Sequence[Group], access: str, config: Config, white: float) -> dict[str, Any]:
    """The GAN's AUC less that of the diffusion model, by each one's strongest attack, over pools.

    white : error of the two-point function of white noise: above it nothing is compared at equal utility
    """
    of = {group.spec.family: group for group in pair}
    diffusion, gan = of["diffusion"], of["GAN"]
    options = {"smallest": config.smallest, "level": config.level}
    leaks = [group.leakage(access) for group in (gan, diffusion)]
    found: dict[str, Any] = {**_named(gan.spec), "access": access}
    found["attacks"] = {
        family: sorted({group.chosen(access, p) for p in range(len(group.member))}) for family, group in of.items()
    }
    found["end"] = _verdict(leaks[0][:, -1], leaks[1][:, -1], options)
    matched = [
        equal_utility(gan.moments[p], leaks[0][p], diffusion.moments[p], leaks[1][p]) for p in range(len(leaks[0]))
    ]
    error, first, second = np.array(matched).T
    found["utility"] = error.tolist()
    found["matched"] = _verdict(first, second, options) if error.max() < white else None
    return found


def equal_utility(
    first_error: np.ndarray, first_leak: np.ndarray, second_error: np.ndarray, second_leak: np.ndarray
) -> tuple[float, float, float]:
    """The error that the worse of two trainings reaches, and the leakage of each where its path first has it.

    Paths are errors and leakages by checkpoint; between two of them both are interpolated, before the first one the
    leakage is that of the first.
    """
    wanted = max(float(np.min(first_error)), float(np.min(second_error)))
    return wanted, _first_at(wanted, first_error, first_leak), _first_at(wanted, second_error, second_leak)


def _first_at(wanted: float, error: np.ndarray, leak: np.ndarray) -> float:
    k = int(np.flatnonzero(error <= wanted)[0])
    if not k:
        return float(leak[0])
    share = (error[k - 1] - wanted) / (error[k - 1] - error[k])
    return float(leak[k - 1] + share * (leak[k] - leak[k - 1]))


def _verdict(gan: np.ndarray, diffusion: np.ndarray, options: Mapping[str, float]) -> dict[str, Any]:
    verdict = seed_verdict(gan.tolist(), diffusion.tolist(), **options)
    assert verdict is not None  # AUCs are finite
    kept = {name: getattr(verdict, name) for name in ("difference", "low", "high")}
    says = WORDS.get(verdict.winner, verdict.winner)
    return {"GAN": float(gan.mean()), "diffusion": float(diffusion.mean()), **kept, "says": says}


def _curves(group: Group, config: Config) -> dict[str, Any]:
    """ROC of the strongest attack with samples alone and with all that was trained: mean over pools at `RATES`."""
    found = {}
    for access in ("samples", "all"):
        at = []
        for p in range(len(group.member)):
            curve = roc(group.calibrated(group.chosen(access, p))[p], group.member[p])
            at.append(np.interp(RATES, curve.false_positive, curve.true_positive))
        found[access] = np.mean(at, axis=0).tolist()
    return {**_named(group.spec), "family": group.spec.family, "curves": found}


def _calibrations(group: Group, config: Config) -> list[dict[str, Any]]:
    rows = []
    for name in group.scores:
        found = {c: group.calibrated(name, c) for c in CALIBRATIONS}
        row = {**_named(group.spec), "family": group.spec.family, "attack": name}
        row["area"] = {c: float(target_areas(s, group.member).mean()) for c, s in found.items()}
        row["rate"] = {
            c: float(np.mean([roc(a, m).true_positive_at(0.01) for a, m in zip(s, group.member)]))
            for c, s in found.items()
        }
        rows.append(row)
    return rows


def _null(group: Group, config: Config) -> list[dict[str, Any]]:
    """The same scores with halves that no model was trained on: AUC ½ but for chance."""
    if group.spec.noise:
        return []
    models, records = group.member.shape[1:]
    wrong = np.stack([shadow_masks(models, records, coins=True, seed=10**6 + p) for p in config.pools])
    rows = []
    for name, scores in group.scores.items():
        found = np.stack([membership_scores(s, m, attack=CALIBRATION) for s, m in zip(scores[:, -1], wrong)])  # type: ignore[arg-type]
        low, high = bootstrap_area(found, wrong, draws=_DRAWS)
        bound = epsilon_lower_bound(found, wrong, delta=config.delta)
        row = {"data": group.spec.data, "family": group.spec.family, "attack": name}
        rows.append(
            row | {"area": float(target_areas(found, wrong).mean()), "low": low, "high": high, "epsilon": bound}
        )
    return rows


def _ablated(group: Group) -> dict[str, Any]:
    return {
        **_named(group.spec),
        "family": group.spec.family,
        "samples": float(group.leakage("samples")[:, -1].mean()),
        "network": float(group.leakage("network")[:, -1].mean()),
        "moments": float(group.moments[:, -1].mean()),
        "second": float(group.second.mean()),
    }


def _reference(data: str, config: Config) -> dict[str, Any]:
    """Errors of the records of a training themselves, and of white noise with the variances of the law."""
    found: dict[str, list[float]] = {"own": [], "own second": [], "white": [], "white second": []}
    for place, pool in enumerate(config.pools):
        made = DATA[data](pool, place, len(config.pools), records=config.records, points=config.points)
        half = made.pool[: config.records][None]
        labels = None if made.labels is None else made.labels[: config.records][None]
        found["own"].append(float(made.moments_error(half)[0]))
        found["own second"].append(made.second(half, labels))
        noise = white_noise(made, 1, config.samples, seed=pool)
        found["white"].append(float(made.moments_error(noise)[0]))
        found["white second"].append(made.second(noise[:, : config.samples], drawn_labels(data, 1, config.samples)))
    return {name: float(np.mean(values)) for name, values in found.items()} | {"measure": SECOND[data]}


def answer(results: Mapping[str, Any]) -> str:
    """The first sentence of the page of a run."""
    private = [one for one in results["gaps"] if one["noise"]]
    of = {access: [one for one in private if one["access"] == access] for access in ACCESS}
    matched = {access: [one for one in rows if one["matched"]] for access, rows in of.items()}
    less, more, equal = (
        [_count([one[key] for one in rows[access]], WORDS[winner]) for access in ("network", "all", "samples")]
        for key, rows, winner in (("end", of, "first"), ("end", of, "second"), ("matched", matched, "first"))
    )
    parts = [
        f"private GANs leak less than private diffusion models of the same ε in {less[0]} of {len(of['network'])} "
        f"settings by the released network, in {less[1]} by all networks and in {less[2]} by samples alone",
        f"more in {listed(map(str, more)) if any(more) else 'none'}",
        f"at equal utility, where there is one, less in {listed(map(str, equal))} of {len(matched['network'])}",
    ]
    tight = min(results["settings"], key=lambda one: (one["setting"] != "many records", float(one["epsilon"])))
    rows = [
        one
        for one in private
        if one["access"] == "network" and all(one[k] == tight[k] for k in ("setting", "data", "noise"))
    ]
    if rows:
        end = rows[0]["end"]
        parts.append(
            f"with {tight['records']} records and ε = {float(tight['epsilon']):.2g} the AUC of the network is "
            f"{end['GAN']:.3f} for the GAN and {end['diffusion']:.3f} for the diffusion model"
        )
    best = max((row for row in results["rows"] if row["noise"]), key=lambda row: row["pooled epsilon"], default=None)
    if best is not None:
        spent = next(
            one["epsilon"]
            for one in results["settings"]
            if all(one[k] == best[k] for k in ("setting", "data", "noise"))
        )
        parts.append(f"no attack proves more than ε ≥ {best['pooled epsilon']:.2g}, where {float(spent):.3g} was spent")
    return sentence(*parts)


def _count(rows: Sequence[Mapping[str, Any]], says: str) -> int:
    return sum(row["says"] == says for row in rows)
