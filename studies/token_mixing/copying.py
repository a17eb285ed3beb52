"""Copying at several depths and lengths by all mixers: trainings side by side, how far the answer is, the order."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from sciops.datasets.text.sequence_tasks import NOT_ASKED, SequenceTask
from sciops.evaluation import half_widths, paired_verdict
from sciops.mixers import StructuredRecurrence
from sciops.mixers.recurrence.linked import gathered
from sciops.mixers.recurrence.links import Links
from studies.kit.cells import kept
from studies.kit.sequence_training import TokenModel
from studies.token_mixing.runs import MIXERS_OF, PAPER, maker, options_of

LEVEL = 0.99  # of the verdicts on the order: 36 pairs at 0.95 would name two winners without a difference
SMALLEST = 0.01  # smallest difference of the share of wrong answers that counts
FAR = 99  # links to an answer that no path reaches


class InputLinks(StructuredRecurrence):
    """The same links and parameters, but a token reads values there, not outputs: y_i = p_ii v_i + Σ_j p_ij v_j."""

    def _solved(
        self, q: Tensor, k: Tensor, v: Tensor, itself: Tensor, direction: int, row: int | None
    ) -> tuple[Tensor, Tensor]:
        n = q.shape[2]
        links = self.links.table(torch.arange(n, device=q.device), n - 1, row)
        p_self, p = self._weights(q, k, links, itself, direction, row)
        y = p_self.unsqueeze(-1) * v
        for column in range(links.shape[-1]):
            y = y + p[..., column, None] * gathered(v, links[:, column])
        return y, y


CONTROLS: dict[str, tuple[type | None, tuple[str, dict[str, Any]]]] = {
    "2^k, of inputs": (InputLinks, ("recurrence", dict(pattern="powers"))),
    "2·2^k": (None, ("recurrence", dict(pattern=tuple(2 * 2**k for k in range(12))))),
}
"""Name → (class that replaces the mixer, mixer): links without what outputs pass on, and links of even length alone,
which lead to no token at an odd distance and are as many as those of 2^k to one at an even distance."""


@dataclass(frozen=True)
class Side:
    """What decides the trainings side by side of one mixer and depth: one of each length, seed and rate."""

    arm: str
    depth: int
    lengths: tuple[int, ...]
    alphabet: int
    reach: int
    width: int
    heads: int
    steps: int
    batch: int
    samples: int
    seeds: tuple[int, ...]
    rates: tuple[float, ...]
    part: str  # "validation" or "test": which sequences are asked at the end


def network(side: Side, seed: int) -> TokenModel:
    """The model of an arm, its weights drawn from `seed`."""
    kind, (name, options) = CONTROLS.get(side.arm) or (None, options_of(side.arm, side.reach))
    options = {"heads": side.heads, **options}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = TokenModel(side.alphabet + 2, width=side.width, depth=side.depth, mixer=name, mixer_options=options)
    for block in net.stack.blocks if kind else ():
        mixer = kind(side.width, causal=True, **options)
        mixer.load_state_dict(block.mixer.state_dict())
        block.mixer = mixer
    return net


def train_side_by_side(side: Side, *, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    """Trains a network of every length, seed and rate at once, each as by itself; asks them `samples` sequences.

    AdamW, one cycle of the rate, gradients clipped at 1 network by network; fresh sequences at every step, which all
    arms and rates share. It ends early where every network has 99.9 % of the answers at two checks in a row, on
    validation sequences.

    returns : {"accuracy" [length][seed][rate] (share of right answers), "late" (likewise, what it rose by in the last
        quarter), "shifted" (likewise, with every link one token longer than trained; None for mixers without a fixed
        pattern), "steps" (taken)}

    Raises RuntimeError where a loss is not finite.
    """
    runs = list(product(side.lengths, side.seeds, side.rates))
    drawn = {seed: network(side, seed).to(dtype) for seed in side.seeds}
    net = drawn[side.seeds[0]]
    parts = [[drawn[seed] for _, seed, rate in runs if rate == peak] for peak in side.rates]
    # one leaf a parameter and rate, (networks, …): AdamW works entry by entry, networks do not meet in it
    leaves = [
        {name: torch.stack([one.get_parameter(name).detach() for one in part]).requires_grad_() for name in names(net)}
        for part in parts
    ]
    groups = [{"params": list(part.values()), "lr": peak} for part, peak in zip(leaves, side.rates)]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.01)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, list(side.rates), side.steps, cycle_momentum=False)
    runs = [(length, seed) for _ in side.rates for length, seed in product(side.lengths, side.seeds)]
    ask = {name: _asked(runs, side, {"validation": 10**9, "test": 10**9 + 1}[name]) for name in ("validation", "test")}
    generators = {run: np.random.default_rng([*run, 2]) for run in runs}
    shape = (len(side.rates), len(side.lengths), len(side.seeds))
    accuracy = lambda part: _accuracy(net, leaves, *part)  # noqa: E731
    late, solved, step = np.zeros(len(runs)), 0, 0
    for step in range(1, side.steps + 1):
        fresh = {run: _made(run[0], side, side.batch, int(rng.integers(2**62))) for run, rng in generators.items()}
        tokens, targets = _padded([fresh[run] for run in runs])
        logits = _logits(net, leaves, tokens)
        losses = F.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="none").view(len(runs), -1)
        loss = (losses.sum(1) / (targets >= 0).flatten(1).sum(1)).sum()
        optimizer.zero_grad()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")  # torch, of one product in the norms
            loss.backward()
        for part in leaves:
            clip_each(part.values())
        optimizer.step()
        cycle.step()
        if step == round(0.75 * side.steps):
            late = accuracy(ask[side.part])
        if step % max(1, side.steps // 10) == 0:
            if not torch.isfinite(loss):
                raise RuntimeError(f"{side.arm}: the loss is not finite; pass lower --copy-rates")
            solved = solved + 1 if accuracy(_few(ask["validation"])).min() >= 0.999 else 0
            if solved == 2:
                break
    found = {"accuracy": accuracy(ask[side.part])}
    found["late"] = found["accuracy"] - late if late.any() else np.zeros(len(runs))
    if _shift(net):
        found["shifted"] = accuracy(ask[side.part])
    ordered = {key: np.moveaxis(values.reshape(shape), 0, -1).tolist() for key, values in found.items()}
    return {"shifted": None, **ordered, "steps": step}


def names(net: nn.Module) -> list[str]:
    """Names of its parameters."""
    return [name for name, _ in net.named_parameters()]


def clip_each(stacked: Iterable[Tensor], most: float = 1.0) -> None:
    """Clips the gradients of stacked parameters (networks, …), the norm of every network by itself."""
    gradients = [leaf.grad for leaf in stacked if leaf.grad is not None]
    norms = sum(g.flatten(1).square().sum(1) for g in gradients).sqrt()
    factor = (most / (norms + 1e-6)).clamp(max=1)
    for g in gradients:
        g.mul_(factor.view(-1, *(1,) * (g.ndim - 1)))


def _made(length: int, side: Side, samples: int, seed: int) -> SequenceTask:
    return maker("copy", dict(length=length, alphabet=side.alphabet))(samples, seed=seed)


def _padded(tasks: Sequence[SequenceTask]) -> tuple[Tensor, Tensor]:
    """(tokens, targets), (network, batch, n) of the longest: what follows a sequence is not asked, nor seen by it."""
    longest = max(task.tokens.shape[1] for task in tasks)

    def stacked(rows: list[np.ndarray], fill: int) -> Tensor:
        widths = [((0, 0), (0, longest - row.shape[1])) for row in rows]
        return torch.from_numpy(np.stack([np.pad(r, w, constant_values=fill) for r, w in zip(rows, widths)]))

    return stacked([task.tokens for task in tasks], 0), stacked([task.targets for task in tasks], NOT_ASKED)


def _asked(runs: Sequence[tuple[int, int]], side: Side, seed: int) -> tuple[Tensor, Tensor]:
    """The same sequences for all seeds of a length."""
    made = {length: _made(length, side, side.samples, seed) for length in side.lengths}
    return _padded([made[length] for length, _ in runs])


def _few(asked: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return asked[0][:, :50], asked[1][:, :50]


def _logits(net: nn.Module, leaves: Sequence[dict[str, Tensor]], tokens: Tensor) -> Tensor:
    """(network, batch, n, symbols) of tokens (network, batch, n), each network its own."""
    together = {name: torch.cat([part[name] for part in leaves]) for name in leaves[0]}
    buffers = dict(net.named_buffers())
    return vmap(lambda own, asked: functional_call(net, (own, buffers), (asked,)))(together, tokens)


@torch.no_grad()
def _accuracy(net: nn.Module, leaves: Sequence[dict[str, Tensor]], tokens: Tensor, targets: Tensor) -> np.ndarray:
    """Share of right answers of each network."""
    right = torch.zeros(len(tokens))
    for part, wanted in zip(tokens.split(50, dim=1), targets.split(50, dim=1)):
        right += (_logits(net, leaves, part).argmax(-1) == wanted).flatten(1).sum(1)
    return (right / (targets >= 0).flatten(1).sum(1)).double().numpy()


def _shift(net: TokenModel) -> bool:
    """Makes every link of a fixed pattern one token longer; False where there is none or the mixer is a control."""
    for block in net.stack.blocks:
        mixer = block.mixer
        if type(mixer) is not StructuredRecurrence or mixer.links.pattern == "dense" or mixer.links.cache_efficient:
            return False
        far = mixer.links.offsets(2**12)
        mixer.links = Links(tuple(offset + 1 for offset in far), False)
    return True


def trained(side: Side, folder: Path) -> dict[str, Any]:
    """`train_side_by_side`, read back where there is a record."""
    torch.set_num_threads(1)
    options = CONTROLS[side.arm][1] if side.arm in CONTROLS else options_of(side.arm, side.reach)
    label = f"copy {side.arm} {side.depth} {side.part}"
    return kept(folder, label, {**vars(side), "mixer": options}, lambda: train_side_by_side(side))


def best_rate(record: dict[str, Any], rates: Sequence[float]) -> float:
    """The rate with the largest mean accuracy over lengths and seeds, the lower one where they differ by < 0.05 %."""
    means = np.array(record["accuracy"]).mean((0, 1))
    return rates[max(range(len(rates)), key=lambda i: (round(float(means[i]), 3), -rates[i]))]


def links_to_answer(arm: str, reach: int, length: int, depth: int) -> float:
    """Fewest links from a question to the answer it copies, mean over the questions; `FAR` where none leads there.

    Blocks count for mixers that read inputs, of which each block is one link.
    """
    name, options = CONTROLS[arm][1] if arm in CONTROLS else options_of(arm, reach)
    if name == "self_attention":
        window = options.get("window")
        near = length if window is None else window - 1
        needed = -(-length // near)
        return float(needed) if needed <= depth else FAR
    n = 2 * length + 1
    mixer = StructuredRecurrence(4, heads=1, causal=True, **options)
    table = mixer.links.table(torch.arange(n), n - 1).tolist()
    found = []
    for question in range(length + 1, n):
        distance = {question: 0}
        for token in range(question, -1, -1):  # links lead back alone
            for other in table[token] if token in distance else ():
                if other >= 0:
                    distance[other] = min(distance[token] + 1, distance.get(other, FAR))
        found.append(distance.get(question - length, FAR))
    if arm in CONTROLS and CONTROLS[arm][0] is InputLinks and max(found) > depth:
        return FAR
    return float(np.mean(found)) if max(found) < FAR else FAR


def analysis(records: Sequence[dict[str, Any]], reach: int) -> dict[str, Any]:
    """What the trainings of the test say, by depth (as a string).

    records : of `trained` with one rate; their "spec" is the `Side`

    arms : {arm: {"mean", "low", "high" (percent, mean of the lengths, over seeds), "rate", "late", "steps", "paper",
        "by length" {length: {"mean", "least", "most", "links", "shifted"}}}}
    pairs : one row a pair of arms whose values in the paper differ, the better of the paper first: points between
        them, the verdict at `LEVEL` over seeds on the mean of the lengths, and length by length
    rank : Spearman's correlation of accuracies with the paper's column: of the mean of the lengths, and by length
    links : the same of accuracies and the number of links to the answer, over lengths and mixers that have limited ones
    guessing : percent
    controls : {control: {length: points by which 2^k has more, with the verdict}}, empty without 2^k
    unreached : rows {"arm", "length", "mean"} of every mixer and control whose links do not lead to the answer
    """
    depths = sorted({record["spec"]["depth"] for record in records})
    return {
        str(depth): _at_depth([record for record in records if record["spec"]["depth"] == depth], reach)
        for depth in depths
    }


def _at_depth(records: Sequence[dict[str, Any]], reach: int) -> dict[str, Any]:
    own = {record["spec"]["arm"]: record for record in records}
    lengths = records[0]["spec"]["lengths"]
    tables = {arm: np.array(record["accuracy"])[..., 0].T for arm, record in own.items()}  # (seed, length)
    arms = {arm: _row(record, tables[arm], reach) for arm, record in own.items()}
    listed = [arm for arm in MIXERS_OF if arm in arms]
    column = [PAPER[arm][0] for arm in listed]
    limited = [arm for arm in listed if arm not in ("attention", "dense recurrence")]
    links = [row["links"] for arm in limited for row in arms[arm]["by length"].values()]
    by_length = {
        str(length): correlated([tables[arm][:, i, None] for arm in listed], column) for i, length in enumerate(lengths)
    }
    return {
        "lengths": lengths,
        "arms": arms,
        "pairs": _pairs(tables, listed, lengths),
        "rank": {"all": correlated([tables[arm].mean(1, keepdims=True) for arm in listed], column), **by_length},
        "links": correlated([tables[arm] for arm in limited], links),
        "guessing": 100 / records[0]["spec"]["alphabet"],
        "controls": {
            control: {
                str(length): verdict(tables["2^k"][:, i, None], tables[control][:, i, None])
                for i, length in enumerate(lengths)
            }
            for control in CONTROLS
            if control in arms and "2^k" in arms
        },
        "unreached": [
            {"arm": arm, "length": int(length), "mean": one["mean"]}
            for arm, row in arms.items()
            for length, one in row["by length"].items()
            if one["links"] == FAR
        ],
    }


def _row(record: dict[str, Any], table: np.ndarray, reach: int) -> dict[str, Any]:
    spec, mean, half = record["spec"], 100 * table.mean(), 100 * interval(table.mean(1))
    by_length = {}
    for i, length in enumerate(spec["lengths"]):
        shifted = record["shifted"] and 100 * float(np.mean(record["shifted"][i]))
        by_length[str(length)] = {
            "mean": 100 * float(table[:, i].mean()),
            "least": 100 * float(table[:, i].min()),
            "most": 100 * float(table[:, i].max()),
            "links": links_to_answer(spec["arm"], reach, length, spec["depth"]),
            "shifted": shifted,
        }
    return {
        "mean": float(mean),
        "low": float(mean - half),
        "high": float(mean + half),
        "rate": spec["rates"][0],
        "late": 100 * float(np.mean(record["late"])),
        "steps": record["steps"],
        "paper": PAPER[spec["arm"]][0] if spec["arm"] in PAPER else None,
        "by length": by_length,
    }


def interval(values: Sequence[float] | np.ndarray, level: float = 0.95) -> float:
    """Half-width of the interval of a mean over seeds; infinite with one."""
    return float(half_widths(np.asarray(values, dtype=float)[:, None], level=level).seeds)


def _pairs(tables: dict[str, np.ndarray], arms: Sequence[str], lengths: Sequence[int]) -> list[dict[str, Any]]:
    rows = []
    ranked = sorted(arms, key=lambda arm: -PAPER[arm][0])
    values = sorted({PAPER[arm][0] for arm in arms}, reverse=True)
    for better, worse in combinations(ranked, 2):
        if PAPER[better][0] == PAPER[worse][0]:
            continue
        a, b = tables[better], tables[worse]
        rows.append(
            {
                "better": better,
                "worse": worse,
                "neighbours": values.index(PAPER[worse][0]) - values.index(PAPER[better][0]) == 1,
                **verdict(a, b),
                "by length": {str(length): verdict(a[:, i, None], b[:, i, None]) for i, length in enumerate(lengths)},
            }
        )
    return rows


def verdict(first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
    """Points by which the first has more right answers than the second, (seed, length), over seeds, and what follows.

    says : "confirmed" (the first has more), "contradicted", "equal" (within `SMALLEST`), "undecided", "too few seeds"
    """
    found = paired_verdict(1 - first, 1 - second, smallest=SMALLEST, level=LEVEL, over="seeds")
    says = {"first": "confirmed", "second": "contradicted", "equivalent": "equal"}.get(found.winner, found.winner)
    return {"gap": -100 * found.difference, "low": -100 * found.high, "high": -100 * found.low, "says": says}


def correlated(tables: Sequence[np.ndarray], other: Sequence[float]) -> dict[str, Any]:
    """Spearman's ρ, by seed, of the columns of tables (seeds, k), one table after another, with `other`; the mean and
    its interval over seeds."""
    values = np.concatenate(tables, 1) if tables else np.zeros((0, 0))
    by_seed = [spearman(row, other) for row in values]
    mean, half = (float(np.mean(by_seed)), interval(by_seed)) if by_seed else (float("nan"), float("inf"))
    return {"by seed": by_seed, "mean": mean, "low": max(-1.0, mean - half), "high": min(1.0, mean + half)}


def spearman(measured: Sequence[float] | np.ndarray, other: Sequence[float]) -> float:
    """Spearman's ρ, shares rounded to half a percent so that noise among equals is no order; nan below 3 values."""
    from scipy.stats import spearmanr

    a, b = np.round(200 * np.asarray(measured)), np.asarray(other, dtype=float)
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(spearmanr(a, b).statistic)
