"""The same encoders choose sentences instead of writing: whether what a summary needs is in the encoder's output."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from sciops.datasets.text.gap_sentences import sentences
from sciops.datasets.text.summaries import Summarised
from sciops.datasets.text.words import words
from sciops.evaluation import mean_rouge
from sciops.models.sequences.stack import SequenceStack
from studies.gap_sentences.data import Corpus
from studies.gap_sentences.training import Sizes, drawn, encoder_options, groups, stacked
from studies.kit.stepping import train_by_step

TRIAL = 1000  # seed of the trainings that choose rates
PLACES = 8  # of a sentence that the score tells apart, the last for all that follow


@dataclass(frozen=True)
class Example:
    """tokens (n,); place (n,): the sentence that a token is of; gains: ROUGE-1 F of every sentence with the summary"""

    tokens: np.ndarray
    place: np.ndarray
    gains: np.ndarray
    said: list[str]


class Extractor(nn.Module):
    """score_s = w·mean_{i ∈ s} h_i + b[min(s, 7)] of the sentences s of a text, h = encoder(embedded tokens).

    b, which is the same for all encoders, makes the first sentence a choice that needs no encoder.
    """

    def __init__(self, symbols: int, encoder: str, sizes: Sizes) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, sizes.width)
        self.dropout = nn.Dropout(sizes.dropout)
        options = dict(mixer=encoder, mixer_options=encoder_options(encoder, sizes), dropout=sizes.dropout)
        self.encoder = SequenceStack(sizes.width, sizes.depth, **options)
        self.score = nn.Linear(sizes.width, 1, bias=False)
        self.places = nn.Parameter(torch.zeros(PLACES))

    def forward(self, tokens: Tensor, mask: Tensor, place: Tensor, most: int) -> Tensor:
        """(batch, most) scores, −∞ where a text has fewer sentences; place (batch, n), most at padding."""
        h = self.encoder(self.dropout(self.embedding(tokens)), mask)
        each = self.score(h).squeeze(-1).masked_fill(~mask, 0)
        shape = len(tokens), most + 1
        total, count = (each.new_zeros(shape).scatter_add(1, place, z) for z in (each, mask.to(each.dtype)))
        at = torch.arange(most, device=tokens.device).clamp(max=PLACES - 1)
        scores = total[:, :most] / count[:, :most].clamp(min=1) + self.places[at]
        return scores.masked_fill(count[:, :most] == 0, -torch.inf)


def examples(corpus: Corpus, texts: Sequence[Summarised], length: int) -> list[Example]:
    """Of texts with summaries: the sentences that begin within the first `length` tokens."""
    found = []
    for text in texts:
        tokens: list[int] = []
        place: list[int] = []
        said: list[str] = []
        for sentence in sentences(text.text):
            some = list(corpus.tokenizer.encode(f" {sentence}" if tokens else sentence))[: length - len(tokens)]
            if not some:
                break
            place += [len(said)] * len(some)
            tokens += some
            said.append(sentence)
        gains = np.array([overlap(sentence, text.summary) for sentence in said])
        found.append(Example(np.array(tokens), np.array(place), gains, said))
    return found


def overlap(a: str, b: str) -> float:
    """ROUGE-1 F of two texts: 2·(words in common)/(words of both)."""
    first, second = Counter(words(a)), Counter(words(b))
    both = first.total() + second.total()
    return 2 * (first & second).total() / both if both else 0.0


def baselines(corpus: Corpus, length: int, draws: int = 20) -> dict[str, Any]:
    """ROUGE of choices that need no training: the first sentence and the first three; one and three at random, the mean
    of `draws`; and the best ones by ROUGE-1 with the summary, which no choice of one sentence can pass. And "gains":
    ROUGE-1 F of the first sentence, text by text."""
    given = examples(corpus, corpus.texts, length)
    references = [text.summary for text in corpus.texts]
    random = np.random.default_rng(0)
    rouge_of = lambda chosen: list(mean_rouge([_said(e, c) for e, c in zip(given, chosen)], references))  # noqa: E731
    some = lambda e, k: random.permutation(len(e.said))[:k]  # noqa: E731
    found: dict[str, Any] = {"gains": [float(e.gains[0]) for e in given]}
    for k, name in ((1, "1"), (3, "3")):
        found[f"lead-{name}"] = rouge_of([range(min(k, len(e.said))) for e in given])
        all_draws = [rouge_of([some(e, k) for e in given]) for _ in range(draws)]
        found[f"random-{name}"] = np.mean(all_draws, 0).tolist()
        found[f"oracle-{name}"] = rouge_of([np.argsort(-e.gains, kind="stable")[:k] for e in given])
    return found


def extract_once(
    corpus: Corpus, parts: Sequence[list[Example]], encoder: str, seed: int, rate: float, steps: int, sizes: Sizes
) -> dict[str, Any]:
    """One training: {"parameters", "curve", "best", "validation": mean ROUGE-1 F of the sentence that is chosen,
    "rouge": {"1", "3": of one and of three sentences a test text, with the weights that validate best}, "gains":
    ROUGE-1 F of the one, text by text, "first": share of first sentences among them}.

    parts : examples for training, validation and testing
    """
    training, validation, test = parts
    training = [e for e in training if len(e.said) > 1]
    torch.manual_seed(seed)
    model = Extractor(corpus.symbols, encoder, sizes)
    order = iter(drawn([(e.tokens, e.tokens) for e in training], steps, sizes.batch, seed))
    due = {round(steps * (i + 1) / sizes.checks) for i in range(sizes.checks)}
    curve: list[dict[str, float]] = [{"step": 0, "validation": _validated(model, validation)}]
    kept = copy.deepcopy(model.state_dict())

    def loss_of(model: nn.Module, rows: list[Example]) -> Tensor:
        return F.cross_entropy(scored(model, rows), torch.tensor([int(e.gains.argmax()) for e in rows]))

    def check(_: Any, record: dict[str, Any]) -> bool:
        nonlocal kept
        if record["step"] in due:
            curve.append({"step": record["step"], "validation": _validated(model, validation)})
            model.train()
            if curve[-1]["validation"] > max(point["validation"] for point in curve[:-1]):
                kept = copy.deepcopy(model.state_dict())
        return False

    optimizer = torch.optim.AdamW(groups(model, rate), betas=(0.9, 0.98))
    batch = lambda _: [training[i] for i in next(order)]  # noqa: E731
    train_by_step(model, batch, loss_of, optimizer, steps=steps, after=check, device="cpu", warmup=0.1)
    model.load_state_dict(kept)
    best = max(curve, key=lambda point: point["validation"])
    scores = _allscored(model, test)
    references = [text.summary for text in corpus.texts]
    rouge = {
        str(k): list(mean_rouge([_said(e, np.argsort(-s)[:k]) for e, s in zip(test, scores)], references))
        for k in (1, 3)
    }
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "curve": curve,
        "best": best["step"],
        "validation": best["validation"],
        "rouge": rouge,
        "gains": [float(e.gains[s.argmax()]) for e, s in zip(test, scores)],
        "first": float(np.mean([s.argmax() == 0 for s in scores])),
    }


def choosings(
    corpus: Corpus,
    encoders: Sequence[str],
    seeds: Sequence[int],
    *,
    rates: Sequence[float],
    length: int,
    steps: int,
    sizes: Sizes,
    keep: Callable[[str, dict[str, Any], Callable[[], dict[str, Any]]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """The trainings of all encoders and seeds, each at the rate that validates best in one training of its encoder with
    the seed `TRIAL`, which is none of the others.

    keep : keep(name, spec, make) → the record of a cell
    """
    if TRIAL in seeds:
        raise ValueError(f"--seeds: {TRIAL} is the seed of the trials of rates; leave it out")
    made: list[list[Example]] = []

    def parts() -> list[list[Example]]:
        if not made:
            made.extend(examples(corpus, texts, length) for texts in (*corpus.other.values(), corpus.texts))
        return made

    def trained(encoder: str, seed: int, rate: float) -> dict[str, Any]:
        spec = {"encoder": encoder, "seed": seed, "rate": rate, "steps": steps, "length": length, "sizes": sizes}
        make = lambda: extract_once(corpus, parts(), encoder, seed, rate, steps, sizes)  # noqa: E731
        return keep(f"choosing-{encoder}-{rate}-{seed}", spec, make)

    found = []
    trials = [(encoder, rate) for encoder in encoders for rate in rates]
    scores = {case: trained(case[0], TRIAL, case[1])["validation"] for case in tqdm(trials, unit="trial", disable=None)}
    cases = [(encoder, seed) for seed in seeds for encoder in encoders]
    for encoder, seed in tqdm(cases, unit="training", disable=None):
        rate = max(rates, key=lambda rate: scores[encoder, rate])
        found.append(trained(encoder, seed, rate))
    return found


def _said(example: Example, chosen: Any) -> str:
    """The chosen sentences in the order of the text."""
    return " ".join(example.said[i] for i in sorted(chosen))


def scored(model: nn.Module, rows: Sequence[Example]) -> Tensor:
    """(texts, most sentences) scores, −∞ for sentences that a text lacks."""
    tokens, mask = stacked([e.tokens for e in rows], "cpu")
    most = max(len(e.said) for e in rows)
    place = torch.full(tokens.shape, most)
    for i, e in enumerate(rows):
        place[i, : len(e.place)] = torch.from_numpy(e.place)
    return model(tokens, mask, place, most)


@torch.no_grad()
def _allscored(model: nn.Module, given: Sequence[Example]) -> list[np.ndarray]:
    """The scores of the sentences of every text, in their order."""
    model.eval()
    order = sorted(range(len(given)), key=lambda i: len(given[i].tokens))
    found: list[np.ndarray] = [np.empty(0)] * len(given)
    for start in range(0, len(order), 32):
        rows = order[start : start + 32]
        for i, scores in zip(rows, scored(model, [given[i] for i in rows]).numpy()):
            found[i] = scores[: len(given[i].said)]
    return found


def _validated(model: nn.Module, given: Sequence[Example]) -> float:
    return float(np.mean([e.gains[s.argmax()] for e, s in zip(given, _allscored(model, given))]))
