"""Query-focused extraction: trainings of encoders on short documents, then on long ones, and what they decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from sciops.evaluation import half_widths, mean_rouge, paired_verdict, rouge
from studies.gap_sentences.data import Corpus
from studies.gap_sentences.extraction import TRIAL
from studies.gap_sentences.query import (
    ABLATIONS,
    SENTENCES,
    Document,
    Piece,
    QueryExtractor,
    batch_of,
    document,
    nearest,
    pieces,
    scores_of,
    word_vectors,
)
from studies.gap_sentences.training import Sizes
from studies.kit.stepping import train_by_step

OURS, SPARSE, FULL, NONE = "state_space", "sparse_attention", "self_attention", "none"
LENGTHS = ("short", "long")
PAPER = 0.93  # the least share of the score of sparse attention that the paper names
EXPECTED = (
    "expected before the first training with a seed of the verdict (from pilots with seed 100, on validation): none "
    "and the short kernel at random; sparse attention with full attention, far above, as the query is in the means "
    "that every token reads; the state space at 90 to 100 % of the ROUGE-1 of sparse attention on short documents, "
    "where one token in five is of the query, and below 93 % on long ones, where one in sixteen is, since its sums do "
    "not choose by content; without the gate lower, as the gate is its only product of tokens"
)


@dataclass(frozen=True)
class Plan:
    """Of a training: documents of two texts with a sentence each, then of short[0] texts with three, judged; then of
    short[1] texts, judged. steps and batch : of these three stages."""

    texts: tuple[int, int]
    steps: tuple[int, int, int]
    batch: tuple[int, int, int]
    validation: int  # documents
    test: int
    vectors: int  # size of the word vectors


@dataclass(frozen=True)
class Material:
    """training : texts; validation, test : documents by length; vectors : of tokens"""

    training: list[Piece]
    validation: dict[str, list[Document]]
    test: dict[str, list[Document]]
    vectors: np.ndarray


def material(corpus: Corpus, plan: Plan) -> Material:
    """Every document of a part has another queried text; they are the same for all encoders and seeds."""
    training = pieces(corpus, corpus.other["train"])

    def documents(known: list[Piece], count: int, texts: int, seed: int) -> list[Document]:
        if len(known) < count:
            raise ValueError(f"{count} documents: only {len(known)} held-out texts have five sentences; pass fewer")
        random = np.random.default_rng(seed)
        asked = random.permutation(len(known))[:count]
        return [document(known, int(i), texts, SENTENCES, random) for i in asked]

    held = {"validation": corpus.other["validation"], "test": corpus.texts}
    counts = {"validation": plan.validation, "test": plan.test}
    made: dict[str, dict[str, list[Document]]] = {}
    for seed, (part, texts) in enumerate(held.items()):
        known = pieces(corpus, texts)
        made[part] = {name: documents(known, counts[part], n, seed) for name, n in zip(LENGTHS, plan.texts)}
    return Material(training, made["validation"], made["test"], word_vectors(corpus, training, plan.vectors))


def query_once(
    given: Material,
    encoder: str,
    seed: int,
    rate: float,
    plan: Plan,
    sizes: Sizes,
    *,
    lengths: Sequence[str],
    device: str,
) -> dict[str, Any]:
    """One training: {"parameters", "short": {"validation", "right", "rouge", "gains", "curve"}, "long": the same}.

    validation : mean share of the three chosen sentences that are of the queried text, on validation documents; right :
    that share, a test document each; gains : ROUGE-1 F of the chosen sentences with those of the queried text, a test
    document each; rouge : means of ROUGE-1, 2, L; curve : mean losses of ten parts of the steps, of the choice and
    auxiliary

    The short documents have one cycle of the rate; the long ones another, of three tenths of it. The weights are those
    of the last step.
    """
    torch.manual_seed(seed)
    model = QueryExtractor(given.vectors, encoder, sizes).to(device)
    random = np.random.default_rng(seed)
    few, many = plan.texts
    stages = [[(2, 1, plan.batch[0], plan.steps[0]), (few, SENTENCES, plan.batch[1], plan.steps[1])]]
    stages.append([(many, SENTENCES, plan.batch[2], plan.steps[2])])
    record: dict[str, Any] = {"parameters": sum(p.numel() for p in model.parameters())}
    for name, some, factor in zip(LENGTHS, stages, (1.0, 0.3)):
        if name in lengths:
            curve = _train(model, given.training, some, random, factor * rate, device)
            record[name] = _judged(model, given, name, device) | {"curve": curve}
    return record


def _train(
    model: nn.Module,
    known: Sequence[Piece],
    stages: Sequence[tuple[int, int, int, int]],
    random: np.random.Generator,
    rate: float,
    device: str,
) -> list[list[float]]:
    ends = np.cumsum([steps for *_, steps in stages])
    steps = int(ends[-1])
    losses = torch.empty(steps, 2, device=device)
    at = 0

    def draw(step: int) -> tuple[Any, Tensor]:
        count, each, batch, _ = stages[int(np.searchsorted(ends, step, side="right"))]
        rows = random.integers(len(known), size=batch)
        return batch_of([document(known, int(i), count, each, random) for i in rows], device)

    def loss_of(model: nn.Module, drawn: tuple[Any, Tensor]) -> Tensor:
        nonlocal at
        inputs, own = drawn
        scores, auxiliary = model(*inputs)
        loss = F.binary_cross_entropy_with_logits(scores, own.to(scores.dtype))
        losses[at, 0], losses[at, 1] = loss.detach(), auxiliary.detach()
        at += 1
        return loss + auxiliary

    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))
    train_by_step(model, draw, loss_of, optimizer, steps=steps, device=device, warmup=0.05)
    return [part.mean(0).tolist() for part in losses.tensor_split(min(10, steps))]


def _judged(model: nn.Module, given: Material, name: str, device: str) -> dict[str, Any]:
    validation = _right(scores_of(model, given.validation[name], device), given.validation[name])
    scores = scores_of(model, given.test[name], device)
    return {"validation": float(np.mean(validation))} | judged(scores, given.test[name])


def judged(scores: np.ndarray, documents: Sequence[Document]) -> dict[str, Any]:
    """{"right", "rouge", "gains"} of the three sentences with the highest scores, see `query_once`."""
    said = [_said(d, np.argsort(-s, kind="stable")[:SENTENCES]) for d, s in zip(documents, scores)]
    references = [_said(d, np.flatnonzero(d.own)) for d in documents]
    return {
        "right": _right(scores, documents),
        "rouge": list(mean_rouge(said, references))[:3],
        "gains": [rouge(a, b).rouge1 for a, b in zip(said, references)],
    }


def _right(scores: np.ndarray, documents: Sequence[Document]) -> list[float]:
    return [float(d.own[np.argsort(-s, kind="stable")[:SENTENCES]].mean()) for d, s in zip(documents, scores)]


def _said(d: Document, chosen: np.ndarray) -> str:
    return " ".join(d.said[i] for i in sorted(chosen))


def untrained(given: Material, draws: int = 10) -> dict[str, dict[str, Any]]:
    """By length, what needs no training: the first three sentences, three at random (means of `draws`), those nearest
    to the query by word vectors, and those of the queried text; and "tokens", the mean of a document."""
    found = {}
    random = np.random.default_rng(0)
    for name, documents in given.test.items():
        shape = len(documents), len(documents[0].own)
        at_random = [judged(random.random(shape), documents) for _ in range(draws)]
        found[name] = {
            "tokens": float(np.mean([len(d.tokens) for d in documents])),
            "lead": judged(np.tile(-np.arange(shape[1]), (shape[0], 1)), documents),
            "random": {key: np.mean([one[key] for one in at_random], 0).tolist() for key in at_random[0]},
            "nearest": judged(nearest(given.vectors, documents), documents),
            "oracle": judged(np.stack([d.own for d in documents]).astype(float), documents),
        }
    return found


def queryings(
    corpus: Corpus,
    encoders: Sequence[str],
    seeds: Sequence[int],
    *,
    rates: Sequence[float],
    plan: Plan,
    sizes: Sizes,
    device: str,
    keep: Callable[[str, dict[str, Any], Callable[[], dict[str, Any]]], dict[str, Any]],
) -> dict[str, Any]:
    """{"runs", "trials", "untrained"}: all encoders and seeds, each at the rate that validates best on short documents
    in one training of its encoder with the seed `TRIAL`. Ablations see short documents alone.

    keep : keep(name, spec, make) → the record of a cell
    """
    if TRIAL in seeds:
        raise ValueError(f"--seeds: {TRIAL} is the seed of the trials of rates; leave it out")
    given = cache(lambda: material(corpus, plan))

    def trained(encoder: str, seed: int, rate: float) -> dict[str, Any]:
        lengths = LENGTHS[:1] if seed == TRIAL or encoder in ABLATIONS else LENGTHS
        spec = {"encoder": encoder, "seed": seed, "rate": rate, "lengths": lengths, "plan": asdict(plan)}
        spec |= {"sizes": sizes, "device": device}
        make = lambda: query_once(  # noqa: E731
            given(), encoder, seed, rate, plan, sizes, lengths=lengths, device=device
        )
        return keep(f"query-{encoder}-{rate}-{seed}", spec, make)

    found: dict[str, Any] = {"runs": [], "trials": {}}
    for encoder in tqdm(sorted(encoders, key=lambda name: name in ABLATIONS), unit="encoder", disable=None):
        tried = {rate: trained(encoder, TRIAL, rate)["short"]["validation"] for rate in rates if len(rates) > 1}
        found["trials"][encoder] = {str(rate): value for rate, value in tried.items()}
        best = max(rates, key=lambda rate: tried.get(rate, 0.0))
        found["runs"] += [trained(encoder, seed, best) for seed in tqdm(seeds, unit="seed", disable=None)]
    spec = {"untrained": True, "plan": asdict(plan)}
    found["untrained"] = keep("query-untrained", spec, lambda: untrained(given()))
    return found


def query_summary(found: dict[str, Any]) -> list[dict[str, Any]]:
    """One row a length and encoder: scores by seed, and the state space against it.

    "against" : the paired verdict, over seeds and documents, on ROUGE-1 and on the share of right choices, of this row
    against every other encoder; and for the state space "share", the ratio of its ROUGE-1 to the other's, and "gain",
    that of what both have above an encoder whose tokens do not read each other, [ratio, low, high].
    """
    rows: list[dict[str, Any]] = []
    for length in LENGTHS:
        by_name: dict[str, list[dict[str, Any]]] = {}
        for run in found["runs"]:
            if length in run:
                by_name.setdefault(run["spec"]["encoder"], []).append(run)
        values = {
            key: {name: np.array([run[length][key] for run in runs]) for name, runs in by_name.items()}
            for key in ("gains", "right")
        }
        for name, runs in by_name.items():
            row: dict[str, Any] = {
                "length": length,
                "encoder": name,
                "parameters": runs[0]["parameters"],
                "rate": runs[0]["spec"]["rate"],
                "seeds": [run["spec"]["seed"] for run in runs],
                "rouge": [run[length]["rouge"] for run in runs],
                "right": [float(np.mean(run[length]["right"])) for run in runs],
                "validation": [run[length]["validation"] for run in runs],
                "against": {},
            }
            for other in by_name:
                if other != name:
                    row["against"][other] = {
                        key: _higher(each[name], each[other]) | _ratios(each, name, other)
                        for key, each in values.items()
                    }
            rows.append(row)
    return rows


def _higher(own: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    """The paired verdict on scores, of which the higher is better."""
    found = paired_verdict(1 - own, 1 - theirs)
    winner = {"first": "better", "second": "worse"}.get(found.winner, found.winner)
    return {"difference": -found.difference, "low": -found.high, "high": -found.low, "winner": winner}


def _ratios(values: dict[str, np.ndarray], name: str, other: str) -> dict[str, Any]:
    own, theirs = values[name], values[other]
    found: dict[str, Any] = {"share": ratio_interval(own, theirs)}
    if NONE in values and NONE not in (name, other):
        found["gain"] = ratio_interval(own - values[NONE], theirs - values[NONE])
    return found


def ratio_interval(own: np.ndarray, theirs: np.ndarray, *, level: float = 0.95) -> list[float] | None:
    """[ρ, low, high] of ρ = mean(own)/mean(theirs), arrays (seeds, documents): all ρ for which the interval of
    `paired_verdict` of the mean of own − ρ·theirs holds 0 (Fieller's interval by that rule).

    None where the mean of `theirs` is not decidedly above 0, so that the ratio has no finite interval, where its ends
    are not within 10,000 of it or are equal, and for fewer than two seeds or documents.
    """
    if min(own.shape) < 2 or not _clear(theirs, level) > 0:
        return None
    from scipy.optimize import brentq

    middle = float(own.mean() / theirs.mean())

    def end(sign: int) -> float | None:
        over = lambda ratio: _clear(sign * (ratio * theirs - own), level)  # noqa: E731
        step = 1.0
        while step < 1e4 and over(middle + sign * step) <= 0:
            step *= 2
        found = step < 1e4 and over(middle) < 0
        return float(brentq(over, middle, middle + sign * step, xtol=1e-7)) if found else None

    low, high = end(-1), end(+1)
    return None if low is None or high is None else [middle, low, high]


def _clear(values: np.ndarray, level: float) -> float:
    """The lower end of the interval of the mean."""
    return float(values.mean() - max(float(width) for width in half_widths(values, level=level)))


def claim_of(share: Sequence[float] | None, seeds: int) -> str:
    """Of the paper's 93 %: "holds", "does not hold", "undecided" or "too few seeds"."""
    if seeds < 5:
        return "too few seeds"
    if share is None:
        return "undecided"
    return "holds" if share[1] >= PAPER else "does not hold" if share[2] < PAPER else "undecided"
